//! [`CpuTopology`]: the CPUs of a machine as the kubelet's CPU manager sees them.
//!
//! Mirrors `topology.Discover`: a core is named by its lowest CPU ID (kernel core IDs repeat across sockets), on a
//! machine that reports no L3 each socket counts as one cache, and the sizes "per core", "per socket" and "per cache"
//! are quotients of the machine's totals, which are wrong on uneven machines but used nevertheless.

use smallvec::SmallVec;

use crate::cover::largest_sums;
use crate::cpu_set::{CpuId, CpuSet};
use crate::machine::Machine;
use crate::machine::cpu_levels::CpuLevels;
use crate::node_set::{NodeId, NodeSet};

/// The core, socket, NUMA node and cache of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyCpu {
    /// The lowest CPU ID of its core.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its L3 cache, or its socket where no L3 is reported.
    pub l3: u32,
}

/// The CPUs of one socket, NUMA node, cache or core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuGroup<Id> {
    /// The ID of the socket, NUMA node, cache or core.
    pub id: Id,
    /// The CPUs, ascending.
    pub cpus: CpuSet,
}

/// The CPU manager's view of a machine, with all groups computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTopology {
    infos: Vec<Option<TopologyCpu>>,
    all: CpuSet,
    sockets: Vec<CpuGroup<u32>>,
    nodes: Vec<CpuGroup<NodeId>>,
    caches: Vec<CpuGroup<u32>>,
    cores: Vec<CpuGroup<u32>>,
    levels: CpuLevels,
    /// Entry k: the number of CPUs of the k + 1 largest NUMA nodes.
    largest_nodes: SmallVec<[u64; 8]>,
    node_ids: NodeSet,
    num_cpus: usize,
    num_cores: usize,
    num_sockets: usize,
}

impl CpuTopology {
    /// Derives the view of a machine.
    #[must_use]
    pub fn of(machine: &Machine) -> Self {
        let mut infos: Vec<Option<TopologyCpu>> = Vec::new();
        let mut num_cores = 0;
        for node in machine.nodes() {
            num_cores += node.cores.len();
            for core in &node.cores {
                let Some(lowest) = core.threads.iter().min() else {
                    continue;
                };
                let place = TopologyCpu {
                    core: lowest.get(),
                    socket: core.socket,
                    node: node.id,
                    l3: core.l3.unwrap_or(core.socket),
                };
                for cpu in &core.threads {
                    if infos.len() <= cpu.index() {
                        infos.resize(cpu.index() + 1, None);
                    }
                    infos[cpu.index()] = Some(place);
                }
            }
        }
        let groups = Groups {
            infos: &infos,
            all: machine.online(),
        };
        let sockets = groups.by(|place| place.socket);
        let nodes = groups.by(|place| place.node);
        let caches = groups.by(|place| place.l3);
        let cores = groups.by(|place| place.core);
        Self {
            all: machine.online().clone(),
            levels: CpuLevels::new(&sockets, &nodes, &caches, &cores),
            largest_nodes: largest_sums(nodes.iter().map(|node| node.cpus.len() as u64)),
            node_ids: nodes.iter().map(|node| node.id).collect(),
            sockets,
            nodes,
            caches,
            cores,
            num_cpus: machine.parts().num_cpus,
            num_cores,
            num_sockets: machine.parts().num_sockets,
            infos,
        }
    }

    /// The core, socket, NUMA node and cache of `cpu`; `None` if it is not online.
    #[must_use]
    pub fn cpu_info(&self, cpu: CpuId) -> Option<TopologyCpu> {
        self.infos.get(cpu.index()).copied().flatten()
    }

    /// All online CPUs.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// NUMA nodes with at least one CPU.
    #[must_use]
    pub fn node_ids(&self) -> NodeSet {
        self.node_ids
    }

    /// The CPUs of each socket, ascending by ID.
    #[must_use]
    pub fn sockets(&self) -> &[CpuGroup<u32>] {
        &self.sockets
    }

    /// The CPUs of each NUMA node that has some, ascending by ID.
    #[must_use]
    pub fn nodes(&self) -> &[CpuGroup<NodeId>] {
        &self.nodes
    }

    /// The CPUs of each L3 cache, ascending by ID.
    pub(crate) fn caches(&self) -> &[CpuGroup<u32>] {
        &self.caches
    }

    /// The CPUs of each core, ascending by its lowest CPU.
    #[must_use]
    pub fn cores(&self) -> &[CpuGroup<u32>] {
        &self.cores
    }

    /// The CPUs of one NUMA node; empty if it has none.
    #[must_use]
    pub fn cpus_of_node(&self, node: NodeId) -> CpuSet {
        find(&self.nodes, &node)
    }

    /// The CPUs of one core, named by its lowest CPU.
    #[must_use]
    pub fn cpus_of_core(&self, core: u32) -> CpuSet {
        find(&self.cores, &core)
    }

    /// The smallest number of NUMA nodes that `count` CPUs need on an empty machine; all of them if even those are not
    /// enough.
    pub(crate) fn fewest_nodes(&self, count: usize) -> usize {
        let short = self
            .largest_nodes
            .partition_point(|&sum| sum < count as u64);
        (short + 1).min(self.nodes.len())
    }

    /// The groups inside each group.
    pub(crate) fn levels(&self) -> &CpuLevels {
        &self.levels
    }

    /// The reported number of CPUs.
    #[must_use]
    pub fn num_cpus(&self) -> usize {
        self.num_cpus
    }

    /// The number of cores listed.
    #[must_use]
    pub fn num_cores(&self) -> usize {
        self.num_cores
    }

    /// The reported number of sockets.
    #[must_use]
    pub fn num_sockets(&self) -> usize {
        self.num_sockets
    }

    /// The number of NUMA nodes with CPUs.
    #[must_use]
    pub fn num_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The number of L3 caches.
    #[must_use]
    pub fn num_caches(&self) -> usize {
        self.caches.len()
    }

    /// Threads per core, as the quotient of the totals.
    #[must_use]
    pub fn cpus_per_core(&self) -> usize {
        self.num_cpus.checked_div(self.num_cores).unwrap_or(0)
    }

    /// CPUs per socket, as the quotient of the totals.
    #[must_use]
    pub fn cpus_per_socket(&self) -> usize {
        self.num_cpus.checked_div(self.num_sockets).unwrap_or(0)
    }

    /// CPUs per L3 cache, as the quotient of the totals.
    #[must_use]
    pub fn cpus_per_cache(&self) -> usize {
        self.num_cpus.checked_div(self.caches.len()).unwrap_or(0)
    }
}

fn find<Id: Ord>(groups: &[CpuGroup<Id>], id: &Id) -> CpuSet {
    match groups.binary_search_by(|group| group.id.cmp(id)) {
        Ok(at) => groups[at].cpus.clone(),
        Err(_) => CpuSet::new(),
    }
}

struct Groups<'a> {
    infos: &'a [Option<TopologyCpu>],
    all: &'a CpuSet,
}

impl Groups<'_> {
    fn by<Id: Ord + Copy>(&self, key: impl Fn(&TopologyCpu) -> Id) -> Vec<CpuGroup<Id>> {
        let mut groups = std::collections::BTreeMap::<Id, CpuSet>::new();
        for cpu in self.all {
            if let Some(place) = &self.infos[cpu.index()] {
                groups.entry(key(place)).or_default().insert(cpu);
            }
        }
        groups
            .into_iter()
            .map(|(id, cpus)| CpuGroup { id, cpus })
            .collect()
    }
}
