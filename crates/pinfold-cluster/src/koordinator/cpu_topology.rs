//! [`KoordinatorTopology`]: the CPUs of a machine as Koordinator's scheduler sees them.
//!
//! Mirrors `CPUTopologyBuilder`: the id of a core is `socket << 16 | kernel core id`, the number of NUMA nodes counts
//! pairs of socket and node, the number of cores counts triples of socket, node and core, and the sizes "per core",
//! "per NUMA node" and "per socket" are quotients of these totals, although they are wrong on uneven machines. Ids
//! identify and order; no id is ever a position.

use crate::koordinator::KoordinatorDefects;
use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::{NodeId, NodeSet};

mod cores;
mod siblings;

pub(super) use cores::WholeCore;
use siblings::Siblings;

/// One CPU as a node reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedCpu {
    /// The CPU.
    pub cpu: CpuId,
    /// Its core: the kernel's id in a report, any number that orders cores in a [`KoordinatorTopology`].
    pub core: i64,
    /// Its NUMA node.
    pub node: i64,
    /// Its socket.
    pub socket: i64,
}

/// The totals from which sizes are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// Logical CPUs.
    pub cpus: usize,
    /// Physical cores.
    pub cores: usize,
    /// NUMA nodes.
    pub nodes: usize,
    /// Sockets.
    pub sockets: usize,
}

/// The position of one CPU: indexes into [`KoordinatorTopology::cores`], [`KoordinatorTopology::nodes`] and
/// [`KoordinatorTopology::sockets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuPosition {
    pub(super) core: u16,
    pub(super) node: u16,
    pub(super) socket: u16,
}

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopologyCore {
    pub(super) id: i64,
    /// Its CPUs, ascending.
    pub(super) cpus: SmallVec<[CpuId; 2]>,
}

/// All CPUs of one NUMA node or socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopologyGroup {
    pub(super) id: i64,
    pub(super) cpus: CpuSet,
}

/// The CPUs of one machine, grouped by core, NUMA node and socket. Groups ascend by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KoordinatorTopology {
    all: CpuSet,
    places: Vec<Option<CpuPosition>>,
    pub(super) cores: Vec<TopologyCore>,
    pub(super) nodes: Vec<TopologyGroup>,
    pub(super) sockets: Vec<TopologyGroup>,
    totals: CpuTotals,
    nested: bool,
    even: bool,
    /// Set if all cores have the same size and the same distance between their CPUs.
    siblings: Option<Siblings>,
}

impl KoordinatorTopology {
    /// The topology of a node's report (`cpu-topology`), whose core ids repeat across sockets. Of a CPU that is listed
    /// twice the last row counts.
    #[must_use]
    pub fn from_report(rows: impl IntoIterator<Item = ReportedCpu>, fidelity: Fidelity) -> Self {
        let mut sockets = BTreeSet::new();
        let mut nodes = BTreeSet::new();
        let mut cores = BTreeSet::new();
        let mut named = Vec::new();
        for row in rows {
            let core = (row.socket << 16) | row.core;
            sockets.insert(row.socket);
            nodes.insert((row.socket, row.node));
            cores.insert((row.socket, row.node, core));
            named.push(ReportedCpu { core, ..row });
        }
        if !fidelity.joins_cores_of_numa_nodes() {
            let ranks: BTreeMap<_, i64> = cores.iter().copied().zip(0..).collect();
            for row in &mut named {
                if let Some(&rank) = ranks.get(&(row.socket, row.node, row.core)) {
                    row.core = rank;
                }
            }
        }
        let cpus: BTreeSet<CpuId> = named.iter().map(|row| row.cpu).collect();
        let totals = CpuTotals {
            cpus: cpus.len(),
            cores: cores.len(),
            nodes: nodes.len(),
            sockets: sockets.len(),
        };
        Self::new(named, totals)
    }

