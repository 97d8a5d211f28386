//! Volcano's numa-aware scheduler plugin: the CPUs of a task on each node, and the best node.
//!
//! ```text
//! VolcanoSession::open ─► predicate(task, node)     filter by policy, then per container:
//!                         │                         hints ─► policy ─► allocate ─► subtract
//!                         ├► order(task, nodes)     fewest NUMA nodes scores highest
//!                         ├► allocate, deallocate   commit one decision, or release it
//!                         └► close                  what the next session must not assign again
//! ```
//!
//! The predicate only simulates: a decision is kept for every candidate node, and the CPUs of the one that is bound are
//! removed from the node's free set. The kubelet pins the CPUs and may choose others; [`Fidelity::Exact`] repeats the
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
pub mod session;
pub mod take;
#[cfg(test)]
mod test_nodes;

pub use defects::VolcanoDefects;
