//! The kubelet's defects.

use super::{Fidelity, KubeletVersion};

defects! {
    /// The distributed algorithm remembers combinations in slices that it overwrites later.
    shares_combination_storage,

    /// The free threads of a core are compared with the mean number of threads per core, and then all its threads are
    /// taken, even unavailable ones.
    takes_unavailable_siblings,

    /// A group of CPUs with two parents (a cache on two NUMA nodes, a node on two sockets) is visited and counted
    /// twice, so that fewer CPUs are assigned than requested.
    counts_repeated_groups,

    /// Where the kubelet loops forever, or would try an unbearable number of combinations, an error says so.
    loops_like_the_kubelet,

    /// Where the kubelet divides by zero, an error says so.
    crashes_like_the_kubelet,

    /// CPUs of init containers are reused even if another container holds them by now, and count twice if they were
    /// returned to the shared pool.
    trusts_reusable_cpus,

    /// `full-pcpus-only` only compares numbers: where a reserved CPU or an older pod splits a core, single threads of
    /// it are assigned.
    assigns_split_cores,

    /// `full-pcpus-only` requires free cores even for a container that already has its CPUs, so that it is rejected
    /// after a restart of a full machine.
    checks_cores_before_own_cpus until 37,

    /// The CPUs of a pod with pod-level resources are chosen again after a restart, and stay assigned when dividing
    /// them among its containers fails.
    forgets_pod_sets,

    /// A CPU that the machine does not have counts as one of NUMA node 0. Koordinator does the same.
    puts_unknown_cpus_on_node_0,

    /// A machine with more NUMA nodes than `max-allowable-numa-nodes` is rejected.
    limits_numa_nodes,

    /// Distances are kept in machine order but looked up by node ID: wrong when IDs have gaps.
    looks_up_distances_by_node_id,

    /// A NUMA node whose reservation and huge pages exceed its memory counts as nearly 2^64 bytes.
    wraps_memory_below_zero,

    /// The reusable memory of init containers is kept beside the table instead of being derived from it: it outlives
    /// their removal and is then assigned without being allocated in the table.
    remembers_memory_beside_the_table,

    /// After a restart an init container that has finished is assigned memory again, until its pod is removed.
    allocates_for_finished_init_containers,

    /// One node of a group may be assigned alone, though the group's assignments may use all its memory.
    assigns_one_node_of_a_group,

    /// Memory is allocated from the lowest node of a group up and released in the same order, so that a group's nodes
    /// differ from what its assignments would fill.
    releases_lowest_node_first,

    /// A container that requests no memory, in a pod with pod-level resources, is rejected where NUMA nodes are full or
    /// in use.
    places_empty_memory_demands until 37,

    /// Pod-level memory is allocated again whenever the pod is admitted again.
    allocates_pod_memory_again,

    /// Hugepages that containers request but that are missing in the pod-level resources are assigned without being
    /// allocated in the table, and the pod's shared pool of them wraps below zero.
    allocates_only_pod_level_types,

    /// A restored block must find its type on every one of its NUMA nodes, not only on some.
    expects_every_memory_type_on_every_node,

    /// What containers of a rejected pod were assigned before the rejection is released by a later clean-up, which does
    /// not find everything.
    keeps_parts_of_rejected_pods,

    /// Reusable CPUs of init containers are remembered after their pod was admitted, and offered again if a pod with
    /// the same UID is admitted later.
    remembers_reuse_after_admission,

    /// After a restart every pod must be admitted again with what it holds, and some states cannot be started from.
    restarts_like_the_kubelet,
}

/// Some of the kubelet's defects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KubeletDefects(u32);

impl KubeletDefects {
    /// The number of defects.
    pub const COUNT: usize = NAMES.len();

    /// The defect with the given number (below [`KubeletDefects::COUNT`], in the order of their declaration).
    #[must_use]
    pub fn nth(number: usize) -> Self {
        debug_assert!(number < Self::COUNT);
        Self(1 << number)
    }

    /// The first `count` defects.
    #[must_use]
    pub fn first(count: usize) -> Self {
        debug_assert!(count <= Self::COUNT);
        Self((1 << count) - 1)
    }

    /// The defects of either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The names of the methods of [`Fidelity`].
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = self.0;
        NAMES
            .iter()
            .enumerate()
            .filter(move |(number, _)| bits >> number & 1 == 1)
            .map(|(_, name)| *name)
    }
}
