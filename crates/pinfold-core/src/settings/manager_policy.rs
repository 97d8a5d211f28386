//! The policies of the CPU manager and of the memory manager.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::policy::UnknownPolicy;

/// `cpuManagerPolicy`: the containers with exclusive CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuManagerPolicy {
    /// None.
    #[default]
    None,
    /// Guaranteed containers with whole CPUs.
    Static,
}

/// `memoryManagerPolicy`: the containers whose memory is bound to NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryManagerPolicy {
    /// None.
    #[default]
    None,
    /// Guaranteed containers.
    Static,
    /// As static, but not guaranteed; not on Linux.
    BestEffort,
}

impl CpuManagerPolicy {
    /// The name in a kubelet configuration and in the state file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CpuManagerPolicy::None => "none",
            CpuManagerPolicy::Static => "static",
        }
    }
}

impl MemoryManagerPolicy {
    /// The name in a kubelet configuration and in the state file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryManagerPolicy::None => "None",
            MemoryManagerPolicy::Static => "Static",
            MemoryManagerPolicy::BestEffort => "BestEffort",
        }
    }
}

impl fmt::Display for CpuManagerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for MemoryManagerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CpuManagerPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let mut all = [Self::None, Self::Static].into_iter();
        let found = all.find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.into() })
    }
}

impl FromStr for MemoryManagerPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let mut all = [Self::None, Self::Static, Self::BestEffort].into_iter();
        let found = all.find(|policy| policy.name() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_another_is_rejected_in_the_words_of_the_kubelet() {
        for policy in [CpuManagerPolicy::None, CpuManagerPolicy::Static] {
            assert_eq!(policy.name().parse(), Ok(policy));
            assert_eq!(serde_json::json!(policy), policy.name());
        }
        for policy in [
            MemoryManagerPolicy::None,
            MemoryManagerPolicy::Static,
            MemoryManagerPolicy::BestEffort,
        ] {
            assert_eq!(policy.name().parse(), Ok(policy));
            assert_eq!(serde_json::json!(policy), policy.name());
        }
        let rejected = "nope".parse::<CpuManagerPolicy>().unwrap_err();
        assert_eq!(rejected.to_string(), "unknown policy: \"nope\"");
        assert!("static".parse::<MemoryManagerPolicy>().is_err());
    }
}
