//! Volcano's defects.

use super::Fidelity;

defects! {
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

    /// Volcano aligns CPUs only, whatever else is known per NUMA node.
    aligns_cpus_only,

    /// Volcano keeps a task's earlier decision for a node that now rejects it, binds decisions without
    /// looking whether their CPUs are still free, and gives back the latest decision instead of the bound one.
    trusts_old_decisions,

    /// Volcano takes a CPU list that it cannot read for an empty one, a CPU without a number for CPU 0, and a
    /// reservation that it cannot read for none.
    forgives_unreadable_reports,

    /// Volcano takes every text for a policy, older names among them.
    takes_any_word_for_a_policy,
}
