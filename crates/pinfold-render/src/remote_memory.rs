//! What memory on another NUMA node costs, by the firmware's table of distances (SLIT).

use pinfold_core::decision::Assignment;
use pinfold_core::machine::{Core, Machine};
use pinfold_core::name::{ContainerName, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use serde::Serialize;

use crate::text::paragraph;

/// Memory of a container on another NUMA node than some of its exclusive CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemoteMemory {
    /// The container.
    pub container: ContainerName,
    /// `memory` or `hugepages-<size>`.
    pub resource: ResourceName,
    /// The NUMA node of the CPUs.
    pub cpu_node: NodeId,
    /// The NUMA node of the memory.
    pub memory_node: NodeId,
    /// The distance from the CPUs to the memory.
    pub distance: u32,
    /// The distance from the CPUs to the memory of their own node.
    pub local_distance: u32,
}

/// The remote memory of an assignment, by container, CPUs and memory. Empty if the firmware reports no distances.
#[must_use]
pub fn of(machine: &Machine, assignment: &Assignment) -> Vec<RemoteMemory> {
    let mut remote = Vec::new();
    for container in &assignment.containers {
        let Some(cpus) = &container.cpus else {
            continue;
        };
        let has_cpu = |core: &Core| core.threads.iter().any(|&cpu| cpus.contains(cpu));
        let nodes = machine.nodes().iter().enumerate();
        for (index, node) in nodes.filter(|(_, node)| node.cores.iter().any(has_cpu)) {
            let Some(&local_distance) = node.distances.get(index) else {
                continue;
            };
            for block in container
                .memory
                .iter()
                .flatten()
                .filter(|block| block.size > 0)
            {
                let others = block.nodes - NodeSet::single(node.id);
                remote.extend(others.iter().filter_map(|memory_node| {
                    let column = machine
                        .nodes()
                        .iter()
                        .position(|one| one.id == memory_node)?;
                    Some(RemoteMemory {
                        container: container.name.clone(),
                        resource: block.resource.clone(),
                        cpu_node: node.id,
                        memory_node,
                        distance: *node.distances.get(column)?,
                        local_distance,
                    })
                }));
            }
        }
    }
    remote
}

/// One line per pair of NUMA nodes: `container app: memory on NUMA node 3, distance 32: 3.2x local by the firmware's
/// table`. Pairs with the same distance share a line.
#[must_use]
pub fn text(remote: &[RemoteMemory], width: usize) -> String {
    let mut lines: Vec<(&RemoteMemory, NodeSet, NodeSet)> = Vec::new();
    for one in remote {
        let same = |(first, _, _): &&mut (&RemoteMemory, NodeSet, NodeSet)| {
            (&first.container, &first.resource) == (&one.container, &one.resource)
                && (first.distance, first.local_distance) == (one.distance, one.local_distance)
        };
        let (cpus, memory) = (
            NodeSet::single(one.cpu_node),
            NodeSet::single(one.memory_node),
        );
        match lines.iter_mut().find(same) {
            Some((_, from, to)) => (*from, *to) = (*from | cpus, *to | memory),
            None => lines.push((one, cpus, memory)),
        }
    }
    let mut text = String::new();
    for (one, cpus, memory) in lines {
        let lead = format!("  container {}: ", one.container);
        let sentence = format!(
            "{} on {}, distance {} from the CPUs on {}{}",
            one.resource,
            named(memory),
            one.distance,
            named(cpus),
            times_local(one)
        );
        text.push_str(&paragraph(&lead, &sentence, 4, width));
    }
    match text.is_empty() {
        true => text,
        false => format!("\nRemote memory\n{text}"),
    }
}

fn named(nodes: NodeSet) -> String {
    match nodes.len() {
        1 => format!("NUMA node {nodes}"),
        _ => format!("NUMA nodes {nodes}"),
    }
}

/// `: 3.2x local by the firmware's table`, in integers so that the output is the same on every machine.
fn times_local(one: &RemoteMemory) -> String {
    let (distance, local) = (u64::from(one.distance), u64::from(one.local_distance));
    match (distance * 10 + local / 2).checked_div(local) {
        Some(tenths) => format!(
            ": {}.{}x local by the firmware's table (SLIT)",
            tenths / 10,
            tenths % 10
        ),
        None => String::new(),
    }
}
