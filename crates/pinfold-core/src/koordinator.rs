//! The Koordinator dialect: how its scheduler places pods on CPUs and NUMA nodes.
