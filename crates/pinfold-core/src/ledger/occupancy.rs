//! Builds the [`Occupancy`] of a ledger.

use std::collections::BTreeMap;

use super::Ledger;
use crate::cpu_set::CpuSet;
use crate::name::{DeviceId, PodUid, ResourceName};
use crate::occupancy::{DeviceUse, HeldMemory, Holder, MemoryRow, Occupancy};

impl Ledger {
    /// A snapshot of what every pod holds, for pictures and tables.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let state = &self.state;
        let admitted_pods = self.admitted_pods();
        let (mut holders, mut indexes) = (Vec::new(), BTreeMap::new());
        for admitted in &admitted_pods {
            let uid = &admitted.pod.uid;
            let (cpus, memory) = (self.exclusive_cpus(uid), self.held_memory(uid));
            if cpus.is_empty() && memory.is_empty() && !state.devices.holds(uid) {
                continue;
            }
            indexes.insert(uid, holders.len());
            let name = match admitted.pod.name.is_empty() {
                true => uid.to_string(),
                false => admitted.pod.name.clone(),
            };
            holders.push(Holder { name, cpus, memory });
        }
        let shared = match self.rules.cpus.as_static() {
            Some(_) => state.cpus.shared().clone(),
            None => self.rules.topology.all().clone(),
        };
        Occupancy {
            shared_only_pods: admitted_pods.len() - holders.len(),
            holders,
            shared,
            reserved: self.rules.reserved_cpus(),
            memory: self.memory_rows(),
            devices: self.device_uses(&indexes),
        }
    }

    /// All exclusive CPUs of a pod.
    #[must_use]
    pub fn exclusive_cpus(&self, pod: &PodUid) -> CpuSet {
        let mut cpus = self.state.cpus.containers_of(pod);
        if let Some(whole) = self.state.cpus.pod(pod) {
            cpus |= whole;
        }
        cpus
    }

    fn held_memory(&self, pod: &PodUid) -> Vec<HeldMemory> {
        let mut held: Vec<HeldMemory> = Vec::new();
        for block in self
            .state
            .memory
            .blocks_charged_to(pod)
            .filter(|block| block.size > 0)
        {
            let known = held
                .iter_mut()
                .find(|row| row.nodes == block.nodes && row.resource == block.resource);
            match known {
                Some(row) => row.bytes += block.size,
                None => held.push(HeldMemory {
                    nodes: block.nodes,
                    resource: block.resource.clone(),
                    bytes: block.size,
                }),
            }
        }
        held
    }

    /// The memory manager's table; without a memory manager, all memory of the machine as free.
    fn memory_rows(&self) -> Vec<MemoryRow> {
        let managed = self.state.memory.nodes();
        if managed.is_empty() {
            let unmanaged = |node: &crate::machine::NumaNode| MemoryRow {
                node: node.id,
                resource: "memory".into(),
                total: node.memory,
                allocatable: node.memory,
                free: node.memory,
            };
            return self.rules.machine.nodes().iter().map(unmanaged).collect();
        }
        let rows = managed.iter().flat_map(|(&node, row)| {
            row.memory.iter().map(move |(resource, amounts)| MemoryRow {
                node,
                resource: resource.clone(),
                total: amounts.total,
                allocatable: amounts.allocatable,
                free: amounts.free,
            })
        });
        rows.collect()
    }

    fn device_uses(&self, indexes: &BTreeMap<&PodUid, usize>) -> Vec<DeviceUse> {
        let mut holders: BTreeMap<(&ResourceName, &DeviceId), usize> = BTreeMap::new();
        for (pod, containers) in self.state.devices.pods() {
            let Some(&index) = indexes.get(pod) else {
                continue;
            };
            for (resource, devices) in containers.values().flatten() {
                holders.extend(devices.iter().map(|id| ((resource, id), index)));
            }
        }
        let mut uses = Vec::new();
        for resource in self.state.pool.resources() {
            for (id, device) in self.state.pool.devices(resource).into_iter().flatten() {
                uses.push(DeviceUse {
                    resource: resource.clone(),
                    id: id.to_string(),
                    nodes: device.nodes(),
                    holder: holders.get(&(resource, id)).copied(),
                    healthy: device.healthy,
                });
            }
        }
        uses
    }
}
