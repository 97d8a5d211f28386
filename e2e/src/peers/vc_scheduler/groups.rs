//! [`Groups`]: pods that come to every machine at once, alone or as gangs, and what vc-scheduler does with them.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use conformance::peers::round::{Binding, Group as Outcome, Round};
use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::chance::Sockets;
use super::machines::{Node, Nodes};
use super::process::{CONFIGURATION, NAME, VcScheduler};
use crate::cluster::played::Answer;
use crate::cluster::pods::{Dice, PODS, guaranteed, on, pod, shared};
use crate::cluster::stage::eventually;
use crate::peers::kubelet::report_status;
use crate::peers::stage::Stage;
use crate::report::equal;

const POD_GROUPS: &str = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups";

/// The agent's annotation with the UID of the last pod that ended before its kubelet gave it CPUs.
const ENDED: &str = "pinfold.dev/ended-unstarted";

/// A group waits if it does so after so many more sessions: in the first ones not all of its pods may have been known.
const SESSIONS: usize = 4;

/// What happened so far.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) groups: usize,
    pub(super) gangs: usize,
    pub(super) bound: usize,
    pub(super) with_cpus: usize,
    pub(super) pending: usize,
    /// Pods that were decided about while others were bound and had no CPUs yet.
    pub(super) beside_bookings: usize,
    /// Bound pods that their kubelet rejected, or that were deleted before it gave them CPUs.
    pub(super) unstarted: usize,
    /// Groups whose CPUs depend on chance, and are not those of the prediction.
    pub(super) by_chance: usize,
    pub(super) differences: Vec<String>,
    /// Writes of a Numatopology that nothing on the node caused.
    pub(super) writes: Vec<String>,
}

