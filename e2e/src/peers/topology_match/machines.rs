//! [`Nodes`]: played machines whose agents mirror played kubelets, each with a pod that always runs.

use serde_json::{Value, json};

use super::process::NAME;
use crate::agent::process::Agent;
use crate::cluster::played::Answer;
use crate::cluster::pods::{Dice, PODS, on, pod, shared};
use crate::cluster::stage::eventually;
use crate::peers::kubelet::{Kubelet, report_status};
use crate::peers::stage::{Played, Shape, Stage, TOPOLOGIES};
use crate::report::equal;

/// A machine with its kubelet and agent.
pub(super) struct Node {
    pub(super) name: String,
    shape: Shape,
    /// Whether NodeResourceTopologyMatch filters for it.
    pub(super) is_filtered: bool,
    /// Whether its kubelet aligns memory.
    pub(super) has_memory_manager: bool,
    pub(super) kubelet: Kubelet,
    /// The pods that its kubelet runs: name and UID, the one that always runs left out.
    running: Vec<(String, String)>,
    fingerprint: &'static str,
    agent: Agent,
}

/// All of them.
pub(super) struct Nodes {
    pub(super) nodes: Vec<Node>,
}

const fn shape(sockets: u32, nodes: u32, cores: u32, threads: u32) -> Shape {
    Shape {
        sockets,
        nodes,
        cores,
        threads,
        gib: 16,
    }
}

/// A kubelet that keeps 512 MiB for itself.
const STATIC_MEMORY: &str = "memoryManagerPolicy: Static\nkubeReserved: {memory: 412Mi}\nevictionHard: {memory.available: 100Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]\n";

/// Machines, policy, scope, and whether the kubelet aligns memory.
const KINDS: [(Shape, &str, &str, bool); 5] = [
    (shape(2, 1, 4, 2), "single-numa-node", "container", false),
    (shape(2, 2, 4, 1), "single-numa-node", "pod", false),
    (shape(2, 1, 6, 2), "single-numa-node", "container", true),
    (shape(1, 1, 8, 2), "single-numa-node", "container", false),
    (shape(2, 1, 4, 2), "restricted", "container", false),
];

impl Nodes {
    /// The machines join the cluster, and are reported.
    pub(super) fn join(stage: &Stage, fingerprint: &'static str) -> Result<Self, String> {
        let mut nodes = Vec::new();
        for (number, (shape, policy, scope, has_memory_manager)) in KINDS.into_iter().enumerate() {
            let name = format!("topology-{number}");
            let memory = if has_memory_manager {
                STATIC_MEMORY
            } else {
                ""
            };
            let rules = format!(
                "topologyManagerPolicy: {policy}\ntopologyManagerScope: {scope}\nsystemReserved: {{cpu: '1'}}\n{memory}"
            );
            let kubelet = Kubelet::join(stage, &name, shape, &rules)?;
            let agent = stage.agent(&played(&name, shape, &kubelet, fingerprint))?;
            stage.report(&name)?;
            let mut node = Node {
                name,
                shape,
                is_filtered: policy == "single-numa-node",
                has_memory_manager,
                kubelet,
                running: Vec::new(),
                fingerprint,
                agent,
            };
            let always = on(
                pod(&format!("always-{number}"), NAME, &[shared("main")]),
                &node.name,
            );
            let mut always = always;
            always["spec"]["nodeName"] = node.name.as_str().into();
            let always = stage.admin.expect("POST", PODS, Some(&always))?;
            equal("it runs", node.admit(stage, &always)?, Answer::Runs)?;
            node.running.clear();
            nodes.push(node);
        }
        Ok(Self { nodes })
    }

    /// Waits until every object accounts for the kubelet's pods.
    pub(super) fn published(&self, stage: &Stage) -> Result<(), String> {
        for node in &self.nodes {
            node.published(stage)?;
        }
        Ok(())
    }

    /// Some pods end.
    pub(super) fn some_leave(&mut self, stage: &Stage, dice: &mut Dice) -> Result<(), String> {
        for node in &mut self.nodes {
            for (name, uid) in std::mem::take(&mut node.running) {
                match dice.says(30) {
                    true => {
                        node.kubelet.release(&uid);
                        stage.delete(&name)?;
                    }
                    false => node.running.push((name, uid)),
                }
            }
            node.kubelet.save()?;
        }
        Ok(())
    }

    /// What the scheduler sees: nodes, their objects and pods.
    pub(super) fn state(stage: &Stage) -> Result<Value, String> {
        stage.state(&[
            ("/api/v1/nodes", "v1", "Node"),
            (
                &TOPOLOGIES.replace("v1alpha1", "v1alpha2"),
                "topology.node.k8s.io/v1alpha2",
                "NodeResourceTopology",
            ),
            (PODS, "v1", "Pod"),
        ])
    }

    pub(super) fn leave(self, stage: &Stage) -> Result<(), String> {
        stage.clear_pods()?;
        for node in &self.nodes {
            let path = format!("/api/v1/nodes/{}", node.name);
            stage.admin.expect("DELETE", &path, None)?;
        }
        drop(self);
        stage.clear_reports()
    }
}

impl Node {
    /// The kubelet admits a bound pod or rejects it.
    pub(super) fn admit(&mut self, stage: &Stage, pod: &Value) -> Result<Answer, String> {
        let answer = self.kubelet.admit(pod)?;
        if answer == Answer::Runs {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let meta = &pod["metadata"];
            self.running.push((text(&meta["name"]), text(&meta["uid"])));
            self.kubelet.save()?;
        }
        report_status(stage, pod, &answer)?;
        Ok(answer)
    }

    /// Waits until the object has the free CPUs of the kubelet.
    fn published(&self, stage: &Stage) -> Result<(), String> {
        let free = self.kubelet.free_by_node();
        eventually(&format!("{} is reported", self.name), || {
            let report = stage.report(&self.name)?;
            for (node, free) in &free {
                let zones = report["zones"].as_array().into_iter().flatten();
                let mut zones = zones.filter(|zone| zone["name"] == format!("node-{node}"));
                let zone = zones.next().ok_or("no zone")?;
                let resources = zone["resources"].as_array().into_iter().flatten();
                let mut cpus = resources.filter(|resource| resource["name"] == "cpu");
                let available = &cpus.next().ok_or("no CPUs")?["available"];
                equal("available", available, &free.to_string().into())?;
            }
            Ok(())
        })
    }

    /// Ends the agent as a crash does, and starts it again.
    pub(super) fn restart_agent(&mut self, stage: &Stage) -> Result<(), String> {
        self.agent.kill();
        let played = played(&self.name, self.shape, &self.kubelet, self.fingerprint);
        self.agent = stage.agent(&played)?;
        Ok(())
    }
}

fn played<'a>(
    name: &'a str,
    shape: Shape,
    kubelet: &'a Kubelet,
    fingerprint: &'static str,
) -> Played<'a> {
    Played {
        name,
        shape,
        mode: "mirror",
        dialect: "kubelet",
        rules: &kubelet.rules,
        kubernetes: json!({
            "publish": ["v1alpha2"], "publishInterval": "500ms", "fingerprintMethod": fingerprint,
        }),
    }
}
