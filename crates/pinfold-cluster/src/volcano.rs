//! Volcano's numa-aware scheduler plugin: the CPUs of a task on each node, and the best node.
//!
//! ```text
//! predicate(task, node)   filter by policy, then per container:
//!                         hints ─► policy ─► allocate ─► subtract
//! score(spans)            fewest NUMA nodes scores highest
//! ```
//!
//! The predicate only simulates. [`Cluster`](crate::Cluster) runs it for every candidate node, and again on the node
//! that the pod is placed on, from whose free set it then removes the CPUs. The kubelet pins the CPUs and may choose others; [`Fidelity::Exact`] repeats the
//! plugin's defects to predict it, [`Fidelity::Sound`] never assigns a CPU twice or more CPUs than requested.
//!
//! [`Fidelity::Exact`]: pinfold_core::fidelity::Fidelity::Exact
//! [`Fidelity::Sound`]: pinfold_core::fidelity::Fidelity::Sound

pub mod allocate;
pub mod cpu_detail;
mod defects;
#[cfg(test)]
mod examples;
mod go_sort;
pub mod hints;
pub mod merge;
pub mod numa_amounts;
pub mod policy;
pub mod predicate;
pub mod score;
pub mod take;
#[cfg(test)]
pub(crate) mod test_nodes;

pub use defects::VolcanoDefects;
