//! Builds the object that a node publishes.
//!
//! | amount | meaning |
//! |---|---|
//! | capacity | the total of the NUMA node |
//! | allocatable | without reserved amounts |
//! | available | without what pods hold exclusively |

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::machine::{Machine, NumaNode};
use pinfold_core::memory::hugepages_resource;
use pinfold_core::name::ResourceName;
use pinfold_core::occupancy::{MemoryRow, Occupancy};
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::Settings;

use super::convert::{POLICY, SCOPE};
use super::{NodeResourceTopology, NrtAttribute, NrtCost, NrtResource, NrtVersion, NrtZone};
use crate::meta::ObjectMeta;

/// The label with the program that writes an object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The object of the node `name` in v1alpha2: the resources of its NUMA nodes and what is available of them. The same
/// input gives the same object.
#[must_use]
pub fn publish(
    name: &str,
    machine: &Machine,
    occupancy: &Occupancy,
    settings: &Settings,
) -> NodeResourceTopology {
    let attribute = |name: &str, value: &str| NrtAttribute {
        name: name.to_owned(),
        value: value.to_owned(),
        ..NrtAttribute::default()
    };
    NodeResourceTopology {
        version: NrtVersion::V1Alpha2,
        meta: ObjectMeta {
            name: name.to_owned(),
            labels: [(MANAGED_BY.to_owned(), "pinfold".to_owned())].into(),
            ..ObjectMeta::default()
        },
        attributes: vec![
            attribute(POLICY, settings.topology_policy.name()),
            attribute(SCOPE, settings.topology_scope.name()),
        ],
        zones: machine
            .nodes()
            .iter()
            .map(|node| zone(node, machine, occupancy))
            .collect(),
        ..NodeResourceTopology::default()
    }
}

fn zone(node: &NumaNode, machine: &Machine, occupancy: &Occupancy) -> NrtZone {
    let costs = machine.nodes().iter().zip(&node.distances);
    let mut resources = vec![cpu(node, occupancy)];
    resources.extend(memory(node, occupancy));
    resources.extend(devices(node, occupancy));
    NrtZone {
        name: zone_name(node),
        kind: "Node".to_owned(),
        costs: costs
            .map(|(other, distance)| NrtCost {
                name: zone_name(other),
                value: i64::from(*distance),
                ..NrtCost::default()
            })
            .collect(),
        resources,
        ..NrtZone::default()
    }
}

fn zone_name(node: &NumaNode) -> String {
    format!("node-{}", node.id.get())
}

fn resource(name: &str, [capacity, allocatable, available]: [Quantity; 3]) -> NrtResource {
    NrtResource {
        name: name.to_owned(),
        capacity: capacity.into(),
        allocatable: allocatable.into(),
        available: available.into(),
        rest: Vec::new(),
    }
}

fn whole(number: usize) -> Quantity {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn cpu(node: &NumaNode, occupancy: &Occupancy) -> NrtResource {
    let cpus: CpuSet = node
        .cores
        .iter()
        .flat_map(|core| core.threads.iter().copied())
        .collect();
    let usable = &cpus - &occupancy.reserved;
    let free = &usable & &occupancy.shared;
    let counts = [cpus.len(), usable.len(), free.len()];
    resource("cpu", counts.map(whole))
}

/// Memory and hugepages, from the memory manager's state if there is one, else from the machine.
fn memory(node: &NumaNode, occupancy: &Occupancy) -> Vec<NrtResource> {
    let bytes = |bytes: u64| Quantity::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
    let mut rows: BTreeMap<ResourceName, [u64; 3]> = BTreeMap::new();
    let mut ordinary = node.memory;
    for pages in &node.hugepages {
        let size = pages.size_kib.saturating_mul(1024);
        let total = size.saturating_mul(pages.count);
        ordinary = ordinary.saturating_sub(total);
        rows.insert(hugepages_resource(pages.size_kib), [total; 3]);
    }
    rows.insert("memory".into(), [node.memory, ordinary, ordinary]);
    for MemoryRow {
        resource,
        total,
        allocatable,
        free,
        ..
    } in occupancy.memory.iter().filter(|row| row.node == node.id)
    {
        rows.insert(resource.clone(), [*total, *allocatable, *free]);
    }
    // "memory" first, then hugepages by name.
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(name, _)| name.as_str() != "memory");
    rows.into_iter()
        .filter(|(_, [total, ..])| *total > 0)
        .map(|(name, amounts)| resource(name.as_str(), amounts.map(bytes)))
        .collect()
}

/// Devices by resource. A device with several NUMA nodes counts on each of them.
fn devices(node: &NumaNode, occupancy: &Occupancy) -> Vec<NrtResource> {
    let mut counts: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for device in &occupancy.devices {
        if !device.nodes.contains(node.id) {
            continue;
        }
        let count = counts.entry(device.resource.as_str()).or_default();
        count[0] += 1;
        count[1] += usize::from(device.healthy);
        count[2] += usize::from(device.healthy && device.holder.is_none());
    }
    let counts = counts.into_iter();
    counts
        .map(|(name, counts)| resource(name, counts.map(whole)))
        .collect()
}
