//! [`Allowance`]: what a running container may use, however it is enforced.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

/// What a container may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// The NUMA nodes its memory may come from. Empty: whatever its parent allows.
    pub mems: NodeSet,
    /// What becomes of the limit on its CPU time.
    pub quota: Quota,
}

/// What becomes of the limit on a container's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// It stays what the pod asked for.
    AsAsked,
    /// There is none: the CPUs are the container's own, and throttling would only hurt.
    Lifted,
}
