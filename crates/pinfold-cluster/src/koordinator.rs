//! The Koordinator dialect: how its scheduler assigns CPUs and NUMA nodes to pods.
//!
//! ```text
//! pod labels, annotations ─► PodDemand ─────────┐
//!                                               ├─► filter ─► score ─► reserve ─► pre_bind   (plugin)
//! node labels, report ─► KoordinatorNode        │      │
//!                        + KoordinatorLedger ───┘      ├─ hints ─► merge      one set of NUMA nodes
//!                                                      └─ allocate ─► take    amounts and CPUs on it
//! ```
//!
//! Mirrors the `NodeNUMAResource` plugin of Koordinator's scheduler and, in [`pools`], the CPU pools of its node
//! agent. [`Fidelity`](pinfold_core::fidelity::Fidelity) says whether its defects are repeated. Annotations and labels are
//! typed values here; `pinfold-kube` reads them from Kubernetes objects.

pub mod allocate;
pub mod amounts;
pub mod amplify;
pub mod cpu_topology;
mod defects;
pub mod effective_policy;
pub mod held_cpus;
pub mod hints;
pub mod ledger;
pub mod merge;
pub mod node;
pub mod plugin;
pub mod policy_values;
pub mod pools;
pub mod qos;
pub mod rejection;
pub mod score;
pub mod suppression;
pub mod take;

pub use defects::KoordinatorDefects;
