//! The words that labels and annotations may hold, and what each stands for.
//!
//! Koordinator compares texts and rejects none: a word it does not know matches nothing. The types
//! here keep such a word ([`BindPolicy::Other`] and so on), so that exact mode can ignore it and
//! sound mode can reject it with the list of words that exist.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A word that is none of the known ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {found:?}; known are {}", known.join(", "))]
pub struct UnknownValue {
    /// What the word should have named.
    pub what: &'static str,
    /// The word.
    pub found: String,
    /// The words that exist.
    pub known: &'static [&'static str],
}

macro_rules! words {
    ($(#[$doc:meta])* $type:ident $what:literal { $($(#[$each:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$each])* $variant,)+
            /// A word that is not known.
            Other(String),
        }

        impl $type {
            /// The words that exist.
            pub const WORDS: &'static [&'static str] = &[$($text),+];

            /// What the word stands for; nothing for the empty word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    "" => None,
                    $($text => Some(Self::$variant),)+
                    _ => Some(Self::Other(word.to_owned())),
                }
            }

            /// The word.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(word) => word,
                }
            }

            /// Rejects a word that is not known.
            ///
            /// # Errors
            /// With the list of known words.
            pub fn known(&self) -> Result<&Self, UnknownValue> {
                match self {
                    Self::Other(found) => Err(UnknownValue {
                        what: $what,
                        found: found.clone(),
                        known: Self::WORDS,
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

words! {
    /// How the CPUs of a pod are chosen (`requiredCPUBindPolicy`, `preferredCPUBindPolicy`).
    BindPolicy "CPU bind policy" {
        /// Whatever the scheduler's configuration says.
        Default = "Default",
        /// Whole physical cores, as few as possible.
        FullPcpus = "FullPCPUs",
        /// Evenly over physical cores.
        SpreadByPcpus = "SpreadByPCPUs",
        /// No CPUs of its own: the shared pool of NUMA nodes that can hold the pod's limit.
        ConstrainedBurst = "ConstrainedBurst",
    }
}

words! {
    /// What a pod would like to keep for itself (`preferredCPUExclusivePolicy`).
    ExclusivePolicy "CPU exclusive policy" {
        /// Nothing.
        None = "None",
        /// Physical cores.
        PcpuLevel = "PCPULevel",
        /// NUMA nodes.
        NumaNodeLevel = "NUMANodeLevel",
    }
}

words! {
    /// How the resources of a pod are aligned to NUMA nodes.
    NumaPolicy "NUMA topology policy" {
        /// As well as possible, never a rejection.
        BestEffort = "BestEffort",
        /// Only a preferred alignment.
        Restricted = "Restricted",
        /// Only a preferred alignment on one NUMA node.
        SingleNumaNode = "SingleNUMANode",
    }
}

words! {
    /// Whether pods on one NUMA node keep away from pods on several (`singleNUMANodeExclusive`).
    NumaExclusive "NUMA exclusive mode" {
        /// Asked for, and without effect in the original.
        Preferred = "Preferred",
        /// A placement that mixes them is not preferred.
        Required = "Required",
    }
}

words! {
    /// What a node demands of every cpuset on it (label `cpu-bind-policy`).
    NodeBindPolicy "node CPU bind policy" {
        /// Nothing.
        None = "None",
        /// Whole physical cores only.
        FullPcpusOnly = "FullPCPUsOnly",
        /// One CPU per physical core.
        SpreadByPcpus = "SpreadByPCPUs",
    }
}

words! {
    /// Which NUMA node is taken first (label `numa-allocate-strategy`).
    AllocateStrategy "NUMA allocate strategy" {
        /// The one with the least left.
        MostAllocated = "MostAllocated",
        /// The one with the most left.
        LeastAllocated = "LeastAllocated",
        /// All of them alike.
        DistributeEvenly = "DistributeEvenly",
    }
}

impl BindPolicy {
    /// The policy as a way to choose CPUs, if it is one.
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
    /// What the policy keeps for the pod.
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
    /// The way as a word.
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

/// What a pod would like to keep for itself, the widest last.
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

/// Which NUMA node is taken first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NumaStrategy {
    /// The one with the least left.
    MostAllocated,
    /// The one with the most left.
    #[default]
    LeastAllocated,
    /// All of them alike.
    DistributeEvenly,
}

impl NumaStrategy {
    /// The strategy a word stands for; a word that is not known counts as `LeastAllocated`.
    #[must_use]
    pub fn of(word: &AllocateStrategy) -> Self {
        match word {
            AllocateStrategy::MostAllocated => NumaStrategy::MostAllocated,
            AllocateStrategy::DistributeEvenly => NumaStrategy::DistributeEvenly,
            AllocateStrategy::LeastAllocated | AllocateStrategy::Other(_) => {
                NumaStrategy::LeastAllocated
            }
        }
    }
}

/// The annotation `scheduling.koordinator.sh/resource-spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSpec {
    /// The policy without which the pod is not to be placed.
    #[serde(
        rename = "requiredCPUBindPolicy",
        deserialize_with = "word",
        skip_serializing_if = "Option::is_none"
    )]
    pub required_bind: Option<BindPolicy>,
    /// The policy the pod would like.
    #[serde(
        rename = "preferredCPUBindPolicy",
        deserialize_with = "word",
        skip_serializing_if = "Option::is_none"
    )]
    pub preferred_bind: Option<BindPolicy>,
    /// What the pod would like to keep for itself.
    #[serde(
        rename = "preferredCPUExclusivePolicy",
        deserialize_with = "word",
        skip_serializing_if = "Option::is_none"
    )]
    pub preferred_exclusive: Option<ExclusivePolicy>,
}

/// The annotation `scheduling.koordinator.sh/numa-topology-spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NumaSpec {
    /// How the pod is aligned.
    #[serde(
        rename = "numaTopologyPolicy",
        deserialize_with = "word",
        skip_serializing_if = "Option::is_none"
    )]
    pub policy: Option<NumaPolicy>,
    /// Whether it keeps away from pods of the other kind.
    #[serde(
        rename = "singleNUMANodeExclusive",
        deserialize_with = "word",
        skip_serializing_if = "Option::is_none"
    )]
    pub exclusive: Option<NumaExclusive>,
}

/// A type made of words.
trait ParsePolicy: Sized {
    fn read(word: &str) -> Option<Self>;
}

macro_rules! word {
    ($($type:ident),+) => { $(impl ParsePolicy for $type {
        fn read(word: &str) -> Option<Self> { $type::parse(word) }
    })+ };
}
word!(BindPolicy, ExclusivePolicy, NumaPolicy, NumaExclusive);

fn word<'de, D: Deserializer<'de>, W: ParsePolicy>(deserializer: D) -> Result<Option<W>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| W::read(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_kept_and_rejected_with_the_known_ones() {
        let word = BindPolicy::parse("PCPUOnly").expect("not empty");
        assert_eq!(word.as_str(), "PCPUOnly");
        let rejected = word.known().expect_err("not a known word");
        assert_eq!(
            rejected.to_string(),
            "unknown CPU bind policy \"PCPUOnly\"; known are Default, FullPCPUs, SpreadByPCPUs, ConstrainedBurst"
        );
    }

    #[test]
    fn a_spec_is_read_and_written_as_its_annotation() {
        let text = r#"{"preferredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}"#;
        let spec: ResourceSpec = serde_json::from_str(text).expect("a spec");
        assert_eq!(spec.preferred_bind, Some(BindPolicy::SpreadByPcpus));
        assert_eq!(spec.required_bind, None);
        assert_eq!(serde_json::to_string(&spec).expect("as text"), text);
    }
}
