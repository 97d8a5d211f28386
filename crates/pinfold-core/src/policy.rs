//! [`TopologyPolicy`]: which merged hints are admitted.

use serde::{Deserialize, Serialize};

use crate::hint::Hint;
use crate::settings::configured_names;

/// The kubelet's topology manager policies.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyPolicy {
    /// Hints are ignored; everything is admitted.
    #[default]
    None,
    /// The merged hint is used, preferred or not.
    BestEffort,
    /// Only a preferred merged hint is admitted.
    Restricted,
    /// Only a preferred merged hint on one node is admitted.
    SingleNumaNode,
}

/// A policy name that the kubelet does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy: \"{name}\"")]
pub struct UnknownPolicy {
    /// The unknown name.
    pub name: String,
}

impl TopologyPolicy {
    /// All policies, from the most lenient to the strictest.
    pub const ALL: [TopologyPolicy; 4] = [
        TopologyPolicy::None,
        TopologyPolicy::BestEffort,
        TopologyPolicy::Restricted,
        TopologyPolicy::SingleNumaNode,
    ];

    /// The policy names of the first design, before the feature was released: `strict` and `preferred`.
    #[must_use]
    pub fn from_old_name(name: &str) -> Option<Self> {
        match name {
            "strict" => Some(TopologyPolicy::Restricted),
            "preferred" => Some(TopologyPolicy::BestEffort),
            _ => None,
        }
    }

    /// Whether a pod with this merged hint is admitted. Mirrors `canAdmitPodResult`.
    #[must_use]
    pub fn admits(self, hint: Hint) -> bool {
        match self {
            TopologyPolicy::None | TopologyPolicy::BestEffort => true,
            TopologyPolicy::Restricted | TopologyPolicy::SingleNumaNode => hint.preferred,
        }
    }
}

configured_names!(TopologyPolicy, UnknownPolicy {
    None = "none",
    BestEffort = "best-effort",
    Restricted = "restricted",
    SingleNumaNode = "single-numa-node",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for policy in TopologyPolicy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
            let json = serde_json::to_string(&policy).unwrap();
            assert_eq!(json, format!("\"{policy}\""));
            assert_eq!(
                serde_json::from_str::<TopologyPolicy>(&json).unwrap(),
                policy
            );
        }
    }

    #[test]
    fn another_name_is_rejected_in_the_words_of_the_kubelet() {
        let rejected = "best-erffort".parse::<TopologyPolicy>().unwrap_err();
        assert_eq!(rejected.to_string(), "unknown policy: \"best-erffort\"");
        assert!("strict".parse::<TopologyPolicy>().is_err());
    }

    #[test]
    fn the_names_of_the_first_design_are_known_when_asked_for() {
        let table = [
            ("strict", Some(TopologyPolicy::Restricted)),
            ("preferred", Some(TopologyPolicy::BestEffort)),
            ("restricted", None),
            ("", None),
        ];
        for (name, policy) in table {
            assert_eq!(TopologyPolicy::from_old_name(name), policy, "{name:?}");
        }
    }

    #[test]
    fn only_the_strict_policies_insist_on_a_preferred_hint() {
        for policy in TopologyPolicy::ALL {
            assert!(policy.admits(Hint::ANY));
            let strict = policy >= TopologyPolicy::Restricted;
            assert_eq!(policy.admits(Hint::NONE), !strict, "{policy}");
        }
    }
}
