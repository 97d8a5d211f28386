//! [`MachineLayout`]: the machine in the order of a picture, with the holder of every CPU.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuId;
use pinfold_core::machine::{Machine, NumaNode};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeId;
use pinfold_core::occupancy::{DeviceUse, MemoryRow, Occupancy};

/// A machine laid out for drawing.
#[derive(Clone, Debug)]
pub struct MachineLayout {
    /// NUMA nodes in machine order.
    pub nodes: Vec<NodeLayout>,
    /// Names of the pods in [`Occupancy::holders`], by index.
    pub holders: Vec<String>,
    /// Devices that report no known NUMA node.
    pub far_devices: Vec<DeviceUse>,
    /// Whether the picture shows only the machine: no pod holds anything, and no CPU is reserved.
    pub bare: bool,
}

/// One NUMA node.
#[derive(Clone, Debug)]
pub struct NodeLayout {
    /// Its ID.
    pub id: NodeId,
    /// The sockets its cores belong to; none for a node without CPUs.
    pub sockets: Vec<u32>,
    /// Its L3 caches with their cores; one unnamed group where no L3 is reported.
    pub caches: Vec<CacheLayout>,
    /// Memory and hugepages.
    pub memory: Vec<MemoryRow>,
    /// Devices near it.
    pub devices: Vec<DeviceUse>,
}

/// The cores below one L3 cache.
#[derive(Clone, Debug)]
pub struct CacheLayout {
    /// The kernel's ID, if known.
    pub id: Option<u32>,
    /// The cores, in machine order.
    pub cores: Vec<CoreLayout>,
}

/// One core.
#[derive(Clone, Debug)]
pub struct CoreLayout {
    /// The kernel's ID, unique at most within a socket.
    pub id: u32,
    /// Its hardware threads.
    pub cpus: Vec<CpuCell>,
}

/// One hardware thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuCell {
    /// Its ID.
    pub id: CpuId,
    /// The holder of the CPU.
    pub used_by: CpuUse,
}

/// The holder of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuUse {
    /// In the shared pool.
    Free,
    /// Reserved for the system.
    Reserved,
    /// Held exclusively by the pod with this index in [`Occupancy::holders`].
    Held(usize),
}

impl MachineLayout {
    /// Lays out `machine` with the holders of `occupancy`.
    #[must_use]
    pub fn new(machine: &Machine, occupancy: &Occupancy) -> Self {
        let mut holder_of = BTreeMap::new();
        for (index, holder) in occupancy.holders.iter().enumerate() {
            for cpu in &holder.cpus {
                holder_of.entry(cpu).or_insert(index);
            }
        }
        let cpu_use = |cpu: CpuId| match holder_of.get(&cpu) {
            Some(&index) => CpuUse::Held(index),
            None if occupancy.reserved.contains(cpu) => CpuUse::Reserved,
            None => CpuUse::Free,
        };
        let known = machine.node_ids();
        Self {
            nodes: machine
                .nodes()
                .iter()
                .map(|node| NodeLayout::new(node, occupancy, &cpu_use))
                .collect(),
            holders: occupancy
                .holders
                .iter()
                .map(|holder| holder.name.clone())
                .collect(),
            far_devices: occupancy
                .devices
                .iter()
                .filter(|device| !device.nodes.intersects(known))
                .cloned()
                .collect(),
            bare: occupancy.holders.is_empty() && occupancy.reserved.is_empty(),
        }
    }
}

impl NodeLayout {
    fn new(node: &NumaNode, occupancy: &Occupancy, cpu_use: &impl Fn(CpuId) -> CpuUse) -> Self {
        let mut sockets: Vec<u32> = node.cores.iter().map(|core| core.socket).collect();
        sockets.sort_unstable();
        sockets.dedup();
        let mut caches: Vec<CacheLayout> = Vec::new();
        for core in &node.cores {
            let cpus = core.threads.iter().map(|&id| CpuCell {
                id,
                used_by: cpu_use(id),
            });
            let laid_out = CoreLayout {
                id: core.id,
                cpus: cpus.collect(),
            };
            match caches.iter_mut().find(|cache| cache.id == core.l3) {
                Some(cache) => cache.cores.push(laid_out),
                None => caches.push(CacheLayout {
                    id: core.l3,
                    cores: vec![laid_out],
                }),
            }
        }
        let own = occupancy
            .memory
            .iter()
            .filter(|row| row.node == node.id)
            .cloned();
        let near = occupancy
            .devices
            .iter()
            .filter(|device| device.nodes.contains(node.id))
            .cloned();
        Self {
            id: node.id,
            sockets,
            caches,
            memory: own.collect(),
            devices: near.collect(),
        }
    }

    /// Whether it has no CPUs, memory and devices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.caches.is_empty()
            && self.devices.is_empty()
            && self.memory.iter().all(|row| row.total == 0)
    }

    /// Devices near the node by resource, ascending by resource.
    #[must_use]
    pub fn devices_by_resource(&self) -> BTreeMap<&ResourceName, Vec<&DeviceUse>> {
        let mut devices: BTreeMap<&ResourceName, Vec<&DeviceUse>> = BTreeMap::new();
        for device in &self.devices {
            devices.entry(&device.resource).or_default().push(device);
        }
        devices
    }

    /// All CPUs of the node.
    pub fn cpus(&self) -> impl Iterator<Item = CpuCell> {
        self.caches.iter().flat_map(|cache| {
            cache
                .cores
                .iter()
                .flat_map(|core| core.cpus.iter().copied())
        })
    }

    /// The number of CPUs in the shared pool, without reserved ones.
    #[must_use]
    pub fn free_cpus(&self) -> usize {
        self.cpus()
            .filter(|cpu| cpu.used_by == CpuUse::Free)
            .count()
    }
}
