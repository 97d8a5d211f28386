//! The policy values of labels and annotations.
//!
//! Koordinator compares texts and rejects none: an unknown value matches nothing. The types here keep such a value
//! ([`BindPolicy::Other`] and so on), so that exact mode can ignore it and sound mode can reject it with the list of
//! valid values.

use serde::{Deserialize, Serialize, Serializer};

/// A policy value that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {found:?}; known are {}", known.join(", "))]
pub struct UnknownValue {
    /// The policy that the value was given for.
    pub what: &'static str,
    /// The value.
    pub found: String,
    /// The valid values.
    pub known: &'static [&'static str],
}

macro_rules! policy_values {
    ($(#[$doc:meta])* $type:ident $what:literal { $($(#[$each:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$each])* $variant,)+
            /// An unknown value.
            Other(String),
        }

        impl $type {
            /// The valid values.
            pub const VALUES: &'static [&'static str] = &[$($text),+];

            /// Parses a value; `None` for the empty text.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    "" => None,
                    $($text => Some(Self::$variant),)+
                    _ => Some(Self::Other(text.to_owned())),
                }
            }

            /// The value as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// Rejects an unknown value.
            ///
            /// # Errors
            /// With the list of valid values.
            pub fn known(&self) -> Result<&Self, UnknownValue> {
                match self {
                    Self::Other(found) => Err(UnknownValue {
                        what: $what,
                        found: found.clone(),
                        known: Self::VALUES,
                    }),
                    _ => Ok(self),
                }
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

policy_values! {
    /// How the CPUs of a pod are chosen (`requiredCPUBindPolicy`, `preferredCPUBindPolicy`).
    BindPolicy "CPU bind policy" {
        /// The default of the scheduler's configuration.
        Default = "Default",
        /// Whole physical cores, as few as possible.
        FullPcpus = "FullPCPUs",
        /// Evenly over physical cores.
        SpreadByPcpus = "SpreadByPCPUs",
        /// No exclusive CPUs: the shared pool of a NUMA node that is large enough for the pod's limit.
        ConstrainedBurst = "ConstrainedBurst",
    }
}

policy_values! {
    /// What a pod prefers to have exclusively (`preferredCPUExclusivePolicy`).
    ExclusivePolicy "CPU exclusive policy" {
        /// Nothing.
        None = "None",
        /// Physical cores.
        PcpuLevel = "PCPULevel",
        /// NUMA nodes.
        NumaNodeLevel = "NUMANodeLevel",
    }
}

policy_values! {
    /// How the resources of a pod are aligned to NUMA nodes.
    NumaPolicy "NUMA topology policy" {
        /// The best alignment there is; never rejects.
        BestEffort = "BestEffort",
        /// Rejects unless the alignment is preferred.
        Restricted = "Restricted",
        /// Rejects unless the alignment is preferred and on one NUMA node.
        SingleNumaNode = "SingleNUMANode",
    }
}

policy_values! {
    /// Whether pods on one NUMA node are kept off NUMA nodes with pods that span several (`singleNUMANodeExclusive`).
    NumaExclusive "NUMA exclusive mode" {
        /// Accepted, and without effect in Koordinator.
        Preferred = "Preferred",
        /// A placement that mixes them is not preferred.
        Required = "Required",
    }
}

policy_values! {
    /// The bind policy that a node requires of every cpuset on it (label `cpu-bind-policy`).
    NodeBindPolicy "node CPU bind policy" {
        /// Nothing.
        None = "None",
        /// Whole physical cores only.
        FullPcpusOnly = "FullPCPUsOnly",
        /// One CPU per physical core.
        SpreadByPcpus = "SpreadByPCPUs",
    }
}

policy_values! {
    /// Which NUMA node is used first (label `numa-allocate-strategy`).
    AllocateStrategy "NUMA allocate strategy" {
        /// The one with the least free.
        MostAllocated = "MostAllocated",
        /// The one with the most free.
        LeastAllocated = "LeastAllocated",
        /// All of them evenly.
        DistributeEvenly = "DistributeEvenly",
    }
}

impl BindPolicy {
    /// How the policy chooses CPUs; `None` if it does not bind CPUs.
    #[must_use]
    pub fn binding(&self) -> Option<CpuBinding> {
        match self {
            BindPolicy::FullPcpus => Some(CpuBinding::FullPcpus),
            BindPolicy::SpreadByPcpus => Some(CpuBinding::SpreadByPcpus),
            _ => None,
        }
    }
}

impl ExclusivePolicy {
    /// Whether the value is `Default`, which means the scheduler's setting.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, ExclusivePolicy::Other(text) if text == "Default")
    }

    /// The level of exclusivity that the policy stands for.
    #[must_use]
    pub fn level(policy: Option<&Self>) -> ExclusiveLevel {
        match policy {
            Some(ExclusivePolicy::PcpuLevel) => ExclusiveLevel::Core,
            Some(ExclusivePolicy::NumaNodeLevel) => ExclusiveLevel::NumaNode,
            _ => ExclusiveLevel::Nothing,
        }
    }
}

