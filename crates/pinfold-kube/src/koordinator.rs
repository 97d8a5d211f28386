//! Koordinator's labels and annotations, to the values its rules work on and back.
//!
//! | object | keys | value | where |
//! |---|---|---|---|
//! | pod | `qosClass`, `priority-class`, `resource-spec`, `numa-topology-spec` | [`PodDemand`] | [`demand`] |
//! | pod | `resource-status` | [`ResourceStatus`] | [`ResourceStatus::read`] |
//! | node | `cpu-bind-policy`, `numa-allocate-strategy`, `numa-topology-policy`, ratios | [`KoordinatorNode`] | [`node()`] |
//! | NodeResourceTopology | `cpu-topology`, pools, `pod-cpu-allocs`, `cpu-manager-policy`, ... | [`NodeFacts`], [`KoordinatorReport`] | [`NodeFacts::read`], [`NodeFacts::report`] |
//! | KubeSchedulerConfiguration | `NodeNUMAResourceArgs` | [`KoordinatorArgs`] | [`scheduler_args`] |
//!
//! [`Fidelity::Sound`] reads every spelling that was ever documented ([`SPELLINGS`]), with a warning, and rejects what
//! cannot be read. [`Fidelity::Exact`] ignores what today's Koordinator ignores: old spellings, and annotations of
//! a node's report that cannot be read.
//!
//! [`Fidelity::Sound`]: pinfold_core::fidelity::Fidelity::Sound
//! [`Fidelity::Exact`]: pinfold_core::fidelity::Fidelity::Exact
//! [`PodDemand`]: pinfold_core::koordinator::plugin::PodDemand
//! [`KoordinatorNode`]: pinfold_core::koordinator::node::KoordinatorNode
//! [`KoordinatorReport`]: pinfold_core::koordinator::node::KoordinatorReport
//! [`KoordinatorArgs`]: pinfold_core::koordinator::plugin::KoordinatorArgs

mod args;
mod facts;
mod facts_read;
mod node;
mod pod;
mod publish;
mod report;
mod spellings;
mod status;
#[cfg(test)]
mod tests;

pub use args::scheduler_args;
pub use facts::{
    CpuManager, NodeFacts, NodeWishes, PodCpus, PoolRow, Reservation, SystemCpus, keys,
};
pub use node::node;
pub use pod::{demand, effective_limits, effective_requests, with_resource_spec};
pub use publish::publish;
pub use spellings::{SPELLINGS, Spelling};
pub use status::{NumaPart, ResourceStatus, SharedPool};
