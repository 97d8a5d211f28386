//! [`Allowance`]: the CPUs, memory nodes and CPU quota of a running container, whether NRI or a cgroup write sets them.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

/// The CPUs, memory nodes and CPU quota that the agent assigns to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// CPUs it may run on. Empty: not set.
    pub cpus: CpuSet,
    /// NUMA nodes it may allocate memory from. Empty: not set, so its parent cgroup's nodes apply.
    pub mems: NodeSet,
    /// Its CFS quota.
    pub quota: Quota,
}

/// The CFS quota of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// The quota of the container's CPU limit.
    AsSpecified,
    /// This quota: the container had none while it had exclusive CPUs.
    Limited {
        /// Microseconds of CPU time per period.
        quota: u64,
        /// The period in microseconds.
        period: u64,
    },
    /// No quota: the container has exclusive CPUs, and throttling would only slow it down.
    Unlimited,
}
