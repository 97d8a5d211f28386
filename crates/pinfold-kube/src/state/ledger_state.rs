//! [`StateFiles`]: the three state files of a node, converted to the core's state for restoring a ledger.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu::CpuState;
use pinfold_core::device::{self, AdvertisedDevices, Device, DeviceEdit, DeviceSet};
use pinfold_core::ledger::{LedgerState, SavedState};
use pinfold_core::memory::{self, MemoryBlock, MemoryState, memory_resource};
use pinfold_core::name::{ContainerName, DeviceId, PodUid, ResourceName};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::quantity::Quantity;

use super::{CpuManagerState, DeviceManagerState, MemoryManagerState};

/// The state files of a node; `None` for a missing file.
#[derive(Clone, Debug, Default)]
pub struct StateFiles {
    /// `cpu_manager_state`.
    pub cpus: Option<CpuManagerState>,
    /// `memory_manager_state`.
    pub memory: Option<MemoryManagerState>,
    /// `kubelet_internal_checkpoint`.
    pub devices: Option<DeviceManagerState>,
}

impl StateFiles {
    /// The state to restore a ledger from. For a missing file, or one of a manager with the policy `none`, the state of
    /// the `empty` node is used.
    #[must_use]
    pub fn to_saved_state(&self, empty: &LedgerState) -> SavedState {
        let cpus = self.cpus.as_ref().filter(|cpus| cpus.is_static());
        let cpus = cpus.map(|file| {
            CpuState::restored(
                file.default_cpus.clone(),
                file.containers.clone(),
                file.pods.clone(),
            )
        });
        let memory = self.memory.as_ref().filter(|memory| memory.is_static());
        SavedState {
            cpus: cpus.unwrap_or_else(|| empty.cpus().clone()),
            memory: memory.map_or_else(|| empty.memory().clone(), memory_state),
            devices: self.devices.as_ref().map(device_state).unwrap_or_default(),
        }
    }

    /// The devices that plugins offered when the files were written. The NUMA node of a device is known only while it
    /// is allocated.
    #[must_use]
    pub fn offers(&self) -> BTreeMap<ResourceName, AdvertisedDevices> {
        let mut offers: BTreeMap<ResourceName, AdvertisedDevices> = BTreeMap::new();
        let Some(file) = &self.devices else {
            return offers;
        };
        for (resource, ids) in &file.registered {
            let offer = offers.entry(resource.clone()).or_default();
            for id in ids {
                let numa = None;
                let healthy = true;
                offer.insert(id.as_str().into(), Device { numa, healthy });
            }
        }
        for entry in &file.entries {
            let offer = offers.entry(entry.resource.clone()).or_default();
            for (node, ids) in &entry.devices {
                let Some(node) = node else { continue };
                for id in ids {
                    let device = offer.entry(id.as_str().into()).or_insert(Device {
                        numa: None,
                        healthy: false,
                    });
                    let nodes = device.numa.get_or_insert_default();
                    if !nodes.contains(&node.get().into()) {
                        nodes.push(node.get().into());
                    }
                }
            }
        }
        offers
    }

    /// The pods in the files that are not among the `known`: Guaranteed pods that request exactly what they hold. The
    /// files have their uids, not their names.
    #[must_use]
    pub fn unlisted_pods(&self, known: &BTreeSet<PodUid>) -> Vec<Pod> {
        let mut found = PodsFromState::default();
        if let Some(file) = &self.cpus {
            for (pod, containers) in &file.containers {
                for (container, cpus) in containers {
                    add(found.container(pod, container), "cpu", count(cpus.len()));
                }
            }
            for (pod, cpus) in &file.pods {
                add(found.whole(pod), "cpu", count(cpus.len()));
            }
        }
        if let Some(file) = &self.memory {
            for (pod, containers) in &file.containers {
                for (container, blocks) in containers {
                    add_blocks(found.container(pod, container), blocks);
                }
            }
            for (pod, blocks) in &file.pods {
                add_blocks(found.whole(pod), blocks);
            }
        }
        for entry in self.devices.iter().flat_map(|file| &file.entries) {
            let ids: BTreeSet<&String> = entry.devices.values().flatten().collect();
            let list = found.container(&entry.pod, &entry.container);
            add(list, entry.resource.as_str(), count(ids.len()));
        }
        found.pods(known)
    }
}

