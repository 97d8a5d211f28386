//! Converts Koordinator's labels and annotations to the core's values and back.
//!
//! | object | keys | value | function |
//! |---|---|---|---|
//! | pod | `qosClass`, `priority-class`, `resource-spec`, `numa-topology-spec` | [`PodDemand`] | [`demand`] |
//! | pod | `resource-status` | [`ResourceStatus`] | [`ResourceStatus::read`] |
//! | node | `cpu-bind-policy`, `numa-allocate-strategy`, `numa-topology-policy`, ratios | [`KoordinatorNode`], [`NodeSettings`] | [`node()`], [`NodeSettings::read`] |
//! | NodeResourceTopology | `cpu-topology`, pools, `pod-cpu-allocs`, `cpu-manager-policy`, ... | [`ReportAnnotations`], [`KoordinatorReport`] | [`ReportAnnotations::read`], [`ReportAnnotations::report`] |
//! | KubeSchedulerConfiguration | `NodeNUMAResourceArgs` | [`KoordinatorArgs`] | [`scheduler_args`] |
//!
//! [`Fidelity::Sound`] reads every documented alias of a key ([`KEY_ALIASES`]), with a warning, and rejects what cannot
//! be parsed. [`Fidelity::Exact`] ignores what Koordinator ignores: aliases, and annotations of a node's report that
//! cannot be parsed.
//!
//! [`Fidelity::Sound`]: pinfold_core::fidelity::Fidelity::Sound
//! [`Fidelity::Exact`]: pinfold_core::fidelity::Fidelity::Exact
//! [`PodDemand`]: pinfold_cluster::koordinator::plugin::PodDemand
//! [`KoordinatorNode`]: pinfold_cluster::koordinator::node::KoordinatorNode
//! [`KoordinatorReport`]: pinfold_cluster::koordinator::node::KoordinatorReport
//! [`KoordinatorArgs`]: pinfold_cluster::koordinator::plugin::KoordinatorArgs

mod annotations;
mod args;
mod key_aliases;
mod node;
mod pod;
mod read_annotations;
mod report;
mod status;
#[cfg(test)]
mod tests;
mod write_annotations;
mod zone_cpus;

pub use annotations::{
    CpuManagerInfo, NodeAnnotations, NodeReservation, PodCpuAllocation, ReportAnnotations,
    SharedPoolRow, SystemQosCpus, keys,
};
pub use args::{plugin_args_in_json, scheduler_args};
pub use key_aliases::{KEY_ALIASES, KeyAlias};
pub use node::{NodePolicies, NodeSettings, node};
pub use pod::{demand, effective_limits, effective_requests, with_resource_spec};
pub use status::{NumaNodeResources, ResourceStatus, SharedPoolRef};
pub use write_annotations::publish;
pub use zone_cpus::usable_cpus;
