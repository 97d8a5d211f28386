//! [`Hardware`]: everything that was read about a machine.
//!
//! Sockets, cores, caches and NUMA nodes are each a list of sets of online CPUs. They need not nest: a cache may span
//! several NUMA nodes (sub-NUMA clustering) or a node several caches.

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

use crate::numa_id::NumaId;
use crate::pci::{PciDevice, PciKind};

/// A machine, as its kernel, hwloc or a description reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hardware {
    /// The product name or the preset's name; may be empty.
    pub name: String,
    /// The CPUs by state.
    pub cpus: CpuStates,
    /// Physical packages, ascending by id.
    pub sockets: Vec<Socket>,
    /// Dies, where the kernel reports them; ascending by socket, then id.
    pub dies: Vec<Die>,
    /// Groups of cores between core and socket (the kernel's "clusters"), ascending by lowest CPU.
    pub clusters: Vec<CpuSet>,
    /// Cores, ascending by lowest CPU.
    pub cores: Vec<HardwareCore>,
    /// Caches, ascending by level, then by lowest CPU.
    pub caches: Vec<CpuCache>,
    /// NUMA nodes, ascending by id.
    pub nodes: Vec<HardwareNode>,
    /// Whether the kernel reports NUMA nodes. If not, `nodes` is one node with all CPUs and memory.
    pub kernel_has_nodes: bool,
    /// Memory of the whole machine in bytes.
    pub memory: u64,
    /// PCI functions, ascending by address.
    pub devices: Vec<PciDevice>,
    /// The CPUs and NUMA nodes that the control group of the reading process allows, if it is in one.
    pub allowed: Option<CgroupLimits>,
    /// The number of sockets that cAdvisor counts; the kubelet divides by it.
    pub counted_sockets: usize,
    /// Inconsistent or malformed input that was ignored.
    pub inconsistencies: Vec<Inconsistency>,
}

/// The CPUs of a machine by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStates {
    /// CPUs that are online.
    pub online: CpuSet,
    /// CPUs that are present and switched off.
    pub offline: CpuSet,
    /// CPUs that are present or can be hot-plugged.
    pub possible: CpuSet,
    /// CPUs excluded from the scheduler's load balancing (`isolcpus`).
    pub isolated: CpuSet,
    /// CPUs that run without the timer tick (`nohz_full`).
    pub nohz_full: CpuSet,
}

/// One physical package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    /// The kernel's id, or a running number if it has none.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// One die of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Die {
    /// The package it is in.
    pub socket: u32,
    /// The kernel's id inside the package.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// One core: the CPUs that are its threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareCore {
    /// The package it is in.
    pub socket: u32,
    /// The die, where the kernel reports it.
    pub die: Option<u32>,
    /// The core id that the kernel reports, if any: unique at most within a package.
    pub core_id: Option<i32>,
    /// The package id that the kernel reports, if any; -1 means "unknown".
    pub package_id: Option<i32>,
    /// Its online threads.
    pub cpus: CpuSet,
}

/// What a cache stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CpuCache {
    /// 1 is nearest to the core.
    pub level: u8,
    /// What it stores.
    pub kind: CacheKind,
    /// The online CPUs that share it.
    pub cpus: CpuSet,
    /// The kernel's id, unique within level and kind; old kernels have none.
    pub id: Option<u32>,
    /// Size in bytes, where known.
    pub size: Option<u64>,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardwareNode {
    /// The kernel's id; ids may have gaps.
    pub id: NumaId,
    /// Its online CPUs; empty for a memory-only node.
    pub cpus: CpuSet,
    /// Memory in bytes; may be 0.
    pub memory: u64,
    /// Free memory in bytes at the time of reading, where reported.
    pub free: Option<u64>,
    /// Preallocated huge pages, in the order of the kernel's directory names.
    pub hugepages: Vec<HugePagePool>,
    /// Distances (SLIT), one per node in the order of [`Hardware::nodes`]; empty if the firmware reports none.
    pub distances: Vec<u32>,
    /// Bandwidth and latency of this memory from other nodes (HMAT), where the firmware reports them.
    pub accesses: Vec<MemoryAccess>,
    /// Sizes in bytes of the caches in front of this memory, nearest to the memory first.
    pub memory_side_caches: Vec<u64>,
}

/// Huge pages of one size on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePagePool {
    /// Size of one page in KiB.
    pub size_kib: u64,
    /// The number of pages.
    pub count: u64,
    /// The number of free pages at the time of reading, where reported.
    pub free: Option<u64>,
}