    /// A topology with given totals and core ids that are unique in the machine.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = ReportedCpu>, totals: CpuTotals) -> Self {
        let rows: BTreeMap<CpuId, ReportedCpu> =
            rows.into_iter().map(|row| (row.cpu, row)).collect();
        let ids = |id: fn(&ReportedCpu) -> i64| -> Vec<i64> {
            let ids: BTreeSet<i64> = rows.values().map(id).collect();
            ids.into_iter().collect()
        };
        let (core_ids, node_ids, socket_ids) = (
            ids(|row| row.core),
            ids(|row| row.node),
            ids(|row| row.socket),
        );
        let group = |id: &i64| TopologyGroup {
            id: *id,
            cpus: CpuSet::new(),
        };
        let core = |id: &i64| TopologyCore {
            id: *id,
            cpus: SmallVec::new(),
        };
        let mut topology = KoordinatorTopology {
            all: rows.keys().copied().collect(),
            places: vec![None; rows.keys().last().map_or(0, |cpu| cpu.index() + 1)],
            cores: core_ids.iter().map(core).collect(),
            nodes: node_ids.iter().map(group).collect(),
            sockets: socket_ids.iter().map(group).collect(),
            totals,
            nested: true,
            even: true,
            siblings: None,
        };
        for row in rows.values() {
            let place = CpuPosition {
                core: rank(&core_ids, row.core),
                node: rank(&node_ids, row.node),
                socket: rank(&socket_ids, row.socket),
            };
            topology.places[row.cpu.index()] = Some(place);
            topology.cores[usize::from(place.core)].cpus.push(row.cpu);
            topology.nodes[usize::from(place.node)].cpus.insert(row.cpu);
            topology.sockets[usize::from(place.socket)]
                .cpus
                .insert(row.cpu);
        }
        topology.nested = topology.compute_nested();
        let size = topology.cpus_per_core();
        topology.even = topology.cores.iter().all(|core| core.cpus.len() == size);
        topology.siblings = Siblings::of(&topology.cores).filter(|_| topology.even);
        topology
    }

    /// Computes whether every core lies in one NUMA node and every NUMA node in one socket.
    fn compute_nested(&self) -> bool {
        let one = |cpus: &mut dyn Iterator<Item = CpuId>, key: fn(CpuPosition) -> u16| {
            let mut keys = cpus.filter_map(|cpu| self.place(cpu)).map(key);
            let first = keys.next();
            keys.all(|key| Some(key) == first)
        };
        self.cores
            .iter()
            .all(|core| one(&mut core.cpus.iter().copied(), |place| place.node))
            && self
                .nodes
                .iter()
                .all(|node| one(&mut node.cpus.iter(), |place| place.socket))
    }

    /// Whether CPUs can be bound: no total is zero.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let totals = self.totals;
        [totals.cpus, totals.cores, totals.nodes, totals.sockets]
            .iter()
            .all(|&total| total != 0)
    }

    /// All CPUs.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// These CPUs by NUMA node.
    pub fn parts(&self, cpus: &CpuSet) -> impl Iterator<Item = (NodeId, CpuSet)> {
        let part = |node: &TopologyGroup| Some((NodeId::new(node.id).ok()?, &node.cpus & cpus));
        self.nodes.iter().filter_map(part)
    }

    /// The CPUs of one NUMA node; `None` if it has none.
    #[must_use]
    pub fn cpus_of_node(&self, node: NodeId) -> Option<&CpuSet> {
        let node = self.node_at(i64::from(node.get()))?;
        Some(&self.nodes[node].cpus)
    }

    /// The NUMA nodes that have a CPU and an id that a [`NodeSet`] can hold.
    #[must_use]
    pub fn node_ids(&self) -> NodeSet {
        let ids = self.nodes.iter().map(|node| NodeId::new(node.id));
        ids.filter_map(Result::ok).collect()
    }

    /// CPUs per core, as the quotient of the totals.
    #[must_use]
    pub fn cpus_per_core(&self) -> usize {
        self.totals.cpus.checked_div(self.totals.cores).unwrap_or(0)
    }

    /// CPUs per NUMA node, as the quotient of the totals.
    #[must_use]
    pub(crate) fn cpus_per_node(&self) -> usize {
        self.totals.cpus.checked_div(self.totals.nodes).unwrap_or(0)
    }

    /// CPUs per socket, as the quotient of the totals.
    #[must_use]
    pub fn cpus_per_socket(&self) -> usize {
        self.totals
            .cpus
            .checked_div(self.totals.sockets)
            .unwrap_or(0)
    }

    /// Whether every core has one CPU (most ARM servers).
    #[must_use]
    pub(crate) fn has_single_threads(&self) -> bool {
        self.is_valid() && self.cores.iter().all(|core| core.cpus.len() == 1)
    }

    /// Whether every core lies in one NUMA node and every NUMA node in one socket, as on all common machines.
    pub(super) fn is_nested(&self) -> bool {
        self.nested
    }

    /// Whether the number of CPUs of every core equals the quotient.
    pub(super) fn is_even(&self) -> bool {
        self.even
    }

    pub(super) fn place(&self, cpu: CpuId) -> Option<CpuPosition> {
        self.places.get(cpu.index()).copied().flatten()
    }

    pub(super) fn core_at(&self, id: i64) -> Option<usize> {
        self.cores.binary_search_by_key(&id, |core| core.id).ok()
    }

    pub(super) fn node_at(&self, id: i64) -> Option<usize> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// Core id, NUMA id and socket id of a CPU.
    pub(crate) fn where_is(&self, cpu: CpuId) -> Option<(i64, i64, i64)> {
        let place = self.place(cpu)?;
        let core = self.cores[usize::from(place.core)].id;
        let node = self.nodes[usize::from(place.node)].id;
        let socket = self.sockets[usize::from(place.socket)].id;
        Some((core, node, socket))
    }

    /// Core id and NUMA id of a CPU.
    pub(super) fn ids(&self, cpu: CpuId) -> Option<(i64, i64)> {
        self.where_is(cpu).map(|(core, node, _)| (core, node))
    }
}

