//! What nodes answer and what becomes of a pod.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use smallvec::SmallVec;

use super::blame::Blame;
use super::fit::Shortage;
use super::member::Member;
use crate::cpu_set::CpuSet;
use crate::decision;
use crate::koordinator::ledger::Allocation;
use crate::koordinator::reasons;
use crate::koordinator::values::ResourceSpec;
use crate::ledger::LedgerError;
use crate::name::{NodeName, PodUid};
use crate::node_set::{NodeId, NodeSet};
use crate::node_topology::filter;
use crate::node_topology::verdict::Gap;
use crate::volcano::predicate::Misfit;

/// What one node says about one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The pod could run there, like this.
    Fits(Fit),
    /// It could not.
    Rejected(Rejection),
    /// There is room, and the node's NUMA rules have no say.
    #[default]
    NoOpinion,
}

impl Verdict {
    /// Whether the pod could run there.
    #[must_use]
    pub fn admits(&self) -> bool {
        !matches!(self, Verdict::Rejected(_))
    }

    /// Why not; `None` if it could.
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Verdict::Rejected(rejection) => Some(rejection),
            Verdict::Fits(_) | Verdict::NoOpinion => None,
        }
    }
}

/// How a pod would run on a node, as far as that is decided before it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Its own CPUs; empty if it shares, or if they are chosen when it is bound.
    pub cpus: CpuSet,
    /// The NUMA nodes of what it gets; empty if nothing was aligned.
    pub numa: NodeSet,
    /// How good that is.
    pub gauge: Gauge,
}

/// How good a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// A score of its own, the higher the better.
    Score(i64),
    /// So many NUMA nodes; what that is worth depends on the other candidates.
    Span(usize),
}

/// One node's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// What it says.
    pub verdict: &'a Verdict,
}

/// What one of several nodes says.
#[derive(Clone, Copy, Debug)]
pub struct Opinion<'a> {
    /// The node.
    pub member: &'a Member,
    /// What it says.
    pub verdict: &'a Verdict,
    /// For whoever makes something of it: kept for pods of the same shape until the node changes.
    pub note: &'a Cell<Option<i64>>,
}

/// A node that could take the pod, with its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// The higher the better.
    pub score: i64,
}

/// Why a node cannot take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The cluster has no such node.
    UnknownNode,
    /// The node has no room for the pod as a whole. At least one.
    Room(SmallVec<[Shortage; 1]>),
    /// The kubelet would reject it, for this.
    Kubelet(decision::Rejection, Option<Box<Blame>>),
    /// It is no pod for that kubelet, or it is there already.
    Ledger(LedgerError),
    /// What the node reports does not tell whether the kubelet would take it.
    Uncertain(Gap),
    /// Koordinator's plugin says no.
    Koordinator(reasons::Rejection),
    /// Volcano's plugin says no.
    Volcano(Misfit),
    /// NodeResourceTopologyMatch rejects it.
    SchedulerPlugins(filter::Rejection),
}

impl Rejection {
    /// One line without amounts, the same for all nodes with the same trouble.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Rejection::Room(short) => join(short, Shortage::to_string),
            Rejection::Kubelet(rejection, _) => rejection.reason.to_string(),
            Rejection::SchedulerPlugins(rejection) => rejection.to_string(),
            other => other.to_string(),
        }
    }
}

/// What a user sees.
impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::UnknownNode => f.write_str("no such node"),
            Rejection::Room(short) => f.write_str(&join(short, |short| {
                format!("{short} ({})", short.amounts())
            })),
            Rejection::Kubelet(rejection, _) => {
                write!(f, "{}: {}", rejection.reason, rejection.message)
            }
            Rejection::Ledger(error) => error.fmt(f),
            Rejection::Uncertain(gap) => gap.fmt(f),
            Rejection::Koordinator(rejection) => rejection.fmt(f),
            Rejection::Volcano(misfit) => misfit.fmt(f),
            Rejection::SchedulerPlugins(rejection) => {
                write!(f, "{rejection} ({})", rejection.cause())
            }
        }
    }
}

fn join(short: &[Shortage], text: impl Fn(&Shortage) -> String) -> String {
    let texts: Vec<String> = short.iter().map(text).collect();
    texts.join(", ")
}

/// A pod that was given its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The pod.
    pub pod: PodUid,
    /// Its node.
    pub node: NodeName,
    /// Its own CPUs; empty if it shares.
    pub cpus: CpuSet,
    /// The NUMA nodes of what it got; empty if nothing was aligned.
    pub numa: NodeSet,
    /// What its node's dialect wrote down.
    pub decided: Decided,
}

/// What is written down about a placed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// Nothing: the sums are all there is.
    Nothing,
    /// What the kubelet will give every container.
    Kubelet(decision::Assignment),
    /// Koordinator's annotations.
    Koordinator {
        /// The content of `resource-status`; `None` if there is nothing to write.
        status: Option<Allocation>,
        /// The completed `resource-spec`, if it has to be written.
        spec: Option<ResourceSpec>,
    },
    /// Volcano's decision: the CPUs on each NUMA node.
    Volcano(BTreeMap<NodeId, CpuSet>),
    /// NodeResourceTopologyMatch chooses the node only.
    SchedulerPlugins {
        /// The plugin's score of the node.
        score: i64,
    },
}

/// Why a pod was not placed. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPlaced {
    /// It has a place already.
    #[error("pod {pod} is on node {node} already")]
    Already {
        /// The pod.
        pod: PodUid,
        /// Where it is.
        node: NodeName,
    },
    /// No node takes it.
    #[error("pod {pod}: 0/{} nodes are available{}", rejections.len(), counted(rejections))]
    NoNode {
        /// The pod.
        pod: PodUid,
        /// What each node said, ascending by name.
        rejections: Vec<(NodeName, Rejection)>,
    },
}

/// `: 2 Insufficient cpu, 1 no such node.`, ascending, as the stock scheduler puts it.
fn counted(rejections: &[(NodeName, Rejection)]) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for (_, rejection) in rejections {
        *counts.entry(rejection.summary()).or_default() += 1;
    }
    let mut texts: Vec<String> = counts
        .iter()
        .map(|(text, count)| format!("{count} {text}"))
        .collect();
    texts.sort();
    match texts.is_empty() {
        true => String::new(),
        false => format!(": {}.", texts.join(", ")),
    }
}
