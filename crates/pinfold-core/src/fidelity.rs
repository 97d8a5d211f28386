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

    /// A NUMA node whose reservation and huge pages exceed its memory counts as nearly 2^64 bytes.
    #[must_use]
    pub fn wraps_memory_below_zero(self) -> bool {
        self == Fidelity::Exact
    }

    /// What init containers left for the rest of their pod is remembered beside the table, not read
    /// from it: it outlives their removal and is then handed out without being booked.
    #[must_use]
    pub fn remembers_memory_beside_the_table(self) -> bool {
        self == Fidelity::Exact
    }

    /// After a restart an init container that has long ended is given memory again, for as long as its
    /// pod lives.
    #[must_use]
    pub fn gives_memory_to_ended_init_containers(self) -> bool {
        self == Fidelity::Exact
    }

    /// One node of a group may be granted alone, though the group's holders may use all its memory.
    #[must_use]
    pub fn grants_one_node_of_a_group(self) -> bool {
        self == Fidelity::Exact
    }

    /// Memory is booked from the lowest node of a group up and given back in the same order, so that
    /// a group's nodes end up different from what its holders would fill.
    #[must_use]
    pub fn releases_lowest_node_first(self) -> bool {
        self == Fidelity::Exact
    }

    /// A container that asks for no memory, in a pod with pod-level resources, is refused where
    /// NUMA nodes are full or in use.
    #[must_use]
    pub fn places_empty_memory_demands(self) -> bool {
        self == Fidelity::Exact
    }

    /// Memory of a pod with pod-level resources is booked again whenever the pod is admitted again: as a
    /// whole over a whole, and after a change of scope as a whole over its containers, or the other way round.
    #[must_use]
    pub fn books_pod_memory_again(self) -> bool {
        self == Fidelity::Exact
    }

    /// Hugepages that containers ask for but the pod-level section does not name are handed out without
    /// being booked, and the pod's shared pool of them wraps below zero.
    #[must_use]
    pub fn books_only_what_the_pod_names(self) -> bool {
        self == Fidelity::Exact
    }

    /// A restored block must find its type on every one of its NUMA nodes, not just on some.
    #[must_use]
    pub fn expects_every_memory_type_on_every_node(self) -> bool {
        self == Fidelity::Exact
    }
}
