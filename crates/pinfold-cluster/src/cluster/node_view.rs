//! [`NodeView`]: the machine of a node and the pods on its CPUs, for pictures and tables.
//!
//! A kubelet's ledger has the machine. Koordinator's and Volcano's reports list core, NUMA node and socket of every
//! CPU, from which a machine without distances and caches is built.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{ClusterNode, Dialect, VolcanoNode};
use super::{Cluster, PlacedPod};
use crate::koordinator::amounts::{CPU, MILLI};
use crate::koordinator::node::{KoordinatorNode, KoordinatorReport};
use crate::volcano::cpu_detail::CpuDetail;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::ledger::Ledger;
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::memory::memory_resource;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::node_set::NodeId;
use pinfold_core::occupancy::{Holder, MemoryRow, Occupancy};

/// A machine and the pods on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Which pods hold which CPUs and how much memory.
    pub occupancy: Occupancy,
}

/// The NUMA node, socket and core of one CPU. The key of a core is any value that orders cores.
struct ListedCpu {
    cpu: CpuId,
    node: NodeId,
    socket: u32,
    core: (u32, i64),
}

impl Cluster {
    /// The machine of a node and the pods on it. `name_of` returns the displayed name of a pod. `None` if the cluster
    /// does not have the node, or if the node does not report its CPUs.
    #[must_use]
    pub fn node_view(
        &self,
        node: &NodeName,
        name_of: impl Fn(&PodUid) -> String,
    ) -> Option<NodeView> {
        let slot = self.slot(node)?;
        let node = &slot.node;
        let here = || {
            let pods = slot.pods.iter();
            pods.filter_map(|pod| Some((pod, self.pods.get(pod)?)))
        };
        let mut view = match node.dialect() {
            Dialect::Kubelet(ledger) => NodeView {
                machine: ledger.rules().machine().clone(),
                occupancy: ledger.occupancy(),
            },
            Dialect::Koordinator { node, .. } => koordinator(node, &name_of)?,
            Dialect::Volcano(node) => volcano(node, here(), &name_of)?,
            Dialect::SchedulerPlugins(_) | Dialect::Unknown => return None,
        };
        let holding = view.occupancy.holders.len();
        let pods = usize::try_from(node.pods())
            .unwrap_or(0)
            .max(here().count());
        view.occupancy.shared_only_pods = pods.saturating_sub(holding);
        Some(view)
    }

    /// The same, with a holder `others` of what pods hold that only the report of a kubelet's node counts.
    #[must_use]
    pub fn node_view_with_others(
        &self,
        node: &NodeName,
        name_of: impl Fn(&PodUid) -> String,
    ) -> Option<NodeView> {
        let mut view = self.node_view(node, name_of)?;
        let node = &self.slot(node)?.node;
        if let Dialect::Kubelet(ledger) = node.dialect() {
            let shared_only_pods = view.occupancy.shared_only_pods;
            view = kubelet(ledger, node);
            view.occupancy.shared_only_pods = shared_only_pods;
        }
        Some(view)
    }
}

/// A kubelet's ledger. What pods hold that only the node's report counts belongs to a holder `others`.
fn kubelet(ledger: &Ledger, node: &ClusterNode) -> NodeView {
    let machine = ledger.rules().machine().clone();
    let mut occupancy = ledger.occupancy();
    let mut held = occupancy.shared.clone();
    for holder in &occupancy.holders {
        held |= &holder.cpus;
    }
    let mut others = &(machine.online() - &held) - &occupancy.reserved;
    if node.counts_cpus() {
        // The report counts the CPUs of pods and of the system as not available, without listing them.
        let allocatable = bytes(node.allocatable().get(CPU) / MILLI);
        let system = (machine.online().len() as u64).saturating_sub(allocatable);
        let system = usize::try_from(system).unwrap_or(usize::MAX);
        let of_pods = occupancy.reserved.len().saturating_sub(system);
        let of_pods: CpuSet = occupancy.reserved.iter().take(of_pods).collect();
        occupancy.reserved = &occupancy.reserved - &of_pods;
        occupancy.shared = &occupancy.shared - &of_pods;
        others |= &of_pods;
    }
    let index = occupancy.holders.len();
    let devices = ledger.state().devices();
    let mut holds_devices = false;
    for device in &mut occupancy.devices {
        if device.holder.is_none()
            && devices.is_in_use(&device.resource, &device.id.as_str().into())
        {
            device.holder = Some(index);
            holds_devices = true;
        }
    }
    if holds_devices || !others.is_empty() {
        occupancy.holders.push(other_pods(others));
    }
    NodeView { machine, occupancy }
}

