//! Scheduling constraints other than resources: cordons, node names, taints, selectors, host ports.
//!
//! kube-scheduler checks these before resources. [`NodeConstraints::mismatch`] repeats its filters `NodeUnschedulable`,
//! `NodeName`, `TaintToleration`, `NodeAffinity` and `NodePorts`, in this order. What a pod requires of other pods
//! ([`PodTerms`]) needs all nodes: see [`ClusterPods`](crate::admission::ClusterPods). The constraints that are not
//! checked are listed in [`PodConstraints::unchecked_fields`].

use std::collections::BTreeMap;
use std::fmt;

use crate::diagnostic::DiagnosticReport;
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::node::NodeObject;
use crate::pod::PodPhase;
use crate::pod::mirror::MIRROR;

mod host_ports;
mod label_selector;
mod pod_terms;
mod selector;

pub use host_ports::{HostPort, UsedPorts};
pub use label_selector::{LabelSelector, Labels};
pub use pod_terms::{AffinityTerm, PodTerms, SpreadConstraint};
pub use selector::Selector;

/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The effect of a taint that keeps new pods away.
pub(crate) const NO_SCHEDULE: &str = "NoSchedule";
/// The effect of a taint that also evicts running pods.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// A pod's constraints on nodes, and its scheduling status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodConstraints {
    /// The nodes it selects.
    pub selector: Selector,
    /// The node it is bound to (`spec.nodeName`).
    pub node_name: Option<String>,
    /// The taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// What it requires of other pods.
    pub pod_terms: PodTerms,
    /// The ports of the host that its app containers and sidecars use.
    pub host_ports: Vec<HostPort>,
    /// The operating system it is for (`spec.os.name`).
    pub os: Option<String>,
    /// The gates that keep it from being scheduled.
    pub scheduling_gates: Vec<String>,
    /// Whether it is the mirror of a static pod.
    pub is_static: bool,
    /// Whether it has terminated: it no longer counts.
    pub finished: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether it cannot be moved to another node: a pod of a DaemonSet, or a mirror pod.
    pub immovable: bool,
    /// The scheduler's last message about it.
    pub scheduler_message: Option<String>,
    /// Fields of its spec that kube-scheduler checks and this crate does not.
    pub unchecked_fields: Vec<&'static str>,
}

/// A node's constraints on pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConstraints {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    pub effect: String,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// The key; empty for all.
    pub key: String,
    /// Whether any value is tolerated (`Exists`).
    pub any_value: bool,
    /// The value.
    pub value: String,
    /// The effect; empty for all.
    pub effect: String,
}

/// Why a pod cannot be scheduled to a node, whatever its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMismatch {
    /// The node is cordoned.
    Unschedulable,
    /// The pod is bound to another node.
    OtherNode,
    /// The node has a taint that the pod does not tolerate.
    Taint(Taint),
    /// The pod does not select the node.
    NotSelected,
    /// A host port of the pod is in use on the node.
    HostPort(HostPort),
    /// The pod selects nodes by name, and this is none of them.
    OtherName,
    /// The pod selects nodes by names that contradict each other.
    ConflictingNames,
    /// The node lacks a label that the pod is spread by.
    SpreadLabel,
    /// The node's domain would have too many pods for a topology spread constraint.
    Spread,
    /// No pod that the pod's affinity requires is in the node's domain.
    PodAffinity,
    /// A pod that the pod's anti-affinity forbids is in the node's domain.
    PodAntiAffinity,
    /// The anti-affinity of a pod in the node's domain forbids the pod.
    ExistingAntiAffinity,
}

impl NodeMismatch {
    /// The reason in the words of kube-scheduler, equal for all nodes with the same kind of mismatch.
    #[must_use]
    pub fn scheduler_text(&self) -> &'static str {
        match self {
            NodeMismatch::Unschedulable => "node(s) were unschedulable",
            NodeMismatch::OtherNode => "node(s) didn't match the requested node name",
            NodeMismatch::Taint(_) => "node(s) had untolerated taint(s)",
            NodeMismatch::NotSelected => "node(s) didn't match Pod's node affinity/selector",
            NodeMismatch::HostPort(_) => {
                "node(s) didn't have free ports for the requested pod ports"
            }
            NodeMismatch::OtherName => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            NodeMismatch::ConflictingNames => "pod affinity terms conflict",
            NodeMismatch::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            NodeMismatch::Spread => "node(s) didn't match pod topology spread constraints",
            NodeMismatch::PodAffinity => "node(s) didn't match pod affinity rules",
            NodeMismatch::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            NodeMismatch::ExistingAntiAffinity => {
                "node(s) didn't satisfy existing pods anti-affinity rules"
            }
        }
    }
}

