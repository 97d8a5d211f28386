//! The kubelet's defects.

use super::Fidelity;

defects! {
    /// The distributed algorithm remembers combinations in storage that it goes on overwriting.
    shares_combination_storage,

    /// Free threads of a core are compared with the mean threads per core, and then all its threads
    /// are taken, even ones that are not available.
    takes_unavailable_siblings,

    /// A group of CPUs that lies in two larger ones (a cache on two NUMA nodes, a node on two sockets) is
    /// visited twice and counted twice, so that fewer CPUs are handed out than asked for.
    counts_repeated_groups,

    /// Where the original loops forever, or would try more combinations than anyone can wait for, that
    /// is the answer.
    loops_where_the_original_does,

    /// Where the original divides by zero, that is the answer.
    crashes_where_the_original_does,

    /// CPUs that init containers left are handed out again whoever holds them by now, and count twice if
    /// they went back to the shared pool.
    trusts_reusable_cpus,

    /// `full-pcpus-only` looks at numbers only: where a reserved CPU or an older pod splits a core, single
    /// threads of it are handed out.
    hands_out_split_cores,

    /// `full-pcpus-only` asks for free cores even for a container that already has its CPUs, so that it
    /// is rejected after a restart of a full machine.
    checks_cores_before_own_cpus,

    /// The CPUs of a pod with pod-level resources are chosen anew after a restart, and stay taken when
    /// dividing them among its containers fails.
    forgets_pod_sets,

    /// A CPU that the machine does not have counts as one of NUMA node 0. Koordinator does the same.
    puts_unknown_cpus_on_node_0,

    /// A machine with more NUMA nodes than `max-allowable-numa-nodes` is rejected.
    limits_numa_nodes,

    /// Distances are kept in machine order but looked up by node id: wrong when ids have gaps.
    looks_up_distances_by_node_id,

    /// A NUMA node whose reservation and huge pages exceed its memory counts as nearly 2^64 bytes.
    wraps_memory_below_zero,

    /// What init containers left for the rest of their pod is remembered beside the table, not read
    /// from it: it outlives their removal and is then handed out without being booked.
    remembers_memory_beside_the_table,

    /// After a restart an init container that has long ended is given memory again, for as long as its
    /// pod lives.
    gives_memory_to_ended_init_containers,

    /// One node of a group may be granted alone, though the group's holders may use all its memory.
    grants_one_node_of_a_group,

    /// Memory is booked from the lowest node of a group up and given back in the same order, so that
    /// a group's nodes end up different from what its holders would fill.
    releases_lowest_node_first,

    /// A container that asks for no memory, in a pod with pod-level resources, is rejected where
    /// NUMA nodes are full or in use.
    places_empty_memory_demands,

    /// Pod-level memory is booked again whenever the pod is admitted again.
    books_pod_memory_again,

    /// Hugepages that containers ask for but the pod-level section does not name are handed out without
    /// being booked, and the pod's shared pool of them wraps below zero.
    books_only_what_the_pod_names,

    /// A restored block must find its type on every one of its NUMA nodes, not just on some.
    expects_every_memory_type_on_every_node,

    /// What the containers of a rejected pod got before the rejection is taken back by a later clean-up, which does not
    /// find everything.
    keeps_parts_of_rejected_pods,

    /// CPUs that init containers left are remembered after their pod was admitted, and offered again if a pod of the
    /// same id comes back.
    remembers_reuse_after_admission,

    /// After a restart every pod must pass admission again with what it holds, and some states cannot be started from.
    restarts_like_the_kubelet,
}
