//! Who sits where on a node, from what the cluster says: the counts of every NUMA node, and a portrait with names.
//!
//! A report counts CPUs, memory and devices, and may list pods with CPUs of their own. Pods get the seats that
//! [`NodeSources::seat`] tells; what is taken beyond that belongs to `others`.

use std::collections::BTreeMap;

use pinfold_core::cluster::NodeView;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::name::{NodeName, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::occupancy::{DeviceUse, HeldMemory, Holder, Occupancy};
use pinfold_kube::cluster::{DialectName, NodeSources, PodHoldings, PodLocation};
use pinfold_kube::node_resource_topology::{NodeResourceTopology, NrtResource, NrtZone};
use pinfold_kube::pod::is_extended;
use serde::Serialize;

use super::cluster_state::ClusterState;

/// How the holder of everything without a name is called.
const OTHERS: &str = "others";

/// One resource of one NUMA node, or of a node as a whole: CPUs, bytes or devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Share {
    /// All there is.
    pub(super) total: u64,
    /// What is kept for the system, or out of order.
    pub(super) kept: u64,
    /// What pods hold.
    pub(super) held: u64,
    /// What is left.
    pub(super) free: u64,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NumaUse {
    /// Its id; `None` for a node whose NUMA nodes nobody reports.
    pub(super) numa_node: Option<u32>,
    /// Its CPUs.
    pub(super) cpus: Share,
    /// Its memory.
    pub(super) memory: Share,
    /// Its hugepages.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) hugepages: BTreeMap<String, Share>,
    /// Devices near it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) devices: BTreeMap<String, Share>,
}

impl Share {
    fn of(total: u64, allocatable: u64, free: u64) -> Self {
        let allocatable = allocatable.min(total);
        let free = free.min(allocatable);
        Self {
            total,
            kept: total - allocatable,
            held: allocatable - free,
            free,
        }
    }

    fn of_row(row: &NrtResource) -> Self {
        let (capacity, allocatable, available) = row.quantities();
        let whole = |amount: i64| u64::try_from(amount).unwrap_or(0);
        Self::of(
            whole(capacity.value()).max(whole(allocatable.value())),
            whole(allocatable.value()),
            whole(available.value()),
        )
    }

    /// Adds another one.
    pub(super) fn add(&mut self, other: Share) {
        self.total = self.total.saturating_add(other.total);
        self.kept = self.kept.saturating_add(other.kept);
        self.held = self.held.saturating_add(other.held);
        self.free = self.free.saturating_add(other.free);
    }
}

/// The NUMA nodes of a node; one without an id if nobody reports them.
pub(super) fn uses(state: &ClusterState, found: &NodeSources<'_>) -> Vec<NumaUse> {
    let name = found.node.name();
    let zones = found.topology.map(zones).unwrap_or_default();
    let dialect = found.dialect(state.reading.decider);
    let counted = matches!(
        dialect,
        Some(DialectName::Kubelet | DialectName::SchedulerPlugins)
    );
    let portrait = match counted {
        true => None,
        false => state.node_view(&name),
    };
    if let Some(portrait) = portrait {
        let nodes = portrait.machine.nodes().iter();
        return nodes
            .map(|node| {
                let threads = node.cores.iter().flat_map(|core| core.threads.iter());
                let cpus: CpuSet = threads.copied().collect();
                let memory = portrait.occupancy.memory.iter();
                let mut memory =
                    memory.filter(|row| row.node == node.id && row.resource.as_str() == "memory");
                let mut own = counts(zones.get(&node.id).copied());
                own.numa_node = Some(node.id.get());
                own.cpus = cpu_share(&cpus, &portrait.occupancy);
                if let Some(row) = memory.next() {
                    own.memory = Share::of(row.total, row.allocatable, row.free);
                }
                own
            })
            .collect();
    }
    if !zones.is_empty() {
        let own = |(id, zone): (NodeId, &NrtZone)| NumaUse {
            numa_node: Some(id.get()),
            ..counts(Some(zone))
        };
        return zones.into_iter().map(own).collect();
    }
    vec![sums(state, &name)]
}

fn cpu_share(cpus: &CpuSet, occupancy: &Occupancy) -> Share {
    let usable = cpus - &occupancy.reserved;
    let free = usable.common_len(&occupancy.shared);
    Share::of(cpus.len() as u64, usable.len() as u64, free as u64)
}

fn counts(zone: Option<&NrtZone>) -> NumaUse {
    let mut own = NumaUse {
        numa_node: None,
        cpus: Share::default(),
        memory: Share::default(),
        hugepages: BTreeMap::new(),
        devices: BTreeMap::new(),
    };
    for row in zone.iter().flat_map(|zone| &zone.resources) {
        let share = Share::of_row(row);
        match row.name.as_str() {
            "cpu" => own.cpus = share,
            "memory" => own.memory = share,
            name if name.starts_with("hugepages-") => {
                own.hugepages.insert(name.to_owned(), share);
            }
            name if is_extended(name) => {
                own.devices.insert(name.to_owned(), share);
            }
            _ => {}
        }
    }
    own
}

/// A node as a whole, from its allocatable and what its pods request.
fn sums(state: &ClusterState, name: &NodeName) -> NumaUse {
    let mut own = counts(None);
    let Some(member) = state.cluster.node(name) else {
        return own;
    };
    let whole = |amount: i64| u64::try_from(amount).unwrap_or(0);
    for (resource, allocatable) in member.allocatable().iter() {
        let used = member.used().get(resource.as_str());
        let unit = if resource.as_str() == "cpu" { 1000 } else { 1 };
        let total = whole(allocatable / unit);
        let free = whole(allocatable.saturating_sub(used).max(0) / unit);
        let share = Share::of(total, total, free);
        match resource.as_str() {
            "cpu" => own.cpus = share,
            "memory" => own.memory = share,
            name if is_extended(name) => {
                own.devices.insert(name.to_owned(), share);
            }
            _ => {}
        }
    }
    own
}

/// The zones that are NUMA nodes.
fn zones(topology: &NodeResourceTopology) -> BTreeMap<NodeId, &NrtZone> {
    let nodes = topology.zones.iter().filter(|zone| zone.kind == "Node");
    let id = |zone: &NrtZone| NodeId::new(zone.name.strip_prefix("node-")?.parse().ok()?).ok();
    nodes.filter_map(|zone| Some((id(zone)?, zone))).collect()
}

/// The node with everybody in their seats; `None` if nobody reports its NUMA nodes.
pub(super) fn portrait(state: &ClusterState, found: &NodeSources<'_>) -> Option<NodeView> {
    let name = found.node.name();
    let mut portrait = state.node_view(&name)?;
    let zones = found.topology.map(zones).unwrap_or_default();
    let mut seating = Seating {
        taken: taken(&portrait, &zones, state.counted.contains(&name)),
        occupancy: &mut portrait.occupancy,
        devices: devices(&zones),
    };
    let reading = &state.reading;
    let mut sharing = 0;
    for pod in &found.pods {
        let (name, seat) = (&pod.pod.name, found.location_of(pod, reading));
        let mut known = seating.occupancy.holders.iter();
        if seat == PodLocation::Shared {
            sharing += 1;
        } else if !known.any(|holder| holder.name == *name) {
            seating.sit(name, &seat, &PodHoldings::of(pod));
        }
    }
    seating.finish();
    portrait.occupancy.shared_only_pods = sharing;
    Some(portrait)
}

/// The CPUs of every NUMA node that pods hold and nobody has a name for yet.
fn taken(
    portrait: &NodeView,
    zones: &BTreeMap<NodeId, &NrtZone>,
    counted: bool,
) -> BTreeMap<NodeId, Vec<CpuId>> {
    let occupancy = &portrait.occupancy;
    let named = occupancy.holders.iter();
    let named = named.filter(|holder| holder.name != OTHERS);
    let mut all = CpuSet::new();
    named.for_each(|holder| all |= &holder.cpus);
    let mut taken = BTreeMap::new();
    for node in portrait.machine.nodes() {
        let threads = node.cores.iter().flat_map(|core| core.threads.iter());
        let cpus = threads.copied().filter(|cpu| !all.contains(*cpu));
        let own: Vec<CpuId> = match counted {
            // Everything that is not to be had is marked as reserved there; the first of it are held.
            true => {
                let held = zones.get(&node.id).map(|zone| counts(Some(zone)).cpus.held);
                let held = usize::try_from(held.unwrap_or(0)).unwrap_or(usize::MAX);
                cpus.filter(|cpu| occupancy.reserved.contains(*cpu))
                    .take(held)
                    .collect()
            }
            false => cpus
                .filter(|cpu| {
                    !occupancy.shared.contains(*cpu) && !occupancy.reserved.contains(*cpu)
                })
                .collect(),
        };
        taken.insert(node.id, own);
    }
    taken
}

/// As many devices near each NUMA node as are counted: taken ones first, then free ones, then those out of order.
fn devices(zones: &BTreeMap<NodeId, &NrtZone>) -> Vec<(DeviceUse, bool)> {
    /// More of one kind are not drawn one by one.
    const MOST: u64 = 64;
    let mut numbers = BTreeMap::<String, u64>::new();
    let mut seats = Vec::new();
    for (&id, zone) in zones {
        for (resource, share) in counts(Some(zone)).devices {
            let kind = resource.rsplit('/').next().unwrap_or_default().to_owned();
            for index in 0..share.total.min(MOST) {
                let number = numbers.entry(resource.clone()).or_default();
                let seat = DeviceUse {
                    resource: ResourceName::from(resource.as_str()),
                    id: format!("{kind}-{number}"),
                    nodes: NodeSet::single(id),
                    holder: None,
                    healthy: index < share.total - share.kept,
                };
                *number += 1;
                seats.push((seat, index < share.held));
            }
        }
    }
    seats
}

/// Pods finding their seats.
struct Seating<'a> {
    occupancy: &'a mut Occupancy,
    taken: BTreeMap<NodeId, Vec<CpuId>>,
    /// Devices, and whether each is taken by somebody without a name yet.
    devices: Vec<(DeviceUse, bool)>,
}