/// The reason in the words of kube-scheduler, with the taint or the port.
impl fmt::Display for NodeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheduler_text())?;
        match self {
            NodeMismatch::Taint(taint) => write!(f, " ({taint})"),
            NodeMismatch::HostPort(port) => write!(f, " ({port})"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.is_empty() {
            true => write!(f, "{}:{}", self.key, self.effect),
            false => write!(f, "{}={}:{}", self.key, self.value, self.effect),
        }
    }
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key == taint.key || (self.key.is_empty() && self.any_value))
            && (self.any_value || self.value == taint.value)
    }
}

impl PodConstraints {
    /// Reads a pod's `spec`; its status and owners are those of the document. Fields that the API server accepted are not
    /// checked again: another version than the known one may allow more.
    pub(crate) fn of_spec(
        spec: &FieldRef<'_>,
        document: &Document,
        report: &mut DiagnosticReport,
    ) -> Self {
        let object = document.root();
        let meta = object.get("metadata");
        let meta = meta.as_ref();
        let is_created = meta.is_some_and(|meta| meta.get("uid").is_some());
        let mut accepted = report.empty_copy();
        let report = match is_created {
            true => &mut accepted,
            false => report,
        };
        let status = object.get("status");
        let owners = meta.map(|meta| meta.get_list("ownerReferences", "a list", report));
        let owned_by = |kind: &str| {
            let mut owners = owners.iter().flatten();
            owners.any(|owner| owner.get("kind").is_some_and(|own| own.is_text(kind)))
        };
        let mirrored = meta
            .and_then(|meta| meta.get("annotations")?.get(MIRROR))
            .is_some();
        Self {
            selector: Selector::read(spec, report),
            node_name: text(spec, "nodeName", report),
            host_ports: host_ports::read(spec, report),
            os: (spec.get("os")).and_then(|os| text(&os, "name", report)),
            scheduling_gates: (spec.get_list("schedulingGates", "a list", report).iter())
                .filter_map(|gate| text(gate, "name", report))
                .collect(),
            is_static: mirrored,
            tolerations: (spec.get_list("tolerations", "a list", report).iter())
                .filter_map(|field| toleration(field, report))
                .collect(),
            finished: PodPhase::of(&object) == PodPhase::Terminated,
            terminating: meta
                .and_then(|meta| meta.get("deletionTimestamp"))
                .is_some(),
            immovable: mirrored
                || owned_by("DaemonSet")
                || owned_by("Node")
                || document.kind() == "DaemonSet",
            scheduler_message: status.and_then(|status| scheduler_message(&status, report)),
            pod_terms: PodTerms::read(spec, report),
            unchecked_fields: unchecked_fields(spec, &object, is_created, report),
        }
    }

    /// Whether the kubelet runs the pod without asking a scheduler: it names its node, or is static.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.node_name.is_some() || self.is_static
    }

    /// Whether the pod tolerates a taint.
    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|one| one.tolerates(taint))
    }
}

/// The text under `key`; `None` if it is missing or empty.
fn text(field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport) -> Option<String> {
    let found = field.get_text(key, "text", report)?;
    (!found.is_empty()).then(|| found.to_owned())
}

/// The taints of a node's `spec`.
pub(crate) fn taints(spec: &FieldRef<'_>, report: &mut DiagnosticReport) -> Vec<Taint> {
    let taint = |field: &FieldRef<'_>, report: &mut DiagnosticReport| Taint {
        key: text(field, "key", report).unwrap_or_default(),
        value: text(field, "value", report).unwrap_or_default(),
        effect: text(field, "effect", report).unwrap_or_default(),
    };
    let taints = spec.get_list("taints", "a list", report);
    taints.iter().map(|field| taint(field, report)).collect()
}

impl NodeConstraints {
    /// The constraints of a node.
    #[must_use]
    pub fn of(node: &NodeObject) -> Self {
        Self {
            name: node.meta.name.clone(),
            labels: node.meta.labels.clone(),
            taints: node.taints.clone(),
            unschedulable: node.unschedulable,
        }
    }

