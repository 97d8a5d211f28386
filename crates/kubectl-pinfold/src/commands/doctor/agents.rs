//! The node agents: missing, not ready, silent, without the runtime.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::evidence::{AgentCondition, Evidence, NodeFacts};
use super::finding::{Finding, Grouped, Severity};

/// Events that these checks read.
pub(super) const EVENTS: &[&str] = &[DISCONNECTED];
/// Reason of the condition and of the event about a lost NRI connection.
const DISCONNECTED: &str = "RuntimeDisconnected";
/// How long an event counts as current.
const RECENT: SignedDuration = SignedDuration::from_mins(10);
/// An agent confirms its condition every five minutes; after three of them it is not running.
const SILENT_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// Agents in mode manage without their NRI connection: containers start unpinned.
pub(super) fn runtime_disconnected(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    let problem = "the agent has no NRI connection to the runtime: containers start unpinned";
    let events = evidence
        .events
        .iter()
        .filter(|event| event.reason == DISCONNECTED && evidence.is_recent(event.last, RECENT));
    let lost: BTreeSet<&str> = events.map(|event| event.object.as_str()).collect();
    for (name, node) in &evidence.nodes {
        let condition = node.condition.as_ref();
        let says_so = condition.is_some_and(|one| !one.is_ready && one.reason == DISCONNECTED);
        let is_ready = condition.is_some_and(|one| one.is_ready);
        let was_lost = !is_ready && lost.contains(name.as_str());
        if says_so || was_lost {
            found.node(Severity::Error, name, problem.to_owned(), nri_remedy(node));
        }
    }
    found.finish()
}

/// How NRI is switched on in the node's runtime.
fn nri_remedy(node: &NodeFacts) -> &'static str {
    match node.runtime.split_once("://") {
        Some(("containerd", version)) if version.starts_with("1.7") => {
            "containerd 1.7 has NRI off: set disable = false in the section \
             plugins.\"io.containerd.nri.v1.nri\" of its configuration, and restart containerd"
        }
        Some(("containerd", _)) => {
            "check that plugins.\"io.containerd.nri.v1.nri\" has not disable = true in containerd's \
             configuration, and that runtime.nriSocket of the agent is its socket_path"
        }
        Some(("cri-o", _)) => {
            "set enable_nri = true in the section crio.nri of CRI-O's configuration, and restart it"
        }
        _ => "switch NRI on in the container runtime, or use runtime: {nriSocket: none}",
    }
}

/// Agents that say that they cannot do their work, and agent pods that do not run.
pub(super) fn not_ready(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    let pods = evidence.agent_pods();
    for (name, node) in &evidence.nodes {
        let condition = node.condition.as_ref();
        let remedy = "run `pinfold status` in the agent's pod or on the node, and read its log";
        if let Some(AgentCondition {
            is_ready: false,
            reason,
            message,
            ..
        }) = condition
            && reason != DISCONNECTED
        {
            let problem = format!("the agent is not ready: {reason}: {message}");
            found.node(Severity::Error, name, problem, remedy);
            continue;
        }
        if let Some(pod) = pods.get(name.as_str()).filter(|pod| !pod.is_ready) {
            let why = pod.waiting.as_deref().unwrap_or("it is not ready");
            let problem = format!("the agent's pod does not work: {why}");
            found.pod(Severity::Error, (Some(name), &pod.name), problem, remedy);
        }
    }
    found.finish()
}

/// Nodes whose condition says that the agent is ready, and no agent has confirmed it for some time.
pub(super) fn silent(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (name, node) in &evidence.nodes {
        let ready = node.condition.as_ref().filter(|one| one.is_ready);
        let Some(heartbeat) = ready.and_then(|one| one.heartbeat) else {
            continue;
        };
        if evidence.now.duration_since(heartbeat) > SILENT_AFTER {
            found.node(
                Severity::Error,
                name,
                "the condition PinfoldReady was not confirmed for more than 15 minutes: the agent does not run"
                    .to_owned(),
                "start the agent; until then containers start unpinned in mode manage, and the report is out of date",
            );
        }
    }
    found.finish()
}

/// Nodes without a report, and reports that an agent left behind.
pub(super) fn missing(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    let pods = evidence.agent_pods();
    for (name, node) in evidence
        .nodes
        .iter()
        .filter(|(_, node)| node.expects_report)
    {
        let has_report = evidence.reports.contains_key(name);
        let agent = pods.get(name.as_str());
        match (agent, has_report) {
            (Some(pod), false) => found.pod(
                Severity::Error,
                (Some(name), &pod.name),
                "the agent runs and wrote no report".to_owned(),
                "read the agent's log: it may lack the right to write NodeResourceTopology objects, or their definition",
            ),
            (None, false) => found.node(
                Severity::Warning,
                name,
                "no agent and no report: the scheduler rejects pods with NUMA needs there".to_owned(),
                "run pinfold-agent on the node, or label it pinfold.dev/dialect=unknown if it never will",
            ),
            // Where no agent is a pod, agents are services of their nodes.
            (None, true) if !pods.is_empty() && node.condition.is_none() => {
                let report = evidence.reports.get(name);
                if report.is_some_and(|report| report.is_ours) {
                    found.node(
                        Severity::Warning,
                        name,
                        "an agent's report is there, and no pod of the agent".to_owned(),
                        "if no agent runs on the node: kubectl delete noderesourcetopologies NODE",
                    );
                }
            }
            _ => {}
        }
    }
    found.finish()
}
