//! [`Portrait`]: one node of a cluster with everybody on it, for pictures and tables.
//!
//! A kubelet's ledger knows its machine. Koordinator's and Volcano's reports name core, NUMA node and socket of every
//! CPU, which is a machine too, if one without distances and caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::member::{Dialect, Member, VolcanoNode};
use super::{Cluster, Tenant};
use crate::cpu_set::{CpuId, CpuSet};
use crate::koordinator::node::{Node, Report};
use crate::machine::{Core, Machine, MachineParts, NumaNode};
use crate::memory::memory_resource;
use crate::name::{NodeName, PodUid};
use crate::node_set::NodeId;
use crate::occupancy::{Holder, MemoryRow, Occupancy};
use crate::volcano::detail::CpuDetail;

/// A machine and who sits where on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portrait {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Who sits where.
    pub occupancy: Occupancy,
}

/// Where one CPU sits. Cores are told apart by anything that orders them.
struct Seat {
    cpu: CpuId,
    node: NodeId,
    socket: u32,
    core: (u32, i64),
}

impl Cluster {
    /// What a node looks like now. `name_of` gives pods the names that people know them by. `None` if the cluster
    /// has no such node, or nothing is known about its CPUs.
    #[must_use]
    pub fn portrait(
        &self,
        node: &NodeName,
        name_of: impl Fn(&PodUid) -> String,
    ) -> Option<Portrait> {
        let seat = self.seat(node)?;
        let member: &Member = &seat.member;
        let here = || {
            let pods = seat.tenants.iter();
            pods.filter_map(|pod| Some((pod, self.pods.get(pod)?)))
        };
        let mut portrait = match member.dialect() {
            Dialect::Kubelet(ledger) => Portrait {
                machine: ledger.rules().machine().clone(),
                occupancy: ledger.occupancy(),
            },
            Dialect::Koordinator { node, .. } => koordinator(node, &name_of)?,
            Dialect::Volcano(node) => volcano(node, here(), &name_of)?,
            Dialect::Unknown => return None,
        };
        let holding = portrait.occupancy.holders.len();
        let pods = usize::try_from(member.pods())
            .unwrap_or(0)
            .max(here().count());
        portrait.occupancy.shared_only_pods = pods.saturating_sub(holding);
        Some(portrait)
    }
}

fn koordinator(node: &Node, name_of: impl Fn(&PodUid) -> String) -> Option<Portrait> {
    let report = node.report.as_ref()?;
    let machine = machine(seats_of_report(report), |id| {
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
        holders.push(others_holding(others));
    }
    Some(Portrait {
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
    pods: impl Iterator<Item = (&'a PodUid, &'a Tenant)>,
    name_of: impl Fn(&PodUid) -> String,
) -> Option<Portrait> {
    let numa = node.numa.as_ref()?;
    let memory = |id| node.amounts.on(&memory_resource(), id);
    let machine = machine(seats_of_detail(&numa.cpus), |id| memory(id).total)?;
    let mut held = CpuSet::new();
    let mut holders = Vec::new();
    for (pod, tenant) in pods.filter(|(_, tenant)| !tenant.held.cpus.is_empty()) {
        held |= &tenant.held.cpus;
        holders.push(Holder {
            name: name_of(pod),
            cpus: tenant.held.cpus.clone(),
            memory: Vec::new(),
        });
    }
    let free = node.free.clone().unwrap_or_default();
    let others = &(machine.online() - &free) - &held;
    if !others.is_empty() {
        holders.push(others_holding(others));
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
    Some(Portrait {
        occupancy: Occupancy {
            holders,
            shared: &free & machine.online(),
            memory: rows.filter(|row| row.total > 0).collect(),
            ..Occupancy::default()
        },
        machine: Arc::new(machine),
    })
}

/// CPUs that are taken by pods which were there before, as far as the report tells.
fn others_holding(cpus: CpuSet) -> Holder {
    Holder {
        name: "others".to_owned(),
        cpus,
        memory: Vec::new(),
    }
}

fn seats_of_report(report: &Report) -> Vec<Seat> {
    let topology = &report.topology;
    let seat = |cpu| {
        let (core, node, socket) = topology.where_is(cpu)?;
        let socket = u32::try_from(socket).ok()?;
        Some(Seat {
            cpu,
            node: NodeId::new(node).ok()?,
            socket,
            core: (socket, core),
        })
    };
    topology.all().iter().filter_map(seat).collect()
}

fn seats_of_detail(detail: &CpuDetail) -> Vec<Seat> {
    let mut seats = Vec::new();
    for core in detail.cores() {
        for cpu in &core.cpus {
            let home = detail.nodes().iter().find(|node| node.cpus.contains(cpu));
            seats.extend(home.map(|home| Seat {
                cpu,
                node: home.id,
                socket: core.id.socket,
                core: (core.id.socket, i64::from(core.id.number)),
            }));
        }
    }
    seats
}

/// The machine with these CPUs; `None` if there are none.
fn machine(seats: Vec<Seat>, memory: impl Fn(NodeId) -> u64) -> Option<Machine> {
    let mut nodes = BTreeMap::<NodeId, BTreeMap<(u32, i64), Vec<CpuId>>>::new();
    let (mut cpus, mut sockets) = (0, Vec::new());
    for seat in seats {
        let cores = nodes.entry(seat.node).or_default();
        cores.entry(seat.core).or_default().push(seat.cpu);
        cpus += 1;
        sockets.push(seat.socket);
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
