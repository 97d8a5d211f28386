//! Pods, and objects that create pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::pod::{Pod, ResourceList};

use super::{MAX_PODS, ObjectMeta, Owner, PodObject, container, fields, pod_level, volcano_job};
use crate::diagnostic::{DiagnosticKind, DiagnosticReport};
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::scheduling_constraints::PodConstraints;
use crate::suggest;

/// A kind of object that creates pods.
struct WorkloadKind {
    name: &'static str,
    /// The API groups of the kind.
    groups: &'static [&'static str],
    /// The current API version.
    api_version: &'static str,
    /// The path from the object to the spec with the pod template and the number of pods.
    controller: &'static [&'static str],
    /// The field with the number of pods; `None` for exactly one pod.
    count: Option<&'static str>,
}

const KINDS: &[WorkloadKind] = &[
    WorkloadKind {
        name: "Pod",
        groups: &[""],
        api_version: "v1",
        controller: &[],
        count: None,
    },
    WorkloadKind {
        name: "Deployment",
        groups: &["apps", "extensions"],
        api_version: "apps/v1",
        controller: &["spec"],
        count: Some("replicas"),
    },
    WorkloadKind {
        name: "ReplicaSet",
        groups: &["apps", "extensions"],
        api_version: "apps/v1",
        controller: &["spec"],
        count: Some("replicas"),
    },
    WorkloadKind {
        name: "ReplicationController",
        groups: &[""],
        api_version: "v1",
        controller: &["spec"],
        count: Some("replicas"),
    },
    WorkloadKind {
        name: "StatefulSet",
        groups: &["apps"],
        api_version: "apps/v1",
        controller: &["spec"],
        count: Some("replicas"),
    },
    WorkloadKind {
        name: "DaemonSet",
        groups: &["apps", "extensions"],
        api_version: "apps/v1",
        controller: &["spec"],
        count: None,
    },
    WorkloadKind {
        name: "Job",
        groups: &["batch"],
        api_version: "batch/v1",
        controller: &["spec"],
        count: Some("parallelism"),
    },
    WorkloadKind {
        name: "CronJob",
        groups: &["batch"],
        api_version: "batch/v1",
        controller: &["spec", "jobTemplate", "spec"],
        count: Some("parallelism"),
    },
];

/// Kinds without pods that are often in the same file.
#[rustfmt::skip]
const WITHOUT_PODS: &[&str] = &[
    "ClusterRole", "ClusterRoleBinding", "ConfigMap", "CustomResourceDefinition", "Endpoints",
    "HorizontalPodAutoscaler", "Ingress", "LimitRange", "Namespace", "NetworkPolicy", "Node",
    "NodeResourceTopology", "Numatopology", "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "PriorityClass", "ResourceQuota",
    "Role", "RoleBinding", "RuntimeClass", "Secret", "Service", "ServiceAccount", "StorageClass",
];

/// Adds the pods of the object.
pub(super) fn expand(
    document: &Document,
    pods: &mut Vec<PodObject>,
    report: &mut DiagnosticReport,
) {
    let object = document.root();
    let Some(kind) = KINDS.iter().find(|kind| kind.name == document.kind()) else {
        return reject_kind(document, report);
    };
    let (group, _) = document.api_version().rsplit_once('/').unwrap_or_default();
    if kind.name == "Job" && group == volcano_job::GROUP {
        return expand_volcano_job(document, pods, report);
    }
    if !kind.groups.contains(&group) {
        let message = format!(
            "no matches for kind {:?} in version {:?}",
            kind.name,
            document.api_version()
        );
        let hint = Some(format!("use {}", kind.api_version));
        let at = object.get("apiVersion").and_then(|field| field.at());
        return report.error(at, "apiVersion", DiagnosticKind::Rejected(message), hint);
    }
    let Some(mut meta) = ObjectMeta::read(&object, report) else {
        return;
    };
    document.file().clone_into(&mut meta.origin.file);
    if kind.controller.is_empty() {
        if let Some(spec) = required_map(&object, "spec", "a pod specification", report) {
            pods.extend(pod(&meta, &spec, None, document, report));
        }
        return;
    }
    expand_template(kind, &meta, document, pods, report);
}

fn expand_volcano_job(
    document: &Document,
    pods: &mut Vec<PodObject>,
    report: &mut DiagnosticReport,
) {
    if let Some(mut meta) = ObjectMeta::read(&document.root(), report) {
        document.file().clone_into(&mut meta.origin.file);
        volcano_job::expand(&meta, document, pods, report);
    }
}

fn expand_template(
    kind: &WorkloadKind,
    meta: &ObjectMeta,
    document: &Document,
    pods: &mut Vec<PodObject>,
    report: &mut DiagnosticReport,
) {
    let mut controller = document.root();
    for step in kind.controller {
        match required_map(&controller, step, "a mapping", report) {
            Some(next) => controller = next,
            None => return,
        }
    }
    let count = count(kind, &controller, report);
    let first = first_ordinal(kind, &controller, report);
    let Some(template) = required_map(&controller, "template", "a pod template", report) else {
        return;
    };
    let Some(spec) = required_map(&template, "spec", "a pod specification", report) else {
        return;
    };
    let mut own = template
        .get_map("metadata", "a mapping", report)
        .map(|meta| ObjectMeta::read_template(&meta, report))
        .unwrap_or_default();
    own.origin.file.clone_from(&meta.origin.file);
    let owner = Owner {
        kind: kind.name.to_owned(),
        name: meta.name.clone(),
    };
    let of_template = ObjectMeta {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: None,
        ..own
    };
    let Some(model) = pod(&of_template, &spec, Some(owner), document, report) else {
        return;
    };
    push_replicas(&model, first, count, document, pods, report);
}

