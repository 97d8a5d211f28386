//! [`Fidelity`]: whether to repeat another program's defects or to decide soundly.
//!
//! The kubelet's rules are the same in both modes. Where its code has a defect, *exact* repeats it, so
//! that a prediction of a real kubelet is right, and *sound* does what the rule promises. Every defect is one
//! method here, asked at the one place where it matters; `docs/kubelet-differences.md` shows each with
//! its smallest example.

use serde::{Deserialize, Serialize};

/// Which of two answers to give where the original program has a defect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// What the original does today, bit for bit, as far as it returns at all.
    Exact,
    /// What the original promises: nothing given twice, nothing lost, always an answer.
    #[default]
    Sound,
}

impl Fidelity {
    /// The distributed algorithm remembers combinations in storage that it goes on overwriting.
    #[must_use]
    pub fn shares_combination_storage(self) -> bool {
        self == Fidelity::Exact
    }

    /// Free threads of a core are compared with the mean threads per core, and then all its threads
    /// are taken, even ones that are not available.
    #[must_use]
    pub fn takes_unavailable_siblings(self) -> bool {
        self == Fidelity::Exact
    }

    /// A machine with more NUMA nodes than `max-allowable-numa-nodes` is refused.
    #[must_use]
    pub fn limits_numa_nodes(self) -> bool {
        self == Fidelity::Exact
    }
}
