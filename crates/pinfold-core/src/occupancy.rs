//! [`Occupancy`]: what every pod of one node holds at one moment, as a plain value for pictures and tables.

use serde::{Deserialize, Serialize};

use crate::cpu_set::CpuSet;
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};

/// A snapshot of one node for display; no decision is made from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Pods that hold exclusive CPUs, memory or devices, in the order of their admission.
    pub holders: Vec<Holder>,
    /// The number of pods that hold none of these.
    #[serde(default)]
    pub shared_only_pods: usize,
    /// The shared pool; reserved CPUs are in it unless they are reserved strictly.
    pub shared: CpuSet,
    /// CPUs reserved for the system.
    pub reserved: CpuSet,
    /// Memory and hugepages per NUMA node.
    pub memory: Vec<MemoryRow>,
    /// Devices, ascending by resource and id.
    pub devices: Vec<DeviceUse>,
}

/// A pod that holds exclusive CPUs, memory or devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its display name.
    pub name: String,
    /// Its exclusive CPUs.
    pub cpus: CpuSet,
    /// Its memory and hugepages.
    pub memory: Vec<HeldMemory>,
}

/// Memory that one pod holds on a set of NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldMemory {
    /// The NUMA nodes it may be allocated from.
    pub nodes: NodeSet,
    /// `memory` or `hugepages-<size>`.
    pub resource: ResourceName,
    /// The amount in bytes.
    pub bytes: u64,
}

/// One type of memory on one NUMA node, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRow {
    /// The node.
    pub node: NodeId,
    /// `memory` or `hugepages-<size>`.
    pub resource: ResourceName,
    /// The memory of the NUMA node.
    pub total: u64,
    /// The part of it that pods may be assigned.
    pub allocatable: u64,
    /// The part of `allocatable` that no pod holds.
    pub free: u64,
}

/// One device and its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// The resource name, or the kind of device where no plugin advertises it.
    pub resource: ResourceName,
    /// Its device ID.
    pub id: String,
    /// Its NUMA nodes; empty if it reports none.
    pub nodes: NodeSet,
    /// The index of its holder in [`Occupancy::holders`].
    pub holder: Option<usize>,
    /// Whether its plugin reports it as healthy.
    pub healthy: bool,
}
