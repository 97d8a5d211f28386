//! Pods, and objects that create pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::pod::{Pod, ResourceList};

use super::expansion::Expansion;
use super::group_workloads::{self, REPLICA_SPECS};
use super::template_path::{self, TemplatePath};
use super::{
    ObjectMeta, Owner, PodFile, PodObject, container, fields, implied_pods, object_name, pod_level,
    volcano_job,
};
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

/// Kinds that are read by other modules.
#[rustfmt::skip]
const OTHER_KINDS: &[(&str, &str)] = &[
    ("JobSet", "jobset.x-k8s.io"), ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"),
    ("PyTorchJob", "kubeflow.org"), ("TFJob", "kubeflow.org"), ("MPIJob", "kubeflow.org"),
    ("XGBoostJob", "kubeflow.org"), ("PaddleJob", "kubeflow.org"), ("JAXJob", "kubeflow.org"),
    ("MXJob", "kubeflow.org"),
    ("TrainJob", "trainer.kubeflow.org"), ("RayCluster", "ray.io"), ("RayJob", "ray.io"), ("RayService", "ray.io"),
    ("VirtualMachine", "kubevirt.io"), ("VirtualMachineInstance", "kubevirt.io"),
];

/// Adds the pods of the object, or counts it as one without pods.
pub(super) fn expand(
    document: &Document,
    paths: &[TemplatePath],
    file: &mut PodFile,
    report: &mut DiagnosticReport,
) {
    let (group, _) = document.api_version().rsplit_once('/').unwrap_or_default();
    let kind = KINDS.iter().find(|kind| kind.name == document.kind());
    let is_volcano = document.kind() == "Job" && group == volcano_job::GROUP;
    let is_other = OTHER_KINDS.contains(&(document.kind(), group));
    match kind {
        // The names of custom resources have dots in their group.
        Some(kind) if kind.groups.contains(&group) => expand_known(kind, document, file, report),
        Some(kind) if !group.contains('.') => reject_group(kind, document, report),
        _ if is_volcano || is_other => {
            if let Some(mut to) = expansion(document, file, report) {
                expand_other(&mut to);
            }
        }
        _ => expand_unknown(document, paths, file, report),
    }
}

fn expand_known(
    kind: &WorkloadKind,
    document: &Document,
    file: &mut PodFile,
    report: &mut DiagnosticReport,
) {
    let Some(mut to) = expansion(document, file, report) else {
        return;
    };
    if !kind.controller.is_empty() {
        return expand_template(kind, &mut to);
    }
    let object = document.root();
    if let Some(spec) = required_map(&object, "spec", "a pod specification", to.report) {
        let pod = pod(&to.owner, &spec, None, document, to.report);
        to.file.pods.extend(pod);
    }
}

/// The object with its metadata; `None` if that is invalid.
fn expansion<'a>(
    document: &'a Document,
    file: &'a mut PodFile,
    report: &'a mut DiagnosticReport,
) -> Option<Expansion<'a>> {
    let object = document.root();
    let mut owner = ObjectMeta::read(&object, report)?;
    document.file().clone_into(&mut owner.origin.file);
    object_name::check(&object, &owner, report).then_some(Expansion {
        document,
        owner,
        file,
        report,
    })
}

fn expand_other(to: &mut Expansion<'_>) {
    let kind = to.document.kind();
    match kind {
        "JobSet" => group_workloads::job_set(to),
        "LeaderWorkerSet" => group_workloads::leader_worker_set(to),
        "RayCluster" => group_workloads::ray_cluster(None, to),
        "RayJob" => group_workloads::ray_cluster(Some("rayClusterSpec"), to),
        "RayService" => group_workloads::ray_cluster(Some("rayClusterConfig"), to),
        "TrainJob" => implied_pods::train_job(to),
        "VirtualMachine" | "VirtualMachineInstance" => implied_pods::virtual_machine(to),
        _ => match REPLICA_SPECS.iter().find(|(name, _)| *name == kind) {
            Some((_, field)) => group_workloads::training_job(field, to),
            None => volcano_job::expand(to),
        },
    }
}

/// Adds the pods of the templates at `paths`, or of a pod template at `.spec.template`, where most controllers have it. An
/// object without any is counted; if its kind is almost a known one, or if it seems to have a template elsewhere, the
/// report says so.
fn expand_unknown(
    document: &Document,
    paths: &[TemplatePath],
    file: &mut PodFile,
    report: &mut DiagnosticReport,
) {
    let (object, kind) = (document.root(), document.kind());
    let has_some = |path: &&TemplatePath| template_path::has_template(path, &object);
    let mut used = paths.iter().filter(has_some).peekable();
    if used.peek().is_some() {
        if let Some(mut to) = expansion(document, file, report) {
            for path in used {
                template_path::expand(path, &mut to);
            }
        }
        return;
    }
    let Some(field) = object.get("kind") else {
        return;
    };
    let guess = template_path::guess(&object);
    let spec = object.get("spec");
    let has_pods = guess.is_some() || spec.is_some_and(|spec| spec.get("containers").is_some());
    let known = KINDS.iter().map(|kind| kind.name);
    let known = known.chain(OTHER_KINDS.iter().map(|kind| kind.0));
    if has_pods && let Some(meant) = suggest::nearest(kind, known).filter(|meant| *meant != kind) {
        let hint = Some(format!("did you mean {meant:?}?"));
        return field.unexpected_with("a kind that has pods", hint, report);
    }
    match guess {
        Some(path) if path == TemplatePath::USUAL && paths.is_empty() => {
            if let Some(mut to) = expansion(document, file, report) {
                to.warn(format!(
                    "{kind} {}: its kind is not known; assumed are the pods of {path}, as many as replicas says",
                    to.owner.name
                ));
                template_path::expand(&TemplatePath::usual(), &mut to);
            }
        }
        Some(path) => {
            file.without_pods.add(kind);
            let hint = Some(format!("--pod-template-path {path} reads it"));
            let kind = kind.to_owned();
            field.warn(DiagnosticKind::UnreadTemplate { kind, path }, hint, report);
        }
        None => file.without_pods.add(kind),
    }
}

fn reject_group(kind: &WorkloadKind, document: &Document, report: &mut DiagnosticReport) {
    let message = format!(
        "no matches for kind {:?} in version {:?}",
        kind.name,
        document.api_version()
    );
    let hint = Some(format!("use {}", kind.api_version));
    let object = document.root();
    let at = object.get("apiVersion").and_then(|field| field.at());
    report.error(at, "apiVersion", DiagnosticKind::Rejected(message), hint);
}

fn expand_template(kind: &WorkloadKind, to: &mut Expansion<'_>) {
    let mut controller = to.document.root();
    for step in kind.controller {
        match required_map(&controller, step, "a mapping", to.report) {
            Some(next) => controller = next,
            None => return,
        }
    }
    let count = match kind.count {
        Some("parallelism") => job_count(&controller, to.report),
        Some(field) => count_of(&controller, field, to.report).unwrap_or(1),
        None => 1,
    };
    let first = first_ordinal(kind, &controller, to.report);
    let name = to.owner.name.clone();
    if let Some(model) = to.template(&controller, "template", &name) {
        to.push_numbered(&model, first, count);
    }
}

/// The number of a job's pods that run at the same time.
pub(super) fn job_count(job: &FieldRef<'_>, report: &mut DiagnosticReport) -> u64 {
    let count = count_of(job, "parallelism", report).unwrap_or(1);
    count_of(job, "completions", report).map_or(count, |most| count.min(most))
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
        constraints: Arc::new(PodConstraints::of_spec(spec, document, report)),
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
