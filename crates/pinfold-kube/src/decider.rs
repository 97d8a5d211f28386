//! [`Decider`]: the program whose decisions are wanted.
//!
//! | name | decides | fidelity |
//! |---|---|---|
//! | `kubelet`, `kubelet-1.33` | that kubelet's managers | exact |
//! | `koordinator` | Koordinator's scheduler plugin NodeNUMAResource | exact |
//! | `volcano` | Volcano's scheduler plugin numa-aware | exact |
//! | `scheduler-plugins` | the scheduler plugin NodeResourceTopologyMatch | exact |
//! | `pinfold` | Pinfold's own agent in mode manage | sound |

use std::fmt;
use std::str::FromStr;

use pinfold_core::fidelity::{Fidelity, KubeletVersion, UnknownKubelet};

/// The program that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decider {
    /// A kubelet of this version.
    Kubelet(KubeletVersion),
    /// Pinfold's agent in mode manage, and Pinfold's scheduler in front of it.
    Pinfold,
    /// Koordinator's scheduler.
    Koordinator,
    /// Volcano's scheduler.
    Volcano,
    /// A kube-scheduler with NodeResourceTopologyMatch of scheduler-plugins.
    SchedulerPlugins,
}

/// The kubelets of every known version, oldest first.
const KUBELETS: [&str; 9] = [
    "kubelet-1.29",
    "kubelet-1.30",
    "kubelet-1.31",
    "kubelet-1.32",
    "kubelet-1.33",
    "kubelet-1.34",
    "kubelet-1.35",
    "kubelet-1.36",
    "kubelet-1.37",
];

impl Default for Decider {
    /// The kubelet that is meant without a version.
    fn default() -> Self {
        Self::Kubelet(KubeletVersion::DEFAULT)
    }
}

impl Decider {
    /// Every decider; of the kubelets the default version.
    pub const ALL: [Self; 5] = [
        Self::Kubelet(KubeletVersion::DEFAULT),
        Self::Pinfold,
        Self::Koordinator,
        Self::Volcano,
        Self::SchedulerPlugins,
    ];

    /// The name that [`Decider::from_str`] reads, with a kubelet's version.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubelet(version) => {
                let mut known = KubeletVersion::known().zip(KUBELETS);
                known
                    .find(|(known, _)| *known == version)
                    .map_or("kubelet", |(_, name)| name)
            }
            Self::Pinfold => "pinfold",
            Self::Koordinator => "koordinator",
            Self::Volcano => "volcano",
            Self::SchedulerPlugins => "scheduler-plugins",
        }
    }

    /// Whether its decisions repeat a program's defects ([`Fidelity::Exact`]) or are Pinfold's own
    /// ([`Fidelity::Sound`]).
    #[must_use]
    pub fn fidelity(self) -> Fidelity {
        match self {
            Self::Pinfold => Fidelity::Sound,
            Self::Kubelet(version) => Fidelity::of_kubelet(version),
            Self::Koordinator | Self::Volcano | Self::SchedulerPlugins => Fidelity::Exact,
        }
    }

    /// Whether it is a kubelet.
    #[must_use]
    pub fn is_kubelet(self) -> bool {
        matches!(self, Self::Kubelet(_))
    }

    /// What it decides, for help texts.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Kubelet(_) => "The kubelet's managers, with their defects and limits",
            Self::Pinfold => "Pinfold's own agent in mode manage",
            Self::Koordinator => "Koordinator's scheduler (v1.8)",
            Self::Volcano => "Volcano's scheduler with its plugin numa-aware (v1.16)",
            Self::SchedulerPlugins => {
                "kube-scheduler with NodeResourceTopologyMatch of scheduler-plugins"
            }
        }
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Decider {
    type Err = UnknownDecider;

    fn from_str(text: &str) -> Result<Self, UnknownDecider> {
        match text {
            "kubelet" => Ok(Self::default()),
            "pinfold" => Ok(Self::Pinfold),
            "koordinator" => Ok(Self::Koordinator),
            "volcano" => Ok(Self::Volcano),
            "scheduler-plugins" => Ok(Self::SchedulerPlugins),
            _ => match text.strip_prefix("kubelet-") {
                Some(version) => Ok(Self::Kubelet(version.parse()?)),
                None => Err(UnknownDecider::Name),
            },
        }
    }
}

/// A text that names no [`Decider`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownDecider {
    /// No program of that name is known.
    #[error("expected kubelet, pinfold, koordinator, volcano or scheduler-plugins")]
    Name,
    /// The decisions of that kubelet version are not known.
    #[error("{0}; known versions: {known}", known = known_versions())]
    Version(#[from] UnknownKubelet),
}

fn known_versions() -> String {
    let (oldest, newest) = (KubeletVersion::OLDEST, KubeletVersion::NEWEST);
    format!("{oldest} to {newest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decider_is_read_by_its_name() {
        for decider in Decider::ALL {
            assert_eq!(decider.to_string().parse(), Ok(decider));
        }
        for version in KubeletVersion::known() {
            let name = format!("kubelet-{version}");
            assert_eq!(name.parse(), Ok(Decider::Kubelet(version)));
            assert_eq!(Decider::Kubelet(version).name(), name);
        }
        assert_eq!("kubelet".parse(), Ok(Decider::default()));
    }

    #[test]
    fn an_unknown_kubelet_version_lists_the_known_ones() {
        let error = "kubelet-1.12".parse::<Decider>().expect_err("not known");
        assert_eq!(
            error.to_string(),
            "kubelet \"1.12\" is older than 1.29, the oldest version whose decisions are known; \
             known versions: 1.29 to 1.37"
        );
        assert_eq!("docker".parse::<Decider>(), Err(UnknownDecider::Name));
    }

    #[test]
    fn only_pinfold_decides_soundly() {
        for decider in Decider::ALL {
            let sound = decider.fidelity() == Fidelity::Sound;
            assert_eq!(sound, decider == Decider::Pinfold, "{decider}");
        }
    }
}
