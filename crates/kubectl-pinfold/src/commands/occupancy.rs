//! The usage of a node's NUMA nodes, and the CPUs, memory and devices of each pod on it.
//!
//! A NodeResourceTopology counts CPUs, memory and devices, and may list pods with exclusive CPUs. Each pod gets the
//! location that [`NodeSources::location_of`] finds; what is in use beyond that belongs to the holder `others`.

use std::collections::BTreeMap;

use pinfold_cluster::NodeView;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::name::{NodeName, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::occupancy::{DeviceUse, HeldMemory, Holder, Occupancy};
use pinfold_kube::cluster::{DialectName, NodeSources, PodHoldings, PodLocation};
use pinfold_kube::koordinator::usable_cpus;
use pinfold_kube::node_resource_topology::{NodeResourceTopology, NrtResource, NrtZone};
use pinfold_kube::pod::is_extended;
use serde::Serialize;

use super::cluster_state::ClusterState;

/// The holder of resources in use by unknown pods.
const OTHERS: &str = "others";

/// The usage of one resource of a NUMA node or of a whole node: CPUs, bytes or devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct ResourceUsage {
    /// The capacity.
    pub(super) total: u64,
    /// Reserved for the system, or unhealthy.
    pub(super) reserved: u64,
    /// In use by pods.
    pub(super) used: u64,
    /// Free.
    pub(super) free: u64,
}

/// The usage of one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NumaUsage {
    /// Its id; `None` for the totals of a node that reports no NUMA topology.
    pub(super) numa_node: Option<u32>,
    /// Its CPUs.
    pub(super) cpus: ResourceUsage,
    /// Its memory.
    pub(super) memory: ResourceUsage,
    /// Its hugepages.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) hugepages: BTreeMap<String, ResourceUsage>,
    /// Its devices.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) devices: BTreeMap<String, ResourceUsage>,
}

