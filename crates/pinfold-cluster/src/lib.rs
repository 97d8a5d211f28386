//! What schedulers decide about machines with several NUMA nodes, on top of the kubelet's decisions in `pinfold-core`.
//!
//! | question | module |
//! |---|---|
//! | which nodes admit a pod, and which is the best? | [`Cluster`] |
//! | how many replicas of a pod start on a node? | [`ReplicaCounter`] |
//! | which CPUs does Koordinator assign? | [`koordinator`] |
//! | which CPUs does Volcano's numa-aware plugin assign, and how does it score a node? | [`volcano`] |
//! | what does a NodeResourceTopology object say, and what does scheduler-plugins make of it? | [`node_topology`] |
//!
//! No I/O, no clock, no randomness: the same input gives the same answer, whichever thread computes it.

/// Declares the defects of one program: a trait of [`Fidelity`](pinfold_core::fidelity::Fidelity) with one method per
/// defect, which says whether the defect is repeated.
macro_rules! defects {
    ($(#[$about:meta])+ $program:ident { $($(#[$doc:meta])+ $name:ident,)+ }) => {
        $(#[$about])+
        pub trait $program {
            $(
                $(#[$doc])+
                #[must_use]
                fn $name(self) -> bool;
            )+
        }

        impl $program for pinfold_core::fidelity::Fidelity {
            $(
                fn $name(self) -> bool {
                    self.is_exact()
                }
            )+
        }
    };
}

mod cluster;
pub mod koordinator;
pub mod node_topology;
pub mod volcano;

pub use cluster::{
    BoundedEvaluation, CachedEvaluation, Cluster, ClusterNode, DecisionBudget, Dialect, Evaluation,
    Fit, FitScore, KubeletPolicy, MAX_SHAPES, NodeEvaluation, NodeRejection, NodeView, PODS,
    PlaceError, Placement, PlacementDetail, PodRequest, RankedNode, RejectionSummary, ReplicaCount,
    ReplicaCounter, Shortage, TopologyMatchNode, VolcanoNode, shortages,
};
