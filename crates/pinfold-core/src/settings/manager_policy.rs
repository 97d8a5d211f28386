//! The policies of the CPU manager and of the memory manager.

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

configured_names!(CpuManagerPolicy, UnknownPolicy {
    None = "none",
    Static = "static",
});

configured_names!(MemoryManagerPolicy, UnknownPolicy {
    None = "None",
    Static = "Static",
    BestEffort = "BestEffort",
});

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
