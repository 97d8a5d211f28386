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

    /// Volcano names a core by its number alone, which is unique only inside a socket, takes a number for
    /// free if a CPU of that number is, and compares by "smaller in any key": it can take too much.
    #[must_use]
    pub fn mixes_up_core_numbers(self) -> bool {
        self == Fidelity::Exact
    }

    /// Volcano reserves nothing if the reservation exceeds the machine.
    #[must_use]
    pub fn forgets_oversized_reservations(self) -> bool {
        self == Fidelity::Exact
    }

    /// Volcano counts a free CPU that the topology does not list as one of NUMA node 0.
    #[must_use]
    pub fn counts_unlisted_cpus_on_node_zero(self) -> bool {
        self == Fidelity::Exact
    }

    /// Volcano places a task whose CPUs could not be found, with none.
    #[must_use]
    pub fn accepts_empty_decisions(self) -> bool {
        self == Fidelity::Exact
    }

    /// Volcano looks at app containers only: init containers and sidecars get no CPUs.
    #[must_use]
    pub fn skips_init_containers(self) -> bool {
        self == Fidelity::Exact
    }

    /// Volcano keeps a task's earlier decision for a node that now refuses it, binds decisions without
    /// looking whether their CPUs are still free, and gives back the latest decision instead of the bound one.
    #[must_use]
    pub fn trusts_old_decisions(self) -> bool {
        self == Fidelity::Exact
    }

    /// NodeResourceTopologyMatch treats a sidecar like an init container that ends: nothing stays with it.
    #[must_use]
    pub fn forgets_sidecars(self) -> bool {
        self == Fidelity::Exact
    }

    /// NodeResourceTopologyMatch takes a NUMA id for a place in the list of zones when it subtracts.
    #[must_use]
    pub fn takes_node_ids_for_places(self) -> bool {
        self == Fidelity::Exact
    }

    /// NodeResourceTopologyMatch computes scores in 64 bits that wrap around, and the variance of a
    /// single number as not a number.
    #[must_use]
    pub fn lets_scores_overflow(self) -> bool {
        self == Fidelity::Exact
    }
}
