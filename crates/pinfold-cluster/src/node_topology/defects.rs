//! [`TopologyMatchDefects`]: the defects that *exact* repeats.

defects! {
    /// Defects of scheduler-plugins' NodeResourceTopologyMatch.
    TopologyMatchDefects {
        /// NodeResourceTopologyMatch treats a sidecar as an init container that terminates: its resources count as
        /// free afterwards.
        treats_sidecars_as_init_containers,

        /// NodeResourceTopologyMatch uses a NUMA id as an index into the list of zones when it subtracts.
        uses_node_ids_as_indexes,

        /// NodeResourceTopologyMatch computes scores in 64 bits that wrap around, and the variance of a
        /// single number as NaN.
        overflows_scores,
    }
}
