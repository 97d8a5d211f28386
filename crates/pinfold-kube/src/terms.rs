//! What a pod and a node say about each other apart from resources: selectors, taints, cordons.
//!
//! The stock scheduler looks at these before anybody is asked about NUMA nodes. [`NodeTerms::bar`] repeats its filters
//! `NodeUnschedulable`, `NodeName`, `TaintToleration` and `NodeAffinity`; what it does not repeat is listed in
//! [`PodTerms::unchecked`].

use std::collections::BTreeMap;
use std::fmt;

use crate::finding::Report;
use crate::manifest::Document;
use crate::manifest::place::Place;

mod selector;

pub use selector::Selector;

/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// On pods that a kubelet runs without having been asked by anybody.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// What a pod says about nodes, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTerms {
    /// Which nodes it wants.
    pub selector: Selector,
    /// The taints it does not mind.
    pub tolerations: Vec<Toleration>,
    /// Whether it has ended: it is counted nowhere any more.
    pub finished: bool,
    /// Whether it is on its way out.
    pub leaving: bool,
    /// Whether it belongs to the node it is on: of a daemon set, or the kubelet's own.
    pub tied: bool,
    /// What its scheduler last said about it.
    pub said: Option<String>,
    /// Words of its specification that the scheduler looks at and nobody here does.
    pub unchecked: Vec<&'static str>,
}

/// What a node says about pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTerms {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What keeps pods away.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub unschedulable: bool,
}

/// What keeps pods away from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    pub effect: String,
}

/// A taint that a pod does not mind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// The key; empty for all.
    pub key: String,
    /// Whether any value will do.
    pub any_value: bool,
    /// The value.
    pub value: String,
    /// The effect; empty for all.
    pub effect: String,
}

/// Why a pod may not go to a node, whatever there is to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bar {
    /// The node is cordoned.
    Unschedulable,
    /// The node has a taint that the pod does not tolerate.
    Taint(Taint),
    /// The node is none of those that the pod selects.
    NotSelected,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bar::Unschedulable => f.write_str("cordoned: takes no new pods"),
            Bar::Taint(taint) => write!(f, "taint {taint}, which the pod does not tolerate"),
            Bar::NotSelected => f.write_str("not among the nodes that the pod selects"),
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

impl PodTerms {
    /// Reads a pod, or the template of something that makes pods. What is not as it should be is as if it were not there:
    /// the API server would not have taken it.
    #[must_use]
    pub fn read(document: &Document) -> Self {
        let report = &mut Report::new(document.file());
        let object = document.place();
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
        let phase = status.as_ref().and_then(|status| status.get("phase"));
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
                .map(|place| toleration(place, report))
                .collect(),
            finished: phase
                .is_some_and(|phase| phase.is_text("Succeeded") || phase.is_text("Failed")),
            leaving: meta
                .and_then(|meta| meta.get("deletionTimestamp"))
                .is_some(),
            tied: mirrored
                || owned_by("DaemonSet")
                || owned_by("Node")
                || document.kind() == "DaemonSet",
            said: status.and_then(|status| said(&status, report)),
            unchecked: unchecked(&spec, report),
        }
    }
}

impl NodeTerms {
    /// Reads a node.
    #[must_use]
    pub fn read(document: &Document) -> Self {
        let report = &mut Report::new(document.file());
        let object = document.place();
        let text = |place: &Place<'_>, key: &str, report: &mut Report| {
            place
                .get_text(key, "text", report)
                .unwrap_or_default()
                .to_owned()
        };
        let mut terms = Self::default();
        if let Some(meta) = object.get("metadata") {
            terms.name = text(&meta, "name", report);
            if let Some(labels) = meta.get("labels") {
                let labels = labels.members();
                terms.labels = labels
                    .filter_map(|(key, value)| Some((key, value.text("text", report)?)))
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .collect();
            }
        }
        if let Some(spec) = object.get("spec") {
            let cordon = spec.get("unschedulable");
            terms.unschedulable = cordon
                .and_then(|place| place.boolean("true or false", report))
                .unwrap_or(false);
            let taints = spec.get_list("taints", "a list", report);
            terms.taints = taints
                .iter()
                .map(|place| Taint {
                    key: text(place, "key", report),
                    value: text(place, "value", report),
                    effect: text(place, "effect", report),
                })
                .collect();
        }
        terms
    }

    /// Why the pod may not come here; `None` if nothing stands in its way but resources.
    #[must_use]
    pub fn bar(&self, pod: &PodTerms) -> Option<Bar> {
        let tolerated = |taint: &Taint| pod.tolerations.iter().any(|one| one.tolerates(taint));
        let cordon = Taint {
            key: UNSCHEDULABLE.to_owned(),
            value: String::new(),
            effect: "NoSchedule".to_owned(),
        };
        if self.unschedulable && !tolerated(&cordon) {
            return Some(Bar::Unschedulable);
        }
        let hard = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        let mut taints = self.taints.iter().filter(hard);
        if let Some(taint) = taints.find(|taint| !tolerated(taint)) {
            return Some(Bar::Taint(taint.clone()));
        }
        match pod.selector.matches(&self.name, &self.labels) {
            true => None,
            false => Some(Bar::NotSelected),
        }
    }
}

fn toleration(place: &Place<'_>, report: &mut Report) -> Toleration {
    let mut text = |key: &str| {
        place
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
fn said(status: &Place<'_>, report: &mut Report) -> Option<String> {
    let conditions = status.get_list("conditions", "a list", report);
    let scheduled = conditions.iter().find(|condition| {
        let is = |key: &str, text: &str| condition.get(key).is_some_and(|own| own.is_text(text));
        is("type", "PodScheduled") && is("status", "False")
    })?;
    let message = scheduled.get_text("message", "text", report)?;
    (!message.is_empty()).then(|| message.to_owned())
}

/// What of the specification matters to the scheduler and not here.
fn unchecked(spec: &Place<'_>, report: &mut Report) -> Vec<&'static str> {
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
