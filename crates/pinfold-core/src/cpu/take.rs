//! What every way of taking CPUs shares: the wish, and why it may not come true.

use serde::{Deserialize, Serialize};

/// In which order single CPUs are taken. Mirrors `CPUSortingStrategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CpuOrder {
    /// Core by core, whole cores first.
    #[default]
    Packed,
    /// By CPU id inside a socket, which puts neighbours on different cores on most machines.
    Spread,
}

/// Why CPUs could not be taken. The messages are the kubelet's, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum TakeError {
    /// Fewer CPUs are available than asked for.
    #[error(
        "not enough cpus available to satisfy request: requested={requested}, available={available}"
    )]
    NotEnough {
        /// How many were asked for.
        requested: usize,
        /// How many there are.
        available: usize,
    },
    /// Every step was tried and CPUs are still missing.
    #[error("failed to allocate cpus")]
    Incomplete,
    /// The distributed algorithm took fewer than it had worked out.
    #[error("accounting error, not enough CPUs allocated, remaining: {missing}")]
    TookTooFew {
        /// How many are missing.
        missing: usize,
    },
    /// The distributed algorithm took more than it had worked out.
    #[error("accounting error, too many CPUs allocated, remaining: -{surplus}")]
    TookTooMany {
        /// How many are too many.
        surplus: usize,
    },
    /// The original loops forever on this input. Only where its defects are repeated.
    #[error(
        "the kubelet never returns from this allocation: no node has a whole group of CPUs left"
    )]
    NeverReturns,
    /// The original divides by zero on this input. Only where its defects are repeated.
    #[error("the kubelet crashes in this allocation: the machine has fewer CPUs than cores")]
    Crashes,
    /// Predicting the original would take too many steps. Only where its defects are repeated.
    #[error("gave up on combinations of NUMA nodes after {steps} steps")]
    TooManyCombinations {
        /// How many steps were made.
        steps: usize,
    },
}
