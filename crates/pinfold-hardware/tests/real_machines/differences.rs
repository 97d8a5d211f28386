//! The known differences between the kernel's files and hwloc's results, with the reason why ours follow the kernel.

/// One difference and its reason.
pub(crate) struct Difference {
    pub(crate) machine: &'static str,
    pub(crate) fact: &'static str,
    pub(crate) why: &'static str,
}

const fn differs(machine: &'static str, fact: &'static str, why: &'static str) -> Difference {
    Difference { machine, fact, why }
}

pub(crate) const SYSFS: &[Difference] = &[
    differs(
        "2arm-2c",
        "node directories",
        "the kernel has no NUMA and no node directory; one node that holds everything is made up, as hwloc does",
    ),
    differs(
        "40intel64-4n10c+pci-conflicts",
        "packages",
        "package masks overlap and hwloc drops the fourth; package ids do not overlap and are taken at their word",
    ),
    differs("40intel64-4n10c+pci-conflicts", "package cpus", "as above"),
    differs(
        "40intel64-4n10c+pci-conflicts",
        "l3",
        "cache masks overlap and hwloc drops what conflicts; here every different mask is a cache",
    ),
    differs(
        "64intel64-fakeKNL-SNC4-hybrid",
        "l3",
        "hwloc shows MCDRAM used as a cache as L3, from a file of its own helper; the kernel has no such cache",
    ),
    differs(
        "8em64t-2s2ca2c-buggynuma",
        "numa nodes",
        "the kernel lists 8 nodes, all with all CPUs; hwloc merges them, the kubelet and we do not (an oddity says so)",
    ),
    differs("8em64t-2s2ca2c-buggynuma", "node cpus", "as above"),
    differs("8em64t-2s2ca2c-buggynuma", "memory", "as above"),
    differs(
        "nvidiagpunumanodes",
        "numa nodes",
        "hwloc hides the nodes that are GPU memory; the kernel and the kubelet count them",
    ),
    differs("nvidiagpunumanodes", "memory", "as above"),
    differs(
        "nvidiagpunumanodes",
        "allowed cpus",
        "hwloc reads what the group was configured with (0-175), here what is effective (0-87)",
    ),
    differs(
        "offline-cpu0-node0",
        "distances",
        "the row has a column for node 0, which is offline; only the column of node 1 is kept",
    ),
];

pub(crate) const XML: &[Difference] = &[
    differs(
        "8intel64-4n2t-memattrs",
        "packages",
        "a synthetic machine without packages; its CPUs are put into package 0",
    ),
    differs("8intel64-4n2t-memattrs", "package cpus", "as above"),
    differs(
        "8intel64-4n2t-memattrs",
        "cores",
        "a synthetic machine without cores; every CPU is one",
    ),
    differs("8intel64-4n2t-memattrs", "threads per core", "as above"),
];