    /// Why the pod cannot be scheduled here, with these host ports in use; `None` if only resources can prevent it.
    #[must_use]
    pub fn mismatch(&self, pod: &PodConstraints, used: &UsedPorts) -> Option<NodeMismatch> {
        let cordon = Taint {
            key: UNSCHEDULABLE.to_owned(),
            value: String::new(),
            effect: NO_SCHEDULE.to_owned(),
        };
        if let Some(names) = pod.selector.node_names() {
            if names.is_empty() {
                return Some(NodeMismatch::ConflictingNames);
            }
            if !names.contains(&self.name) {
                return Some(NodeMismatch::OtherName);
            }
        }
        if self.unschedulable && !pod.tolerates(&cordon) {
            return Some(NodeMismatch::Unschedulable);
        }
        if !self.is_named_by(pod) {
            return Some(NodeMismatch::OtherNode);
        }
        if let Some(taint) = self.untolerated(pod, &[NO_SCHEDULE, NO_EXECUTE]) {
            return Some(NodeMismatch::Taint(taint.clone()));
        }
        if !self.is_selected_by(pod) {
            return Some(NodeMismatch::NotSelected);
        }
        let port = used.conflict(&pod.host_ports)?;
        Some(NodeMismatch::HostPort(port.clone()))
    }

    /// Whether the pod is bound to this node or to none.
    pub(crate) fn is_named_by(&self, pod: &PodConstraints) -> bool {
        pod.node_name.as_ref().is_none_or(|name| *name == self.name)
    }

    /// Whether the pod's selector and node affinity allow this node.
    pub(crate) fn is_selected_by(&self, pod: &PodConstraints) -> bool {
        pod.selector.matches(&self.name, &self.labels)
    }

    /// The first taint with one of these effects that the pod does not tolerate.
    pub(crate) fn untolerated(&self, pod: &PodConstraints, effects: &[&str]) -> Option<&Taint> {
        let is_hard = |taint: &&Taint| effects.contains(&taint.effect.as_str());
        let mut taints = self.taints.iter().filter(is_hard);
        taints.find(|taint| !pod.tolerates(taint))
    }
}

/// The API server's message about a value that is none of those it knows.
fn unsupported(value: &str, supported: &str) -> String {
    format!("Unsupported value: {value:?}: supported values: {supported}")
}

/// A toleration; `None` if its operator makes it tolerate nothing: `Gt` and `Lt` need an alpha feature gate.
fn toleration(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<Toleration> {
    let mut text = |key: &str| {
        field
            .get_text(key, "text", report)
            .unwrap_or_default()
            .to_owned()
    };
    let operator = text("operator");
    let toleration = Toleration {
        key: text("key"),
        any_value: operator == "Exists",
        value: text("value"),
        effect: text("effect"),
    };
    match operator.as_str() {
        "" | "Equal" | "Exists" => Some(toleration),
        _ => {
            if let Some(field) = field.get("operator") {
                field.rejected(unsupported(&operator, "Equal, Exists"), report);
            }
            None
        }
    }
}

/// The message of the condition `PodScheduled`, if it is false.
fn scheduler_message(status: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<String> {
    let conditions = status.get_list("conditions", "a list", report);
    let scheduled = conditions.iter().find(|condition| {
        let is = |key: &str, text: &str| condition.get(key).is_some_and(|own| own.is_text(text));
        is("type", "PodScheduled") && is("status", "False")
    })?;
    let message = scheduled.get_text("message", "text", report)?;
    (!message.is_empty()).then(|| message.to_owned())
}

/// The fields of the spec that kube-scheduler checks and this crate does not. Preferences are left out: they exclude no
/// node.
fn unchecked_fields(
    spec: &FieldRef<'_>,
    object: &FieldRef<'_>,
    is_created: bool,
    report: &mut DiagnosticReport,
) -> Vec<&'static str> {
    let mut found = Vec::new();
    let volumes = spec.get_list("volumes", "a list", report);
    let claims = ["persistentVolumeClaim", "ephemeral"];
    let templates = (object.get("spec")).and_then(|spec| spec.get("volumeClaimTemplates"));
    if templates.is_some()
        || (volumes.iter()).any(|volume| claims.iter().any(|key| volume.get(key).is_some()))
    {
        found.push("volume claims");
    }
    // The API server adds the overhead of the RuntimeClass object when it creates the pod.
    if spec.get("runtimeClassName").is_some() && spec.get("overhead").is_none() && !is_created {
        found.push("the overhead of the runtime class");
    }
    if !(spec.get_list("resourceClaims", "a list", report)).is_empty() {
        found.push("resource claims");
    }
    found
}

#[cfg(test)]
mod tests;