/// The groups of one step, one of each machine.
pub(super) struct Groups {
    /// Nodes, their objects and pods before. CPUs of bound pods are free in no object, as vc-scheduler knows.
    state: Value,
    /// Bound pods that have no CPUs yet, and the machine's position of each.
    booked: Vec<(usize, Value, CpuSet)>,
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
    /// A group comes to every machine, beside those that are bound and have no CPUs yet.
    pub(super) fn come(
        stage: &Stage,
        nodes: &Nodes,
        dice: &mut Dice,
        name: &str,
        before: Option<&Self>,
    ) -> Result<Self, String> {
        let mut state = Nodes::state(stage)?;
        let booked: Vec<_> = before.into_iter().flat_map(Self::booked).collect();
        for object in state["items"].as_array_mut().into_iter().flatten() {
            for (at, _, cpus) in &booked {
                let is_here = object["metadata"]["name"] == nodes.nodes[*at].name.as_str();
                if is_here && object["kind"] == "Numatopology" {
                    let list = &mut object["spec"]["numares"]["cpu"]["allocatable"];
                    let free = CpuSet::parse(list.as_str().unwrap_or_default());
                    let free = free.map_err(|error| error.to_string())?;
                    *list = (&free - cpus).to_string().into();
                }
            }
        }
        let mut groups = Vec::new();
        for (number, node) in nodes.nodes.iter().enumerate() {
            let name = format!("{name}-{number}");
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
        Ok(Self {
            state,
            booked,
            groups,
        })
    }

    /// The pods that are bound.
    fn booked(&self) -> Vec<(usize, Value, CpuSet)> {
        let mut booked = Vec::new();
        for group in &self.groups {
            for (pod, cpus) in group.pods.iter().zip(group.bound.iter().flatten()) {
                booked.push((group.node, pod.clone(), cpus.clone()));
            }
        }
        booked
    }

    /// Whether a pod of a machine is bound that gets CPUs of its own.
    pub(super) fn has_bookings(&self, node: &str) -> bool {
        self.booked().iter().any(|(_, pod, _)| {
            let selected = &pod["spec"]["nodeSelector"]["kubernetes.io/hostname"];
            let limits = &pod["spec"]["containers"][0]["resources"]["limits"];
            *selected == node && limits["cpu"].is_string()
        })
    }

    /// Waits until vc-scheduler has decided about all.
    pub(super) fn decided(&mut self, stage: &Stage, scheduler: &VcScheduler) -> Result<(), String> {
        for group in &mut self.groups {
            let mut waiting_since = None;
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
                    (0, true) => {
                        let sessions = scheduler.sessions()?;
                        let since = *waiting_since.get_or_insert(sessions);
                        match sessions >= since + SESSIONS {
                            true => Ok(None),
                            false => Err(format!("they wait since session {since}")),
                        }
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
        stage: &mut Stage,
        nodes: &Nodes,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let mut round = Round {
            state: self.state.clone(),
            ..Round::default()
        };
        let mut free_before = Vec::new();
        for group in &self.groups {
            counts.groups += 1;
            counts.gangs += usize::from(group.pods.len() > 1);
            let node = &nodes.nodes[group.node];
            let version = node.object(stage)?["metadata"]["resourceVersion"].clone();
            if version != group.resource_version {
                counts.writes.push(node.name.clone());
            }
            let here = self.booked.iter().filter(|(at, ..)| *at == group.node);
            let mut free = here.fold(node.published_free(), |free, (_, _, cpus)| &free - cpus);
            free_before.push(free.clone());
            counts.beside_bookings += match self.booked.iter().any(|(at, ..)| *at == group.node) {
                true => group.pods.len(),
                false => 0,
            };
            match &group.bound {
                Some(bound) => {
                    counts.bound += bound.len();
                    counts.with_cpus += bound.iter().filter(|cpus| !cpus.is_empty()).count();
                    for cpus in bound {
                        if !cpus.is_subset(&free) {
                            let twice = format!("{}: {cpus} is not free in {free}", node.name);
                            counts.differences.push(twice);
                        }
                        free = &free - cpus;
                    }
                }
                None => {
                    counts.pending += group.pods.len();
                    for pod in &group.pods {
                        stage.delete(name(pod))?;
                    }
                }
            }
            let bindings = group.bound.as_ref().map(|bound| {
                let bindings = bound.iter().map(|cpus| Binding {
                    node: node.name.clone(),
                    cpus: cpus.to_string(),
                });
                bindings.collect()
            });
            round.groups.push(Outcome {
                pods: group.pods.iter().map(|pod| name(pod).to_owned()).collect(),
                bound: bindings,
            });
            round.pods.extend(group.pods.iter().cloned());
        }
        let answer = simulate(stage, &round)?;
        let mut predicted = Vec::new();
        for (group, free) in round.groups.into_iter().zip(free_before) {
            let alone = Round {
                groups: vec![group],
                ..Round::default()
            };
            let differences = alone.differences(&answer)?;
            match differences.is_empty() {
                true => predicted.extend(alone.groups),
                false if depends_on_chance(&self.state, &alone.groups[0], &answer, free) => {
                    counts.by_chance += 1;
                }
                false => counts.differences.extend(differences),
            }
        }
        round.groups = predicted;
        stage.recorder.add("vc-scheduler", &round.to_json());
        Ok(())
    }

    /// The kubelets give the bound pods of these groups CPUs, in the order in which they were bound, or reject them. Some
    /// are deleted before that.
    pub(super) fn start(
        all: &[Self],
        stage: &Stage,
        nodes: &mut Nodes,
        scheduler: &VcScheduler,
        dice: &mut Dice,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let mut unstarted: Vec<Vec<(Value, Option<Answer>)>> = Vec::new();
        unstarted.resize_with(nodes.nodes.len(), Vec::new);
        for (at, pod, _) in all.iter().flat_map(Self::booked) {
            if dice.says(5) {
                unstarted[at].push((pod, None));
                continue;
            }
            match nodes.nodes[at].admit(&pod)? {
                Answer::Runs => report_status(stage, &pod, &Answer::Runs)?,
                rejected => unstarted[at].push((pod, Some(rejected))),
            }
        }
        for (node, unstarted) in nodes.nodes.iter_mut().zip(&unstarted) {
            // What ended meanwhile is published when no bound pod waits.
            match has_cpus(unstarted) {
                true => drop(node.held.get_or_insert_with(|| node.kubelet.free())),
                false => node.held = None,
            }
            node.kubelet.save()?;
        }
        nodes.published(stage, scheduler)?;
        for (node, unstarted) in nodes.nodes.iter_mut().zip(unstarted) {
            counts.unstarted += unstarted.len();
            let reads = scheduler.reads(&node.name)?;
            let is_booked = has_cpus(&unstarted);
            let mut uids = BTreeSet::new();
            for (pod, answer) in unstarted {
                uids.insert(
                    pod["metadata"]["uid"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                );
                match answer {
                    Some(rejected) => report_status(stage, &pod, &rejected)?,
                    None => stage.delete(name(&pod))?,
                }
            }
            if is_booked {
                eventually("the bookings of pods that ended are ended", || {
                    let object = node.object(stage)?;
                    let last = object["metadata"]["annotations"][ENDED].as_str();
                    let is_last = last.is_some_and(|uid| uids.contains(uid));
                    equal(&format!("a pod of {uids:?} in {last:?}"), is_last, true)?;
                    let is_read = scheduler.reads(&node.name)? > reads;
                    equal("vc-scheduler has read it", is_read, true)
                })?;
                node.held = None;
            }
        }
        Ok(())
    }
}

/// Whether the first pod of a group that is decided otherwise got CPUs that vc-scheduler may choose by chance.
fn depends_on_chance(state: &Value, group: &Outcome, answer: &Value, mut free: CpuSet) -> bool {
    let events = answer["events"].as_array();
    for (pod, bound) in group.pods.iter().zip(group.bound.iter().flatten()) {
        let Ok(chosen) = CpuSet::parse(&bound.cpus) else {
            return false;
        };
        let own = |event: &&Value| {
            let name = event["pod"].as_str().unwrap_or_default();
            name.rsplit('/').next() == Some(pod.as_str())
        };
        let event = events.into_iter().flatten().find(own);
        let predicted = event.and_then(|event| event["cpus"].as_str());
        if predicted.unwrap_or_default() != bound.cpus {
            let objects = state["items"].as_array().into_iter().flatten();
            let mut objects = objects.filter(|object| {
                object["kind"] == "Numatopology"
                    && object["metadata"]["name"] == bound.node.as_str()
            });
            let object = objects.next();
            return object.is_some_and(|object| Sockets::of(object).may_choose(&chosen, &free));
        }
        free = &free - &chosen;
    }
    false
}

/// Whether one of these pods has booked CPUs.
fn has_cpus(pods: &[(Value, Option<Answer>)]) -> bool {
    pods.iter()
        .any(|(pod, _)| pod["spec"]["containers"][0]["resources"]["limits"]["cpu"].is_string())
}

fn name(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap_or_default()
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

/// The answer of the command line about the pods of a round, one after the other.
fn simulate(stage: &Stage, round: &Round) -> Result<Value, String> {
    let folder = stage.plane.folder();
    let file = |name: &str, content: String| {
        let path = folder.join(name);
        let written = fs::write(&path, content);
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path)
    };
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": round.pods });
    let mut asked = Command::new(&stage.pinfold);
    asked.args(["simulate", "--as", "volcano", "-o", "json", "--nodes"]);
    asked.arg(file("volcano-state.json", round.state.to_string())?);
    asked.arg("--scheduler-config");
    asked.arg(file("volcano-config.yaml", CONFIGURATION.to_owned())?);
    asked.arg(file("volcano-pods.json", pods.to_string())?);
    let output = asked.output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{asked:?}: {error}: {errors}")
    })
}
