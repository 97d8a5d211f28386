//! [`Holdings`]: the exclusive CPUs, memory and devices of containers, as the kubelet's state files, its podresources API
//! and the agent say.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde_json::Value;

use super::machine::{DEVICES, Machine};

/// NUMA nodes by id.
pub(super) type Nodes = BTreeSet<u32>;

/// What a container holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Exclusive CPUs.
    pub(super) cpus: CpuSet,
    /// Resource, bytes and NUMA nodes of every block.
    pub(super) memory: Vec<(String, u64, Nodes)>,
    /// The ids of devices.
    pub(super) devices: Vec<String>,
}

impl Held {
    /// The same with the NUMA nodes of the devices in place of their ids: a kubelet chooses any device of a NUMA node.
    pub(super) fn places(&self) -> (CpuSet, Vec<(String, u64, Nodes)>, Vec<u32>) {
        let mut nodes: Vec<u32> = self.devices.iter().filter_map(|id| node_of(id)).collect();
        nodes.sort_unstable();
        (self.cpus.clone(), self.memory.clone(), nodes)
    }

    /// The NUMA nodes of all blocks of memory.
    pub(super) fn memory_nodes(&self) -> Nodes {
        let nodes = self.memory.iter().flat_map(|(_, _, nodes)| nodes);
        nodes.copied().collect()
    }

    fn sorted(mut self) -> Self {
        self.memory.sort_by(|a, b| a.0.cmp(&b.0));
        self.devices.sort_unstable();
        self
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The NUMA node of a device.
pub(super) fn node_of(device: &str) -> Option<u32> {
    let found = DEVICES.iter().find(|(id, _)| *id == device);
    found.map(|(_, node)| *node)
}

/// By pod, as its uid or as its name, and container. Containers that hold nothing are left out.
pub(super) type Holdings = BTreeMap<(String, String), Held>;

/// What the kubelet's state files say.
pub(super) struct KubeletState {
    pub(super) holdings: Holdings,
    /// The CPUs of all other containers.
    pub(super) shared: CpuSet,
    /// Free bytes by NUMA node and resource.
    pub(super) free_memory: BTreeMap<(u32, String), u64>,
}

const FILES: &str = "cd /var/lib/kubelet; for file in cpu_manager_state memory_manager_state \
     device-plugins/kubelet_internal_checkpoint; do cat $file 2>/dev/null || echo null; echo; done";

/// Reads the state files, by the uids of pods.
pub(super) fn kubelet_state(machine: &Machine) -> Result<KubeletState, String> {
    let text = machine.run(FILES)?;
    let files = text.lines().filter(|line| !line.is_empty());
    let files: Result<Vec<Value>, _> = files.map(serde_json::from_str).collect();
    let files = files.map_err(|error| format!("{error}: {text}"))?;
    let [cpus, memory, devices] = files.as_slice() else {
        return Err(format!("expected three files, found {text}"));
    };
    let mut holdings = Holdings::new();
    for (pod, containers) in object(&cpus["entries"]) {
        for (container, set) in object(containers) {
            holdings
                .entry((pod.clone(), container.clone()))
                .or_default()
                .cpus = cpu_set(set)?;
        }
    }
    for (pod, containers) in object(&memory["entries"]) {
        for (container, blocks) in object(containers) {
            let blocks = array(blocks).map(|block| block_of(block, "type", "size", "numaAffinity"));
            let blocks: Result<Vec<_>, String> = blocks.collect();
            holdings
                .entry((pod.clone(), container.clone()))
                .or_default()
                .memory = blocks?;
        }
    }
    for entry in array(&devices["Data"]["PodDeviceEntries"]) {
        let key = (text_of(&entry["PodUID"]), text_of(&entry["ContainerName"]));
        let held = holdings.entry(key).or_default();
        for (_, ids) in object(&entry["DeviceIDs"]) {
            held.devices.extend(array(ids).map(text_of));
        }
    }
    let mut free_memory = BTreeMap::new();
    for (node, cell) in object(&memory["machineState"]) {
        for (resource, amounts) in object(&cell["memoryMap"]) {
            let node = node.parse().map_err(|_| node.clone())?;
            free_memory.insert(
                (node, resource.clone()),
                amounts["free"].as_u64().unwrap_or(0),
            );
        }
    }
    Ok(KubeletState {
        holdings: sorted(holdings),
        shared: cpu_set(&cpus["defaultCpuSet"])?,
        free_memory,
    })
}

/// What the agent reports, by the uids of pods.
pub(super) fn agent(machine: &Machine) -> Result<Holdings, String> {
    let pods = machine.json("pinfold ps -o json")?;
    let mut holdings = Holdings::new();
    for pod in array(&pods) {
        for container in array(&pod["containers"]) {
            let mut held = Held::default();
            if container["exclusiveCpus"] == true {
                held.cpus = cpu_set(&container["cpus"])?;
            }
            for block in array(&container["memory"]) {
                held.memory
                    .push(block_of(block, "resource", "bytes", "numaNodes")?);
            }
            for devices in array(&container["devices"]) {
                held.devices
                    .extend(array(&devices["deviceIds"]).map(text_of));
            }
            holdings.insert((text_of(&pod["uid"]), text_of(&container["name"])), held);
        }
    }
    Ok(sorted(holdings))
}

/// What a podresources socket lists, by the names of pods.
pub(super) fn pod_resources(machine: &Machine, socket: &str) -> Result<Holdings, String> {
    let text = machine.run(&format!("e2e pod-resources {socket}"))?;
    let mut holdings = Holdings::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, pod, container, what @ ..] = words.as_slice() else {
            return Err(format!("{socket}: {line}"));
        };
        let name = pod.rsplit('/').next().unwrap_or_default();
        let held = holdings
            .entry((name.to_owned(), (*container).to_owned()))
            .or_default();
        match (*kind, what) {
            ("held", [cpus]) => held.cpus = CpuSet::parse(cpus).map_err(|_| line.to_owned())?,
            ("memory", [resource, bytes, nodes]) => held.memory.push((
                (*resource).to_owned(),
                bytes.parse().map_err(|_| line.to_owned())?,
                nodes_of(nodes)?,
            )),
            ("device", [id]) => held.devices.push((*id).to_owned()),
            _ => return Err(format!("{socket}: {line}")),
        }
    }
    Ok(sorted(holdings))
}

