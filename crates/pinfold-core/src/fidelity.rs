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

macro_rules! defects {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        impl Fidelity {
            $(
                $(#[$doc])+
                #[must_use]
                pub fn $name(self) -> bool {
                    self == Fidelity::Exact
                }
            )+
        }
    };
}

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
    /// is refused after a restart of a full machine.
    checks_cores_before_own_cpus,

    /// A CPU that the machine does not have counts as one of NUMA node 0.
    puts_unknown_cpus_on_node_0,

    /// The CPUs of a pod with pod-level resources are chosen anew after a restart, and stay taken when
    /// dividing them among its containers fails.
    forgets_pod_sets,

    /// A machine with more NUMA nodes than `max-allowable-numa-nodes` is refused.
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

    /// A container that asks for no memory, in a pod with pod-level resources, is refused where
    /// NUMA nodes are full or in use.
    places_empty_memory_demands,

    /// Pod-level memory is booked again whenever the pod is admitted again.
    books_pod_memory_again,

    /// Hugepages that containers ask for but the pod-level section does not name are handed out without
    /// being booked, and the pod's shared pool of them wraps below zero.
    books_only_what_the_pod_names,

    /// A restored block must find its type on every one of its NUMA nodes, not just on some.
    expects_every_memory_type_on_every_node,

    /// What the containers of a refused pod got before the refusal is taken back by a later clean-up, which does not
    /// find everything.
    keeps_parts_of_refused_pods,

    /// CPUs that init containers left are remembered after their pod was admitted, and offered again if a pod of the
    /// same id comes back.
    remembers_reuse_after_admission,

    /// After a restart every pod must pass admission again with what it holds, and some states cannot be started from.
    restarts_like_the_kubelet,

    /// Volcano names a core by its number alone, which is unique only inside a socket, takes a number for
    /// free if a CPU of that number is, and compares by "smaller in any key": it can take too much.
    mixes_up_core_numbers,

    /// Volcano reserves nothing if the reservation exceeds the machine.
    forgets_oversized_reservations,

    /// Volcano counts a free CPU that the topology does not list as one of NUMA node 0.
    counts_unlisted_cpus_on_node_zero,

    /// Volcano places a task whose CPUs could not be found, with none.
    accepts_empty_decisions,

    /// Volcano looks at app containers only: init containers and sidecars get no CPUs.
    skips_init_containers,

    /// Volcano keeps a task's earlier decision for a node that now refuses it, binds decisions without
    /// looking whether their CPUs are still free, and gives back the latest decision instead of the bound one.
    trusts_old_decisions,

    /// NodeResourceTopologyMatch treats a sidecar like an init container that ends: nothing stays with it.
    forgets_sidecars,

    /// NodeResourceTopologyMatch takes a NUMA id for a place in the list of zones when it subtracts.
    takes_node_ids_for_places,

    /// NodeResourceTopologyMatch computes scores in 64 bits that wrap around, and the variance of a
    /// single number as not a number.
    lets_scores_overflow,

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
}
