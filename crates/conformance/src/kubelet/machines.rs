//! The machines that the kubelet's cases refer to by id.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuId;
use pinfold_core::machine::{Core, HugePages, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::NodeId;
use serde::Deserialize;
use serde_json::Value;

use crate::case::Case;

/// Machines by id. An invalid machine fails only the cases that use it.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    by_id: BTreeMap<String, Result<Machine, String>>,
}

impl Machines {
    /// Adds the machine of one line of `topologies.jsonl`.
    pub fn add(&mut self, case: &Case) {
        self.by_id.insert(case.id.clone(), read(&case.machine));
    }

    /// The machine of a case.
    ///
    /// # Errors
    /// If there is no machine of that id, or it is not valid.
    pub fn get(&self, id: &str) -> Result<&Machine, String> {
        match self.by_id.get(id) {
            Some(Ok(machine)) => Ok(machine),
            Some(Err(problem)) => Err(format!("machine {id:?}: {problem}")),
            None => Err(format!("no machine {id:?} in topologies.jsonl")),
        }
    }
}

#[derive(Deserialize)]
struct MachineJson {
    num_cpus: usize,
    num_sockets: usize,
    nodes: Vec<NodeJson>,
}

#[derive(Deserialize)]
struct NodeJson {
    id: i64,
    memory: u64,
    #[serde(default)]
    hugepages: Option<Vec<HugePages>>,
    #[serde(default)]
    distances: Option<Vec<u32>>,
    #[serde(default)]
    cores: Option<Vec<CoreJson>>,
}

#[derive(Deserialize)]
struct CoreJson {
    core: u32,
    socket: u32,
    uncore: Option<u32>,
    threads: Vec<u32>,
}

/// Reads a machine in the format of the vectors.
pub(super) fn read(json: &Value) -> Result<Machine, String> {
    let machine = MachineJson::deserialize(json).map_err(|error| error.to_string())?;
    let mut nodes = Vec::new();
    for node in machine.nodes {
        let mut cores = Vec::new();
        for core in node.cores.unwrap_or_default() {
            let threads: Option<Vec<CpuId>> =
                core.threads.iter().map(|&id| CpuId::new(id)).collect();
            let threads = threads.ok_or("a CPU id is out of range")?;
            cores.push(Core {
                id: core.core,
                socket: core.socket,
                die: None,
                l3: core.uncore,
                threads,
            });
        }
        nodes.push(NumaNode {
            id: NodeId::new(node.id).map_err(|error| error.to_string())?,
            memory: node.memory,
            hugepages: node.hugepages.unwrap_or_default(),
            distances: node.distances.unwrap_or_default(),
            cores,
        });
    }
    let parts = MachineParts {
        nodes,
        num_cpus: machine.num_cpus,
        num_sockets: machine.num_sockets,
        offline: pinfold_core::cpu_set::CpuSet::new(),
    };
    Machine::new(parts).map_err(|error| error.to_string())
}
