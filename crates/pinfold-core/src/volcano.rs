//! Volcano's numa-aware scheduler plugin: which CPUs a task would get on each node, and which node is best.
//!
//! ```text
//! VolcanoSession::open ─► predicate(task, node)  filter by policy, then per container:
//!                  │                      hints ─► policy ─► allocate ─► subtract
//!                  ├► order(task, nodes)  fewest NUMA nodes scores highest
//!                  ├► allocate / deallocate   commit one decision, or take it back
//!                  └► close               what the next session must not hand out again
//! ```
//!
//! The predicate only simulates: a decision is kept for every candidate node, and the one that is bound
//! leaves the node's free set. The kubelet does the pinning and decides again; [`Fidelity::Exact`] repeats
//! the plugin's defects for those who must predict it, [`Fidelity::Sound`] never hands out a CPU twice nor
//! more than asked.
//!
//! [`Fidelity::Exact`]: crate::fidelity::Fidelity::Exact
//! [`Fidelity::Sound`]: crate::fidelity::Fidelity::Sound

pub mod allocate;
pub mod cpu_detail;
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
