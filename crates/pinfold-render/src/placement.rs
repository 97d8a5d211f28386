//! The assignment of a pod, in one line.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{Assignment, ContainerAssignment};
use pinfold_core::name::{DeviceId, ResourceName};
use pinfold_core::node_set::NodeSet;

use crate::amount;

/// The assignment of a pod or container without exclusive CPUs, memory and devices.
pub const SHARED: &str = "shared pool";

/// The assignment of all containers of a pod together: `node 0, CPUs 1-4, memory 8 GiB, gpu0`.
#[must_use]
pub fn placement(assignment: &Assignment) -> String {
    of_containers(&assignment.containers)
}

/// The assignment of one container: `node 0, CPUs 1-4`.
#[must_use]
pub fn container(assignment: &ContainerAssignment) -> String {
    of_containers(std::slice::from_ref(assignment))
}

/// The CPUs and NUMA nodes of a pod: `node 0, CPUs 4-7`; `node 0, shared pool`.
#[must_use]
pub fn of_sets(cpus: &CpuSet, nodes: NodeSet) -> String {
    let mut words: Vec<String> = numa_nodes(nodes).into_iter().collect();
    words.push(match cpus.is_empty() {
        true => SHARED.to_owned(),
        false => format!("CPUs {cpus}"),
    });
    words.join(", ")
}

fn numa_nodes(nodes: NodeSet) -> Option<String> {
    match nodes.len() {
        0 => None,
        1 => Some(format!("node {nodes}")),
        _ => Some(format!("nodes {nodes}")),
    }
}

fn of_containers(containers: &[ContainerAssignment]) -> String {
    let mut nodes = NodeSet::EMPTY;
    let mut cpus = CpuSet::new();
    let mut memory: Vec<(&ResourceName, u64)> = Vec::new();
    let mut devices: Vec<&str> = Vec::new();
    for container in containers {
        nodes = nodes | container.affinity.mask.unwrap_or(NodeSet::EMPTY);
        if let Some(own) = &container.cpus {
            cpus |= own;
        }
        let blocks = container.memory.iter().flatten();
        for block in blocks.filter(|block| block.size > 0) {
            nodes = nodes | block.nodes;
            let known = memory
                .iter_mut()
                .find(|(resource, _)| **resource == block.resource);
            match known {
                Some((_, sum)) => *sum = sum.saturating_add(block.size),
                None => memory.push((&block.resource, block.size)),
            }
        }
        let ids = container.devices.values().flatten();
        devices.extend(ids.map(DeviceId::as_str));
    }
    if cpus.is_empty() && memory.is_empty() && devices.is_empty() {
        return SHARED.to_owned();
    }
    devices.sort_unstable();
    devices.dedup();
    let mut words: Vec<String> = numa_nodes(nodes).into_iter().collect();
    if !cpus.is_empty() {
        words.push(format!("CPUs {cpus}"));
    }
    memory.sort();
    for (resource, bytes) in memory {
        words.push(format!("{resource} {}", amount::bytes(bytes)));
    }
    words.extend(devices.into_iter().map(str::to_owned));
    words.join(", ")
}
