//! A real kubelet in the cluster: runaway replicas, and pods that Pinfold pins by itself.

use serde_json::Value;

use super::dialects::DECISION;
use super::kubelets::TOPOLOGIES;
use super::node::{Mode, RealNode};
use super::pods::{PODS, cpus, on, pod};
use super::replicas::{self, Scene};
use super::stage::{Stage, eventually};
use crate::report::{Report, equal, say};

/// Plays everything that needs a real kubelet.
pub(crate) fn run(report: &mut Report, stage: &Stage, schedulers: [&str; 2]) {
    if let Err(problem) = kubelet(report, stage, schedulers) {
        report.check("cluster: real kubelet", Err(problem));
    }
    let outcome = agent(stage, schedulers[1]);
    report.check(
        "cluster: a pod is decided about by the extender and pinned by the agent",
        outcome,
    );
}

/// The kubelet's managers decide; the agent mirrors them.
fn kubelet(report: &mut Report, stage: &Stage, schedulers: [&str; 2]) -> Result<(), String> {
    let mut node = RealNode::start(stage, "real-kubelet", Mode::Kubelet)?;
    node.wait(stage)?;
    let scene = Scene {
        title: "cluster: real kubelet",
        node: node.name,
        neighbours: 2,
        replica: 3,
    };
    replicas::run(report, stage, &scene, schedulers);
    let path = format!("/api/v1/nodes/{}", node.name);
    stage.admin.expect("DELETE", &path, None).map(drop)
}

/// The kubelet's managers are off; the extender decides, and the agent pins.
fn agent(stage: &Stage, ours: &str) -> Result<(), String> {
    let mut node = RealNode::start(stage, "real-agent", Mode::Agent)?;
    node.wait(stage)?;
    let outcome = pinned(stage, &node, ours);
    outcome.map_err(|problem| node.with_words(&problem))
}

fn pinned(stage: &Stage, node: &RealNode, ours: &str) -> Result<(), String> {
    for name in ["first", "second"] {
        stage.create(&on(pod(name, ours, &[cpus(2)]), node.name))?;
        equal("its node", stage.runs(name)?.as_str(), node.name)?;
        let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
        let decision = pod["metadata"]["annotations"][DECISION].as_str();
        let decision = decision.ok_or("the decision is not written at the pod")?;
        say(format_args!("        {name}: {decision}"));
        let decision: Value = serde_json::from_str(decision).map_err(|error| error.to_string())?;
        let cpus = decision["cpuset"].as_str().ok_or("no CPUs")?.to_owned();
        agrees(stage, node, &pod, &cpus)?;
    }
    stage.clear_pods()
}

/// The kernel and the node's report agree with the decision.
fn agrees(stage: &Stage, node: &RealNode, pod: &Value, cpus: &str) -> Result<(), String> {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let groups = eventually("the kernel pins it", || {
        let groups = node.groups(uid);
        let pinned = groups.values().any(|(own, _)| own == cpus);
        match pinned {
            true => Ok(groups),
            false => Err(format!("expected {cpus}, found {groups:?}")),
        }
    })?;
    say(format_args!("        {groups:?}"));
    let report = format!("{TOPOLOGIES}/{}", node.name);
    eventually("the node reports it", || {
        let report = stage.admin.expect("GET", &report, None)?;
        let held = &report["metadata"]["annotations"]["node.koordinator.sh/pod-cpu-allocs"];
        let held: Value = serde_json::from_str(held.as_str().unwrap_or("null"))
            .map_err(|error| error.to_string())?;
        let mut held = held.as_array().into_iter().flatten();
        let own = held.find(|row| row["uid"] == uid);
        let own = own.and_then(|row| row["cpuset"].as_str());
        equal("reported CPUs", own, Some(cpus))
    })
}
