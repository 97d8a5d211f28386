//! [`CpuDetail`]: the CPUs of a node as its exporter reports them (`cpuDetail` of a Numatopology object).
//!
//! Core numbers are the kernel's and unique only inside a socket. The plugin treats them as unique in the
//! machine; so both groupings are kept: [`CpuDetail::cores`] by (socket, number), which
//! is what a core is, and [`CpuDetail::core_numbers`] by the number alone.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::machine::cpus::CpuGroup;
use pinfold_core::node_set::{NodeId, NodeSet};

/// One CPU with its core, NUMA node and socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRow {
    /// The CPU.
    pub cpu: CpuId,
    /// The kernel's number of its core.
    pub core: u32,
    /// Its NUMA node.
    pub node: NodeId,
    /// Its socket.
    pub socket: u32,
}

/// The identity of a core. Ordered by socket, then number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId {
    /// The socket.
    pub socket: u32,
    /// The kernel's number, unique inside the socket.
    pub number: u32,
}

/// All CPUs with one core number, in any socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreNumber {
    /// The number.
    pub number: u32,
    /// The socket of the lowest of the CPUs.
    pub socket: u32,
    /// The CPUs.
    pub cpus: CpuSet,
}

/// All CPUs of one node, grouped by NUMA node, socket and core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuDetail {
    all: CpuSet,
    node_ids: NodeSet,
    nodes: Vec<CpuGroup<NodeId>>,
    sockets: Vec<CpuGroup<u32>>,
    cores: Vec<CpuGroup<CoreId>>,
    core_numbers: Vec<CoreNumber>,
}

impl CpuDetail {
    /// Groups the rows. Of a CPU that is listed twice the last row counts.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = CpuRow>) -> Self {
        let rows: BTreeMap<CpuId, CpuRow> = rows.into_iter().map(|row| (row.cpu, row)).collect();
        let rows: Vec<CpuRow> = rows.into_values().collect();
        let nodes = group(&rows, |row| row.node);
        let mut core_numbers = BTreeMap::<u32, CoreNumber>::new();
        for row in &rows {
            let named = core_numbers.entry(row.core).or_insert_with(|| CoreNumber {
                number: row.core,
                socket: row.socket,
                cpus: CpuSet::new(),
            });
            named.cpus.insert(row.cpu);
        }
        Self {
            all: rows.iter().map(|row| row.cpu).collect(),
            node_ids: nodes.iter().map(|node| node.id).collect(),
            nodes,
            sockets: group(&rows, |row| row.socket),
            cores: group(&rows, |row| CoreId {
                socket: row.socket,
                number: row.core,
            }),
            core_numbers: core_numbers.into_values().collect(),
        }
    }

    /// All CPUs.
    #[must_use]
    pub fn all(&self) -> &CpuSet {
        &self.all
    }

    /// The NUMA nodes with CPUs.
    #[must_use]
    pub fn node_ids(&self) -> NodeSet {
        self.node_ids
    }

    /// The CPUs of each NUMA node, ascending by id.
    #[must_use]
    pub fn nodes(&self) -> &[CpuGroup<NodeId>] {
        &self.nodes
    }

    /// The CPUs of each socket, ascending by id.
    #[must_use]
    pub fn sockets(&self) -> &[CpuGroup<u32>] {
        &self.sockets
    }

    /// The CPUs of each core, ascending by socket, then number.
    #[must_use]
    pub fn cores(&self) -> &[CpuGroup<CoreId>] {
        &self.cores
    }

    /// The cores of one socket, ascending by number.
    #[must_use]
    pub(crate) fn cores_of_socket(&self, socket: u32) -> &[CpuGroup<CoreId>] {
        let from = self.cores.partition_point(|core| core.id.socket < socket);
        let to = self.cores.partition_point(|core| core.id.socket <= socket);
        &self.cores[from..to]
    }

    /// The CPUs of each core number, ascending.
    #[must_use]
    pub fn core_numbers(&self) -> &[CoreNumber] {
        &self.core_numbers
    }

    /// The CPUs of the NUMA nodes in `mask`.
    #[must_use]
    pub fn cpus_of(&self, mask: NodeSet) -> CpuSet {
        let mut cpus = CpuSet::new();
        for node in self.nodes.iter().filter(|node| mask.contains(node.id)) {
            cpus |= &node.cpus;
        }
        cpus
    }

    /// The NUMA nodes of `cpus`; CPUs that are not listed are ignored.
    #[must_use]
    pub fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        let touched = self
            .nodes
            .iter()
            .filter(|node| !node.cpus.is_disjoint(cpus));
        touched.map(|node| node.id).collect()
    }

    /// Threads per core, as the quotient of the totals.
    #[must_use]
    pub fn cpus_per_core(&self) -> usize {
        self.all.len().checked_div(self.cores.len()).unwrap_or(0)
    }

    /// CPUs per socket, as the quotient of the totals.
    #[must_use]
    pub fn cpus_per_socket(&self) -> usize {
        self.all.len().checked_div(self.sockets.len()).unwrap_or(0)
    }
}

fn group<Id: Ord>(rows: &[CpuRow], key: impl Fn(&CpuRow) -> Id) -> Vec<CpuGroup<Id>> {
    let mut groups = BTreeMap::<Id, CpuSet>::new();
    for row in rows {
        groups.entry(key(row)).or_default().insert(row.cpu);
    }
    groups
        .into_iter()
        .map(|(id, cpus)| CpuGroup { id, cpus })
        .collect()
}
