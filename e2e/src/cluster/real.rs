//! A real kubelet in the cluster: runaway replicas, and pods that Pinfold pins by itself.

use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::dialects::{self, DECISION};
use super::kubelets::TOPOLOGIES;
use super::node::{Mode, RealNode};
use super::pods::{Dice, PODS, cpus, guaranteed, on, pod};
use super::replicas::{self, Scene};
use super::stage::{Stage, eventually};
use crate::report::{Report, equal, say};

const SEED: u64 = 7;
/// So many pods of one to three CPUs are more than seven CPUs hold.
const SAMPLE: u32 = 7;

/// Plays everything that needs a real kubelet.
pub(crate) fn run(report: &mut Report, stage: &Stage, schedulers: [&str; 2]) {
    if let Err(problem) = kubelet(report, stage, schedulers) {
        report.check("cluster: real kubelet", Err(problem));
    }
    let outcome = agent(stage, schedulers[1]);
    report.check(
        "cluster: STORY-04: pods are decided about by the engine and pinned by the agent, and best effort borrows",
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
    let outcome = sample(stage, node.name, schedulers[1]);
    let outcome = outcome.and(stage.clear_pods());
    report.check(
        "cluster: real kubelet: random pods run or wait, none is rejected",
        outcome.map_err(|problem| node.with_words(&problem)),
    );
    let path = format!("/api/v1/nodes/{}", node.name);
    stage.admin.expect("DELETE", &path, None).map(drop)
}

/// More random pods than fit: the kubelet admits every pod that is bound.
fn sample(stage: &Stage, node: &str, ours: &str) -> Result<(), String> {
    let mut dice = Dice::new(SEED);
    for number in 0..SAMPLE {
        let count = u32::try_from(1 + dice.below(3)).unwrap_or(1);
        let pod = pod(&format!("sample-{number}"), ours, &[cpus(count)]);
        stage.create(&on(pod, node))?;
    }
    let pods = eventually("every pod runs or is unschedulable", || {
        let pods = stage.pods()?;
        for (name, pod) in &pods {
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            let unschedulable = pod["status"]["conditions"][0]["reason"] == "Unschedulable";
            if phase == "Pending" && !unschedulable {
                return Err(format!("{name} is under way"));
            }
        }
        Ok(pods)
    })?;
    let phase = |phase: &str| {
        let own = pods.values().filter(|pod| pod["status"]["phase"] == phase);
        own.count()
    };
    say(format_args!(
        "        {} run, {} wait",
        phase("Running"),
        phase("Pending")
    ));
    equal("rejected", phase("Failed"), 0)?;
    equal("pods run", phase("Running") >= 2, true)?;
    equal("a pod waits", phase("Pending") >= 1, true)
}

/// The kubelet's managers are off; the engine decides, and the agent pins.
fn agent(stage: &Stage, ours: &str) -> Result<(), String> {
    let mut node = RealNode::start(stage, "real-agent", Mode::Agent)?;
    node.wait(stage)?;
    let outcome = pinned(stage, &node, ours);
    outcome.map_err(|problem| node.with_words(&problem))
}

fn pinned(stage: &Stage, node: &RealNode, ours: &str) -> Result<(), String> {
    let mut own = Vec::new();
    for (name, class) in [("shares", "LSR"), ("alone", "LSE")] {
        let how = json!({ "preferredCPUBindPolicy": "FullPCPUs" });
        let mut pod = dialects::pinned(name, ours, 2, &how);
        pod["metadata"]["labels"]["koordinator.sh/qosClass"] = class.into();
        stage.create(&on(pod, node.name))?;
        equal("its node", stage.runs(name)?.as_str(), node.name)?;
        let found = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
        let decision = found["metadata"]["annotations"][DECISION].as_str();
        let decision = decision.ok_or("the decision is not written at the pod")?;
        say(format_args!("        {name}: {decision}"));
        let decision: Value = serde_json::from_str(decision).map_err(|error| error.to_string())?;
        let cpus = decision["cpuset"].as_str().ok_or("no CPUs")?.to_owned();
        agrees(stage, node, &found, &cpus)?;
        own.push(CpuSet::parse(&cpus).map_err(|error| error.to_string())?);
    }
    let [lent, kept] = own.as_slice() else {
        return Err("two pods have CPUs of their own".to_owned());
    };
    lent_to_best_effort(stage, node, ours, lent, kept)?;
    stage.clear_pods()
}

/// Best-effort pods may use what an LSR pod leaves idle, and nothing of an LSE pod.
fn lent_to_best_effort(
    stage: &Stage,
    node: &RealNode,
    ours: &str,
    lent: &CpuSet,
    kept: &CpuSet,
) -> Result<(), String> {
    // The first finds room on the CPU that is the system's.
    for name in ["batch", "more-batch"] {
        let mut pod = pod(name, ours, &[guaranteed("main", &[])]);
        pod["metadata"]["labels"] = json!({
            "koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch",
        });
        stage.create(&on(pod, node.name))?;
        stage.runs(name)?;
    }
    let path = format!("{PODS}/more-batch");
    let found = stage.admin.expect("GET", &path, None)?;
    let uid = found["metadata"]["uid"].as_str().unwrap_or_default();
    let groups = eventually("it may use the CPUs that are lent", || {
        let groups = node.groups(uid);
        let is_right = groups.values().any(|(cpus, _)| {
            let cpus = CpuSet::parse(cpus).unwrap_or_default();
            lent.is_subset(&cpus) && kept.is_disjoint(&cpus)
        });
        match is_right {
            true => Ok(groups),
            false => Err(format!("expected {lent} and not {kept}, found {groups:?}")),
        }
    })?;
    say(format_args!("        batch: {groups:?}"));
    Ok(())
}

/// The kernel, the podresources API and the node's report agree with the decision.
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
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    eventually("podresources lists it", || {
        let held = node.held(&format!("default/{name}"));
        equal("CPUs in podresources", held, vec![cpus.to_owned()])
    })?;
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
