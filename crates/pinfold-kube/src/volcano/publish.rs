//! Builds the Numatopology of a node from the core's values.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::machine::Machine;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::settings::Settings;

use super::numatopology::{CpuInfo, Numatopology, PodAllocation, ResourceInfo};
use crate::core_numbers::core_numbers;
use crate::meta::ObjectMeta;
use crate::node_resource_topology::MANAGED_BY;

/// The Numatopology of the node `name`. `pods` are those with exclusive CPUs, in any order. The same input gives the
/// same object: it has no timestamp.
#[must_use]
pub fn publish(
    name: &str,
    machine: &Machine,
    occupancy: &Occupancy,
    settings: &Settings,
    mut pods: Vec<PodAllocation>,
) -> Numatopology {
    let numbers = core_numbers(machine);
    let mut cpus = BTreeMap::new();
    for node in machine.nodes() {
        for core in &node.cores {
            for cpu in &core.threads {
                let info = CpuInfo {
                    numa: i64::from(node.id.get()),
                    socket: i64::from(core.socket),
                    core: numbers.get(cpu).copied().unwrap_or_default(),
                    ..CpuInfo::default()
                };
                cpus.insert(cpu.to_string(), info);
            }
        }
    }
    pods.retain(|pod| !pod.containers.is_empty());
    pods.sort_by(|a, b| {
        let key = |pod: &PodAllocation| (pod.uid.clone(), pod.namespace.clone(), pod.name.clone());
        key(a).cmp(&key(b))
    });
    let cpu = ResourceInfo {
        allocatable: allocatable(machine, occupancy).to_string(),
        capacity: i64::try_from(machine.online().len()).unwrap_or(i64::MAX),
        ..ResourceInfo::default()
    };
    Numatopology {
        meta: ObjectMeta {
            name: name.to_owned(),
            labels: [(MANAGED_BY.to_owned(), "pinfold".to_owned())].into(),
            ..ObjectMeta::default()
        },
        policies: [
            ("CPUManagerPolicy", settings.cpu_policy.name()),
            ("TopologyManagerPolicy", settings.topology_policy.name()),
        ]
        .map(|(key, policy)| (key.to_owned(), policy.to_owned()))
        .into(),
        resources: [("cpu".to_owned(), cpu)].into(),
        cpus,
        pods,
        ..Numatopology::default()
    }
}

/// The Numatopology of the node `name` without pods as Volcano's own exporter writes it: cores have the kernel's numbers,
/// reserved CPUs are allocatable, and `resReserved` has their amount.
#[must_use]
pub fn publish_as_exporter(
    name: &str,
    machine: &Machine,
    occupancy: &Occupancy,
    settings: &Settings,
) -> Numatopology {
    let mut object = publish(name, machine, occupancy, settings, Vec::new());
    let amount = settings.reserved_cpu.map(|amount| amount.to_string());
    object.reserved = amount
        .map(|amount| ("cpu".to_owned(), amount))
        .into_iter()
        .collect();
    for core in machine.nodes().iter().flat_map(|node| &node.cores) {
        for cpu in &core.threads {
            if let Some(info) = object.cpus.get_mut(&cpu.to_string()) {
                info.core = i64::from(core.id);
            }
        }
    }
    if let Some(cpu) = object.resources.get_mut("cpu") {
        cpu.allocatable = (&occupancy.shared & machine.online()).to_string();
    }
    object
}

/// `numares.cpu.allocatable`: the CPUs that Volcano may assign. Reserved CPUs are left out, and the object has no
/// `resReserved`: from that amount Volcano derives the CPUs itself, the lowest ones, whichever the kubelet reserves.
fn allocatable(machine: &Machine, occupancy: &Occupancy) -> CpuSet {
    let online = &occupancy.shared & machine.online();
    &online - &occupancy.reserved
}
