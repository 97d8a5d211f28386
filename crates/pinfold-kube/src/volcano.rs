//! Volcano's objects: the Numatopology of a node, the policy of a task, the scheduler's configuration.
//!
//! | object | value | function |
//! |---|---|---|
//! | Numatopology (`nodeinfo.volcano.sh/v1alpha1`) | [`NumaInfo`] | [`Numatopology`] |
//! | pod with the annotation `volcano.sh/numa-topology-policy` | [`VolcanoTask`] | [`task()`] |
//! | Job (`batch.volcano.sh`) with `topologyPolicy` per task | its pods, annotated | [`crate::pod`] |
//! | `volcano-scheduler.conf` | the plugin's weight | [`scheduler_weight`] |
//!
//! [`NumaInfo`]: pinfold_cluster::volcano::predicate::NumaInfo
//! [`VolcanoTask`]: pinfold_cluster::volcano::predicate::VolcanoTask

mod numatopology;
mod publish;
mod scheduler;
mod task;
#[cfg(test)]
mod tests;

pub use numatopology::{
    API_VERSION, ContainerAllocation, CpuInfo, KIND, Numatopology, PodAllocation, ResourceInfo,
};
pub use publish::{publish, publish_as_exporter};
pub use scheduler::scheduler_weight;
pub use task::{POLICY_ANNOTATION, task};
