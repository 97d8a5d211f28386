//! [`Fidelity`]: whether to repeat another program's defects or to decide soundly.
//!
//! The kubelet's rules are the same in both modes. Where its code has a defect, *exact* repeats it, so that a
//! prediction of a real kubelet is right, and *sound* does what the rule says. Every defect is one method, listed under
//! its program (the kubelet's here, those of schedulers in `pinfold-cluster`) and called at the one place where it
//! matters; the pages `docs/*-differences.md` show each with its smallest example.

use serde::{Deserialize, Serialize};

pub use kubelet::KubeletDefects;
pub use version::{KubeletVersion, UnknownKubelet};

/// Whether the defects of the kubelet, Koordinator or Volcano are repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// What that program does, bit for bit, as far as it returns at all. For the kubelet: version
    /// [`KubeletVersion::DEFAULT`].
    Exact,
    /// What that program documents: nothing assigned twice, nothing leaked, always an answer.
    #[default]
    Sound,
    /// Sound, except for these defects of the kubelet: says which defects a difference between the other two comes
    /// from. No setting selects it, and it is not written anywhere.
    #[serde(skip)]
    Repeating(KubeletDefects),
    /// What a kubelet of another version does, bit for bit. Made by [`Fidelity::of_kubelet`].
    #[serde(untagged)]
    Version(KubeletVersion),
}

impl Fidelity {
    /// Exactly as a kubelet of this version.
    #[must_use]
    pub fn of_kubelet(version: KubeletVersion) -> Self {
        match version {
            KubeletVersion::DEFAULT => Self::Exact,
            other => Self::Version(other),
        }
    }

    /// The version whose rules hold, defects aside.
    #[must_use]
    pub fn version(self) -> KubeletVersion {
        match self {
            Self::Version(version) => version,
            Self::Exact | Self::Sound | Self::Repeating(_) => KubeletVersion::DEFAULT,
        }
    }

    /// Whether all defects are repeated.
    #[must_use]
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact | Self::Version(_))
    }
}

/// Declares one method per defect: whether this fidelity repeats it. A defect may end with a version that mends it.
macro_rules! defects {
    ($($(#[$doc:meta])+ $name:ident $(until $minor:literal)?,)+) => {
        /// The position of each defect in [`KubeletDefects`].
        #[expect(non_camel_case_types, reason = "named after the methods")]
        enum Position { $($name,)+ }

        const NAMES: &[&str] = &[$(stringify!($name),)+];

        impl Fidelity {
            $(
                $(#[$doc])+
                #[must_use]
                pub fn $name(self) -> bool {
                    match self {
                        Fidelity::Exact => true,
                        Fidelity::Version(_version) => {
                            true $(&& _version < KubeletVersion::minor($minor))?
                        }
                        Fidelity::Sound => false,
                        Fidelity::Repeating(defects) => defects.0 & (1 << Position::$name as u32) != 0,
                    }
                }
            )+
        }
    };
}

mod kubelet;
mod version;
