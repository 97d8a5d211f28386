//! The picture of a ledger: who sits where.

use super::Ledger;
use crate::cpu_set::CpuSet;
use crate::name::PodUid;
use crate::occupancy::{DeviceSeat, HeldMemory, Holder, MemoryRow, Occupancy};

impl Ledger {
    /// Who sits where right now.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        let state = &self.state;
        let residents = self.residents();
        let holders = residents.iter().map(|resident| {
            let uid = &resident.pod.uid;
            Holder {
                name: match resident.pod.name.is_empty() {
                    true => uid.to_string(),
                    false => resident.pod.name.clone(),
                },
                cpus: self.exclusive_cpus(uid),
                memory: self.held_memory(uid),
            }
        });
        let shared = match self.rules.cpus.as_static() {
            Some(_) => state.cpus.shared().clone(),
            None => self.rules.topology.all().clone(),
        };
        Occupancy {
            holders: holders.collect(),
            shared,
            reserved: self.rules.reserved_cpus(),
            memory: self.memory_rows(),
            devices: self.device_seats(
                &residents
                    .iter()
                    .map(|resident| &resident.pod.uid)
                    .collect::<Vec<_>>(),
            ),
        }
    }

    /// The CPUs that a pod holds for itself alone.
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
            .booked_for(pod)
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

    /// What the memory manager knows; without one, what the machine has.
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

    fn device_seats(&self, order: &[&PodUid]) -> Vec<DeviceSeat> {
        let mut seats = Vec::new();
        for resource in self.state.pool.resources() {
            for (id, device) in self.state.pool.devices(resource).into_iter().flatten() {
                let holder = order
                    .iter()
                    .position(|pod| self.state.devices.held_by_pod(pod, resource).contains(id));
                seats.push(DeviceSeat {
                    resource: resource.clone(),
                    id: id.to_string(),
                    nodes: device.nodes(),
                    holder,
                    healthy: device.healthy,
                });
            }
        }
        seats
    }
}