/// The position of `id` in an ascending list that contains it.
fn rank(ids: &[i64], id: i64) -> u16 {
    let at = ids.binary_search(&id).unwrap_or(0);
    u16::try_from(at).expect("there are at most 4096 CPUs, so fewer than 65536 groups")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine of `sockets` x `nodes` per socket x `cores` per node x `threads`, threads adjacent.
    pub(in crate::koordinator) fn machine(
        sockets: i64,
        nodes: i64,
        cores: i64,
        threads: i64,
    ) -> KoordinatorTopology {
        let mut rows = Vec::new();
        let mut next = 0;
        for socket in 0..sockets {
            for node in 0..nodes {
                for core in 0..cores {
                    for _ in 0..threads {
                        rows.push(ReportedCpu {
                            cpu: CpuId::new(next).expect("a small machine"),
                            core: node * cores + core,
                            node: socket * nodes + node,
                            socket,
                        });
                        next += 1;
                    }
                }
            }
        }
        KoordinatorTopology::from_report(rows, Fidelity::Sound)
    }

    #[test]
    fn core_ids_that_repeat_across_sockets_are_different_cores() {
        let topology = machine(2, 1, 2, 2);
        assert_eq!(topology.cores.len(), 4);
        assert_eq!(topology.cpus_per_core(), 2);
        assert!(topology.is_valid() && topology.is_nested() && topology.is_even());
    }

    #[test]
    fn core_ids_that_repeat_across_numa_nodes_are_one_core_only_in_exact_mode() {
        let rows = [(0, 0), (1, 0), (2, 1), (3, 1)].map(|(cpu, node)| ReportedCpu {
            cpu: CpuId::new(cpu).expect("small"),
            core: 0,
            node,
            socket: 0,
        });
        assert_eq!(
            KoordinatorTopology::from_report(rows, Fidelity::Exact)
                .cores
                .len(),
            1
        );
        assert_eq!(
            KoordinatorTopology::from_report(rows, Fidelity::Sound)
                .cores
                .len(),
            2
        );
    }

    #[test]
    fn a_report_without_cpus_is_not_valid() {
        assert!(!KoordinatorTopology::from_report([], Fidelity::Exact).is_valid());
        assert_eq!(KoordinatorTopology::default().cpus_per_core(), 0);
    }
}