/// Adds `count` copies of the pod `model`, numbered from `first`.
pub(super) fn push_replicas(
    model: &PodObject,
    first: u64,
    count: u64,
    document: &Document,
    pods: &mut Vec<PodObject>,
    report: &mut DiagnosticReport,
) {
    let room = u64::try_from(MAX_PODS.saturating_sub(pods.len())).unwrap_or(0);
    if count > room {
        let problem = DiagnosticKind::TooComplex(format!("more than {MAX_PODS} pods in one file"));
        return report.error(document.at(), "spec", problem, None);
    }
    for i in 0..count {
        pods.push(replica(model, first.saturating_add(i)));
    }
}

/// The copy with this number.
fn replica(model: &PodObject, number: u64) -> PodObject {
    let mut pod = model.clone();
    pod.meta.name = format!("{}-{number}", model.meta.name);
    let full_name = pod.meta.full_name();
    pod.pod.uid = full_name.as_str().into();
    pod.pod.name = full_name;
    pod
}

/// The number of pods that run at the same time.
fn count(kind: &WorkloadKind, controller: &FieldRef<'_>, report: &mut DiagnosticReport) -> u64 {
    let mut number = |key: &str| count_of(controller, key, report);
    let Some(field) = kind.count else {
        return 1;
    };
    let count = number(field).unwrap_or(1);
    match field {
        "parallelism" => number("completions").map_or(count, |most| count.min(most)),
        _ => count,
    }
}

/// The number of pods under `key`.
pub(super) fn count_of(
    parent: &FieldRef<'_>,
    key: &str,
    report: &mut DiagnosticReport,
) -> Option<u64> {
    let field = parent.get(key)?;
    let number = field.integer("a whole number of pods", report)?;
    match u64::try_from(number) {
        Ok(number) => Some(number),
        Err(_) => {
            let message = format!("Invalid value: {number}: must be greater than or equal to 0");
            field.rejected(message, report);
            None
        }
    }
}

/// The ordinal of a StatefulSet's first pod.
fn first_ordinal(
    kind: &WorkloadKind,
    controller: &FieldRef<'_>,
    report: &mut DiagnosticReport,
) -> u64 {
    let start = match kind.name {
        "StatefulSet" => controller
            .get_map("ordinals", "a mapping", report)
            .and_then(|ordinals| ordinals.get("start"))
            .and_then(|start| start.integer("a whole number", report)),
        _ => None,
    };
    start
        .and_then(|start| u64::try_from(start).ok())
        .unwrap_or(0)
}

pub(super) fn pod(
    meta: &ObjectMeta,
    spec: &FieldRef<'_>,
    owner: Option<Owner>,
    document: &Document,
    report: &mut DiagnosticReport,
) -> Option<PodObject> {
    spec.warn_unknown(fields::POD_SPEC, report);
    let mut names = BTreeMap::new();
    let init_containers = container::read_all(spec, "initContainers", &mut names, report);
    let containers = container::read_all(spec, "containers", &mut names, report);
    if spec.get("containers").is_none() {
        spec.missing("containers", "a list of containers", report);
        return None;
    }
    if containers.is_empty() {
        // Either the list is empty, or there are errors about its items.
        if spec
            .get_list("containers", "a list", &mut DiagnosticReport::new(""))
            .is_empty()
        {
            spec.missing("containers", "at least one container", report);
        }
        return None;
    }
    let section = spec.get_map("resources", "a mapping with requests and limits", report);
    let resources = section
        .map(|section| pod_level::read(&section, &init_containers, &containers, report))
        .unwrap_or_default();
    let text = |key: &str, what: &str, report: &mut DiagnosticReport| {
        spec.get_text(key, what, report).map(str::to_owned)
    };
    let full_name = meta.full_name();
    let uid = meta.uid.as_ref().unwrap_or(&full_name);
    Some(PodObject {
        pod: Pod {
            uid: uid.as_str().into(),
            name: full_name.clone(),
            init_containers,
            containers,
            pod_requests: resources.requests,
            pod_limits: resources.limits,
        },
        meta: meta.clone(),
        node_name: text("nodeName", "the name of a node", report),
        scheduler_name: text("schedulerName", "the name of a scheduler", report),
        priority: spec
            .get("priority")
            .and_then(|priority| priority.small_integer("a priority", report)),
        overhead: overhead(spec, report),
        constraints: Arc::new(PodConstraints::of_spec(spec, document)),
        owner,
        at: document.at(),
    })
}

/// The overhead of the pod's runtime class.
fn overhead(spec: &FieldRef<'_>, report: &mut DiagnosticReport) -> ResourceList {
    let list = spec.get_map("overhead", "amounts by resource", report);
    let amounts = list.iter().flat_map(FieldRef::members);
    amounts
        .filter_map(|(name, amount)| Some((name.into(), amount.quantity(report)?)))
        .collect()
}

pub(super) fn required_map<'n>(
    parent: &FieldRef<'n>,
    key: &str,
    what: &str,
    report: &mut DiagnosticReport,
) -> Option<FieldRef<'n>> {
    if parent.get(key).is_none() {
        parent.missing(key, what, report);
    }
    parent.get_map(key, what, report)
}

fn reject_kind(document: &Document, report: &mut DiagnosticReport) {
    let kind = document.kind();
    let object = document.root();
    let Some(field) = object.get("kind") else {
        return;
    };
    if WITHOUT_PODS.contains(&kind) {
        return field.warn(DiagnosticKind::NoPods(kind.to_owned()), None, report);
    }
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    let expected = "a kind that has pods";
    field.unexpected_with(expected, Some(suggest::hint(kind, &names)), report);
}
