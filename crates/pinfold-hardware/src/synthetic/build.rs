//! Builds a machine from a [`MachineDescription`].

use std::collections::BTreeMap;
use std::ops::Range;

use pinfold_core::cpu_set::{CpuId, CpuSet};

use super::description::{
    MachineDescription, NodeDistances, NodeOption, Numbering, PerNodeOption, Spanned, TopologyLevel,
};
use super::notation_error::NotationProblem;
use crate::hardware::{
    CacheKind, CpuCache, CpuStates, Die, Hardware, HardwareCore, HardwareNode, HugePagePool,
    MemoryAccess, Socket,
};
use crate::numa_id::NumaId;
use crate::pci::{PciAddress, PciDevice, PciKind};

type SpannedProblem = (NotationProblem, Range<usize>);

const DEFAULT_MEMORY: u64 = 64 << 30;
const DEFAULT_DISTANCES: [u32; 3] = [10, 12, 21];
const DEFAULT_CPULESS_DISTANCES: [u32; 3] = [20, 30, 30];
/// The size of every L3 cache. No decision depends on it, but cAdvisor requires one.
const L3_SIZE: u64 = 32 << 20;
const MOST_DEVICES: usize = 4096;

/// Builds the machine.
pub(super) fn build(description: &MachineDescription) -> Result<Hardware, SpannedProblem> {
    let mut builder = Builder::new(description)?;
    builder.number_cores();
    builder.make_nodes()?;
    builder.set_distances()?;
    builder.apply_node_options()?;
    Ok(builder.finish())
}

struct Builder<'a> {
    description: &'a MachineDescription,
    hardware: Hardware,
    /// The socket of each node with CPUs.
    socket_of: BTreeMap<NumaId, u32>,
    /// The nearest node of each node without CPUs.
    nearest_to: BTreeMap<NumaId, Option<NumaId>>,
    /// The online CPUs of each node with CPUs and its socket, in the order of the description.
    cpus_of_nodes: Vec<(u32, CpuSet)>,
}

impl<'a> Builder<'a> {
    fn new(description: &'a MachineDescription) -> Result<Self, SpannedProblem> {
        let all: CpuSet = (0..description.cores() * description.count(TopologyLevel::Thread))
            .filter_map(cpu)
            .collect();
        let named = |key, set: &Option<Spanned<CpuSet>>| match set {
            None => Ok(CpuSet::new()),
            Some(Spanned { value, span }) => match (value - &all).first() {
                None => Ok(value.clone()),
                Some(cpu) => {
                    let (cpu, last) = (cpu.get(), all.len() - 1);
                    Err((NotationProblem::NoSuchCpu { key, cpu, last }, span.clone()))
                }
            },
        };
        let offline = named("offline", &description.offline)?;
        let isolated = named("isolated", &description.isolated)?;
        let online = &all - &offline;
        if let (true, Some(Spanned { span, .. })) = (online.is_empty(), &description.offline) {
            return Err((NotationProblem::AllOffline, span.clone()));
        }
        Ok(Self {
            description,
            hardware: Hardware {
                kernel_has_nodes: true,
                cpus: CpuStates {
                    online,
                    offline,
                    possible: all,
                    isolated,
                    nohz_full: CpuSet::new(),
                },
                ..Hardware::default()
            },
            socket_of: BTreeMap::new(),
            nearest_to: BTreeMap::new(),
            cpus_of_nodes: vec![
                (0, CpuSet::new());
                description.cores() / description.cores_in(TopologyLevel::Numa)
            ],
        })
    }

    /// The CPU number of one thread of one core.
    fn number(&self, core: usize, thread: usize) -> Option<CpuId> {
        let (description, cores) = (self.description, self.description.cores());
        let in_node = description.cores_in(TopologyLevel::Numa);
        cpu(match description.numbering.unwrap_or_default() {
            Numbering::Split => thread * cores + core,
            Numbering::Adjacent => core * description.count(TopologyLevel::Thread) + thread,
            Numbering::Interleaved => {
                let nodes = cores / in_node;
                thread * cores + core % in_node * nodes + core / in_node
            }
        })
    }

