//! Rejections in words that a person understands and that fit into an event.
//!
//! kube-scheduler counts equal reasons (`2 node(s) ...`), so equal troubles have equal words: no names, and amounts only
//! where few different ones occur.

use pinfold_core::cluster::{NodeRejection, Shortage};
use pinfold_core::name::NodeName;

/// The longest reason, in bytes.
pub const LONGEST: usize = 160;

/// Why a node does not take a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// There is no room as a whole.
    Room,
    /// The kubelet's NUMA rules say no.
    Numa,
    /// The report does not tell.
    Uncertain,
    /// The report is behind.
    Behind,
    /// Others are coming who may take the place.
    Busy,
    /// The report cannot be understood.
    Unreadable,
    /// There is no report.
    Unreported,
    /// Nobody has heard of the node.
    Unknown,
    /// Koordinator's rules say no.
    Koordinator,
    /// Volcano's rules say no.
    Volcano,
    /// It is no pod for that node.
    Pod,
}

/// The pod may be on another node already.
pub(super) fn in_doubt(node: &NodeName) -> String {
    format!("may have been bound to node {node} already")
}

impl Class {
    /// The word for it in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Room => "room",
            Class::Numa => "numa",
            Class::Uncertain => "uncertain",
            Class::Behind => "behind",
            Class::Busy => "busy",
            Class::Unreadable => "unreadable",
            Class::Unreported => "unreported",
            Class::Unknown => "unknown",
            Class::Koordinator => "koordinator",
            Class::Volcano => "volcano",
            Class::Pod => "pod",
        }
    }

    /// The class of a rejection.
    #[must_use]
    pub fn of(rejection: &NodeRejection) -> Self {
        match rejection {
            NodeRejection::UnknownNode => Class::Unknown,
            NodeRejection::Insufficient(_) => Class::Room,
            NodeRejection::Kubelet(_, Some(blame)) if blame.is_permanent() => Class::Pod,
            NodeRejection::Kubelet(..) | NodeRejection::SchedulerPlugins(_) => Class::Numa,
            NodeRejection::Ledger(_) => Class::Pod,
            NodeRejection::Uncertain(_) => Class::Uncertain,
            NodeRejection::Koordinator(_) => Class::Koordinator,
            NodeRejection::Volcano(_) => Class::Volcano,
        }
    }

    /// Whether no pod that leaves would help.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Class::Uncertain
                | Class::Behind
                | Class::Busy
                | Class::Unreadable
                | Class::Unreported
                | Class::Pod
        )
    }
}

/// The node's report lacks pods that run there.
pub const BEHIND: &str = "node(s) whose NUMA report is out of date";
/// Pods are coming to the node that its report lacks, and where they will be decides.
pub const BUSY: &str = "node(s) that have to report pods on their way first";
/// The node's report makes no sense.
pub const UNREADABLE: &str = "node(s) whose NUMA report cannot be understood";
/// There is no report.
pub const UNREPORTED: &str = "node(s) that report no NUMA nodes";
/// Nobody has heard of the node yet.
pub const UNKNOWN: &str = "node(s) that the extender has not heard of yet";

/// Why a node does not take a pod, in a few words.
#[must_use]
pub fn of(rejection: &NodeRejection) -> String {
    let words = match rejection {
        NodeRejection::UnknownNode => UNKNOWN.to_owned(),
        NodeRejection::Insufficient(short) => {
            let short: Vec<String> = short.iter().map(Shortage::to_string).collect();
            short.join(", ")
        }
        NodeRejection::Kubelet(rejection, Some(blame)) => match rejection.reason {
            pinfold_core::decision::RejectionReason::TopologyAffinityError => {
                format!("NUMA: {blame}")
            }
            reason => format!("{reason}: {blame}"),
        },
        NodeRejection::Kubelet(rejection, None) => {
            format!("{}: {}", rejection.reason, rejection.message)
        }
        NodeRejection::Ledger(error) => error.to_string(),
        NodeRejection::Uncertain(gap) => format!("NUMA uncertain: {gap}"),
        NodeRejection::Koordinator(rejection) => rejection.to_string(),
        NodeRejection::Volcano(misfit) => format!("NUMA: {misfit}"),
        NodeRejection::SchedulerPlugins(rejection) => format!("NUMA: {rejection}"),
    };
    shortened(&words)
}

/// The words, cut to what an event takes.
#[must_use]
pub fn shortened(words: &str) -> String {
    let line = words.lines().next().unwrap_or_default();
    pinfold_apiserver::shortened(line, LONGEST)
}