fn memory_state(file: &MemoryManagerState) -> MemoryState {
    let nodes = file.nodes.iter().map(|(&id, node)| {
        let row = memory::NodeMemory {
            assignments: u64::try_from(node.assignments).unwrap_or(0),
            cells: node.cells,
            memory: node.memory.clone(),
        };
        (id, row)
    });
    MemoryState::new(nodes.collect(), file.containers.clone(), file.pods.clone())
}

fn device_state(file: &DeviceManagerState) -> device::DeviceState {
    let mut held: BTreeMap<(&PodUid, &ContainerName, &ResourceName), DeviceSet> = BTreeMap::new();
    for entry in &file.entries {
        let ids = entry.devices.values().flatten();
        held.entry((&entry.pod, &entry.container, &entry.resource))
            .or_default()
            .extend(ids.map(|id| DeviceId::from(id.as_str())));
    }
    let mut state = device::DeviceState::default();
    for ((pod, container, resource), devices) in held {
        let edit = DeviceEdit {
            pod: pod.clone(),
            container: container.clone(),
            resource: resource.clone(),
            before: None,
            after: Some(devices),
        };
        state
            .apply(&edit)
            .expect("every key comes once, and nothing was held before");
    }
    state
}

/// Builds pods from the resources in the state files.
#[derive(Default)]
struct PodsFromState {
    containers: BTreeMap<PodUid, BTreeMap<ContainerName, ResourceList>>,
    whole: BTreeMap<PodUid, ResourceList>,
}

impl PodsFromState {
    fn container(&mut self, pod: &PodUid, container: &ContainerName) -> &mut ResourceList {
        let containers = self.containers.entry(pod.clone()).or_default();
        containers.entry(container.clone()).or_default()
    }

    fn whole(&mut self, pod: &PodUid) -> &mut ResourceList {
        // A pod needs a container; one that is not in the files holds no resources.
        self.containers.entry(pod.clone()).or_default();
        self.whole.entry(pod.clone()).or_default()
    }

    fn pods(mut self, known: &BTreeSet<PodUid>) -> Vec<Pod> {
        let mut pods = Vec::new();
        for (uid, mut containers) in self.containers {
            if known.contains(&uid) {
                continue;
            }
            if containers.is_empty() {
                containers.insert("unknown".into(), ResourceList::new());
            }
            let whole = self.whole.remove(&uid);
            let containers = containers.into_iter().map(|(name, mut list)| {
                // Only Guaranteed containers hold CPUs, and those request memory, managed or not.
                list.entry(memory_resource())
                    .or_insert_with(|| Quantity::from(1));
                Container {
                    name,
                    restartable: false,
                    requests: list.clone(),
                    limits: list,
                }
            });
            pods.push(Pod {
                name: String::new(),
                init_containers: Vec::new(),
                containers: containers.collect(),
                pod_requests: whole.clone(),
                pod_limits: whole,
                uid,
            });
        }
        pods
    }
}

fn add_blocks(list: &mut ResourceList, blocks: &[MemoryBlock]) {
    for block in blocks {
        let bytes = Quantity::bytes(i64::try_from(block.size).unwrap_or(i64::MAX));
        add(list, block.resource.as_str(), bytes);
    }
}

fn add(list: &mut ResourceList, resource: &str, amount: Quantity) {
    let sum = list.entry(resource.into()).or_default();
    *sum += amount;
}

fn count(number: usize) -> Quantity {
    Quantity::from(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