/// One row of the firmware's memory attributes (HMAT): the nodes with the best access to a memory, and its performance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAccess {
    /// The kernel's access class: 0 counts all initiators, 1 only those with CPUs.
    pub class: u32,
    /// The nodes with the best access.
    pub initiators: Vec<NumaId>,
    /// In MB/s, where reported.
    pub read_bandwidth: Option<u64>,
    /// In MB/s, where reported.
    pub write_bandwidth: Option<u64>,
    /// In nanoseconds, where reported.
    pub read_latency: Option<u64>,
    /// In nanoseconds, where reported.
    pub write_latency: Option<u64>,
}

/// The CPUs and NUMA nodes that a control group allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimits {
    /// The kind of control group.
    pub by: CgroupKind,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The NUMA nodes whose memory may be used, ascending.
    pub nodes: Vec<NumaId>,
}

/// The kinds of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupKind {
    /// The `cpuset` controller of cgroup v1, or the cpuset file system before it.
    V1,
    /// cgroup v2.
    V2,
    /// Not read from a control group: reported by hwloc.
    Reported,
}

/// Inconsistent or malformed input that was ignored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inconsistency {
    /// A distance row that cannot be matched with the nodes.
    #[error("NUMA node {node} has {found} distances for {expected} nodes; its row is left out")]
    DistanceRow {
        /// The node.
        node: NumaId,
        /// The number of distances in its row.
        found: usize,
        /// The number of nodes.
        expected: usize,
    },
    /// A distance row with more columns than nodes, read as columns by node id.
    #[error("NUMA node {node} has {found} distances for {expected} nodes; read as columns by id")]
    WideDistanceRow {
        /// The node.
        node: NumaId,
        /// The number of distances in its row.
        found: usize,
        /// The number of nodes.
        expected: usize,
    },
    /// A CPU that is in more than one node.
    #[error("CPU {cpu} is in more than one NUMA node")]
    SharedCpu {
        /// The first such CPU.
        cpu: CpuId,
    },
    /// Online CPUs that are in no node.
    #[error("CPUs {cpus} are online and in no NUMA node; the kubelet does not see them")]
    CpusWithoutNode {
        /// The CPUs.
        cpus: CpuSet,
    },
    /// An optional file with unexpected content.
    #[error("{path} holds {found:?}; ignored")]
    Ignored {
        /// The file.
        path: String,
        /// The beginning of its content.
        found: String,
    },
}

impl Hardware {
    /// The core of a CPU.
    #[must_use]
    pub fn core_of(&self, cpu: CpuId) -> Option<&HardwareCore> {
        self.cores.iter().find(|core| core.cpus.contains(cpu))
    }

    /// The node with this id.
    #[must_use]
    pub fn node(&self, id: NumaId) -> Option<&HardwareNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The data and unified caches of one level.
    pub fn caches_of_level(&self, level: u8) -> impl Iterator<Item = &CpuCache> {
        self.caches
            .iter()
            .filter(move |cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }

    /// The devices of one kind.
    pub fn devices_of_kind(&self, kind: PciKind) -> impl Iterator<Item = &PciDevice> {
        self.devices
            .iter()
            .filter(move |device| device.kind == kind)
    }

    /// Sorts the lists as documented, and records inconsistent CPU sets.
    pub(crate) fn finish(mut self) -> Self {
        self.sockets.sort_by_key(|socket| socket.id);
        self.dies.sort_by_key(|die| (die.socket, die.id));
        self.clusters.sort_by_key(CpuSet::first);
        self.cores.sort_by_key(|core| core.cpus.first());
        self.caches.sort_by(|a, b| {
            (a.level, a.cpus.first(), a.kind)
                .cmp(&(b.level, b.cpus.first(), b.kind))
                .then_with(|| a.cmp(b))
        });
        self.devices.sort_by_key(|device| device.address);
        self.record_inconsistent_cpus();
        self
    }

    fn record_inconsistent_cpus(&mut self) {
        let mut seen = CpuSet::new();
        for node in &self.nodes {
            if let Some(cpu) = (&seen & &node.cpus).first() {
                self.inconsistencies.push(Inconsistency::SharedCpu { cpu });
                break;
            }
            seen |= &node.cpus;
        }
        for node in &self.nodes {
            seen |= &node.cpus;
        }
        let cpus = &self.cpus.online - &seen;
        if !cpus.is_empty() {
            self.inconsistencies
                .push(Inconsistency::CpusWithoutNode { cpus });
        }
    }
}
