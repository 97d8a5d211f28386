//! Presets: descriptions of known servers, with the public source of every number.

use crate::error::HardwareError;
use crate::hardware::Hardware;
use crate::nearest::nearest;
use crate::synthetic;

/// One known server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The description, with its sources as comments.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        /// All known servers, by name.
        pub const PRESETS: &[Preset] = &[
            $(Preset { name: $name, text: include_str!(concat!("../presets/", $name, ".machine")) },)*
        ];
    };
}

presets![
    "ampere-altra",
    "cxl-expander",
    "dgx-h100",
    "epyc-9654-l3-as-numa",
    "epyc-9654-nps1",
    "epyc-9654-nps4",
    "gb200-nvl4",
    "grace-superchip",
    "xeon-8480-snc-off",
    "xeon-8480-snc2",
    "xeon-8480-snc4",
];

impl Preset {
    /// Its title: the first comment of the description.
    #[must_use]
    pub fn title(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches('#').trim()
    }
}

/// The preset of this name, if there is one.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS
        .iter()
        .find(|preset| preset.name.eq_ignore_ascii_case(name))
}

/// The preset with the most similar name.
pub(crate) fn nearest_name(name: &str) -> Option<&'static str> {
    nearest(name, PRESETS.iter().map(|preset| preset.name))
}

/// Builds the machine of a preset.
///
/// # Errors
/// If there is no such preset.
pub fn read(name: &str) -> Result<Hardware, HardwareError> {
    let preset = find(name).ok_or_else(|| HardwareError::NoSuchPreset {
        name: name.to_owned(),
        nearest: nearest_name(name).map(str::to_owned),
        known: PRESETS.iter().map(|preset| preset.name).collect(),
    })?;
    let mut hardware = synthetic::read(preset.text)?;
    preset.title().clone_into(&mut hardware.name);
    Ok(hardware)
}
