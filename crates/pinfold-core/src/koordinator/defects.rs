//! Koordinator's defects, one method of [`Fidelity`] each, asked at the one place where it matters.
//!
//! Exact mode has them, sound mode does what Koordinator's design documents promise instead.

use crate::fidelity::Fidelity;

impl Fidelity {
    /// Scores multiply in 64 bits and wrap around.
    #[must_use]
    pub fn wraps_score_products(self) -> bool {
        self == Fidelity::Exact
    }

    /// Cores of different NUMA nodes are different cores even where the kernel numbers them alike.
    #[must_use]
    pub fn separates_cores_by_numa_node(self) -> bool {
        self == Fidelity::Sound
    }

    /// A core counts as whole when as many of its CPUs are free as an average core has.
    #[must_use]
    pub fn measures_cores_by_average(self) -> bool {
        self == Fidelity::Exact
    }

    /// Taking core after core goes on to the next socket without asking whether a whole core is
    /// still needed, and so may take more CPUs than were asked for.
    #[must_use]
    pub fn overshoots_by_a_core(self) -> bool {
        self == Fidelity::Exact
    }

    /// `SpreadByPCPUs` fills one NUMA node with sibling CPUs before it uses another core elsewhere.
    #[must_use]
    pub fn packs_siblings_when_spreading(self) -> bool {
        self == Fidelity::Exact
    }

    /// `DistributeEvenly` is accepted and acts as `LeastAllocated`.
    #[must_use]
    pub fn ignores_distribute_evenly(self) -> bool {
        self == Fidelity::Exact
    }

    /// A pod that finds no NUMA node of its own (`NUMANodeLevel`) gives up on exclusivity instead of
    /// keeping to cores of its own.
    #[must_use]
    pub fn drops_numa_exclusivity(self) -> bool {
        self == Fidelity::Exact
    }

    /// A NUMA node keeps an empty record of pods that are gone, and only NUMA nodes with a record have
    /// the amplified share of their bound CPUs counted.
    #[must_use]
    pub fn remembers_released_pods(self) -> bool {
        self == Fidelity::Exact
    }

    /// A held CPU that the machine does not have counts for core 0 of NUMA node 0.
    #[must_use]
    pub fn puts_unknown_cpus_on_node_0(self) -> bool {
        self == Fidelity::Exact
    }

    /// The NUMA nodes of a hint are sorted by the amounts of the nodes whose *ids* are their *positions*.
    #[must_use]
    pub fn sorts_numa_nodes_by_position(self) -> bool {
        self == Fidelity::Exact
    }

    /// A pod that binds CPUs without a required policy is told a NUMA node's free CPU from the sums
    /// alone, though fewer CPUs may be free.
    #[must_use]
    pub fn trusts_numa_sums(self) -> bool {
        self == Fidelity::Exact
    }

    /// Under the policy `Restricted` every hint is preferred, however wide.
    #[must_use]
    pub fn restricted_prefers_all(self) -> bool {
        self == Fidelity::Exact
    }

    /// Preferred means the fewest NUMA nodes that fit now, not the fewest an empty node would need.
    #[must_use]
    pub fn prefers_what_fits_now(self) -> bool {
        self == Fidelity::Exact
    }

    /// A pod that binds CPUs is measured against amplified NUMA resources with its plain request.
    #[must_use]
    pub fn forgets_amplified_share(self) -> bool {
        self == Fidelity::Exact
    }

    /// A Guaranteed pod without a Koordinator class counts as LSR, not LS.
    #[must_use]
    pub fn counts_guaranteed_as_lsr(self) -> bool {
        self == Fidelity::Exact
    }

    /// LSE and LSR pods may have a CPU limit above their request.
    #[must_use]
    pub fn accepts_unequal_limits(self) -> bool {
        self == Fidelity::Exact
    }

    /// What a pod holds is not recorded on a node without a valid CPU topology.
    #[must_use]
    pub fn forgets_without_topology(self) -> bool {
        self == Fidelity::Exact
    }

    /// A policy word that is not known matches nothing, and the NUMA policy `None` is such a word.
    #[must_use]
    pub fn ignores_unknown_words(self) -> bool {
        self == Fidelity::Exact
    }

    /// A node bind policy binds the CPUs of every pod, whatever its class.
    #[must_use]
    pub fn binds_every_pod(self) -> bool {
        self == Fidelity::Exact
    }

    /// A pod that merely prefers `SpreadByPCPUs` is not kept away from nodes that give whole cores only.
    #[must_use]
    pub fn minds_only_required_policies(self) -> bool {
        self == Fidelity::Exact
    }

    /// Only three spellings of the NUMA policy in a node's report are understood.
    #[must_use]
    pub fn knows_few_numa_policies(self) -> bool {
        self == Fidelity::Exact
    }

    /// Machines with one CPU per core get no special treatment.
    #[must_use]
    pub fn ignores_single_threads(self) -> bool {
        self == Fidelity::Exact
    }

    /// The bind policy `ConstrainedBurst` has no effect.
    #[must_use]
    pub fn ignores_constrained_burst(self) -> bool {
        self == Fidelity::Exact
    }

    /// Best-effort alignment and CPUs without a required policy are tried only once the node is chosen.
    #[must_use]
    pub fn decides_in_reserve(self) -> bool {
        self == Fidelity::Exact
    }

    /// The CPUs of best-effort containers are not set but left to CPU suppression.
    #[must_use]
    pub fn leaves_best_effort_to_suppression(self) -> bool {
        self == Fidelity::Exact
    }
}
