//! Pods that nodes rejected in the last hour, and why.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::evidence::Evidence;
use super::finding::{Finding, Grouped, Severity};

/// Events that this check reads: the reasons of rejected pods, of kubelets, agents and the scheduler.
pub(super) const EVENTS: &[&str] = &[
    "TopologyAffinityError",
    "SMTAlignmentError",
    "EmptyPodSharedPoolError",
    "UnexpectedAdmissionError",
    "OutOfcpu",
    "OutOfmemory",
    "PinfoldRejected",
    "NodeWillReject",
];
/// How long a rejection counts.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// One finding for each reason and message.
pub(super) fn rejected(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    let is_rejection = |reason: &str| EVENTS.contains(&reason) || reason.starts_with("OutOf");
    let mut add = |node: Option<&str>, pod: &str, reason: &str, message: &str| {
        let remedy = match reason {
            "NodeWillReject" => {
                "let one scheduler place all pods with NUMA needs: schedulerName of this pod is another"
            }
            "PinfoldRejected" => "`pinfold journal` on the node has the facts of the decision",
            _ => {
                "schedulerName: pinfold keeps pods off nodes that reject them; \
                 `kubectl pinfold explain pod` says what would fit"
            }
        };
        let problem = match message.is_empty() {
            true => reason.to_owned(),
            false => format!("{reason}: {message}"),
        };
        found.pod(Severity::Warning, (node, pod), problem, remedy);
    };
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for pod in &evidence.pods {
        let at = pod.started.or(pod.created);
        if pod.phase == "Failed" && is_rejection(&pod.reason) && evidence.is_recent(at, RECENT) {
            add(pod.node.as_deref(), &pod.name, &pod.reason, &pod.message);
            seen.insert((&pod.name, &pod.reason));
        }
    }
    for event in &evidence.events {
        let is_known = seen.contains(&(event.object.as_str(), event.reason.as_str()));
        if event.kind == "Pod"
            && !is_known
            && EVENTS.contains(&event.reason.as_str())
            && evidence.is_recent(event.last, RECENT)
        {
            add(
                event.host.as_deref(),
                &event.object,
                &event.reason,
                &event.message,
            );
        }
    }
    found.finish()
}
