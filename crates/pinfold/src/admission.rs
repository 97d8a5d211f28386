//! [`NodeAdmission`]: kube-scheduler in front of one node, and the predicates of its kubelet behind the managers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_core::decision::{Decision, Rejection};
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::pod::Pod;
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest, KubeletRejection, Unschedulable};
use pinfold_render::text::{grouped, paragraph};
use serde::Serialize;

use crate::node::SimulatedNode;
use crate::output::width;

pub(crate) mod remedies;

/// The most pods that a line names; further ones are counted.
const NAMED: usize = 3;

/// One node with its kube-scheduler, and the pods of a simulation.
#[derive(Clone, Debug)]
pub(crate) struct NodeAdmission {
    /// The node with the requests of its pods.
    pub(crate) node: AdmissionNode,
    /// Whether kube-scheduler binds the pods; otherwise they are bound already.
    asks_scheduler: bool,
    /// The pods, by position in the list of pods.
    requests: Arc<[AdmissionRequest]>,
}

/// Why a pod was rejected.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum PodRejection {
    /// By the kubelet's managers.
    Managers(Rejection),
    /// By kube-scheduler, or by the kubelet's predicates.
    Outside(OutsideRejection),
}

/// A rejection by kube-scheduler or by the kubelet's predicates.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OutsideRejection {
    /// The program that rejects the pod.
    pub(crate) by: RejectedBy,
    /// The reason as the pod's status shows it.
    pub(crate) reason: String,
    /// The message as the pod's status shows it.
    pub(crate) message: String,
    /// The amounts, the taint or the port that the message leaves out.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) details: String,
}

/// The program that rejects a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RejectedBy {
    /// The pod stays Pending.
    KubeScheduler,
    /// The pod fails.
    Kubelet,
}

/// `Pending: 0/1 nodes are available: 1 Insufficient cpu. (cpu: 4 asked, 2 left)` or `OutOfcpu: ...`.
impl fmt::Display for OutsideRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = match self.by {
            RejectedBy::KubeScheduler => "Pending",
            RejectedBy::Kubelet => &self.reason,
        };
        write!(f, "{head}: {}", self.message)?;
        match self.details.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.details),
        }
    }
}

impl From<Unschedulable> for OutsideRejection {
    fn from(why: Unschedulable) -> Self {
        let reason = match why {
            Unschedulable::Gated(_) => "SchedulingGated",
            Unschedulable::Mismatch(_) | Unschedulable::Insufficient(_) => "Unschedulable",
        };
        Self {
            by: RejectedBy::KubeScheduler,
            reason: reason.to_owned(),
            message: why.message(),
            details: why.details(),
        }
    }
}

impl From<KubeletRejection> for OutsideRejection {
    fn from(why: KubeletRejection) -> Self {
        let details = match why.preempts() {
            true => "the pod is critical: the kubelet would preempt others, which is not simulated",
            false => "",
        };
        Self {
            by: RejectedBy::Kubelet,
            reason: why.reason(),
            message: why.to_string(),
            details: details.to_owned(),
        }
    }
}

/// A field of pods that kube-scheduler or the kubelet checks and the simulation does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NotSimulated {
    /// The field.
    what: &'static str,
    /// The pods that have it; empty if it is about the node.
    pods: Vec<String>,
}

impl NotSimulated {
    /// The labels of namespaces, which terms of these pods read; `None` if there are no such pods.
    pub(crate) fn of_namespaces(pods: Vec<String>) -> Option<Self> {
        (!pods.is_empty()).then_some(Self {
            what: "labels of namespaces (no Namespace object)",
            pods,
        })
    }

    /// The state files of a kubelet list only pods with exclusive CPUs, memory or devices.
    pub(crate) fn of_state_files() -> Self {
        Self {
            what: "the requests of pods that the state files do not list",
            pods: Vec::new(),
        }
    }
}

impl NodeAdmission {
    /// A machine without pods, with requests in the order of the steps' pods. kube-scheduler is asked about each of the pods unless all are `bound`.
    pub(crate) fn new(
        node: &SimulatedNode,
        requests: Arc<[AdmissionRequest]>,
        bound: bool,
    ) -> Self {
        Self {
            node: AdmissionNode::new(None, node.allocatable.clone()),
            asks_scheduler: !bound,
            requests,
        }
    }

