//! Defects of scheduler-plugins' NodeResourceTopologyMatch.

use super::Fidelity;

defects! {
    /// NodeResourceTopologyMatch treats a sidecar like an init container that ends: nothing stays with it.
    forgets_sidecars,

    /// NodeResourceTopologyMatch takes a NUMA id for a place in the list of zones when it subtracts.
    takes_node_ids_for_places,

    /// NodeResourceTopologyMatch computes scores in 64 bits that wrap around, and the variance of a
    /// single number as not a number.
    lets_scores_overflow,
}