fn koordinator(node: &KoordinatorNode, name_of: impl Fn(&PodUid) -> String) -> Option<NodeView> {
    let report = node.report.as_ref()?;
    let machine = machine(locations_from_report(report), |id| {
        let zone = report.zones().iter().find(|zone| zone.node == id);
        zone.map_or(0, |zone| bytes(zone.amounts.get("memory")))
    })?;
    let mut held = CpuSet::new();
    let mut holders = Vec::new();
    for (pod, allocation) in node.ledger.pods() {
        if !allocation.cpus.is_empty() {
            held |= &allocation.cpus;
            holders.push(Holder {
                name: name_of(pod),
                cpus: allocation.cpus.clone(),
                memory: Vec::new(),
            });
        }
    }
    let others = &(report.set_aside() & machine.online()) - &held;
    let memory = report.zones().iter().map(|zone| {
        let total = bytes(zone.amounts.get("memory"));
        let allocated = node.ledger.allocated(zone.node, 1.0);
        let used = allocated.map_or(0, |used| bytes(used.get("memory")));
        MemoryRow {
            node: zone.node,
            resource: memory_resource(),
            total,
            allocatable: total,
            free: total.saturating_sub(used),
        }
    });
    let memory: Vec<MemoryRow> = memory.filter(|row| row.total > 0).collect();
    let shared = &(machine.online() - &held) - &others;
    if !others.is_empty() {
        holders.push(other_pods(others));
    }
    Some(NodeView {
        occupancy: Occupancy {
            holders,
            shared,
            reserved: report.reserved() - report.set_aside(),
            memory,
            ..Occupancy::default()
        },
        machine: Arc::new(machine),
    })
}

fn volcano<'a>(
    node: &VolcanoNode,
    pods: impl Iterator<Item = (&'a PodUid, &'a PlacedPod)>,
    name_of: impl Fn(&PodUid) -> String,
) -> Option<NodeView> {
    let numa = node.numa.as_ref()?;
    let memory = |id| node.amounts.on(&memory_resource(), id);
    let machine = machine(locations_from_detail(&numa.cpus), |id| memory(id).total)?;
    let mut held = CpuSet::new();
    let mut holders = Vec::new();
    for (pod, placed) in pods.filter(|(_, placed)| !placed.holdings.cpus.is_empty()) {
        held |= &placed.holdings.cpus;
        holders.push(Holder {
            name: name_of(pod),
            cpus: placed.holdings.cpus.clone(),
            memory: Vec::new(),
        });
    }
    let free = node.free.clone().unwrap_or_default();
    let others = &(machine.online() - &free) - &held;
    if !others.is_empty() {
        holders.push(other_pods(others));
    }
    let rows = machine.nodes().iter().map(|node| {
        let amount = memory(node.id);
        MemoryRow {
            node: node.id,
            resource: memory_resource(),
            total: amount.total,
            allocatable: amount.total,
            free: amount.free,
        }
    });
    Some(NodeView {
        occupancy: Occupancy {
            holders,
            shared: &free & machine.online(),
            memory: rows.filter(|row| row.total > 0).collect(),
            ..Occupancy::default()
        },
        machine: Arc::new(machine),
    })
}

/// The holder of CPUs that the report counts as taken and no placed pod holds.
fn other_pods(cpus: CpuSet) -> Holder {
    Holder {
        name: "others".to_owned(),
        cpus,
        memory: Vec::new(),
    }
}

fn locations_from_report(report: &KoordinatorReport) -> Vec<ListedCpu> {
    let topology = &report.topology;
    let location = |cpu| {
        let (core, node, socket) = topology.where_is(cpu)?;
        let socket = u32::try_from(socket).ok()?;
        Some(ListedCpu {
            cpu,
            node: NodeId::new(node).ok()?,
            socket,
            core: (socket, core),
        })
    };
    topology.all().iter().filter_map(location).collect()
}

fn locations_from_detail(detail: &CpuDetail) -> Vec<ListedCpu> {
    let mut locations = Vec::new();
    for core in detail.cores() {
        for cpu in &core.cpus {
            let home = detail.nodes().iter().find(|node| node.cpus.contains(cpu));
            locations.extend(home.map(|home| ListedCpu {
                cpu,
                node: home.id,
                socket: core.id.socket,
                core: (core.id.socket, i64::from(core.id.number)),
            }));
        }
    }
    locations
}

/// The machine with these CPUs; `None` if there are none.
fn machine(locations: Vec<ListedCpu>, memory: impl Fn(NodeId) -> u64) -> Option<Machine> {
    let mut nodes = BTreeMap::<NodeId, BTreeMap<(u32, i64), Vec<CpuId>>>::new();
    let (mut cpus, mut sockets) = (0, Vec::new());
    for location in locations {
        let cores = nodes.entry(location.node).or_default();
        cores.entry(location.core).or_default().push(location.cpu);
        cpus += 1;
        sockets.push(location.socket);
    }
    sockets.sort_unstable();
    sockets.dedup();
    let mut number = 0;
    let mut cores_of = |cores: BTreeMap<(u32, i64), Vec<CpuId>>| {
        let cores = cores.into_iter().map(|((socket, _), threads)| {
            number += 1;
            Core {
                id: number - 1,
                socket,
                die: None,
                l3: None,
                threads,
            }
        });
        cores.collect()
    };
    let nodes = nodes.into_iter().map(|(id, cores)| NumaNode {
        id,
        memory: memory(id),
        hugepages: Vec::new(),
        distances: Vec::new(),
        cores: cores_of(cores),
    });
    Machine::new(MachineParts {
        nodes: nodes.collect(),
        num_cpus: cpus,
        num_sockets: sockets.len(),
        offline: CpuSet::new(),
    })
    .ok()
}

fn bytes(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}