    /// Whether the pods are bound, so that kube-scheduler is not asked.
    pub(crate) fn is_bound(&self) -> bool {
        !self.asks_scheduler
    }

    /// Whether the pod has terminated: it holds nothing, and the kubelet does not admit it again.
    pub(crate) fn has_ended(&self, index: usize) -> bool {
        let request = self.requests.get(index);
        request.is_some_and(|request| request.constraints.finished)
    }

    /// Asks kube-scheduler about a pod, unless the pod is bound.
    pub(crate) fn schedule(&self, index: usize) -> Result<(), OutsideRejection> {
        match self.requests.get(index) {
            Some(pod) => schedule(&self.node, pod, !self.asks_scheduler),
            None => Ok(()),
        }
    }

    /// Asks the kubelet's predicates about a pod that the managers admitted to the ledger, and counts it. Returns the
    /// extended resources that the kubelet ignores.
    pub(crate) fn confirm(
        &mut self,
        index: usize,
        uid: &PodUid,
        ledger: &Ledger,
        decision: &Decision,
    ) -> Result<Vec<ResourceName>, OutsideRejection> {
        let Some(pod) = self.requests.get(index) else {
            return Ok(Vec::new());
        };
        self.node.predicates(pod, &allocated(ledger, decision))?;
        let ignored = self.node.unlisted(pod);
        self.node.add(uid, pod);
        Ok(ignored)
    }

    /// What is not simulated about the pods, which are in the order of the requests.
    pub(crate) fn not_simulated(&self, pods: &[Arc<Pod>]) -> Vec<NotSimulated> {
        let names = pods.iter().map(|pod| pod.name.as_str());
        not_simulated(&self.node, names.zip(self.requests.iter()))
    }
}

/// Asks kube-scheduler about a pod, unless it is bound.
pub(crate) fn schedule(
    node: &AdmissionNode,
    pod: &AdmissionRequest,
    bound: bool,
) -> Result<(), OutsideRejection> {
    match bound || pod.constraints.is_bound() {
        true => Ok(()),
        false => Ok(node.filter(pod)?),
    }
}

/// The devices that all pods hold, if the decision assigns some to its pod.
pub(crate) fn allocated(ledger: &Ledger, decision: &Decision) -> Amounts {
    let assigned = decision.assignment().into_iter();
    let mut assigned = assigned.flat_map(|assignment| &assignment.containers);
    let mut allocated = Amounts::new();
    if assigned.all(|container| container.devices.is_empty()) {
        return allocated;
    }
    for (resource, devices) in ledger.state().devices().in_use() {
        let count = i64::try_from(devices.len()).unwrap_or(i64::MAX);
        allocated.set(&resource, count);
    }
    allocated
}

/// What is not simulated about some pods on a node.
pub(crate) fn not_simulated<'a>(
    node: &AdmissionNode,
    pods: impl IntoIterator<Item = (&'a str, &'a AdmissionRequest)>,
) -> Vec<NotSimulated> {
    let mut found = BTreeMap::<&'static str, Vec<String>>::new();
    for (name, pod) in pods {
        for what in node.not_simulated(pod) {
            found.entry(what).or_default().push(name.to_owned());
        }
    }
    let found = found.into_iter();
    found
        .map(|(what, pods)| NotSimulated { what, pods })
        .collect()
}

/// One line per field that is not simulated; empty if there are none.
pub(crate) fn not_simulated_text(found: &[NotSimulated]) -> String {
    let mut text = String::new();
    for NotSimulated { what, pods } in found {
        let mut names: Vec<String> = pods.iter().take(NAMED).cloned().collect();
        if pods.len() > NAMED {
            names.push(format!("{} more", grouped(pods.len() - NAMED)));
        }
        let line = match names.is_empty() {
            true => (*what).to_owned(),
            false => format!("{what} of {}", names.join(", ")),
        };
        text.push_str(&paragraph("not simulated: ", &line, 2, width()));
    }
    text
}

/// The end of the line about an admitted pod whose extended resources the kubelet ignores.
pub(crate) fn ignored_text(resources: &[ResourceName]) -> String {
    let names: Vec<&str> = resources.iter().map(ResourceName::as_str).collect();
    format!("; without {}: the node does not offer it", names.join(", "))
}
