//! [`Nodes`]: played machines under each policy of the topology manager, with agents that mirror played kubelets.

use std::collections::BTreeMap;
use std::fs;

use pinfold_core::cpu_set::CpuSet;
use pinfold_kube::state::CpuManagerState;
use pinfold_kube::state::cpu::CpuStateFormat;
use serde_json::{Value, json};

use super::process::VcScheduler;
use crate::agent::process::Agent;
use crate::cluster::pods::{Dice, PODS};
use crate::cluster::stage::eventually;
use crate::peers::stage::{Played, Shape, Stage};
use crate::report::equal;

/// Where the objects of Volcano's nodes are.
const NUMATOPOLOGIES: &str = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies";

/// A pod that a played kubelet runs.
#[derive(Clone)]
struct Running {
    name: String,
    uid: String,
    cpus: CpuSet,
}

/// A machine with its kubelet and agent.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) policy: &'static str,
    reserved: CpuSet,
    running: Vec<Running>,
    _agent: Agent,
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
            let mut object = shape.node(&name, &json!({}), &json!({}));
            let left = shape.cpus() as usize - reserved.len();
            object["status"]["allocatable"]["cpu"] = left.to_string().into();
            stage.admin.expect("POST", "/api/v1/nodes", Some(&object))?;
            save(stage, &name, shape, &[])?;
            let rules = format!(
                "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\ntopologyManagerPolicy: {policy}\n{reservation}\n"
            );
            let agent = stage.agent(&Played {
                name: &name,
                shape,
                mode: "mirror",
                dialect: "kubelet",
                rules: &rules,
                kubernetes: json!({ "publish": ["numatopology"], "publishInterval": "500ms" }),
            })?;
            nodes.push(Node {
                name,
                shape,
                policy,
                reserved,
                running: Vec::new(),
                _agent: agent,
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
                equal("free CPUs", free, node.free())?;
                equal("reserved", &object["spec"]["resReserved"], &Value::Null)
            })?;
            eventually(&format!("vc-scheduler has read {}", node.name), || {
                equal("free CPUs", scheduler.free(&node.name)?, Some(node.free()))
            })?;
        }
        Ok(())
    }

    /// Some pods leave.
    pub(super) fn some_leave(&mut self, stage: &Stage, dice: &mut Dice) -> Result<(), String> {
        for node in &mut self.nodes {
            let mut left = Vec::new();
            for pod in std::mem::take(&mut node.running) {
                match dice.says(30) {
                    true => stage.delete(&pod.name)?,
                    false => left.push(pod),
                }
            }
            node.running = left;
            save(stage, &node.name, node.shape, &node.running)?;
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

    /// CPUs that are neither reserved nor a pod's.
    pub(super) fn free(&self) -> CpuSet {
        let free = &all(self.shape) - &self.reserved;
        (self.running.iter()).fold(free, |free, pod| &free - &pod.cpus)
    }

    /// The kubelet starts a pod with these CPUs.
    pub(super) fn start(&mut self, stage: &Stage, pod: &Value, cpus: CpuSet) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &pod["metadata"];
        let (name, uid) = (text(&meta["name"]), text(&meta["uid"]));
        let running = json!({ "status": { "phase": "Running" } });
        let path = format!("{PODS}/{name}/status");
        stage.admin.expect("PATCH", &path, Some(&running))?;
        self.running.push(Running { name, uid, cpus });
        save(stage, &self.name, self.shape, &self.running)
    }
}

fn all(shape: Shape) -> CpuSet {
    CpuSet::parse(&format!("0-{}", shape.cpus() - 1)).unwrap_or_default()
}

/// Writes the state file of the static CPU manager.
fn save(stage: &Stage, name: &str, shape: Shape, running: &[Running]) -> Result<(), String> {
    let folder = stage.kubelet_folder(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut state = CpuManagerState {
        policy: "static".to_owned(),
        default_cpus: all(shape),
        ..CpuManagerState::default()
    };
    for pod in running.iter().filter(|pod| !pod.cpus.is_empty()) {
        state.default_cpus = &state.default_cpus - &pod.cpus;
        let container = BTreeMap::from([("main".into(), pod.cpus.clone())]);
        state.containers.insert(pod.uid.as_str().into(), container);
    }
    let path = folder.join("cpu_manager_state");
    let new = folder.join("cpu_manager_state.new");
    let written = fs::write(&new, state.write(CpuStateFormat::V2));
    let written = written.and_then(|()| fs::rename(&new, &path));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
