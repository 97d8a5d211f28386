//! [`Kubelet`]: the kubelet of a played machine. It decides as the core's model of the kubelet does, and writes the state
//! files that an agent in mode `mirror` reads.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::memory::MemoryBlock;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::node_set::NodeId;
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_kube::pod::PodObject;
use pinfold_kube::state::cpu::CpuStateFormat;
use pinfold_kube::state::memory::{MemoryStateFormat, NumaNodeMemory};
use pinfold_kube::state::{CpuManagerState, MemoryManagerState};
use serde_json::{Value, json};

use super::stage::{Shape, Stage};
use crate::agent::oracle;
use crate::cluster::kubelets::read;
use crate::cluster::played::{Answer, PlayedNode};
use crate::cluster::pods::PODS;

/// The kubelet of one machine.
pub(crate) struct Kubelet {
    node: PlayedNode,
    folder: PathBuf,
    /// Its KubeletConfiguration.
    pub(crate) rules: String,
}

impl Kubelet {
    /// Starts with no pod, with these lines of its configuration, and registers its Node.
    pub(crate) fn join(
        stage: &Stage,
        name: &str,
        shape: Shape,
        rules: &str,
    ) -> Result<Self, String> {
        let rules = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n{rules}\n"
        );
        let (machine, memory) = oracle::look(&stage.machine(name, shape)?)?;
        let read = KubeletSettings::read("the rules", rules.as_bytes(), Fidelity::Exact);
        let read = read.map_err(|findings| findings.to_string())?;
        let settings = read.value.settings(memory, Fidelity::Exact);
        let machine = machine.as_ref().clone();
        let folder = stage.kubelet_folder(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let kubelet = Self {
            node: PlayedNode::new(name, machine, settings)?,
            folder,
            rules,
        };
        kubelet.save()?;
        stage
            .admin
            .expect("POST", "/api/v1/nodes", Some(&kubelet.object()))?;
        Ok(kubelet)
    }

    /// Its Node object.
    pub(crate) fn object(&self) -> Value {
        self.node.node()
    }

    /// Whether it would admit a pod now.
    pub(crate) fn would_admit(&self, pod: &Value) -> Result<bool, String> {
        Ok(self.node.would_admit(&read(pod.clone())?.pod))
    }

    /// Admits a bound pod or rejects it. The state files and the pod's status are written by the caller.
    pub(crate) fn admit(&mut self, pod: &Value) -> Result<Answer, String> {
        let object: PodObject = read(pod.clone())?;
        self.node.admit(&object)
    }

    /// A pod ended.
    pub(crate) fn release(&mut self, uid: &str) {
        self.node.release(&uid.into());
    }

    /// The CPUs that are neither reserved nor a pod's.
    pub(crate) fn free(&self) -> CpuSet {
        let ledger = self.node.ledger();
        ledger.state().cpus().shared() - &ledger.rules().reserved_cpus()
    }

    /// How many of them each NUMA node has.
    pub(crate) fn free_by_node(&self) -> BTreeMap<NodeId, usize> {
        let free = self.free();
        let nodes = self.node.ledger().rules().machine().nodes().iter();
        let counted = nodes.map(|node| {
            let cpus = node.cores.iter().flat_map(|core| &core.threads);
            (node.id, cpus.filter(|cpu| free.contains(**cpu)).count())
        });
        counted.collect()
    }

    /// The CPUs that it reserves.
    pub(crate) fn reserved(&self) -> CpuSet {
        self.node.ledger().rules().reserved_cpus()
    }

    /// Writes its state files.
    pub(crate) fn save(&self) -> Result<(), String> {
        let state = self.node.ledger().state();
        let cpus = CpuManagerState {
            policy: "static".to_owned(),
            default_cpus: state.cpus().shared().clone(),
            containers: state.cpus().containers().clone(),
            ..CpuManagerState::default()
        };
        self.write("cpu_manager_state", &cpus.write(CpuStateFormat::V2))?;
        if !self.node.ledger().rules().assigns_memory() {
            return Ok(());
        }
        let nodes = state.memory().nodes().iter().map(|(&id, node)| {
            let row = NumaNodeMemory {
                assignments: i64::try_from(node.assignments).unwrap_or(i64::MAX),
                cells: node.cells,
                memory: node.memory.clone(),
            };
            (id, row)
        });
        let memory = MemoryManagerState {
            policy: "Static".to_owned(),
            nodes: nodes.collect(),
            containers: self.blocks(),
            ..MemoryManagerState::default()
        };
        self.write("memory_manager_state", &memory.write(MemoryStateFormat::V1))
    }

    /// The memory of every container.
    fn blocks(&self) -> BTreeMap<PodUid, BTreeMap<ContainerName, Vec<MemoryBlock>>> {
        let state = self.node.ledger().state();
        let pods = state.admitted_pods().values().map(|admitted| {
            let pod = &admitted.pod;
            let containers = pod.all_containers().filter_map(|container| {
                let blocks = state.memory().blocks(&pod.uid, &container.name)?;
                Some((container.name.clone(), blocks.to_vec()))
            });
            (pod.uid.clone(), containers.collect())
        });
        let held = pods.filter(|(_, containers): &(_, BTreeMap<_, _>)| !containers.is_empty());
        held.collect()
    }

    /// Replaces a state file as a whole.
    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(name);
        let new = self.folder.join(format!("{name}.new"));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Writes the status of a pod that its kubelet decided about.
pub(crate) fn report_status(stage: &Stage, pod: &Value, answer: &Answer) -> Result<(), String> {
    let status = match answer {
        Answer::Runs => json!({ "phase": "Running" }),
        Answer::Fails(reason, message) => {
            json!({ "phase": "Failed", "reason": reason, "message": message })
        }
    };
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{PODS}/{name}/status");
    let status = json!({ "status": status });
    stage.admin.expect("PATCH", &path, Some(&status)).map(drop)
}
