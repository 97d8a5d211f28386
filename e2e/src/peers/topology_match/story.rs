//! One step: pods come to every machine, the scheduler decides, and the kubelets admit or reject.

use std::fmt;
use std::fs;
use std::process::Command;
use std::thread;

use conformance::peers::round::{Binding, Group, Round};
use serde_json::{Value, json};

use super::machines::{Node, Nodes};
use super::process::{NAME, RESYNC, Reads, Scheduler};
use crate::cluster::played::Answer;
use crate::cluster::pods::{Dice, PODS, guaranteed, on, pod};
use crate::cluster::stage::eventually;
use crate::peers::stage::Stage;

/// What happened so far.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) bound: usize,
    pub(super) pending: usize,
    /// Pods that the cache kept waiting although the object allows them, until it took the object over.
    delayed: usize,
    /// Pods of another scheduler.
    foreign: usize,
    /// Pods that the plugin let pass and the kubelet rejected, by the name of the difference.
    rejected: usize,
    /// Pods that the plugin kept waiting and the kubelet would have admitted, by the name of the difference.
    stricter: usize,
    pub(super) differences: Vec<String>,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} pods bound, {} pending; {} of them waited for the cache; {} pods of another scheduler; {} rejected by kubelets and {} kept from them, as the differences name",
            self.bound, self.pending, self.delayed, self.foreign, self.rejected, self.stricter
        )
    }
}

/// A pod for one machine, and what became of it.
struct Decided {
    node: usize,
    pod: Value,
    is_bound: bool,
}

/// A pod of another scheduler starts on some machines.
pub(super) fn foreign(
    stage: &Stage,
    nodes: &mut Nodes,
    dice: &mut Dice,
    step: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    for (number, node) in nodes.nodes.iter_mut().enumerate() {
        if !dice.says(20) {
            continue;
        }
        let amounts = [("cpu", "1"), ("memory", "64Mi")];
        let name = format!("foreign-{step}-{number}");
        let mut foreign = on(
            pod(&name, "other", &[guaranteed("main", &amounts)]),
            &node.name,
        );
        foreign["spec"]["nodeName"] = node.name.as_str().into();
        foreign["metadata"]["uid"] = name.as_str().into();
        if node.kubelet.would_admit(&foreign)? {
            let created = stage.admin.expect("POST", PODS, Some(&foreign))?;
            node.admit(stage, &created)?;
            counts.foreign += 1;
        }
    }
    Ok(())
}

/// Plays one step.
pub(super) fn step(
    stage: &mut Stage,
    nodes: &mut Nodes,
    reads: Reads,
    dice: &mut Dice,
    step: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    let state = Nodes::state(stage)?;
    let mut decided = Vec::new();
    for (number, node) in nodes.nodes.iter().enumerate() {
        let created = random_pod(dice, &format!("pod-{step}-{number}"), &node.name);
        decided.push(Decided {
            node: number,
            pod: stage.admin.expect("POST", PODS, Some(&created))?,
            is_bound: false,
        });
    }
    for one in &mut decided {
        one.is_bound = is_bound(stage, name(&one.pod))?;
    }
    let mut round = Round {
        state,
        pods: decided.iter().map(|one| one.pod.clone()).collect(),
        groups: Vec::new(),
    };
    round.groups = decided.iter().map(|one| group(one, nodes)).collect();
    let answer = simulate(stage, &round)?;
    if reads.has_cache() {
        wait_for_the_cache(stage, nodes, &mut decided, &answer, counts)?;
        round.groups = decided.iter().map(|one| group(one, nodes)).collect();
    }
    counts.differences.extend(round.differences(&answer)?);
    stage.recorder.add("topology-match", &round.to_json());
    for one in decided {
        let node = &mut nodes.nodes[one.node];
        match one.is_bound {
            true => {
                counts.bound += 1;
                let answer = node.admit(stage, &one.pod)?;
                if answer != Answer::Runs {
                    counts.rejected += 1;
                    if node.is_filtered && !is_looser(&one.pod) {
                        let rejected = format!("{} rejects {}: {answer:?}", node.name, one.pod);
                        counts.differences.push(rejected);
                    }
                }
            }
            false => {
                counts.pending += 1;
                if node.kubelet.would_admit(&one.pod)? {
                    counts.stricter += 1;
                    if !is_stricter(node, &one.pod) {
                        let kept = format!("{} would admit {}", node.name, one.pod);
                        counts.differences.push(kept);
                    }
                }
                stage.delete(name(&one.pod))?;
            }
        }
    }
    Ok(())
}

