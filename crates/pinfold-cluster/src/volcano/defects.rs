//! [`VolcanoDefects`]: the defects that *exact* repeats.

defects! {
    /// Volcano's defects.
    VolcanoDefects {
        /// Volcano identifies a core by its number alone, which is unique only inside a socket, takes a core number
        /// as free if the CPU of that number is free, and compares by "smaller in any key": it can take too many CPUs.
        mixes_up_core_numbers,

        /// Volcano reserves nothing if the reservation exceeds the machine.
        ignores_oversized_reservations,

        /// Volcano counts a free CPU that the topology does not list as one of NUMA node 0.
        counts_unlisted_cpus_on_node_zero,

        /// Volcano places a task without CPUs if it finds none for it.
        accepts_empty_decisions,

        /// Volcano reads app containers only: init containers and sidecars get no CPUs.
        skips_init_containers,

        /// Volcano aligns CPUs only, whatever else is known per NUMA node.
        aligns_cpus_only,

        /// Volcano reads an unreadable CPU list as empty, a CPU without a number as CPU 0, and an unreadable
        /// reservation as none.
        accepts_unreadable_reports,

        /// Volcano accepts every text as a policy, older names among them.
        accepts_any_policy_text,
    }
}
