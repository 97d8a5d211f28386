//! Volcano's Job: tasks with pods, each with a topology policy that becomes an annotation of its pods.
//!
//! Mirrors `createJobPod`: pods are named `<job>-<task>-<number>`.

use super::workload::{count_of, pod, push_replicas, required_map};
use super::{ObjectMeta, Owner, PodObject};
use crate::diagnostic::DiagnosticReport;
use crate::manifest::Document;
use crate::manifest::field::FieldRef;
use crate::volcano::POLICY_ANNOTATION;

/// The API group.
pub(super) const GROUP: &str = "batch.volcano.sh";

/// Adds the pods of all tasks.
pub(super) fn expand(
    job: &ObjectMeta,
    document: &Document,
    pods: &mut Vec<PodObject>,
    report: &mut DiagnosticReport,
) {
    let object = document.root();
    let Some(spec) = required_map(&object, "spec", "a job specification", report) else {
        return;
    };
    if spec.get("tasks").is_none() {
        spec.missing("tasks", "a list of tasks", report);
    }
    for (i, task) in (0_usize..).zip(spec.get_list("tasks", "a list of tasks", report)) {
        expand_task(job, i, &task, document, pods, report);
    }
}

fn expand_task(
    job: &ObjectMeta,
    number: usize,
    task: &FieldRef<'_>,
    document: &Document,
    pods: &mut Vec<PodObject>,
    report: &mut DiagnosticReport,
) {
    let name = task.get_text("name", "the task's name", report);
    let name = name.map_or_else(|| format!("default{number}"), str::to_owned);
    let policy = task.get_text("topologyPolicy", "a topology policy", report);
    let count = count_of(task, "replicas", report).unwrap_or(1);
    let Some(template) = required_map(task, "template", "a pod template", report) else {
        return;
    };
    let Some(spec) = required_map(&template, "spec", "a pod specification", report) else {
        return;
    };
    let mut meta = template
        .get_map("metadata", "a mapping", report)
        .map(|meta| ObjectMeta::read_template(&meta, report))
        .unwrap_or_default();
    meta.namespace.clone_from(&job.namespace);
    meta.name = format!("{}-{name}", job.name);
    meta.uid = None;
    meta.origin.file.clone_from(&job.origin.file);
    if let Some(policy) = policy.filter(|policy| !policy.is_empty()) {
        let annotations = &mut meta.annotations;
        annotations.insert(POLICY_ANNOTATION.to_owned(), policy.to_owned());
    }
    let owner = Owner {
        kind: "Job".to_owned(),
        name: job.name.clone(),
    };
    if let Some(model) = pod(&meta, &spec, Some(owner), document, report) {
        push_replicas(&model, 0, count, document, pods, report);
    }
}