impl Seating<'_> {
    /// Seats one pod, if it is known where.
    fn sit(&mut self, name: &str, seat: &PodLocation, holding: &PodHoldings) {
        let PodLocation::Known { cpus, numa, .. } = seat else {
            return;
        };
        let mut own = cpus.clone();
        let alone = numa.iter().next().filter(|_| numa.len() == 1);
        if let (true, Some(node)) = (own.is_empty(), alone) {
            let seats = self.taken.entry(node).or_default();
            own.extend(seats.drain(..holding.cpus.min(seats.len())));
        }
        for seats in self.taken.values_mut() {
            seats.retain(|cpu| !own.contains(*cpu));
        }
        let holder = self.occupancy.holders.len();
        let mut has_devices = false;
        for (resource, amount) in &holding.devices {
            let near = |device: &DeviceUse| alone.is_some_and(|node| device.nodes.contains(node));
            let amount = usize::try_from(*amount).unwrap_or(usize::MAX);
            let free = self
                .devices
                .iter_mut()
                .filter(|(device, taken)| *taken && device.resource == *resource && near(device));
            for (device, taken) in free.take(amount) {
                device.holder = Some(holder);
                *taken = false;
                has_devices = true;
            }
        }
        let memory: Vec<HeldMemory> = match alone {
            Some(node) => holding
                .memory
                .iter()
                .map(|(resource, bytes)| HeldMemory {
                    nodes: NodeSet::single(node),
                    resource: resource.clone(),
                    bytes: *bytes,
                })
                .collect(),
            None => Vec::new(),
        };
        if !own.is_empty() || !memory.is_empty() || has_devices {
            self.occupancy.holders.push(Holder {
                name: name.to_owned(),
                cpus: own,
                memory,
            });
        }
    }

    /// Gives what is left to the others.
    fn finish(self) {
        let occupancy = self.occupancy;
        occupancy.holders.retain(|holder| holder.name != OTHERS);
        let mut rest = CpuSet::new();
        rest.extend(self.taken.into_values().flatten());
        let others = occupancy.holders.len();
        let someone = self.devices.iter().any(|(_, taken)| *taken);
        if !rest.is_empty() || someone {
            occupancy.holders.push(Holder {
                name: OTHERS.to_owned(),
                cpus: rest,
                memory: Vec::new(),
            });
        }
        let mut held = CpuSet::new();
        for holder in &occupancy.holders {
            held |= &holder.cpus;
        }
        occupancy.shared = &occupancy.shared - &held;
        occupancy.reserved = &occupancy.reserved - &held;
        if !self.devices.is_empty() {
            let seat = |(mut device, taken): (DeviceUse, bool)| {
                if taken {
                    device.holder = Some(others);
                }
                device
            };
            occupancy.devices = self.devices.into_iter().map(seat).collect();
        }
    }
}
