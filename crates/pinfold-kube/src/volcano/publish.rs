//! Builds the Numatopology of a node from the core's values.

use std::collections::BTreeMap;

use pinfold_core::machine::Machine;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::settings::Settings;

use super::numatopology::{CpuInfo, Numatopology, PodAllocation, ResourceInfo};
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
    let mut cpus = BTreeMap::new();
    for node in machine.nodes() {
        for core in &node.cores {
            for cpu in &core.threads {
                let info = CpuInfo {
                    numa: i64::from(node.id.get()),
                    socket: i64::from(core.socket),
                    core: i64::from(core.id),
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
        allocatable: (&occupancy.shared & machine.online()).to_string(),
        capacity: i64::try_from(machine.online().len()).unwrap_or(i64::MAX),
        ..ResourceInfo::default()
    };
    let reserved = settings.reserved_cpu.map(|amount| amount.to_string());
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
        reserved: reserved
            .map(|amount| ("cpu".to_owned(), amount))
            .into_iter()
            .collect(),
        resources: [("cpu".to_owned(), cpu)].into(),
        cpus,
        pods,
        ..Numatopology::default()
    }
}
