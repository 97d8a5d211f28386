//! Scheduling constraints other than resources: selectors, taints, cordons.
//!
//! kube-scheduler checks these before resources. [`NodeConstraints::mismatch`] repeats its filters `NodeUnschedulable`,
//! `NodeName`, `TaintToleration` and `NodeAffinity`; the constraints that are not checked are listed in
//! [`PodConstraints::unchecked_fields`].

use std::collections::BTreeMap;
use std::fmt;

use crate::diagnostic::DiagnosticReport;
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::pod::PodPhase;
use crate::pod::mirror::MIRROR;

mod selector;

pub use selector::Selector;

/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A pod's constraints on nodes, and its scheduling status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodConstraints {
    /// The nodes it selects.
    pub selector: Selector,
    /// The taints it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Whether it has terminated: it no longer counts.
    pub finished: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether it cannot be moved to another node: a pod of a DaemonSet, or a mirror pod.
    pub immovable: bool,
    /// The scheduler's last message about it.
    pub scheduler_message: Option<String>,
    /// Fields of its spec that kube-scheduler checks and [`NodeConstraints::mismatch`] does not.
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
    /// The node has a taint that the pod does not tolerate.
    Taint(Taint),
    /// The pod does not select the node.
    NotSelected,
}

impl fmt::Display for NodeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeMismatch::Unschedulable => f.write_str("cordoned: takes no new pods"),
            NodeMismatch::Taint(taint) => {
                write!(f, "taint {taint}, which the pod does not tolerate")
            }
            NodeMismatch::NotSelected => f.write_str("not among the nodes that the pod selects"),
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
    /// Reads a pod, or the pod template of another object. Invalid fields are ignored: the API server would have
    /// rejected them.
    #[must_use]
    pub fn read(document: &Document) -> Self {
        let report = &mut DiagnosticReport::new(document.file());
        let object = document.root();
        let template = (object.get("spec"))
            .and_then(|spec| spec.get("template").or_else(|| spec.get("jobTemplate")))
            .and_then(|template| match template.get("spec")?.get("template") {
                Some(inner) => inner.get("spec"),
                None => template.get("spec"),
            });
        let Some(spec) = template.or_else(|| object.get("spec")) else {
            return Self::default();
        };
        let meta = object.get("metadata");
        let meta = meta.as_ref();
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
            selector: Selector::read(&spec, report),
            tolerations: (spec.get_list("tolerations", "a list", report).iter())
                .map(|field| toleration(field, report))
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
            unchecked_fields: unchecked_fields(&spec, report),
        }
    }
}

impl NodeConstraints {
    /// Reads a node.
    #[must_use]
    pub fn read(document: &Document) -> Self {
        let report = &mut DiagnosticReport::new(document.file());
        let object = document.root();
        let text = |field: &FieldRef<'_>, key: &str, report: &mut DiagnosticReport| {
            field
                .get_text(key, "text", report)
                .unwrap_or_default()
                .to_owned()
        };
        let mut constraints = Self::default();
        if let Some(meta) = object.get("metadata") {
            constraints.name = text(&meta, "name", report);
            if let Some(labels) = meta.get("labels") {
                let labels = labels.members();
                constraints.labels = labels
                    .filter_map(|(key, value)| Some((key, value.text("text", report)?)))
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect();
            }
        }
        if let Some(spec) = object.get("spec") {
            let cordon = spec.get("unschedulable");
            constraints.unschedulable = cordon
                .and_then(|field| field.boolean("true or false", report))
                .unwrap_or(false);
            let taints = spec.get_list("taints", "a list", report);
            constraints.taints = taints
                .iter()
                .map(|field| Taint {
                    key: text(field, "key", report),
                    value: text(field, "value", report),
                    effect: text(field, "effect", report),
                })
                .collect();
        }
        constraints
    }

    /// Why the pod cannot be scheduled here; `None` if only resources can prevent it.
    #[must_use]
    pub fn mismatch(&self, pod: &PodConstraints) -> Option<NodeMismatch> {
        let tolerated = |taint: &Taint| pod.tolerations.iter().any(|one| one.tolerates(taint));
        let cordon = Taint {
            key: UNSCHEDULABLE.to_owned(),
            value: String::new(),
            effect: "NoSchedule".to_owned(),
        };
        if self.unschedulable && !tolerated(&cordon) {
            return Some(NodeMismatch::Unschedulable);
        }
        let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        let mut taints = self.taints.iter().filter(hard);
        if let Some(taint) = taints.find(|taint| !tolerated(taint)) {
            return Some(NodeMismatch::Taint(taint.clone()));
        }
        match pod.selector.matches(&self.name, &self.labels) {
            true => None,
            false => Some(NodeMismatch::NotSelected),
        }
    }
}

fn toleration(field: &FieldRef<'_>, report: &mut DiagnosticReport) -> Toleration {
    let mut text = |key: &str| {
        field
            .get_text(key, "text", report)
            .unwrap_or_default()
            .to_owned()
    };
    Toleration {
        key: text("key"),
        any_value: text("operator") == "Exists",
        value: text("value"),
        effect: text("effect"),
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

/// The fields of the spec that kube-scheduler checks and this crate does not.
fn unchecked_fields(spec: &FieldRef<'_>, report: &mut DiagnosticReport) -> Vec<&'static str> {
    let mut found = Vec::new();
    let affinity = spec.get("affinity");
    for (key, name) in [
        ("podAffinity", "pod affinity"),
        ("podAntiAffinity", "pod anti-affinity"),
    ] {
        if affinity.as_ref().is_some_and(|own| own.get(key).is_some()) {
            found.push(name);
        }
    }
    if !(spec.get_list("topologySpreadConstraints", "a list", report)).is_empty() {
        found.push("topology spread constraints");
    }
    let volumes = spec.get_list("volumes", "a list", report);
    let claims = ["persistentVolumeClaim", "ephemeral"];
    if (volumes.iter()).any(|volume| claims.iter().any(|key| volume.get(key).is_some())) {
        found.push("volume claims");
    }
    if !(spec.get_list("resourceClaims", "a list", report)).is_empty() {
        found.push("resource claims");
    }
    let containers = spec.get_list("containers", "a list", report);
    let mut ports = containers
        .iter()
        .flat_map(|container| container.get_list("ports", "a list", report));
    if ports.any(|port| port.get("hostPort").is_some()) {
        found.push("host ports");
    }
    found
}

#[cfg(test)]
mod tests;
