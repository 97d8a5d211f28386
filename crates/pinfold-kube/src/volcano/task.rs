//! A pod as a task of Volcano's scheduler.

use std::sync::Arc;

use pinfold_cluster::volcano::VolcanoDefects;
use pinfold_cluster::volcano::predicate::VolcanoTask;
use pinfold_core::fidelity::Fidelity;

use crate::diagnostic::{Diagnostic, DiagnosticKind, WithWarnings};
use crate::meta::TextKind;
use crate::pod::PodObject;
use crate::suggest;

/// The annotation with a pod's topology policy.
pub const POLICY_ANNOTATION: &str = "volcano.sh/numa-topology-policy";

/// The policies that a node can report.
const POLICIES: [&str; 4] = ["none", "best-effort", "restricted", "single-numa-node"];

/// The policy names of the first design.
const OLD: [(&str, &str); 2] = [("strict", "restricted"), ("preferred", "best-effort")];

/// The pod with its topology policy. Any text is a policy, though only a node that reports the same text admits the
/// pod; sound mode reads the names of the first design and warns about policies that no node reports.
#[must_use]
pub fn task(pod: &PodObject, fidelity: Fidelity) -> WithWarnings<VolcanoTask> {
    let text = pod.meta.annotations.get(POLICY_ANNOTATION);
    let mut task = VolcanoTask {
        pod: Arc::new(pod.pod.clone()),
        policy: text.cloned(),
    };
    let mut warnings = Vec::new();
    if let Some(text) = text
        && !fidelity.accepts_any_policy_text()
        && !text.is_empty()
        && !POLICIES.contains(&text.as_str())
    {
        let old = OLD.iter().find(|(old, _)| old == text);
        let (problem, hint) = match old {
            Some((old, today)) => (
                DiagnosticKind::OldSpelling {
                    found: format!("{old:?}"),
                    read_as: format!("{today:?}"),
                },
                format!("write {today:?}"),
            ),
            None => (
                DiagnosticKind::Unexpected {
                    expected: "a topology policy".to_owned(),
                    found: format!("{text:?}"),
                },
                suggest::hint(text, &POLICIES),
            ),
        };
        let (at, path) = pod
            .meta
            .position_of(TextKind::Annotation, POLICY_ANNOTATION);
        warnings.push(Diagnostic {
            file: pod.meta.origin.file.clone(),
            at,
            object: Some(format!("Pod/{}", pod.meta.full_name())),
            path,
            within: None,
            problem,
            hint: Some(hint),
        });
        if let Some((_, today)) = old {
            task.policy = Some((*today).to_owned());
        }
    }
    WithWarnings {
        value: task,
        warnings,
    }
}
