//! [`Occupancy`]: who sits where on one node at one moment, as a plain value for pictures and tables.

use serde::{Deserialize, Serialize};

use crate::cpu_set::CpuSet;
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};

/// A snapshot of one node. Everything a picture shows, and nothing that decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Who holds something, in the order they came.
    pub holders: Vec<Holder>,
    /// How many pods live here without anything of their own.
    #[serde(default)]
    pub shared_only_pods: usize,
    /// CPUs that nobody holds for itself alone; reserved ones are among them unless reserved strictly.
    pub shared: CpuSet,
    /// CPUs kept for the system.
    pub reserved: CpuSet,
    /// Memory and hugepages per NUMA node.
    pub memory: Vec<MemoryRow>,
    /// Devices, ascending by resource and id.
    pub devices: Vec<DeviceUse>,
}

/// A pod that holds something for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// What people call it.
    pub name: String,
    /// Its exclusive CPUs.
    pub cpus: CpuSet,
    /// Its memory and hugepages.
    pub memory: Vec<HeldMemory>,
}

/// Memory that one pod holds on some nodes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldMemory {
    /// The nodes it may lie on.
    pub nodes: NodeSet,
    /// `memory` or `hugepages-…`.
    pub resource: ResourceName,
    /// How much, in bytes.
    pub bytes: u64,
}

/// One kind of memory on one NUMA node, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// The node.
    pub node: NodeId,
    /// `memory` or `hugepages-…`.
    pub resource: ResourceName,
    /// What the node has.
    pub total: u64,
    /// What pods may get in all.
    pub allocatable: u64,
    /// What is left of that.
    pub free: u64,
}

/// One device and who has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// The resource it is handed out as, or its kind.
    pub resource: ResourceName,
    /// Its id.
    pub id: String,
    /// The NUMA nodes it is near; empty if unknown.
    pub nodes: NodeSet,
    /// Position in [`Occupancy::holders`].
    pub holder: Option<usize>,
    /// Whether its plugin calls it healthy.
    pub healthy: bool,
}

impl Occupancy {
    /// The holders of one CPU. More than one only for CPUs that a pod's containers pass on to each other.
    pub fn holders_of(&self, cpu: crate::cpu_set::CpuId) -> impl Iterator<Item = (usize, &Holder)> {
        self.holders
            .iter()
            .enumerate()
            .filter(move |(_, holder)| holder.cpus.contains(cpu))
    }
}
