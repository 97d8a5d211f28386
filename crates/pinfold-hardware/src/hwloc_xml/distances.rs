//! Distances between NUMA nodes, and their memory attributes.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;

use super::element::XmlElement;
use super::objects::IndexedHardware;
use crate::hardware::{Hardware, MemoryAccess};
use crate::kernel_text::cpu_mask;
use crate::numa_id::NumaId;

/// hwloc's flag of distances that are latencies.
const MEANS_LATENCY: u64 = 4;

/// Adds the distances and memory attributes of the export.
pub(super) fn read(topology: &XmlElement, machine: &mut IndexedHardware) {
    for element in &topology.children {
        match element.name.as_str() {
            "distances2" => version_2(element, machine),
            "memattr" => attribute(element, machine),
            "object" => version_1(element, machine),
            _ => {}
        }
    }
}

/// Reads `<distances2 type="NUMANode" nbobjs="2"><indexes>0 1</indexes><u64values>10 21 21 10</u64values>`.
fn version_2(element: &XmlElement, machine: &mut IndexedHardware) {
    let is_latency = element
        .number::<u64>("kind")
        .is_some_and(|kind| kind & MEANS_LATENCY != 0);
    if element.get("type") != Some("NUMANode") || !is_latency {
        return;
    }
    let numbers = |name: &str| -> Option<Vec<u64>> {
        let parts = element.children.iter().filter(|child| child.name == name);
        parts
            .flat_map(|part| part.text.split_ascii_whitespace())
            .map(|word| word.parse().ok())
            .collect()
    };
    let (Some(indexes), Some(values)) = (numbers("indexes"), numbers("u64values")) else {
        return;
    };
    let by_gp_index = element.get("indexing") == Some("gp");
    let id = |index: u64| {
        if by_gp_index {
            return machine.gp_indexes.get(&index).copied();
        }
        u32::try_from(index).ok().and_then(NumaId::new)
    };
    let ids: Option<Vec<NumaId>> = indexes.into_iter().map(id).collect();
    if let Some(ids) = ids {
        set(&mut machine.hardware, &ids, &values);
    }
}

/// Reads `<distances nbobjs="2" latency_base="10.0"><latency value="1.0"/>...` inside the root object.
fn version_1(object: &XmlElement, machine: &mut IndexedHardware) {
    for element in object
        .children
        .iter()
        .filter(|child| child.name == "distances")
    {
        let base = element.number::<f64>("latency_base").unwrap_or(1.0);
        let latencies = element
            .children
            .iter()
            .filter(|child| child.name == "latency");
        let values: Option<Vec<u64>> = latencies
            .map(|latency| round_to_integer(latency.number::<f64>("value")? * base))
            .collect();
        if let Some(values) = values {
            let ids = machine.in_order.clone();
            set(&mut machine.hardware, &ids, &values);
        }
    }
}

fn round_to_integer(value: f64) -> Option<u64> {
    let text = format!("{:.0}", value.max(0.0));
    text.parse().ok()
}

/// Sets the nodes' distances from a square matrix with one row per node of `ids`.
fn set(hardware: &mut Hardware, ids: &[NumaId], values: &[u64]) {
    let all = hardware.nodes.iter().all(|node| ids.contains(&node.id));
    if !all || ids.is_empty() || ids.len().checked_mul(ids.len()) != Some(values.len()) {
        return;
    }
    let position: BTreeMap<NumaId, usize> =
        ids.iter().enumerate().map(|(at, &id)| (id, at)).collect();
    let order: Vec<usize> = hardware
        .nodes
        .iter()
        .filter_map(|node| position.get(&node.id).copied())
        .collect();
    for (node, &row) in hardware.nodes.iter_mut().zip(&order) {
        let value = |&column: &usize| values.get(row * ids.len() + column);
        let small = |value: &u64| u32::try_from(*value).ok();
        let distances: Option<Vec<u32>> =
            order.iter().map(|at| value(at).and_then(small)).collect();
        node.distances = distances.unwrap_or_default();
    }
}

/// Reads `<memattr name="Bandwidth"><memattr_value target_obj_gp_index="4" initiator_cpuset="0xf" value="20"/>`.
fn attribute(element: &XmlElement, machine: &mut IndexedHardware) {
    let name = element.get("name").unwrap_or_default();
    let read = !name.starts_with("Write");
    let write = !name.starts_with("Read");
    let bandwidth = match name.trim_start_matches("Read").trim_start_matches("Write") {
        "Bandwidth" => true,
        "Latency" => false,
        _ => return,
    };
    for value in element
        .children
        .iter()
        .filter(|child| child.name == "memattr_value")
    {
        let target = value
            .number::<u64>("target_obj_gp_index")
            .and_then(|index| machine.gp_indexes.get(&index).copied());
        let initiator = value
            .get("initiator_cpuset")
            .and_then(|mask| cpu_mask(mask).ok());
        let (Some(target), Some(initiator), Some(value)) =
            (target, initiator, value.number("value"))
        else {
            continue;
        };
        let initiators = nodes_of(&machine.hardware, &initiator);
        let Some(node) = machine
            .hardware
            .nodes
            .iter_mut()
            .find(|node| node.id == target)
        else {
            continue;
        };
        let known = node
            .accesses
            .iter()
            .position(|access| access.initiators == initiators);
        let at = known.unwrap_or_else(|| {
            node.accesses.push(MemoryAccess {
                class: 1,
                initiators,
                ..MemoryAccess::default()
            });
            node.accesses.len() - 1
        });
        let access = &mut node.accesses[at];
        match (bandwidth, read) {
            (true, true) => access.read_bandwidth = Some(value),
            (false, true) => access.read_latency = Some(value),
            (_, false) => {}
        }
        match (bandwidth, write) {
            (true, true) => access.write_bandwidth = Some(value),
            (false, true) => access.write_latency = Some(value),
            (_, false) => {}
        }
    }
}

/// The NUMA nodes that contain CPUs of a set.
fn nodes_of(hardware: &Hardware, cpus: &CpuSet) -> Vec<NumaId> {
    let nodes = hardware
        .nodes
        .iter()
        .filter(|node| !node.cpus.is_disjoint(cpus));
    nodes.map(|node| node.id).collect()
}
