//! [`Nodes`]: played machines under each policy of the topology manager, with agents that mirror played kubelets.

use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::process::VcScheduler;
use crate::agent::process::Agent;
use crate::cluster::played::Answer;
use crate::cluster::pods::{Dice, PODS};
use crate::cluster::stage::eventually;
use crate::peers::kubelet::Kubelet;
use crate::peers::stage::{Played, Shape, Stage};
use crate::report::equal;

/// Where the objects of Volcano's nodes are.
pub(super) const NUMATOPOLOGIES: &str = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies";

/// A machine with its kubelet and agent.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) policy: &'static str,
    pub(super) kubelet: Kubelet,
    /// The pods that its kubelet runs: name and UID.
    running: Vec<(String, String)>,
    /// Free CPUs that the agent may publish while a bound pod waits for its CPUs.
    pub(super) held: Option<CpuSet>,
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

/// A machine of each policy; how CPUs are reserved there, and which ones these are.
const KINDS: [(Shape, &str, &str, &str); 5] = [
    (shape(1, 1, 8, 2), "none", "systemReserved: {cpu: '1'}", "0"),
    (
        shape(2, 1, 4, 2),
        "best-effort",
        "reservedSystemCPUs: '3,11'",
        "3,11",
    ),
    (
        shape(2, 2, 4, 1),
        "restricted",
        "kubeReserved: {cpu: 1500m}",
        "0-1",
    ),
    (
        shape(2, 1, 6, 2),
        "single-numa-node",
        "reservedSystemCPUs: '1-2'",
        "1-2",
    ),
    (
        shape(4, 2, 3, 1),
        "single-numa-node",
        "systemReserved: {cpu: '2'}",
        "0-1",
    ),
];

impl Nodes {
    /// The machines join the cluster.
    pub(super) fn join(stage: &Stage) -> Result<Self, String> {
        let mut nodes = Vec::new();
        for (number, (shape, policy, reservation, reserved)) in KINDS.into_iter().enumerate() {
            let name = format!("volcano-{number}");
            let reserved = CpuSet::parse(reserved).map_err(|error| error.to_string())?;
            let rules = format!("topologyManagerPolicy: {policy}\n{reservation}");
            let kubelet = Kubelet::join(stage, &name, shape, &rules)?;
            equal("reserved CPUs", kubelet.reserved(), reserved)?;
            let agent = stage.agent(&played(&name, shape, &kubelet))?;
            nodes.push(Node {
                name,
                shape,
                policy,
                kubelet,
                running: Vec::new(),
                held: None,
                agent,
            });
        }
        Ok(Self { nodes })
    }

    /// Waits until every object, and what vc-scheduler read of it, is what the kubelet holds.
    pub(super) fn published(&self, stage: &Stage, scheduler: &VcScheduler) -> Result<(), String> {
        for node in &self.nodes {
            eventually(&format!("{} is published", node.name), || {
                let object = node.object(stage)?;
                let cpus = &object["spec"]["numares"]["cpu"];
                equal("capacity is there", cpus["capacity"].is_null(), false)?;
                // Without free CPUs the list is left out.
                let free = CpuSet::parse(cpus["allocatable"].as_str().unwrap_or_default());
                let free = free.map_err(|error| format!("{object}: {error}"))?;
                equal("free CPUs", free, node.published_free())?;
                equal("reserved", &object["spec"]["resReserved"], &Value::Null)
            })?;
            eventually(&format!("vc-scheduler has read {}", node.name), || {
                let free = node.published_free();
                equal("free CPUs", scheduler.free(&node.name)?, Some(free))
            })?;
        }
        Ok(())
    }

    /// Some pods leave.
    pub(super) fn some_leave(&mut self, stage: &Stage, dice: &mut Dice) -> Result<(), String> {
        self.leave_if(stage, || dice.says(30))
    }

    /// The pods leave of which this says so.
    pub(super) fn leave_if(
        &mut self,
        stage: &Stage,
        mut leaves: impl FnMut() -> bool,
    ) -> Result<(), String> {
        for node in &mut self.nodes {
            for (name, uid) in std::mem::take(&mut node.running) {
                match leaves() {
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

    /// Some pods leave while others are bound and have no CPUs yet, until the agents have seen it.
    pub(super) fn some_leave_meanwhile(
        &mut self,
        stage: &Stage,
        dice: &mut Dice,
        is_waited_for: impl Fn(&Node) -> bool,
    ) -> Result<(), String> {
        let generation = |node: &Node| Ok::<_, String>(node.agent.status()?["generation"].clone());
        let mut before = Vec::new();
        for node in &mut self.nodes {
            if is_waited_for(node) {
                node.held = Some(node.kubelet.free());
            }
            before.push((generation(node)?, node.kubelet.free()));
        }
        self.some_leave(stage, dice)?;
        for (node, (before, free)) in self.nodes.iter().zip(before) {
            if node.kubelet.free() != free {
                eventually("the agent has read the kubelet's state", || {
                    equal("nothing", generation(node)? == before, false)
                })?;
            }
        }
        Ok(())
    }

    /// What vc-scheduler sees: nodes, their objects and pods.
    pub(super) fn state(stage: &Stage) -> Result<Value, String> {
        stage.state(&[
            ("/api/v1/nodes", "v1", "Node"),
            (
                NUMATOPOLOGIES,
                "nodeinfo.volcano.sh/v1alpha1",
                "Numatopology",
            ),
            (PODS, "v1", "Pod"),
        ])
    }

    pub(super) fn leave(self, stage: &Stage) -> Result<(), String> {
        stage.clear_pods()?;
        for node in self.nodes {
            let path = format!("/api/v1/nodes/{}", node.name);
            stage.admin.expect("DELETE", &path, None)?;
        }
        Ok(())
    }
}

impl Node {
    /// Its Numatopology.
    pub(super) fn object(&self, stage: &Stage) -> Result<Value, String> {
        let path = format!("{NUMATOPOLOGIES}/{}", self.name);
        stage.admin.expect("GET", &path, None)
    }

    /// The free CPUs of its Numatopology.
    pub(super) fn published_free(&self) -> CpuSet {
        let free = self.kubelet.free();
        self.held.as_ref().map_or(free.clone(), |held| held & &free)
    }

    /// The kubelet gives a bound pod its CPUs, or rejects it. Its status and the kubelet's state are not written yet.
    pub(super) fn admit(&mut self, pod: &Value) -> Result<Answer, String> {
        let answer = self.kubelet.admit(pod)?;
        if answer == Answer::Runs {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let meta = &pod["metadata"];
            self.running.push((text(&meta["name"]), text(&meta["uid"])));
        }
        Ok(answer)
    }

    /// Ends the agent as a crash does, and starts it again.
    pub(super) fn restart_agent(&mut self, stage: &Stage) -> Result<(), String> {
        self.agent.kill();
        self.agent = stage.agent(&played(&self.name, self.shape, &self.kubelet))?;
        Ok(())
    }
}

fn played<'a>(name: &'a str, shape: Shape, kubelet: &'a Kubelet) -> Played<'a> {
    Played {
        name,
        shape,
        mode: "mirror",
        dialect: "kubelet",
        rules: &kubelet.rules,
        kubernetes: json!({ "publish": ["numatopology"], "publishInterval": "500ms" }),
    }
}
