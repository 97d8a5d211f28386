//! The texts of rejections, as kube-scheduler shows them in the pod's FailedScheduling event.
//!
//! kube-scheduler counts nodes with equal reasons (`2 node(s) ...`). So equal causes have equal texts: without names,
//! and with amounts only where few different ones occur.

use pinfold_cluster::{NodeRejection, Shortage};
use pinfold_core::name::NodeName;

/// The longest reason, in bytes.
pub const LONGEST: usize = 160;

/// The class of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionClass {
    /// The node has not enough of a resource in sum.
    Resources,
    /// The kubelet's topology, CPU, memory or device manager rejects the pod.
    Numa,
    /// The report is incomplete: it does not show how the kubelet would decide.
    IncompleteReport,
    /// The report is stale.
    StaleReport,
    /// The node has no headroom beside its unreported pods.
    NoHeadroom,
    /// The report cannot be used.
    InvalidReport,
    /// The node has no report.
    NoReport,
    /// The node is not in the cache.
    UnknownNode,
    /// Koordinator's rules reject the pod.
    Koordinator,
    /// Volcano's rules reject the pod.
    Volcano,
    /// The pod can never run on the node.
    Pod,
}

/// The reason for all other nodes while the result of a binding is unknown.
pub(super) fn maybe_bound(node: &NodeName) -> String {
    format!("may have been bound to node {node} already")
}

impl RejectionClass {
    /// The label value in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RejectionClass::Resources => "resources",
            RejectionClass::Numa => "numa",
            RejectionClass::IncompleteReport => "incomplete-report",
            RejectionClass::StaleReport => "stale-report",
            RejectionClass::NoHeadroom => "no-headroom",
            RejectionClass::InvalidReport => "invalid-report",
            RejectionClass::NoReport => "no-report",
            RejectionClass::UnknownNode => "unknown-node",
            RejectionClass::Koordinator => "koordinator",
            RejectionClass::Volcano => "volcano",
            RejectionClass::Pod => "pod",
        }
    }

    /// The class of a rejection.
    #[must_use]
    pub fn of(rejection: &NodeRejection) -> Self {
        match rejection {
            NodeRejection::UnknownNode => RejectionClass::UnknownNode,
            NodeRejection::Insufficient(_) => RejectionClass::Resources,
            NodeRejection::Kubelet(_, Some(blame)) if blame.is_permanent() => RejectionClass::Pod,
            NodeRejection::Kubelet(..) | NodeRejection::SchedulerPlugins(_) => RejectionClass::Numa,
            NodeRejection::Ledger(_) => RejectionClass::Pod,
            NodeRejection::Uncertain(_) => RejectionClass::IncompleteReport,
            NodeRejection::Koordinator(_) => RejectionClass::Koordinator,
            NodeRejection::Volcano(_) => RejectionClass::Volcano,
        }
    }

    /// Whether evicting pods cannot make the pod fit.
    #[must_use]
    pub fn is_unresolvable(self) -> bool {
        matches!(
            self,
            RejectionClass::IncompleteReport
                | RejectionClass::StaleReport
                | RejectionClass::NoHeadroom
                | RejectionClass::InvalidReport
                | RejectionClass::NoReport
                | RejectionClass::Pod
        )
    }
}

/// The report of the node lacks running pods.
pub const STALE_REPORT: &str = "node(s) whose NUMA report is out of date";
/// The report of the node lacks bound pods or pods were just deleted, and whether the pod fits depends on them.
pub const NO_HEADROOM: &str = "node(s) whose bound or deleted pods have to settle first";
/// The report of the node cannot be used.
pub const INVALID_REPORT: &str = "node(s) whose NUMA report is invalid";
/// The node has no report.
pub const NO_REPORT: &str = "node(s) without a NUMA report";
/// The node is not in the cache yet.
pub const UNKNOWN_NODE: &str = "node(s) that the extender does not know yet";

/// The text of a rejection.
#[must_use]
pub fn of(rejection: &NodeRejection) -> String {
    let text = match rejection {
        NodeRejection::UnknownNode => UNKNOWN_NODE.to_owned(),
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
    truncate(&text)
}

/// The first line of a text, cut to [`LONGEST`] bytes.
#[must_use]
pub fn truncate(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    pinfold_apiserver::truncate(line, LONGEST)
}
