//! The order in which CPUs are taken, and why taking them may fail.

use serde::{Deserialize, Serialize};

/// The order in which single CPUs are taken. Mirrors `CPUSortingStrategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuSortingStrategy {
    /// Core by core, whole cores first.
    #[default]
    Packed,
    /// By CPU ID inside a socket; consecutive IDs are on different cores on most machines.
    Spread,
}

/// Why CPUs could not be taken. The messages are the kubelet's, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum TakeError {
    /// Fewer CPUs are available than requested.
    #[error(
        "not enough cpus available to satisfy request: requested={requested}, available={available}"
    )]
    NotEnough {
        /// The requested number of CPUs.
        requested: usize,
        /// The available number of CPUs.
        available: usize,
    },
    /// All steps were tried and CPUs are still missing.
    #[error("failed to allocate cpus")]
    Incomplete,
    /// The distributed algorithm took fewer CPUs than planned.
    #[error("accounting error, not enough CPUs allocated, remaining: {missing}")]
    TookTooFew {
        /// The number of missing CPUs.
        missing: usize,
    },
    /// The distributed algorithm took more CPUs than planned.
    #[error("accounting error, too many CPUs allocated, remaining: -{surplus}")]
    TookTooMany {
        /// The number of CPUs too many.
        surplus: usize,
    },
    /// The kubelet loops forever on this input. Only under exact fidelity.
    #[error(
        "the kubelet never returns from this allocation: no node has a whole group of CPUs left"
    )]
    NeverReturns,
    /// The kubelet divides by zero on this input. Only under exact fidelity.
    #[error("the kubelet crashes in this allocation: the machine has fewer CPUs than cores")]
    Crashes,
    /// Predicting the kubelet would take too many steps. Only under exact fidelity.
    #[error("gave up on combinations of NUMA nodes after {steps} steps")]
    TooManyCombinations {
        /// The number of steps made.
        steps: usize,
    },
}
