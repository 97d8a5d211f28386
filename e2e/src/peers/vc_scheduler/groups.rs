//! [`Groups`]: pods that come to every machine at once, alone or as gangs, and what vc-scheduler does with them.

use std::fs;
use std::process::Command;

use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::machines::{Node, Nodes};
use super::process::{CONFIGURATION, NAME, VcScheduler};
use crate::cluster::pods::{Dice, PODS, guaranteed, on, pod, shared};
use crate::cluster::stage::eventually;
use crate::peers::stage::Stage;

const POD_GROUPS: &str = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups";

/// A group that waits is looked at so often again: several of its sessions are over then.
const LOOKS: u32 = 12;

/// What happened so far.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) groups: usize,
    pub(super) gangs: usize,
    pub(super) bound: usize,
    pub(super) with_cpus: usize,
    pub(super) pending: usize,
    pub(super) differences: Vec<String>,
    /// Writes of a Numatopology that nothing on the node caused.
    pub(super) writes: Vec<String>,
}

/// The groups of one step, one of each machine.
pub(super) struct Groups {
    /// Nodes, their objects and pods before.
    state: Value,
    groups: Vec<Group>,
}

/// Pods for one machine.
struct Group {
    /// The machine's position.
    node: usize,
    /// Of the Numatopology, before.
    resource_version: Value,
    /// In the order in which vc-scheduler takes them: by the number at the end of their names.
    pods: Vec<Value>,
    /// The CPUs of each, once all are bound.
    bound: Option<Vec<CpuSet>>,
}

impl Groups {
    /// A group comes to every machine.
    pub(super) fn come(
        stage: &Stage,
        nodes: &Nodes,
        dice: &mut Dice,
        step: u64,
    ) -> Result<Self, String> {
        let state = Nodes::state(stage)?;
        let mut groups = Vec::new();
        for (number, node) in nodes.nodes.iter().enumerate() {
            let name = format!("group-{step}-{number}");
            let size = if dice.says(30) { 2 + dice.below(2) } else { 1 };
            let group = json!({
                "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                "metadata": { "name": name }, "spec": { "minMember": size, "queue": "default" },
            });
            let template = random_pod(dice, node, &name);
            let mut pods = Vec::new();
            for member in 0..size {
                let mut pod = template.clone();
                pod["metadata"]["name"] = format!("{name}-{member}").into();
                pods.push(stage.admin.expect("POST", PODS, Some(&pod))?);
            }
            // Pods without their group wait: all of them are there when vc-scheduler looks at the group.
            stage.admin.expect("POST", POD_GROUPS, Some(&group))?;
            groups.push(Group {
                node: number,
                resource_version: node.object(stage)?["metadata"]["resourceVersion"].clone(),
                pods,
                bound: None,
            });
        }
        Ok(Self { state, groups })
    }

    /// Waits until vc-scheduler has decided about all.
    pub(super) fn decided(&mut self, stage: &Stage, scheduler: &VcScheduler) -> Result<(), String> {
        for group in &mut self.groups {
            let mut looks = 0;
            group.bound = eventually("vc-scheduler decides", || {
                let mut bound = Vec::new();
                let mut waits = false;
                for pod in &group.pods {
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
                    if let Some(node) = pod["spec"]["nodeName"].as_str() {
                        bound.push(scheduler.chosen(name, node)?);
                    }
                    let conditions = pod["status"]["conditions"].as_array();
                    waits |= (conditions.into_iter().flatten())
                        .any(|one| one["type"] == "PodScheduled" && one["status"] == "False");
                }
                match (bound.len(), waits) {
                    (all, _) if all == group.pods.len() => Ok(Some(bound)),
                    // It may not have seen all pods of the group at first.
                    (0, true) if looks == LOOKS => Ok(None),
                    (0, true) => {
                        looks += 1;
                        Err("they wait".to_owned())
                    }
                    (some, _) => Err(format!("{some} of {} are bound", group.pods.len())),
                }
            })?;
        }
        Ok(())
    }

