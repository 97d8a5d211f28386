//! Runaway replicas: a deployment whose pod a node has enough for in all, but on no NUMA node.
//!
//! With kube-scheduler alone the kubelet rejects one pod after the other. With Pinfold the pod waits, says why, and runs
//! as soon as there is a place.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::pods::{cpus, deployment, on, pod, shared};
use super::stage::{Stage, eventually};
use crate::report::{Report, equal, say};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// So many rejections are no accident.
const RUNAWAY: usize = 5;

/// A node with two NUMA nodes.
pub(crate) struct Scene<'t> {
    /// What checks are named after.
    pub(crate) title: &'t str,
    /// Its name.
    pub(crate) node: &'t str,
    /// The CPUs of two pods that leave too few on each NUMA node.
    pub(crate) neighbours: u32,
    /// The CPUs of the deployment's pod: fewer than are left in all.
    pub(crate) replica: u32,
}

/// Plays the story with a kube-scheduler alone, and with one that has the plugin.
pub(crate) fn run(report: &mut Report, stage: &Stage, scene: &Scene<'_>, [stock, ours]: [&str; 2]) {
    let title = scene.title;
    let outcome = cleared(stage, runs_away(stage, scene, stock));
    report.check(
        format_args!("{title}: without Pinfold replicas run away"),
        outcome,
    );
    let outcome = cleared(stage, waits(stage, scene, ours));
    report.check(
        format_args!("{title}: with Pinfold they wait, say why, and run when there is a place"),
        outcome,
    );
}

/// The neighbours, one on each NUMA node.
fn neighbours(stage: &Stage, scene: &Scene<'_>, scheduler: &str) -> Result<(), String> {
    for name in ["left", "right"] {
        let neighbour = pod(name, scheduler, &[cpus(scene.neighbours)]);
        stage.create(&on(neighbour, scene.node))?;
        equal(name, stage.runs(name)?.as_str(), scene.node)?;
    }
    Ok(())
}

/// The deployment's pods.
fn replicas(stage: &Stage) -> Result<Vec<Value>, String> {
    let pods = stage.pods()?.into_values();
    Ok(pods
        .filter(|pod| pod["metadata"]["labels"]["app"] == "replicas")
        .collect())
}

fn failed(pods: &[Value]) -> usize {
    let failed = pods.iter().filter(|pod| {
        pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "TopologyAffinityError"
    });
    failed.count()
}

/// Removes everything, however the story ended.
fn cleared(stage: &Stage, outcome: Result<(), String>) -> Result<(), String> {
    let path = format!("{DEPLOYMENTS}/replicas");
    let whole = json!({ "propagationPolicy": "Foreground" });
    let _ = stage.admin.ask("DELETE", &path, Some(&whole))?;
    let gone = eventually("the deployment is gone", || {
        stage.delete_pods()?;
        equal("answer", stage.admin.ask("GET", &path, None)?.0, 404)
    });
    outcome.and(gone).and(stage.clear())
}

fn runs_away(stage: &Stage, scene: &Scene<'_>, scheduler: &str) -> Result<(), String> {
    neighbours(stage, scene, scheduler)?;
    let replica = cpus(scene.replica);
    let deployment = deployment("replicas", scheduler, scene.node, &replica);
    stage.admin.expect("POST", DEPLOYMENTS, Some(&deployment))?;
    let count = eventually("the kubelet rejects again and again", || {
        let count = failed(&replicas(stage)?);
        match count >= RUNAWAY {
            true => Ok(count),
            false => Err(format!("{count} pods failed")),
        }
    })?;
    say(format_args!(
        "        {count} pods failed with TopologyAffinityError for one replica"
    ));
    Ok(())
}

fn waits(stage: &Stage, scene: &Scene<'_>, scheduler: &str) -> Result<(), String> {
    neighbours(stage, scene, scheduler)?;
    let replica = cpus(scene.replica);
    let deployment = deployment("replicas", scheduler, scene.node, &replica);
    stage.admin.expect("POST", DEPLOYMENTS, Some(&deployment))?;
    let name = eventually("there is a replica", || {
        let pods = replicas(stage)?;
        let name = pods
            .first()
            .and_then(|pod| pod["metadata"]["name"].as_str());
        name.map(str::to_owned).ok_or_else(|| "none".to_owned())
    })?;
    let words = stage.waits(&name)?;
    say(format_args!("        {words}"));
    let named = words.contains("NUMA") && words.contains("cpu");
    equal(&format!("{words:?} names the NUMA nodes"), named, true)?;
    events(stage, &name, &words)?;
    // Others come and go; each time the scheduler tries the replica again.
    for number in 0..3 {
        let passer = format!("passer-{number}");
        let small = shared("main");
        stage.create(&on(pod(&passer, scheduler, &[small]), scene.node))?;
        stage.runs(&passer)?;
        stage.delete(&passer)?;
        thread::sleep(Duration::from_millis(1500));
    }
    let pods = replicas(stage)?;
    equal("replicas", pods.len(), 1)?;
    equal("rejected", failed(&pods), 0)?;
    equal("bound", pods[0]["spec"]["nodeName"].is_string(), false)?;
    stage.delete("left")?;
    equal("its node", stage.runs(&name)?.as_str(), scene.node)?;
    equal("rejected in the end", failed(&replicas(stage)?), 0)?;
    Ok(())
}

/// The reason is an event of the pod, too.
fn events(stage: &Stage, pod: &str, words: &str) -> Result<(), String> {
    let path = format!(
        "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{pod},reason%3DFailedScheduling"
    );
    eventually("the event is there", || {
        let events = stage.admin.expect("GET", &path, None)?;
        let events = events["items"].as_array().into_iter().flatten();
        let mut named =
            events.filter_map(|event| event["message"].as_str().or(event["note"].as_str()));
        let start = words.split(':').next().unwrap_or_default();
        equal("named", named.any(|note| note.starts_with(start)), true)
    })
}