/// With the cache a pod waits that the object allows, until the cache takes the object over and something happens on the
/// node. Waits for those that the command line predicts to be bound.
fn wait_for_the_cache(
    stage: &Stage,
    nodes: &Nodes,
    decided: &mut [Decided],
    answer: &Value,
    counts: &mut Counts,
) -> Result<(), String> {
    let events = answer["events"].as_array().ok_or("no events")?;
    for (one, event) in decided.iter_mut().zip(events) {
        if one.is_bound || !event["node"].is_string() {
            continue;
        }
        counts.delayed += 1;
        let node = &nodes.nodes[one.node].name;
        let mut count = 0;
        one.is_bound = eventually("the cache takes the object over", || {
            thread::sleep(RESYNC);
            // The scheduler tries a pod again when the Node offers more of something.
            count += 1;
            let more = json!({ "status": { "allocatable": { "example.com/counted": count.to_string() } } });
            let path = format!("/api/v1/nodes/{node}/status");
            stage.admin.expect("PATCH", &path, Some(&more))?;
            match is_bound(stage, name(&one.pod))? {
                true => Ok(true),
                false => Err(format!("{} waits", name(&one.pod))),
            }
        })?;
    }
    Ok(())
}

/// Waits until the scheduler has bound a pod or found no node for it.
fn is_bound(stage: &Stage, name: &str) -> Result<bool, String> {
    eventually("the scheduler decides", || {
        let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
        if pod["spec"]["nodeName"].is_string() {
            return Ok(true);
        }
        let conditions = pod["status"]["conditions"].as_array();
        let waits = (conditions.into_iter().flatten())
            .any(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable");
        match waits {
            true => Ok(false),
            false => Err(pod["status"].to_string()),
        }
    })
}

fn group(one: &Decided, nodes: &Nodes) -> Group {
    let binding = Binding {
        node: nodes.nodes[one.node].name.clone(),
        cpus: String::new(),
    };
    Group {
        pods: vec![name(&one.pod).to_owned()],
        bound: one.is_bound.then(|| vec![binding]),
    }
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
}

/// Pods of one to three containers with whole CPUs, shares of CPUs and memory, some with init containers and sidecars.
fn random_pod(dice: &mut Dice, name: &str, node: &str) -> Value {
    let mut container = |name: String| {
        let cpu = match dice.below(10) {
            0 => format!("{}m", 500 + 1000 * dice.below(3)),
            _ => (1 + dice.below(5)).to_string(),
        };
        let memory = match dice.below(10) {
            0 => format!("{}Gi", 4 + dice.below(14)),
            _ => format!("{}Mi", 64 << dice.below(5)),
        };
        guaranteed(&name, &[("cpu", &cpu), ("memory", &memory)])
    };
    let mut containers = vec![container("main".to_owned())];
    let mut first = container("first".to_owned());
    let others: Vec<Value> = (0..2)
        .map(|number| container(format!("other-{number}")))
        .collect();
    let count = usize::try_from(dice.below(10).saturating_sub(7)).unwrap_or(0);
    containers.extend(others.into_iter().take(count));
    let mut pod = pod(name, NAME, &containers);
    match dice.below(12) {
        0 => pod["spec"]["initContainers"] = json!([first]),
        1 => {
            first["restartPolicy"] = "Always".into();
            pod["spec"]["initContainers"] = json!([first]);
        }
        _ => {}
    }
    on(pod, node)
}

/// Pods of which docs/node-topology-differences.md says that the plugin lets them pass and a kubelet may reject them:
/// several containers that fit only in another order, and sidecars.
fn is_looser(pod: &Value) -> bool {
    let spec = &pod["spec"];
    let count = |name: &str| spec[name].as_array().map_or(0, Vec::len);
    count("containers") > 1 || count("initContainers") > 0
}

/// Pods of which it says that the plugin keeps them waiting and a kubelet may admit them: CPUs that are not whole, and
/// memory that the kubelet does not align.
fn is_stricter(node: &Node, pod: &Value) -> bool {
    let lists = ["containers", "initContainers"];
    let mut requests = lists
        .iter()
        .filter_map(|list| pod["spec"][list].as_array())
        .flatten()
        .map(|container| &container["resources"]["requests"]);
    let ends = |value: &Value, unit: &str| value.as_str().is_some_and(|text| text.ends_with(unit));
    requests.any(|one| {
        ends(&one["cpu"], "m") || (ends(&one["memory"], "Gi") && !node.has_memory_manager)
    })
}

/// The answer of the command line about the pods of a round, each on its machine, from what the objects say.
fn simulate(stage: &Stage, round: &Round) -> Result<Value, String> {
    let folder = stage.plane.folder();
    let file = |name: &str, content: &Value| {
        let path = folder.join(name);
        let written = fs::write(&path, content.to_string());
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path)
    };
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": round.pods });
    let mut asked = Command::new(&stage.pinfold);
    asked.args([
        "simulate",
        "--as",
        "scheduler-plugins",
        "-o",
        "json",
        "--nodes",
    ]);
    asked.arg(file("topology-state.json", &round.state)?);
    asked.arg("--scheduler-config");
    asked.arg(Scheduler::configuration(stage));
    asked.arg(file("topology-pods.json", &pods)?);
    let output = asked.output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{asked:?}: {error}: {errors}")
    })
}