    /// Compares with the answer of the command line. Groups that are pending are deleted.
    pub(super) fn compare(
        &self,
        stage: &Stage,
        nodes: &Nodes,
        counts: &mut Counts,
    ) -> Result<(), String> {
        for group in &self.groups {
            counts.groups += 1;
            counts.gangs += usize::from(group.pods.len() > 1);
            let node = &nodes.nodes[group.node];
            let version = node.object(stage)?["metadata"]["resourceVersion"].clone();
            if version != group.resource_version {
                counts.writes.push(node.name.clone());
            }
            let answer = simulate(stage, &self.state, &group.pods)?;
            let events = answer["events"].as_array().ok_or("no events")?;
            let predicted: Option<Vec<CpuSet>> = events
                .iter()
                .map(|event| {
                    let cpus = CpuSet::parse(event["cpus"].as_str().unwrap_or_default());
                    let is_placed = event["node"] == node.name.as_str();
                    cpus.ok().filter(|_| is_placed)
                })
                .collect();
            match &group.bound {
                Some(bound) => {
                    counts.bound += bound.len();
                    counts.with_cpus += bound.iter().filter(|cpus| !cpus.is_empty()).count();
                    let mut free = node.free();
                    for cpus in bound {
                        if !cpus.is_subset(&free) {
                            let twice = format!("{}: {cpus} is not free in {free}", node.name);
                            counts.differences.push(twice);
                        }
                        free = &free - cpus;
                    }
                }
                None => counts.pending += group.pods.len(),
            }
            if predicted != group.bound {
                let first = &group.pods[0];
                counts.differences.push(format!(
                    "{} pods like {} {} on {} ({}), free {}: vc-scheduler {:?}, pinfold {predicted:?}: {}",
                    group.pods.len(),
                    first["metadata"]["annotations"],
                    first["spec"]["containers"][0]["resources"],
                    node.name,
                    node.policy,
                    node.free(),
                    group.bound,
                    answer["events"],
                ));
            }
        }
        Ok(())
    }

    /// The played kubelets start what is bound; what is not is deleted.
    pub(super) fn start(self, stage: &Stage, nodes: &mut Nodes) -> Result<(), String> {
        for group in self.groups {
            let node = &mut nodes.nodes[group.node];
            let Some(bound) = group.bound else {
                for pod in &group.pods {
                    stage.delete(pod["metadata"]["name"].as_str().unwrap_or_default())?;
                }
                continue;
            };
            for (pod, cpus) in group.pods.iter().zip(bound) {
                node.start(stage, pod, cpus)?;
            }
        }
        Ok(())
    }
}

/// Pods of every policy, mostly those that the plugin aligns.
fn random_pod(dice: &mut Dice, node: &Node, group: &str) -> Value {
    let cpus = 1 + dice.below(u64::from(node.shape.cpus() / 3).max(4));
    let container = match dice.below(10) {
        0 => shared("main"),
        _ => guaranteed("main", &[("cpu", &cpus.to_string()), ("memory", "64Mi")]),
    };
    let mut pod = on(pod("", NAME, &[container]), &node.name);
    pod["metadata"]["annotations"] = json!({ "scheduling.k8s.io/group-name": group });
    let policy = match dice.below(10) {
        0 => "",
        1 => dice.one_of(&["none", "best-effort", "restricted", "single-numa-node"]),
        _ => node.policy,
    };
    if !policy.is_empty() {
        pod["metadata"]["annotations"]["volcano.sh/numa-topology-policy"] = policy.into();
    }
    pod
}

/// The answer of the command line about these pods, one after the other.
fn simulate(stage: &Stage, state: &Value, pods: &[Value]) -> Result<Value, String> {
    let folder = stage.plane.folder();
    let file = |name: &str, content: String| {
        let path = folder.join(name);
        let written = fs::write(&path, content);
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path)
    };
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": pods });
    let mut asked = Command::new(&stage.pinfold);
    asked.args(["simulate", "--as", "volcano", "-o", "json", "--nodes"]);
    asked.arg(file("volcano-state.json", state.to_string())?);
    asked.arg("--scheduler-config");
    asked.arg(file("volcano-config.yaml", CONFIGURATION.to_owned())?);
    asked.arg(file("volcano-pods.json", pods.to_string())?);
    let output = asked.output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{asked:?}: {error}: {errors}")
    })
}