    /// Numbers sockets, cores and nodes in the order of the description; those without online CPUs are left out.
    fn number_cores(&mut self) {
        let description = self.description;
        let in_socket = description.cores_in(TopologyLevel::Socket);
        let (has_dies, has_l3) = (
            description.has(TopologyLevel::Die),
            description.has(TopologyLevel::L3),
        );
        let mut sockets = BTreeMap::<u32, CpuSet>::new();
        let mut dies = BTreeMap::<(u32, u32), CpuSet>::new();
        let mut caches = BTreeMap::<u32, CpuSet>::new();
        for core in 0..description.cores() {
            let threads = 0..description.count(TopologyLevel::Thread);
            let cpus: CpuSet = threads
                .filter_map(|thread| self.number(core, thread))
                .collect();
            let cpus = &cpus & &self.hardware.cpus.online;
            let socket = small(core / in_socket);
            let die = has_dies
                .then(|| small(core % in_socket / description.cores_in(TopologyLevel::Die)));
            if let Some((in_socket, node)) = self
                .cpus_of_nodes
                .get_mut(core / description.cores_in(TopologyLevel::Numa))
            {
                *in_socket = socket;
                *node |= &cpus;
            }
            if cpus.is_empty() {
                continue;
            }
            *sockets.entry(socket).or_default() |= &cpus;
            if let Some(die) = die {
                *dies.entry((socket, die)).or_default() |= &cpus;
            }
            if has_l3 {
                *caches
                    .entry(small(core / description.cores_in(TopologyLevel::L3)))
                    .or_default() |= &cpus;
            }
            self.hardware.cores.push(HardwareCore {
                socket,
                die,
                core_id: i32::try_from(core % in_socket).ok(),
                package_id: i32::try_from(socket).ok(),
                cpus,
            });
        }
        self.hardware.counted_sockets = sockets.len();
        self.hardware.sockets = sockets
            .into_iter()
            .map(|(id, cpus)| Socket { id, cpus })
            .collect();
        let die = |((socket, id), cpus)| Die { socket, id, cpus };
        self.hardware.dies = dies.into_iter().map(die).collect();
        let l3 = |(id, cpus)| CpuCache {
            level: 3,
            kind: CacheKind::Unified,
            cpus,
            id: Some(id),
            size: Some(L3_SIZE),
        };
        self.hardware.caches = caches.into_iter().map(l3).collect();
    }

    fn make_nodes(&mut self) -> Result<(), SpannedProblem> {
        let expected = self.cpus_of_nodes.len();
        let ids: Vec<NumaId> = match &self.description.node_ids {
            None => (0..expected)
                .filter_map(|id| NumaId::new(small(id)))
                .collect(),
            Some(Spanned { value, .. }) if value.len() == expected => value.clone(),
            Some(Spanned { value, span }) => {
                let found = value.len();
                return Err((
                    NotationProblem::NodeIdCount { found, expected },
                    span.clone(),
                ));
            }
        };
        if ids.len() != expected {
            let (found, limit) = (expected as u64, u64::from(NumaId::LIMIT));
            let what = "NUMA nodes";
            return Err((NotationProblem::TooMany { what, found, limit }, 0..0));
        }
        let mut nodes = BTreeMap::new();
        for (id, (socket, cpus)) in ids.into_iter().zip(std::mem::take(&mut self.cpus_of_nodes)) {
            self.socket_of.insert(id, socket);
            nodes.insert(id, node(id, cpus, DEFAULT_MEMORY));
        }
        for Spanned { value, span } in &self.description.cpuless {
            for &id in &value.nodes {
                if nodes.insert(id, node(id, CpuSet::new(), 0)).is_some() {
                    return Err((NotationProblem::NodeTwice { node: id.get() }, span.clone()));
                }
                self.nearest_to.insert(id, value.nearest);
            }
            if let Some(nearest) = value.nearest
                && !self.socket_of.contains_key(&nearest)
            {
                return Err((no_such_node(nearest, self.socket_of.keys()), span.clone()));
            }
        }
        for (id, nearest) in &self.nearest_to {
            if let (Some(node), &Some(nearest)) = (nodes.get_mut(id), nearest) {
                node.accesses.push(MemoryAccess {
                    class: 1,
                    initiators: vec![nearest],
                    ..MemoryAccess::default()
                });
            }
        }
        self.hardware.nodes = nodes.into_values().collect();
        Ok(())
    }

    fn set_distances(&mut self) -> Result<(), SpannedProblem> {
        let expected = self.hardware.nodes.len();
        let rule = match &self.description.distances {
            None => DEFAULT_DISTANCES,
            Some(Spanned {
                value: NodeDistances::Rule(rule),
                ..
            }) => *rule,
            Some(Spanned {
                value: NodeDistances::Matrix(rows),
                span,
            }) => {
                let found = rows.len();
                if found != expected || rows.iter().any(|row| row.len() != expected) {
                    return Err((
                        NotationProblem::DistanceShape { found, expected },
                        span.clone(),
                    ));
                }
                for (node, row) in self.hardware.nodes.iter_mut().zip(rows) {
                    node.distances.clone_from(row);
                }
                return Ok(());
            }
        };
        let ids: Vec<NumaId> = self.hardware.nodes.iter().map(|node| node.id).collect();
        for (at, &from) in ids.iter().enumerate() {
            let row = ids
                .iter()
                .map(|&to| self.distance(rule, from, to))
                .collect();
            self.hardware.nodes[at].distances = row;
        }
        Ok(())
    }

