//! [`Hardware`]: everything that was found out about a machine.
//!
//! Sockets, cores, caches and NUMA nodes are each a list of sets of online CPUs. They need not
//! nest: a NUMA node may cut a cache in two (sub-NUMA clustering) or hold several.

use pinfold_core::cpu_set::{CpuId, CpuSet};
use serde::Serialize;

use crate::numa_id::NumaId;
use crate::pci::{PciDevice, PciKind};

/// A machine, as its kernel (or whoever described it) tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Hardware {
    /// What people call it: the product, the preset, or nothing.
    pub name: String,
    /// Which CPUs there are and in which state.
    pub cpus: CpuStates,
    /// Physical packages, ascending by id.
    pub sockets: Vec<Socket>,
    /// Dies, where the kernel tells; ascending by socket, then id.
    pub dies: Vec<Die>,
    /// Groups of cores between core and socket (the kernel's "clusters"), ascending by lowest CPU.
    pub clusters: Vec<CpuSet>,
    /// Cores, ascending by lowest CPU.
    pub cores: Vec<HardwareCore>,
    /// Caches, ascending by level, then by lowest CPU.
    pub caches: Vec<CpuCache>,
    /// NUMA nodes, ascending by id.
    pub nodes: Vec<HardwareNode>,
    /// Whether the kernel knows NUMA nodes. If not, `nodes` is one node that holds everything.
    pub kernel_has_nodes: bool,
    /// Memory of the whole machine in bytes.
    pub memory: u64,
    /// PCI functions, ascending by address.
    pub devices: Vec<PciDevice>,
    /// What the control group of the reading process allows, if it has one.
    pub allowed: Option<CgroupLimits>,
    /// How many sockets cAdvisor counts; the kubelet divides by it.
    pub counted_sockets: usize,
    /// What was found and not believed.
    pub inconsistencies: Vec<Inconsistency>,
}

/// Which CPUs there are and in which state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CpuStates {
    /// Run work.
    pub online: CpuSet,
    /// Are there and switched off.
    pub offline: CpuSet,
    /// Could be there, now or after being plugged in.
    pub possible: CpuSet,
    /// Kept away from the scheduler's load balancing (`isolcpus`).
    pub isolated: CpuSet,
    /// Run without the timer tick (`nohz_full`).
    pub nohz_full: CpuSet,
}

/// One physical package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Socket {
    /// The kernel's id, or a running number where it gives none.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// One die of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Die {
    /// The package it is in.
    pub socket: u32,
    /// The kernel's id inside the package.
    pub id: u32,
    /// Its online CPUs.
    pub cpus: CpuSet,
}

/// One core: the CPUs that are its threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HardwareCore {
    /// The package it is in.
    pub socket: u32,
    /// The die, where the kernel tells.
    pub die: Option<u32>,
    /// What the kernel prints as its core id, if anything: unique at most inside a package.
    pub core_id: Option<i32>,
    /// What the kernel prints as its package id, if anything; -1 means "unknown".
    pub package_id: Option<i32>,
    /// Its online threads.
    pub cpus: CpuSet,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CpuCache {
    /// 1 is nearest to the core.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// The online CPUs that share it.
    pub cpus: CpuSet,
    /// The kernel's id, unique inside level and kind; old kernels give none.
    pub id: Option<u32>,
    /// Size in bytes, where known.
    pub size: Option<u64>,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HardwareNode {
    /// The kernel's id; ids may have gaps.
    pub id: NumaId,
    /// Its online CPUs; empty for memory that only hangs on the fabric.
    pub cpus: CpuSet,
    /// Memory in bytes; 0 for a node that is only a place.
    pub memory: u64,
    /// Free memory in bytes at the time of reading, where told.
    pub free: Option<u64>,
    /// Preallocated huge pages, in the order of the kernel's directory names.
    pub hugepages: Vec<HugePagePool>,
    /// Firmware distances (SLIT), one per node in the order of [`Hardware::nodes`], or none.
    pub distances: Vec<u32>,
    /// How fast which nodes reach this memory (HMAT), where the firmware tells.
    pub accesses: Vec<MemoryAccess>,
    /// Sizes in bytes of the caches in front of this memory, nearest to the memory first.
    pub memory_side_caches: Vec<u64>,
}

/// Huge pages of one size on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HugePagePool {
    /// Size of one page in KiB.
    pub size_kib: u64,
    /// How many there are.
    pub count: u64,
    /// How many were free at the time of reading, where told.
    pub free: Option<u64>,
}

/// One row of the firmware's memory attributes: the nodes that reach a memory best, and how well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryAccess {
    /// The kernel's access class: 0 counts all initiators, 1 only those with CPUs.
    pub class: u32,
    /// The nodes that reach the memory best.
    pub initiators: Vec<NumaId>,
    /// MB/s, where told.
    pub read_bandwidth: Option<u64>,
    /// MB/s, where told.
    pub write_bandwidth: Option<u64>,
    /// Nanoseconds, where told.
    pub read_latency: Option<u64>,
    /// Nanoseconds, where told.
    pub write_latency: Option<u64>,
}

/// What a control group lets its processes use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupLimits {
    /// Which kind of control group says so.
    pub by: CgroupKind,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The NUMA nodes whose memory may be used, ascending.
    pub nodes: Vec<NumaId>,
}

/// The generations of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupKind {
    /// The `cpuset` controller of cgroup v1, or the cpuset file system before it.
    V1,
    /// cgroup v2.
    V2,
    /// Not a control group of a live system: another tool's word for it.
    Reported,
}

/// Something that was found and not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inconsistency {
    /// A distance row that cannot be matched with the nodes.
    #[error("NUMA node {node} has {found} distances for {expected} nodes; its row is left out")]
    DistanceRow {
        /// Whose row it is.
        node: NumaId,
        /// How many distances it has.
        found: usize,
        /// How many nodes there are.
        expected: usize,
    },
    /// A distance row with more columns than nodes, read by id.
    #[error("NUMA node {node} has {found} distances for {expected} nodes; read as columns by id")]
    WideDistanceRow {
        /// Whose row it is.
        node: NumaId,
        /// How many distances it has.
        found: usize,
        /// How many nodes there are.
        expected: usize,
    },
    /// A CPU that more than one node claims.
    #[error("CPU {cpu} is in more than one NUMA node")]
    SharedCpu {
        /// The first such CPU.
        cpu: CpuId,
    },
    /// Online CPUs that no node claims.
    #[error("CPUs {cpus} are online and in no NUMA node; the kubelet does not see them")]
    CpusWithoutNode {
        /// Which.
        cpus: CpuSet,
    },
    /// An optional file with unexpected text in it.
    #[error("{path} holds {found:?}; ignored")]
    Ignored {
        /// Which file.
        path: String,
        /// What it holds (its beginning).
        found: String,
    },
}

impl Hardware {
    /// The core a CPU is a thread of.
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

    /// Brings the lists into the order their docs promise and notes what the sets contradict.
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
        self.note_cpus_outside_the_nodes();
        self
    }

    fn note_cpus_outside_the_nodes(&mut self) {
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
