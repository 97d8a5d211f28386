//! Pods that nodes rejected in the last hour, and why.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::evidence::{Evidence, PodFacts};
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
/// The scheduler that binds no pod to a node that will reject it; a name that the Helm chart can change.
const OUR_SCHEDULER: &str = "pinfold";

/// Pods that Pinfold's scheduler expected to start, and that their nodes rejected.
pub(super) fn mispredicted(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for pod in rejected_pods(evidence).filter(|pod| pod.scheduler == OUR_SCHEDULER) {
        found.pod(
            Severity::Warning,
            (pod.node.as_deref(), &pod.name),
            format!(
                "Pinfold's scheduler expected the pod to start, its node said {}",
                sentence(pod)
            ),
            "`kubectl pinfold explain pod` with this node says whether its report is the reason; \
             if not, report it with `kubectl pinfold snapshot`",
        );
    }
    found.finish()
}

fn sentence(pod: &PodFacts) -> String {
    match pod.message.is_empty() {
        true => pod.reason.clone(),
        false => format!("{}: {}", pod.reason, pod.message),
    }
}

/// Pods that kubelets rejected in the last hour.
fn rejected_pods(evidence: &Evidence) -> impl Iterator<Item = &PodFacts> {
    let is_rejection = |reason: &str| EVENTS.contains(&reason) || reason.starts_with("OutOf");
    evidence.pods.iter().filter(move |pod| {
        let at = pod.started.or(pod.created);
        pod.phase == "Failed" && is_rejection(&pod.reason) && evidence.is_recent(at, RECENT)
    })
}

/// One finding for each reason and message.
pub(super) fn rejected(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
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
    for pod in rejected_pods(evidence) {
        seen.insert((&pod.name, &pod.reason));
        if pod.scheduler != OUR_SCHEDULER {
            add(pod.node.as_deref(), &pod.name, &pod.reason, &pod.message);
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
