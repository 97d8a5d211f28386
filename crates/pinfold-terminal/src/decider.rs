//! The flag `--as`: who decides.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use pinfold_core::fidelity::KubeletVersion;
use pinfold_kube::decider::Decider;

/// Who decides.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DeciderArg {
    /// Who decides: this program exactly, with its defects and limits, or Pinfold
    #[arg(id = "as", long = "as", value_name = "WHO", value_parser = DeciderParser, default_value = "kubelet")]
    pub decider: Decider,
}

/// Parses a [`Decider`], and lists all of them in help texts and completions.
#[derive(Clone, Copy, Debug)]
struct DeciderParser;

impl TypedValueParser for DeciderParser {
    type Value = Decider;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Decider, clap::Error> {
        let parser = StringValueParser::new().try_map(|text: String| text.parse::<Decider>());
        parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let newest = PossibleValue::new("kubelet").help(format!(
            "The kubelet of version {}; kubelet-{} to kubelet-{} for others",
            KubeletVersion::DEFAULT,
            KubeletVersion::OLDEST,
            KubeletVersion::NEWEST
        ));
        let all = Decider::ALL.into_iter();
        let all = all.map(|decider| PossibleValue::new(decider.name()).help(decider.description()));
        Some(Box::new(std::iter::once(newest).chain(all)))
    }
}
