//! [`Evaluation`]: whether a pod fits a node, and why not.

use std::cell::Cell;
use std::fmt;

use smallvec::SmallVec;

use super::node::ClusterNode;
use super::node_resources_fit::Shortage;
use super::rejection_summary::RejectionSummary;
use crate::koordinator::rejection::KoordinatorRejection;
use crate::node_topology::filter::TopologyRejection;
use crate::node_topology::prediction::Gap;
use crate::volcano::predicate::Misfit;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision;
use pinfold_core::ledger::LedgerError;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;

/// Whether one pod fits one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// The pod fits, with these CPUs and NUMA nodes.
    Fits(Fit),
    /// The pod does not fit.
    Rejected(NodeRejection),
    /// What is left of the node's allocatable suffices, and no NUMA rule applies to the pod.
    #[default]
    FitsInTotal,
}

impl Evaluation {
    /// Whether the pod fits.
    #[must_use]
    pub fn admits(&self) -> bool {
        !matches!(self, Evaluation::Rejected(_))
    }

    /// Why the pod does not fit; `None` if it does.
    #[must_use]
    pub fn rejection(&self) -> Option<&NodeRejection> {
        match self {
            Evaluation::Rejected(rejection) => Some(rejection),
            Evaluation::Fits(_) | Evaluation::FitsInTotal => None,
        }
    }
}

/// The CPUs and NUMA nodes that a pod would get on a node, as far as they are decided before the pod is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Its exclusive CPUs; empty if it runs in a shared pool, or if they are chosen when it is bound.
    pub cpus: CpuSet,
    /// The NUMA nodes of its CPUs and memory; empty if nothing is aligned.
    pub numa: NodeSet,
    /// How good the node is for the pod.
    pub score: FitScore,
}

/// How good a node is for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitScore {
    /// A score that does not depend on other nodes; the higher the better.
    Absolute(i64),
    /// The number of NUMA nodes that the pod's CPUs span; Volcano scores it relative to the other candidates.
    NumaNodes(usize),
}

/// The evaluation of a pod on one node of [`Cluster::evaluate_all`](super::Cluster::evaluate_all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeEvaluation<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// Whether the pod fits it.
    pub evaluation: &'a Evaluation,
}

/// The evaluation of a pod on one node of [`Cluster::evaluate_nodes`](super::Cluster::evaluate_nodes).
#[derive(Clone, Copy, Debug)]
pub struct CachedEvaluation<'a> {
    /// The node.
    pub node: &'a ClusterNode,
    /// Whether the pod fits it.
    pub evaluation: &'a Evaluation,
    /// A score that the caller computed from the evaluation. Cached with it, for pods of the same shape, until the node
    /// changes.
    pub cached_score: &'a Cell<Option<i64>>,
}

/// What [`Cluster::evaluate_nodes`](super::Cluster::evaluate_nodes) found out about one node.
#[derive(Clone, Copy, Debug)]
pub enum BoundedEvaluation<'a> {
    /// The pod was evaluated on the node, now or before.
    Evaluated(CachedEvaluation<'a>),
    /// The budget did not suffice for the node.
    Postponed,
    /// The cluster has no such node.
    UnknownNode,
}

/// A node that the pod fits, with its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankedNode<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// The higher the better.
    pub score: i64,
}

/// Why a pod does not fit a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRejection {
    /// The cluster has no such node.
    UnknownNode,
    /// The pod requests more than what is left of the node's allocatable. At least one shortage.
    Insufficient(SmallVec<[Shortage; 1]>),
    /// The kubelet would reject the pod, with this reason and message.
    Kubelet(decision::Rejection, Option<Box<RejectionSummary>>),
    /// The pod is not valid for the kubelet, or is on the node already.
    Ledger(LedgerError),
    /// The node's NodeResourceTopology does not say enough to predict whether the kubelet would admit the pod.
    Uncertain(Gap),
    /// Koordinator's plugin rejects the pod.
    Koordinator(KoordinatorRejection),
    /// Volcano's plugin rejects the pod.
    Volcano(Misfit),
    /// NodeResourceTopologyMatch rejects the pod.
    SchedulerPlugins(TopologyRejection),
}

impl NodeRejection {
    /// One line without amounts, equal for all nodes that reject the pod for the same reason.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            NodeRejection::Insufficient(short) => join(short, Shortage::to_string),
            NodeRejection::Kubelet(rejection, _) => rejection.reason.to_string(),
            NodeRejection::SchedulerPlugins(rejection) => rejection.to_string(),
            other => other.to_string(),
        }
    }
}

/// The message for users.
impl fmt::Display for NodeRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeRejection::UnknownNode => f.write_str("no such node"),
            NodeRejection::Insufficient(short) => f.write_str(&join(short, |short| {
                format!("{short} ({})", short.amounts())
            })),
            NodeRejection::Kubelet(rejection, _) => {
                write!(f, "{}: {}", rejection.reason, rejection.message)
            }
            NodeRejection::Ledger(error) => error.fmt(f),
            NodeRejection::Uncertain(gap) => gap.fmt(f),
            NodeRejection::Koordinator(rejection) => rejection.fmt(f),
            NodeRejection::Volcano(misfit) => misfit.fmt(f),
            NodeRejection::SchedulerPlugins(rejection) => {
                write!(f, "{rejection} ({})", rejection.cause())
            }
        }
    }
}

fn join(short: &[Shortage], text: impl Fn(&Shortage) -> String) -> String {
    let texts: Vec<String> = short.iter().map(text).collect();
    texts.join(", ")
}
