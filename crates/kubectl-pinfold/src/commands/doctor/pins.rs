//! Pods that should be pinned and are not.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use super::evidence::Evidence;
use super::finding::{Finding, Grouped, Severity};

/// Events that these checks read.
pub(super) const EVENTS: &[&str] = &["StartedUnpinned", "CgroupConflict", "CPUsNotApplied"];
/// How long an event counts.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// Pods with a right to exclusive CPUs on nodes that give them none, and pods whose agent says that they are not pinned.
pub(super) fn not_pinned(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    let running = evidence.pods.iter().filter(|pod| pod.phase == "Running");
    let running: BTreeMap<&str, _> = running.map(|pod| (pod.name.as_str(), pod)).collect();
    for event in &evidence.events {
        if !EVENTS.contains(&event.reason.as_str()) || !evidence.is_recent(event.last, RECENT) {
            continue;
        }
        let Some(pod) = running.get(event.object.as_str()) else {
            continue;
        };
        let problem = format!("{}: {}", event.reason, event.message);
        let remedy =
            "see docs/agent/troubleshoot.md for this event; restart the pod once the cause is gone";
        found.pod(
            Severity::Error,
            (pod.node.as_deref(), &pod.name),
            problem,
            remedy,
        );
    }
    for (pod, node, report) in evidence.pods_with_cpus() {
        let held = report.pods.as_ref().and_then(|pods| pods.get(&pod.uid));
        let is_none = report.cpu_policy.as_deref() == Some("none");
        match held {
            _ if is_none => found.pod(
                Severity::Warning,
                (Some(node), &pod.name),
                "Guaranteed pods with whole CPUs run on shared CPUs: the node's CPU manager policy is none"
                    .to_owned(),
                "set cpuManagerPolicy: static on the node, or run the agent in mode manage",
            ),
            Some(cpus) if cpus.is_empty() => found.pod(
                Severity::Error,
                (Some(node), &pod.name),
                "Guaranteed pods with whole CPUs run on shared CPUs, although the node pins others"
                    .to_owned(),
                "restart the pods: they started while no program pinned, or did not fit when the agent came",
            ),
            _ => {}
        }
    }
    found.finish()
}

/// Pods for which a scheduler chose other CPUs than they have.
pub(super) fn cpus_differ(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for pod in evidence.pods.iter().filter(|pod| pod.phase == "Running") {
        let Some(node) = pod.node.as_deref() else {
            continue;
        };
        let report = evidence.reports.get(node);
        let pods = report.and_then(|report| report.pods.as_ref());
        let Some(held) = pods.and_then(|pods| pods.get(&pod.uid)) else {
            continue;
        };
        if !pod.chosen_cpus.is_empty() && pod.chosen_cpus != *held {
            let problem = format!(
                "the scheduler chose CPUs {}, the node gave {}",
                pod.chosen_cpus,
                match held.is_empty() {
                    true => "none".to_owned(),
                    false => held.to_string(),
                }
            );
            let remedy = "the choice did not fit when the pod started; `pinfold journal` on the node says why";
            found.pod(Severity::Warning, (Some(node), &pod.name), problem, remedy);
        }
    }
    found.finish()
}
