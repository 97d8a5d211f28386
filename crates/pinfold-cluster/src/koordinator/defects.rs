//! [`KoordinatorDefects`]: the defects that *exact* repeats.

defects! {
    /// Koordinator's defects; sound mode does what its design documents promise instead.
    KoordinatorDefects {
        /// Scores multiply in 64 bits and wrap around.
        wraps_score_products,

        /// A core counts as whole when as many of its CPUs are free as an average core has.
        measures_cores_by_average,

        /// Taking core after core continues on the next socket without checking whether a whole core is
        /// still needed, and so may take more CPUs than requested.
        overshoots_by_a_core,

        /// `SpreadByPCPUs` fills one NUMA node with sibling CPUs before it uses another core elsewhere.
        packs_siblings_when_spreading,

        /// `DistributeEvenly` is accepted and acts as `LeastAllocated`.
        ignores_distribute_evenly,

        /// A pod that finds no exclusive NUMA node (`NUMANodeLevel`) gets CPUs without any exclusivity instead
        /// of exclusive cores.
        drops_numa_exclusivity,

        /// A NUMA node keeps an empty record after its last pod was removed, and only NUMA nodes with a record
        /// have the amplified share of their bound CPUs counted.
        keeps_records_of_released_pods,

        /// The NUMA nodes of a hint are sorted by the amounts of the nodes whose *ids* are their *positions*.
        sorts_numa_nodes_by_position,

        /// For a pod that binds CPUs without a required policy, the free CPU of a NUMA node is computed from the
        /// totals alone, though fewer CPUs may be free.
        trusts_numa_totals,

        /// Under the policy `Restricted` every hint is preferred, however wide.
        restricted_prefers_all,

        /// Preferred are hints on the fewest NUMA nodes that fit now, not on the fewest an empty node would need.
        prefers_what_fits_now,

        /// The plain request of a pod that binds CPUs is compared with amplified NUMA resources.
        ignores_amplified_share,

        /// LSE and LSR pods may have a CPU limit above their request.
        accepts_unequal_limits,

        /// The allocation of a pod is not recorded on a node without a valid CPU topology.
        drops_allocations_without_topology,

        /// An unknown policy value matches nothing, and the NUMA policy `None` is unknown.
        ignores_unknown_values,

        /// A node bind policy binds the CPUs of every pod, whatever its class.
        binds_every_pod,

        /// A pod that merely prefers `SpreadByPCPUs` may go to a node that assigns whole cores only.
        checks_required_policies_only,

        /// Only three spellings of the NUMA policy in a node's report are understood.
        reads_few_numa_policy_names,

        /// The scheduler's configuration has no defaults for exclusivity and alignment.
        lacks_some_defaults,

        /// Machines with one CPU per core get no special treatment.
        ignores_single_threads,

        /// The bind policy `ConstrainedBurst` has no effect.
        ignores_constrained_burst,

        /// A `Score` that fails on one of several nodes, or a `Reserve` that fails on the best one, leaves the pod pending.
        ends_the_cycle_on_errors,

        /// Best-effort alignment and CPUs without a required policy are tried only once the node is chosen.
        decides_in_reserve,

        /// The CPUs of best-effort containers are not set but left to CPU suppression.
        leaves_best_effort_to_suppression,

        /// Cores of different NUMA nodes with equal kernel core ids are one core.
        joins_cores_of_numa_nodes,

        /// Keys and values are read in today's spelling only; older and misspelt ones are ignored.
        reads_one_spelling,

        /// Reserved CPUs are subtracted from the `allocatable` of a zone that already excludes them.
        subtracts_reserved_cpus_twice,

        /// Unreadable annotations of a node's report, or of a placed pod, are ignored.
        ignores_unreadable_annotations,

        /// The result annotation of a pod lists amounts on NUMA nodes, never shared pools.
        omits_shared_pools,
    }
}