/// The two ways to choose CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CpuBinding {
    /// Whole physical cores, as few as possible.
    #[serde(rename = "FullPCPUs")]
    FullPcpus,
    /// Evenly over physical cores.
    #[serde(rename = "SpreadByPCPUs")]
    SpreadByPcpus,
}

impl CpuBinding {
    /// The value of the annotation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CpuBinding::FullPcpus => "FullPCPUs",
            CpuBinding::SpreadByPcpus => "SpreadByPCPUs",
        }
    }
}

impl From<CpuBinding> for BindPolicy {
    fn from(binding: CpuBinding) -> Self {
        match binding {
            CpuBinding::FullPcpus => BindPolicy::FullPcpus,
            CpuBinding::SpreadByPcpus => BindPolicy::SpreadByPcpus,
        }
    }
}

/// What a pod prefers to have exclusively, the widest last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ExclusiveLevel {
    /// Nothing.
    #[default]
    Nothing,
    /// The physical cores of its CPUs.
    Core,
    /// The NUMA nodes of its CPUs.
    NumaNode,
}

/// Which NUMA node is used first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NumaStrategy {
    /// The one with the least free.
    MostAllocated,
    /// The one with the most free.
    #[default]
    LeastAllocated,
    /// All of them evenly.
    DistributeEvenly,
}

impl NumaStrategy {
    /// The strategy of a node label; an unknown value counts as `LeastAllocated`.
    #[must_use]
    pub fn of(label: &AllocateStrategy) -> Self {
        match label {
            AllocateStrategy::MostAllocated => NumaStrategy::MostAllocated,
            AllocateStrategy::DistributeEvenly => NumaStrategy::DistributeEvenly,
            AllocateStrategy::LeastAllocated | AllocateStrategy::Other(_) => {
                NumaStrategy::LeastAllocated
            }
        }
    }
}

/// The annotation `scheduling.koordinator.sh/resource-spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceSpec {
    /// The policy that the pod requires.
    #[serde(
        rename = "requiredCPUBindPolicy",
        skip_serializing_if = "Option::is_none"
    )]
    pub required_bind: Option<BindPolicy>,
    /// The policy that the pod prefers.
    #[serde(
        rename = "preferredCPUBindPolicy",
        skip_serializing_if = "Option::is_none"
    )]
    pub preferred_bind: Option<BindPolicy>,
    /// What the pod prefers to have exclusively.
    #[serde(
        rename = "preferredCPUExclusivePolicy",
        skip_serializing_if = "Option::is_none"
    )]
    pub preferred_exclusive: Option<ExclusivePolicy>,
}

/// The annotation `scheduling.koordinator.sh/numa-topology-spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaSpec {
    /// How the pod is aligned to NUMA nodes.
    pub policy: Option<NumaPolicy>,
    /// Whether the pod is kept off NUMA nodes with pods that span several, or the other way round.
    pub exclusive: Option<NumaExclusive>,
}

impl NumaPolicy {
    /// Whether the value is `None`. Koordinator does not know it.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, NumaPolicy::Other(text) if text == "None")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_is_kept_and_rejected_with_the_valid_ones() {
        let value = BindPolicy::parse("PCPUOnly").expect("not empty");
        assert_eq!(value.as_str(), "PCPUOnly");
        let rejected = value.known().expect_err("not valid");
        assert_eq!(
            rejected.to_string(),
            "unknown CPU bind policy \"PCPUOnly\"; known are Default, FullPCPUs, SpreadByPCPUs, ConstrainedBurst"
        );
    }

    #[test]
    fn a_spec_is_written_as_its_annotation() {
        let spec = ResourceSpec {
            preferred_bind: BindPolicy::parse("SpreadByPCPUs"),
            preferred_exclusive: ExclusivePolicy::parse("PCPULevel"),
            ..ResourceSpec::default()
        };
        assert_eq!(
            serde_json::to_string(&spec).expect("as text"),
            r#"{"preferredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}"#
        );
    }
}