/// The container of a simulated assignment.
pub(super) fn simulated(container: &Value) -> Result<Held, String> {
    let mut held = Held::default();
    if container["cpus"].is_string() {
        held.cpus = cpu_set(&container["cpus"])?;
    }
    for block in array(&container["memory"]) {
        held.memory
            .push(block_of(block, "resource", "size", "nodes")?);
    }
    for (_, ids) in object(&container["devices"]) {
        held.devices.extend(array(ids).map(text_of));
    }
    Ok(held.sorted())
}

fn sorted(holdings: Holdings) -> Holdings {
    let sorted = holdings.into_iter().map(|(key, held)| (key, held.sorted()));
    sorted.filter(|(_, held)| !held.is_empty()).collect()
}

fn block_of(
    block: &Value,
    resource: &str,
    bytes: &str,
    nodes: &str,
) -> Result<(String, u64, Nodes), String> {
    let set: Nodes = match &block[nodes] {
        Value::String(text) => nodes_of(text)?,
        ids => array(ids)
            .filter_map(|id| u32::try_from(id.as_u64()?).ok())
            .collect(),
    };
    let bytes = block[bytes].as_u64().ok_or_else(|| block.to_string())?;
    Ok((text_of(&block[resource]), bytes, set))
}

fn cpu_set(value: &Value) -> Result<CpuSet, String> {
    let text = value.as_str().unwrap_or_default();
    CpuSet::parse(text).map_err(|error| format!("{value}: {error}"))
}

/// NUMA nodes from a list such as `0-1`, as the kernel writes them.
pub(super) fn nodes_of(text: &str) -> Result<Nodes, String> {
    // They are written as CPUs are.
    let ids = CpuSet::parse(text).map_err(|error| format!("{text}: {error}"))?;
    Ok(ids.iter().map(CpuId::get).collect())
}

pub(super) fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

pub(super) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