impl ResourceUsage {
    fn of(total: u64, allocatable: u64, free: u64) -> Self {
        let allocatable = allocatable.min(total);
        let free = free.min(allocatable);
        Self {
            total,
            reserved: total - allocatable,
            used: allocatable - free,
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

    /// Adds the usage of another NUMA node.
    pub(super) fn add(&mut self, other: ResourceUsage) {
        self.total = self.total.saturating_add(other.total);
        self.reserved = self.reserved.saturating_add(other.reserved);
        self.used = self.used.saturating_add(other.used);
        self.free = self.free.saturating_add(other.free);
    }
}

/// The usage of a node's NUMA nodes; its totals if it reports no NUMA topology.
pub(super) fn numa_usage(state: &ClusterState, found: &NodeSources<'_>) -> Vec<NumaUsage> {
    let name = found.node.name();
    let zones = found.topology.map(zones).unwrap_or_default();
    let dialect = found.dialect(state.options.decider);
    let counted = matches!(
        dialect,
        Some(DialectName::Kubelet | DialectName::SchedulerPlugins)
    );
    let view = match counted {
        true => None,
        false => state.node_view(&name),
    };
    if let Some(view) = view {
        let nodes = view.machine.nodes().iter();
        return nodes
            .map(|node| {
                let threads = node.cores.iter().flat_map(|core| core.threads.iter());
                let cpus: CpuSet = threads.copied().collect();
                let memory = view.occupancy.memory.iter();
                let mut memory =
                    memory.filter(|row| row.node == node.id && row.resource.as_str() == "memory");
                let mut own = counts(zones.get(&node.id).copied());
                own.numa_node = Some(node.id.get());
                own.cpus = cpu_share(&cpus, &view.occupancy);
                if let Some(row) = memory.next() {
                    own.memory = ResourceUsage::of(row.total, row.allocatable, row.free);
                }
                own
            })
            .collect();
    }
    if !zones.is_empty() {
        let usable = found.topology.map(usable_cpus).unwrap_or_default();
        let own = |(id, zone): (NodeId, &NrtZone)| {
            let mut own = counts(Some(zone));
            own.numa_node = Some(id.get());
            // `allocatable` of a report for koord-scheduler includes the reserved CPUs.
            if let Some(usable) = usable.get(zone.name.as_str()) {
                let usable = u64::try_from(usable.value()).unwrap_or(0);
                own.cpus = ResourceUsage::of(own.cpus.total, usable, own.cpus.free);
            }
            own
        };
        return zones.into_iter().map(own).collect();
    }
    vec![totals(state, &name)]
}

fn cpu_share(cpus: &CpuSet, occupancy: &Occupancy) -> ResourceUsage {
    let usable = cpus - &occupancy.reserved;
    let free = usable.common_len(&occupancy.shared);
    ResourceUsage::of(cpus.len() as u64, usable.len() as u64, free as u64)
}

fn counts(zone: Option<&NrtZone>) -> NumaUsage {
    let mut own = NumaUsage {
        numa_node: None,
        cpus: ResourceUsage::default(),
        memory: ResourceUsage::default(),
        hugepages: BTreeMap::new(),
        devices: BTreeMap::new(),
    };
    for row in zone.iter().flat_map(|zone| &zone.resources) {
        let share = ResourceUsage::of_row(row);
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

/// The usage of a whole node, from its allocatable and the requests of its pods.
fn totals(state: &ClusterState, name: &NodeName) -> NumaUsage {
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
        let share = ResourceUsage::of(total, total, free);
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

/// The zones of type `Node`, which are NUMA nodes.
fn zones(topology: &NodeResourceTopology) -> BTreeMap<NodeId, &NrtZone> {
    let nodes = topology.zones.iter().filter(|zone| zone.kind == "Node");
    let id = |zone: &NrtZone| NodeId::new(zone.name.strip_prefix("node-")?.parse().ok()?).ok();
    nodes.filter_map(|zone| Some((id(zone)?, zone))).collect()
}

/// The node with the CPUs, memory and devices of every pod; `None` if it reports no NUMA topology.
pub(super) fn node_view(state: &ClusterState, found: &NodeSources<'_>) -> Option<NodeView> {
    let name = found.node.name();
    let mut view = state.node_view(&name)?;
    let zones = found.topology.map(zones).unwrap_or_default();
    let mut assignment = HolderAssignment {
        used: used_cpus(&view, &zones, state.counted.contains(&name)),
        occupancy: &mut view.occupancy,
        devices: device_uses(&zones),
    };
    let options = &state.options;
    let mut shared_only = 0;
    for pod in &found.pods {
        let (name, location) = (&pod.pod.name, found.location_of(pod, options));
        let mut known = assignment.occupancy.holders.iter();
        if location == PodLocation::Shared {
            shared_only += 1;
        } else if !known.any(|holder| holder.name == *name) {
            assignment.assign(name, &location, &PodHoldings::of(pod));
        }
    }
    assignment.finish();
    view.occupancy.shared_only_pods = shared_only;
    Some(view)
}

/// The exclusive CPUs in use on every NUMA node that no known holder has.
fn used_cpus(
    view: &NodeView,
    zones: &BTreeMap<NodeId, &NrtZone>,
    counted: bool,
) -> BTreeMap<NodeId, Vec<CpuId>> {
    let occupancy = &view.occupancy;
    let named = occupancy.holders.iter();
    let named = named.filter(|holder| holder.name != OTHERS);
    let mut all = CpuSet::new();
    named.for_each(|holder| all |= &holder.cpus);
    let mut used = BTreeMap::new();
    for node in view.machine.nodes() {
        let threads = node.cores.iter().flat_map(|core| core.threads.iter());
        let cpus = threads.copied().filter(|cpu| !all.contains(*cpu));
        let own: Vec<CpuId> = match counted {
            // All CPUs that are not free are marked as reserved there; the first of them are in use.
            true => {
                let held = zones.get(&node.id).map(|zone| counts(Some(zone)).cpus.used);
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
        used.insert(node.id, own);
    }
    used
}

/// Placeholder devices of each NUMA node by the counts in the report: used, free, then unhealthy ones. The flag says
/// whether a device is in use by an unknown holder.
fn device_uses(zones: &BTreeMap<NodeId, &NrtZone>) -> Vec<(DeviceUse, bool)> {
    /// The most devices of one resource and NUMA node.
    const MAX_DEVICES: u64 = 64;
    let mut numbers = BTreeMap::<String, u64>::new();
    let mut devices = Vec::new();
    for (&id, zone) in zones {
        for (resource, share) in counts(Some(zone)).devices {
            let kind = resource.rsplit('/').next().unwrap_or_default().to_owned();
            for index in 0..share.total.min(MAX_DEVICES) {
                let number = numbers.entry(resource.clone()).or_default();
                let device = DeviceUse {
                    resource: ResourceName::from(resource.as_str()),
                    id: format!("{kind}-{number}"),
                    nodes: NodeSet::single(id),
                    holder: None,
                    healthy: index < share.total - share.reserved,
                };
                *number += 1;
                devices.push((device, index < share.used));
            }
        }
    }
    devices
}

/// Assigns the resources in use on a node to its pods.
struct HolderAssignment<'a> {
    occupancy: &'a mut Occupancy,
    /// CPUs in use without a known holder.
    used: BTreeMap<NodeId, Vec<CpuId>>,
    /// Devices, and whether each is in use without a known holder.
    devices: Vec<(DeviceUse, bool)>,
}

impl HolderAssignment<'_> {
    /// Assigns CPUs, devices and memory to one pod, if its location is known.
    fn assign(&mut self, name: &str, location: &PodLocation, holding: &PodHoldings) {
        let PodLocation::Known { cpus, numa, .. } = location else {
            return;
        };
        let mut own = cpus.clone();
        let alone = numa.iter().next().filter(|_| numa.len() == 1);
        if let (true, Some(node)) = (own.is_empty(), alone) {
            let unknown = self.used.entry(node).or_default();
            own.extend(unknown.drain(..holding.cpus.min(unknown.len())));
        }
        for unknown in self.used.values_mut() {
            unknown.retain(|cpu| !own.contains(*cpu));
        }
        let holder = self.occupancy.holders.len();
        let mut has_devices = false;
        for (resource, amount) in &holding.devices {
            let near = |device: &DeviceUse| alone.is_some_and(|node| device.nodes.contains(node));
            let amount = usize::try_from(*amount).unwrap_or(usize::MAX);
            let unknown = self
                .devices
                .iter_mut()
                .filter(|(device, used)| *used && device.resource == *resource && near(device));
            for (device, used) in unknown.take(amount) {
                device.holder = Some(holder);
                *used = false;
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

    /// Assigns the rest to the holder `others`.
    fn finish(self) {
        let occupancy = self.occupancy;
        occupancy.holders.retain(|holder| holder.name != OTHERS);
        let mut rest = CpuSet::new();
        rest.extend(self.used.into_values().flatten());
        let others = occupancy.holders.len();
        let has_devices = self.devices.iter().any(|(_, used)| *used);
        if !rest.is_empty() || has_devices {
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
            let finished = |(mut device, used): (DeviceUse, bool)| {
                if used {
                    device.holder = Some(others);
                }
                device
            };
            occupancy.devices = self.devices.into_iter().map(finished).collect();
        }
    }
}