    fn distance(&self, [own, in_socket, other]: [u32; 3], from: NumaId, to: NumaId) -> u32 {
        let [near, far, between] = self
            .description
            .cpuless_distances
            .unwrap_or(DEFAULT_CPULESS_DISTANCES);
        if from == to {
            return own;
        }
        match (self.socket_of.get(&from), self.socket_of.get(&to)) {
            (Some(from), Some(to)) if from == to => in_socket,
            (Some(_), Some(_)) => other,
            (None, None) => between,
            (here, _) => {
                let (cpuless, with_cpus) = if here.is_none() {
                    (from, to)
                } else {
                    (to, from)
                };
                match self.nearest_to.get(&cpuless) {
                    Some(&Some(nearest)) if nearest != with_cpus => far,
                    _ => near,
                }
            }
        }
    }

    fn apply_node_options(&mut self) -> Result<(), SpannedProblem> {
        // An option with "@" is the exception from the one without, wherever it is written.
        let (general, special): (Vec<_>, Vec<_>) = self
            .description
            .node_options
            .iter()
            .partition(|apply_node_options| apply_node_options.value.nodes.is_none());
        let mut devices = BTreeMap::<(NumaId, PciKind), u32>::new();
        for Spanned {
            value: PerNodeOption { option, nodes },
            span,
        } in general.into_iter().chain(special)
        {
            let nodes: Vec<NumaId> = match nodes {
                Some(nodes) => nodes.clone(),
                None => self.socket_of.keys().copied().collect(),
            };
            for id in nodes {
                let all = self
                    .hardware
                    .nodes
                    .iter()
                    .map(|node| node.id)
                    .collect::<Vec<_>>();
                let found = self.hardware.nodes.iter_mut().find(|node| node.id == id);
                let Some(node) = found else {
                    return Err((no_such_node(id, &all), span.clone()));
                };
                match *option {
                    NodeOption::Memory(bytes) => node.memory = bytes,
                    NodeOption::HugePages { size_kib, count } => set_pages(node, size_kib, count),
                    NodeOption::Devices { kind, count } => {
                        devices.insert((id, kind), count);
                    }
                }
            }
        }
        let found: u64 = devices.values().map(|&count| u64::from(count)).sum();
        let limit = MOST_DEVICES as u64;
        if found > limit {
            let what = "PCI devices";
            return Err((NotationProblem::TooMany { what, found, limit }, 0..0));
        }
        for ((node, kind), count) in devices {
            for _ in 0..count {
                let device = device(self.hardware.devices.len(), node, kind);
                self.hardware.devices.push(device);
            }
        }
        Ok(())
    }

    fn finish(self) -> Hardware {
        let mut hardware = self.hardware;
        let memory = hardware.nodes.iter().map(|node| node.memory);
        hardware.memory = memory.fold(0, u64::saturating_add);
        hardware.finish()
    }
}

fn no_such_node<'a>(node: NumaId, known: impl IntoIterator<Item = &'a NumaId>) -> NotationProblem {
    let known: Vec<String> = known.into_iter().map(ToString::to_string).collect();
    NotationProblem::NoSuchNode {
        node: node.get(),
        known: known.join(","),
    }
}

fn node(id: NumaId, cpus: CpuSet, memory: u64) -> HardwareNode {
    HardwareNode {
        id,
        cpus,
        memory,
        free: None,
        hugepages: Vec::new(),
        distances: Vec::new(),
        accesses: Vec::new(),
        memory_side_caches: Vec::new(),
    }
}

/// Keeps the pools in the order of the kernel's directory names, in which 1 GiB precedes 2 MiB.
fn set_pages(node: &mut HardwareNode, size_kib: u64, count: u64) {
    node.hugepages.retain(|pool| pool.size_kib != size_kib);
    node.hugepages.push(HugePagePool {
        size_kib,
        count,
        free: None,
    });
    node.hugepages.sort_by_key(|pool| pool.size_kib.to_string());
}

/// A PCI device without a vendor, on its own bus.
fn device(number: usize, node: NumaId, kind: PciKind) -> PciDevice {
    const BUSES: usize = 0xe0;
    let class = match kind {
        PciKind::Gpu => 0x03_0200,
        PciKind::Infiniband => 0x02_0700,
        PciKind::Nvme => 0x01_0802,
        PciKind::Accelerator => 0x12_0000,
        PciKind::CxlMemory => 0x05_0210,
        _ => 0x02_0000,
    };
    PciDevice {
        address: PciAddress {
            domain: small(number / BUSES),
            bus: u8::try_from(0x10 + number % BUSES).unwrap_or(u8::MAX),
            device: 0,
            function: 0,
        },
        kind,
        class,
        vendor: 0,
        device: 0,
        node: Some(node),
        sriov: None,
    }
}

fn cpu(number: usize) -> Option<CpuId> {
    CpuId::new(small(number))
}

/// Converts a count, which is at most 4096 in a description.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
