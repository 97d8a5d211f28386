//! The reports of nodes: out of date, invalid, without a node, written by several programs.

use jiff::SignedDuration;

use super::evidence::Evidence;
use super::finding::{Finding, Grouped, Severity};

/// Events that these checks read.
pub(super) const EVENTS: &[&str] = &[OTHER_WRITER];
const OTHER_WRITER: &str = "OtherWriter";
/// How long after the start of a pod its node may take to report it.
const GRACE: SignedDuration = SignedDuration::from_secs(60);
/// How long an event counts.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// Reports that lack a running pod with exclusive CPUs.
pub(super) fn stale(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (pod, node, report) in evidence.pods_with_cpus() {
        let age = pod.started.map(|start| evidence.now.duration_since(start));
        let is_lacking = match (&report.pods, report.written, pod.started) {
            (Some(pods), _, _) => !pods.contains_key(&pod.uid),
            (None, Some(written), Some(started)) => started.duration_since(written) > GRACE,
            _ => false,
        };
        if is_lacking && age.is_some_and(|age| age > GRACE) {
            found.pod(
                Severity::Error,
                (Some(node), &pod.name),
                "the report lacks a pod that has run for more than a minute".to_owned(),
                "check that the agent runs (pinfold status); if none does, delete the report or install the agent",
            );
        }
    }
    found.finish()
}

/// Reports of nodes that do not exist.
pub(super) fn orphaned(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    let reports = evidence.reports.keys();
    // Without the right to list nodes, all nodes would be missing.
    for name in
        reports.filter(|name| !evidence.nodes.is_empty() && !evidence.nodes.contains_key(*name))
    {
        found.node(
            Severity::Warning,
            name,
            "a report without a Node".to_owned(),
            "kubectl delete noderesourcetopologies NODE",
        );
    }
    found.finish()
}

/// Objects that cannot be read.
pub(super) fn invalid(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (name, why) in &evidence.invalid {
        found.node(
            Severity::Error,
            name,
            format!("its report or object is invalid: {why}"),
            "correct or delete the object; the scheduler rejects pods with NUMA needs on a node with an invalid report",
        );
    }
    found.finish()
}

/// Reports that another program than the agent writes.
pub(super) fn other_writers(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (node, report) in &evidence.reports {
        for writer in &report.writers {
            match report.is_ours {
                true => found.node(
                    Severity::Error,
                    node,
                    format!("{writer} and pinfold-agent write the same report"),
                    "stop one of them, then delete the report; kubernetes.otherWriters says who gives way meanwhile",
                ),
                false => found.node(
                    Severity::Info,
                    node,
                    format!("the report is written by {writer}, which lists amounts and no pods"),
                    "decisions about some pods are uncertain with such reports; run pinfold-agent to have all data",
                ),
            }
        }
    }
    // The agent's events know of Numatopologies too; `managedFields` are missing in files.
    for event in &evidence.events {
        let report = evidence.reports.get(&event.object);
        let is_known = report.is_some_and(|report| !report.writers.is_empty());
        if event.reason == OTHER_WRITER && !is_known && evidence.is_recent(event.last, RECENT) {
            let remedy = "stop one of the programs, then delete the object that both write";
            found.node(
                Severity::Error,
                &event.object,
                event.message.clone(),
                remedy,
            );
        }
    }
    found.finish()
}
