//! The texts of rejections, as kube-scheduler shows them in the pod's FailedScheduling event.
//!
//! kube-scheduler counts nodes with equal reasons (`2 node(s) ...`). So equal causes have equal texts: without names,
//! and with amounts only where few different ones occur.

use pinfold_cluster::{NodeRejection, Shortage};
use pinfold_core::name::NodeName;

use super::wire::RejectionKind;

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
    /// The node was not evaluated: the pod has too many containers for all nodes in one call.
    Postponed,
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
            RejectionClass::Postponed => "postponed",
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

    /// Whether evicting pods can make the pod fit.
    #[must_use]
    pub fn kind(self) -> RejectionKind {
        match self {
            RejectionClass::Resources
            | RejectionClass::Numa
            | RejectionClass::Koordinator
            | RejectionClass::Volcano => RejectionKind::Resolvable,
            RejectionClass::NoHeadroom | RejectionClass::Postponed => RejectionKind::Temporary,
            RejectionClass::IncompleteReport
            | RejectionClass::StaleReport
            | RejectionClass::InvalidReport
            | RejectionClass::NoReport
            | RejectionClass::UnknownNode
            | RejectionClass::Pod => RejectionKind::Unresolvable,
        }
    }

    /// The text of a rejection because of the state of the node's report.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            RejectionClass::StaleReport => "node(s) whose NUMA report is out of date",
            RejectionClass::NoHeadroom => {
                "node(s) whose bound or deleted pods have to settle first"
            }
            RejectionClass::InvalidReport => "node(s) whose NUMA report is invalid",
            RejectionClass::NoReport => "node(s) without a NUMA report",
            RejectionClass::Postponed => {
                "node(s) that will be evaluated later: the pod has too many containers for all at once"
            }
            RejectionClass::UnknownNode => "node(s) that the engine does not know yet",
            other => further(other),
        }
    }
}

/// The text for all further reasons of a class, if a pod is rejected for too many different ones.
#[must_use]
pub fn further(class: RejectionClass) -> &'static str {
    match class {
        RejectionClass::Resources => "Insufficient resources",
        RejectionClass::Pod => "node(s) that can never run the pod",
        _ => "NUMA: further reasons",
    }
}

/// The text of a rejection.
#[must_use]
pub fn of(rejection: &NodeRejection) -> String {
    let text = match rejection {
        NodeRejection::UnknownNode => RejectionClass::UnknownNode.text().to_owned(),
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
