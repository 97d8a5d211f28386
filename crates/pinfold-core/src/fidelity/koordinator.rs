//! Koordinator's defects; sound mode does what its design documents promise instead.

use super::Fidelity;

defects! {
    /// Scores multiply in 64 bits and wrap around.
    wraps_score_products,

    /// A core counts as whole when as many of its CPUs are free as an average core has.
    measures_cores_by_average,

    /// Taking core after core goes on to the next socket without asking whether a whole core is
    /// still needed, and so may take more CPUs than were asked for.
    overshoots_by_a_core,

    /// `SpreadByPCPUs` fills one NUMA node with sibling CPUs before it uses another core elsewhere.
    packs_siblings_when_spreading,

    /// `DistributeEvenly` is accepted and acts as `LeastAllocated`.
    ignores_distribute_evenly,

    /// A pod that finds no NUMA node of its own (`NUMANodeLevel`) gives up on exclusivity instead of
    /// keeping to cores of its own.
    drops_numa_exclusivity,

    /// A NUMA node keeps an empty record of pods that are gone, and only NUMA nodes with a record have
    /// the amplified share of their bound CPUs counted.
    remembers_released_pods,

    /// The NUMA nodes of a hint are sorted by the amounts of the nodes whose *ids* are their *positions*.
    sorts_numa_nodes_by_position,

    /// A pod that binds CPUs without a required policy is told a NUMA node's free CPU from the sums
    /// alone, though fewer CPUs may be free.
    trusts_numa_sums,

    /// Under the policy `Restricted` every hint is preferred, however wide.
    restricted_prefers_all,

    /// Preferred means the fewest NUMA nodes that fit now, not the fewest an empty node would need.
    prefers_what_fits_now,

    /// A pod that binds CPUs is measured against amplified NUMA resources with its plain request.
    forgets_amplified_share,

    /// A Guaranteed pod without a Koordinator class counts as LSR, not LS.
    counts_guaranteed_as_lsr,

    /// LSE and LSR pods may have a CPU limit above their request.
    accepts_unequal_limits,

    /// What a pod holds is not recorded on a node without a valid CPU topology.
    forgets_without_topology,

    /// A policy word that is not known matches nothing, and the NUMA policy `None` is such a word.
    ignores_unknown_words,

    /// A node bind policy binds the CPUs of every pod, whatever its class.
    binds_every_pod,

    /// A pod that merely prefers `SpreadByPCPUs` is not kept away from nodes that give whole cores only.
    minds_only_required_policies,

    /// Only three spellings of the NUMA policy in a node's report are understood.
    knows_few_numa_policies,

    /// The scheduler's configuration has no defaults for exclusivity and alignment.
    lacks_some_defaults,

    /// Machines with one CPU per core get no special treatment.
    ignores_single_threads,

    /// The bind policy `ConstrainedBurst` has no effect.
    ignores_constrained_burst,

    /// Best-effort alignment and CPUs without a required policy are tried only once the node is chosen.
    decides_in_reserve,

    /// The CPUs of best-effort containers are not set but left to CPU suppression.
    leaves_best_effort_to_suppression,

    /// Cores of different NUMA nodes are one core where the kernel numbers them alike.
    joins_cores_of_numa_nodes,

    /// Keys and values are read in today's spelling only; older and misspelt ones are ignored.
    knows_one_spelling,

    /// Annotations of a node's report, or of a placed pod, that cannot be read are passed over.
    passes_over_unreadable_annotations,

    /// The result written on a pod names amounts on NUMA nodes, never shared pools.
    names_no_shared_pools,
}
