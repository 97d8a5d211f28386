//! Volcano's Job: tasks with pods, each with a topology policy that becomes an annotation of its pods.
//!
//! Mirrors `createJobPod`: pods are named `<job>-<task>-<number>`.

use super::expansion::Expansion;
use super::workload::{count_of, required_map};
use crate::manifest::field::FieldRef;
use crate::volcano::POLICY_ANNOTATION;

/// The API group.
pub(super) const GROUP: &str = "batch.volcano.sh";

/// Adds the pods of all tasks.
pub(super) fn expand(to: &mut Expansion<'_>) {
    let object = to.document.root();
    let Some(spec) = required_map(&object, "spec", "a job specification", to.report) else {
        return;
    };
    if spec.get("tasks").is_none() {
        spec.missing("tasks", "a list of tasks", to.report);
    }
    for (i, task) in (0_usize..).zip(spec.get_list("tasks", "a list of tasks", to.report)) {
        expand_task(i, &task, to);
    }
}

fn expand_task(number: usize, task: &FieldRef<'_>, to: &mut Expansion<'_>) {
    let name = task.get_text("name", "the task's name", to.report);
    let name = name.map_or_else(|| format!("default{number}"), str::to_owned);
    let policy = task.get_text("topologyPolicy", "a topology policy", to.report);
    let count = count_of(task, "replicas", to.report).unwrap_or(1);
    let name = format!("{}-{name}", to.owner.name);
    let Some(mut model) = to.template(task, "template", &name) else {
        return;
    };
    if let Some(policy) = policy.filter(|policy| !policy.is_empty()) {
        let annotations = &mut model.meta.annotations;
        annotations.insert(POLICY_ANNOTATION.to_owned(), policy.to_owned());
    }
    to.push_numbered(&model, 0, count);
}
