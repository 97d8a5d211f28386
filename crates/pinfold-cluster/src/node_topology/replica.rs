//! [`Replica`]: a node's kubelet, rebuilt from the node's topology object.
//!
//! The kubelet's managers decide mostly by counting: how many CPUs, bytes and devices of each NUMA node are free,
//! and how many there are at all. Counts are what a topology object carries, so a machine with the same counts gives
//! the same decisions. If the exporter also lists the CPUs themselves, they are used instead.
//!
//! ```text
//! attributes ─► Settings ─┐
//! zones ─► CPUs, a core each, as many as counted ─► Rules ─┐
//!      ├─► memory table with the counted amounts ──────────┼─► Ledger, used by `predict`
//!      └─► devices near each node, as many as counted ─────┘
//! ```
//!
//! What is *not* in the counts is kept as [`Gaps`], and [`Gaps::affecting`] names the decisions that depend on one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::attributes::{self, first};
use super::numa_zones::numa_id;
use super::resource_kinds::{is_hugepages, is_numa_affine};
use super::topology_manager;
use super::{NodeTopology, Zone};
use crate::volcano::cpu_detail::CpuRow;
use pinfold_core::cpu::CpuState;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::device::{
    AdvertisedDevices, Device, DeviceEdit, DevicePool, DeviceSet, DeviceState,
};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules, SavedState, SettingsError};
use pinfold_core::machine::{Core, Machine, MachineError, MachineParts, NumaNode};
use pinfold_core::memory::{
    MemoryAmounts, MemoryReservation, MemoryState, NodeMemory, memory_resource,
};
use pinfold_core::name::{ContainerName, DeviceId, PodUid, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::ResourceList;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};

/// The most devices of one resource that the replica models on one NUMA node; see [`Gaps::capped`].
pub(super) const MAX_DEVICES: u64 = 1024;

/// The uid of the placeholder pod that holds what the object counts as taken. No pod has such a uid.
const OTHERS: &str = "(other pods)";

/// The CPUs of a node, if its exporter lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownCpus {
    /// Core, NUMA node and socket of every CPU.
    pub rows: Vec<CpuRow>,
    /// The CPUs reserved for the system.
    pub reserved: CpuSet,
    /// The CPUs that containers hold exclusively.
    pub held: CpuSet,
}

/// The total of a device resource on a node, near a NUMA node or not: a scheduler knows it from the node and its pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTotal {
    /// The allocatable amount.
    pub allocatable: u64,
    /// The amount that no pod requests.
    pub free: u64,
}

/// The totals of every device resource on a node.
pub type DeviceTotals = BTreeMap<ResourceName, DeviceTotal>;

/// A kubelet that decides like the one that published a topology object.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) ledger: Ledger,
    pub(super) gaps: Gaps,
}

/// The most rules that are cached; further kubelets have their own.
const MAX_CACHED_RULES: usize = 64;

/// The rules of kubelets that were rebuilt before, shared by kubelets with equal machine and settings.
#[derive(Clone, Debug, Default)]
pub struct RulesCache {
    cached: Vec<CachedRules>,
}

#[derive(Clone, Debug)]
struct CachedRules {
    machine: Arc<Machine>,
    settings: Settings,
    unavailable: CpuSet,
    rules: Arc<Rules>,
}

impl RulesCache {
    fn rules(
        &mut self,
        machine: Machine,
        settings: Settings,
        unavailable: CpuSet,
    ) -> Result<Arc<Rules>, SettingsError> {
        let same = |cached: &&CachedRules| {
            cached.unavailable == unavailable
                && cached.settings == settings
                && *cached.machine == machine
        };
        if let Some(cached) = self.cached.iter().find(same) {
            return Ok(cached.rules.clone());
        }
        let machine = Arc::new(machine);
        let rules = Rules::new(machine.clone(), settings.clone())?.with_reserved(&unavailable)?;
        let rules = Arc::new(rules);
        if self.cached.len() < MAX_CACHED_RULES {
            self.cached.push(CachedRules {
                machine,
                settings,
                unavailable,
                rules: rules.clone(),
            });
        }
        Ok(rules)
    }
}

/// What a topology object leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The CPUs of each core and socket are unknown.
    pub(super) cores: bool,
    /// The order in which the kubelet takes CPUs is unknown: their cores, or their caches if an option uses them.
    pub(super) order: bool,
    /// The memory groups of NUMA nodes with memory in use are unknown.
    pub(super) memory_groups: bool,
    /// The distances between NUMA nodes are unknown, though the kubelet compares them.
    pub(super) distances: bool,
    /// Resources with devices near several NUMA nodes.
    pub(super) wide: BTreeSet<ResourceName>,
    /// Resources of which some NUMA node has more devices than the replica models.
    pub(super) capped: BTreeSet<ResourceName>,
}

impl Gaps {
    /// Whether the CPUs are counted, not listed.
    #[must_use]
    pub fn counts_cpus(&self) -> bool {
        self.cores
    }
}

/// Why no kubelet can be rebuilt from a topology object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicaError {
    /// It reports no NUMA node.
    #[error("no zone is a NUMA node")]
    NoZones,
    /// Two zones have the same NUMA id.
    #[error("two zones are NUMA node {0}")]
    DuplicateZone(NodeId),
    /// More CPUs than a machine can have.
    #[error("the zones report more than {} CPUs", CpuId::LIMIT)]
    TooManyCpus,
    /// The listed CPUs are not a valid machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The attributes describe a kubelet that would not start.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl Replica {
    /// Rebuilds the kubelet that published `topology`. `totals` are the devices of the whole node: those that no zone
    /// counts are near no NUMA node. `cpus` are its CPUs, if they are listed.
    ///
    /// If the object does not state the CPU or memory policy, it is assumed to be static if the zones report the
    /// resource, and some CPU as allocatable.
    ///
    /// `cache` has the rules of kubelets that were rebuilt before: the tables of a machine's CPUs are much larger than the
    /// state that changes on a node.
    ///
    /// # Errors
    /// If the object does not describe a valid machine and kubelet.
    pub fn of(
        topology: &NodeTopology,
        totals: &DeviceTotals,
        cpus: Option<&KnownCpus>,
        fidelity: Fidelity,
        cache: &mut RulesCache,
    ) -> Result<Self, ReplicaError> {
        let zones = numa_zones(topology)?;
        let caches = caches(topology);
        let machine = machine(&zones, cpus, &caches)?;
        let settings = settings(topology, &zones, fidelity)?;
        let unavailable = unavailable_cpus(&zones, &machine, cpus);
        let held = cpus.map(|known| known.held.clone()).unwrap_or_default();
        let rules = cache.rules(machine, settings, unavailable)?;

        let options = rules.cpu_options();
        let by_cache = options.is_some_and(|options| options.prefer_align_by_cache);
        let mut gaps = Gaps {
            cores: cpus.is_none(),
            order: cpus.is_none() || (by_cache && caches.is_empty()),
            distances: rules.compares_distances() && !distances_are_known(&zones),
            ..Gaps::default()
        };
        let memory = match rules.assigns_memory() {
            true => memory_table(&zones, rules.policy(), &mut gaps),
            false => MemoryState::default(),
        };
        let (pool, devices) = devices(topology, &zones, totals, &mut gaps);
        let shared = rules.topology().all() - &held;
        let saved = SavedState {
            cpus: CpuState::restored(shared, BTreeMap::new(), BTreeMap::new()),
            memory,
            devices,
        };
        let ledger = Ledger::from_kubelet_state(rules, saved, pool, &[]);
        Ok(Self { ledger, gaps })
    }

    /// The rebuilt ledger. Its CPU and device ids are made up unless they were listed.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What the topology object leaves open.
    #[must_use]
    pub fn gaps(&self) -> &Gaps {
        &self.gaps
    }
}

/// A zone with its NUMA id.
type NumberedZone<'a> = (NodeId, &'a Zone);

fn numa_zones(topology: &NodeTopology) -> Result<Vec<NumberedZone<'_>>, ReplicaError> {
    let nodes = topology.zones.iter().filter(|zone| zone.kind == "Node");
    let zones: Vec<NumberedZone<'_>> = nodes
        .filter_map(|zone| Some((numa_id(&zone.name)?, zone)))
        .collect();
    let mut seen = NodeSet::EMPTY;
    for &(id, _) in &zones {
        if seen.contains(id) {
            return Err(ReplicaError::DuplicateZone(id));
        }
        seen.insert(id);
    }
    match zones.is_empty() {
        true => Err(ReplicaError::NoZones),
        false => Ok(zones),
    }
}

/// Capacity, allocatable and available amount of one resource in whole units, each at most the one before it.
struct ZoneCounts {
    capacity: u64,
    allocatable: u64,
    available: u64,
}

fn counts(zone: &Zone, name: &str) -> Option<ZoneCounts> {
    let found = zone.resources.iter().find(|row| row.name.as_str() == name);
    let whole = |amount: &Quantity| {
        // A fraction of a CPU is rounded down.
        let units = amount.value();
        let rounded_up = Quantity::from(units) > *amount;
        u64::try_from(units.saturating_sub(i64::from(rounded_up))).unwrap_or(0)
    };
    found.map(|row| {
        let capacity = whole(&row.capacity).max(whole(&row.allocatable));
        let allocatable = whole(&row.allocatable);
        ZoneCounts {
            capacity,
            allocatable,
            available: whole(&row.available).min(allocatable),
        }
    })
}

/// The CPUs of every last-level cache, as far as the attribute lists them.
fn caches(topology: &NodeTopology) -> Vec<CpuSet> {
    let text = topology.attribute(attributes::CACHES).unwrap_or_default();
    let caches = text.split(';').filter(|cache| !cache.is_empty());
    caches.map_while(|cache| cache.parse().ok()).collect()
}

fn machine(
    zones: &[NumberedZone<'_>],
    known: Option<&KnownCpus>,
    caches: &[CpuSet],
) -> Result<Machine, ReplicaError> {
    let mut next = 0_u32;
    let mut nodes = Vec::with_capacity(zones.len());
    for &(id, zone) in zones {
        let cores = match known {
            Some(known) => listed_cores(id, &known.rows, caches),
            None => {
                let capacity = counts(zone, "cpu").map_or(0, |counts| counts.capacity);
                counted_cores(&mut next, capacity)?
            }
        };
        nodes.push(NumaNode {
            id,
            memory: 0,
            hugepages: Vec::new(),
            distances: distances(zones, zone).unwrap_or_default(),
            cores,
        });
    }
    let cores = nodes.iter().flat_map(|node| &node.cores);
    let sockets: BTreeSet<u32> = cores.clone().map(|core| core.socket).collect();
    let num_cpus = cores.map(|core| core.threads.len()).sum::<usize>();
    Ok(Machine::new(MachineParts {
        num_cpus: num_cpus.max(1),
        num_sockets: sockets.len().max(1),
        nodes,
        offline: CpuSet::new(),
    })?)
}

fn listed_cores(node: NodeId, rows: &[CpuRow], caches: &[CpuSet]) -> Vec<Core> {
    let mut cores = BTreeMap::<(u32, u32), Vec<CpuId>>::new();
    for row in rows.iter().filter(|row| row.node == node) {
        cores
            .entry((row.socket, row.core))
            .or_default()
            .push(row.cpu);
    }
    let cache = |threads: &[CpuId]| {
        let first = threads.first()?;
        let at = caches.iter().position(|cache| cache.contains(*first))?;
        u32::try_from(at).ok()
    };
    let core = |((socket, id), threads): (_, Vec<CpuId>)| Core {
        id,
        socket,
        die: None,
        l3: cache(&threads),
        threads,
    };
    cores.into_iter().map(core).collect()
}

fn counted_cores(next: &mut u32, count: u64) -> Result<Vec<Core>, ReplicaError> {
    let mut cores = Vec::new();
    for _ in 0..count {
        let cpu = CpuId::new(*next).ok_or(ReplicaError::TooManyCpus)?;
        cores.push(Core {
            id: *next,
            socket: 0,
            die: None,
            l3: None,
            threads: vec![cpu],
        });
        *next += 1;
    }
    Ok(cores)
}

/// The distances of one zone to all zones, if it states them all.
fn distances(zones: &[NumberedZone<'_>], zone: &Zone) -> Option<Vec<u32>> {
    let to = |id: NodeId| {
        let mut costs = zone.costs.iter();
        let cost = costs.find(|cost| numa_id(&cost.name) == Some(id))?;
        u32::try_from(cost.value).ok()
    };
    zones.iter().map(|&(id, _)| to(id)).collect()
}

fn distances_are_known(zones: &[NumberedZone<'_>]) -> bool {
    let mut each = zones.iter();
    each.all(|(_, zone)| distances(zones, zone).is_some())
}

/// The CPUs that cannot be assigned: the reserved ones if they are listed, else as many as the counts say. Whether a
/// counted CPU is reserved or held makes no difference to the next pod.
fn unavailable_cpus(
    zones: &[NumberedZone<'_>],
    machine: &Machine,
    known: Option<&KnownCpus>,
) -> CpuSet {
    if let Some(known) = known {
        return &known.reserved & machine.online();
    }
    let mut unavailable = CpuSet::new();
    for ((_, zone), node) in zones.iter().zip(machine.nodes()) {
        let available = counts(zone, "cpu").map_or(0, |counts| counts.available);
        let free = usize::try_from(available).unwrap_or(usize::MAX);
        let cpus = node.cores.iter().flat_map(|core| &core.threads);
        unavailable.extend(cpus.skip(free).copied());
    }
    unavailable
}

fn settings(
    topology: &NodeTopology,
    zones: &[NumberedZone<'_>],
    fidelity: Fidelity,
) -> Result<Settings, SettingsError> {
    let (topology_policy, topology_scope) = topology_manager::kubelet_policy_and_scope(topology)?;
    let reports = |name: &str| {
        let mut zones = zones.iter();
        zones.any(|(_, zone)| counts(zone, name).is_some())
    };
    let options = |name: &str| {
        let text = topology.attribute(name);
        text.map(attributes::options).unwrap_or_default()
    };
    // A kubelet whose CPU manager is off has exactly zero allocatable CPUs, and a static one always has some. Without the
    // attribute, a manager of resources that the zones report is assumed to be static.
    let is_nonzero = |zone: &Zone| {
        let mut rows = zone.resources.iter();
        rows.any(|row| row.name.as_str() == "cpu" && !row.allocatable.is_zero())
    };
    let assigns_cpus = zones.iter().any(|(_, zone)| is_nonzero(zone));
    let cpu_policy = match topology.attribute(attributes::CPU_POLICY) {
        Some(name) => name.parse()?,
        None if assigns_cpus => CpuManagerPolicy::Static,
        None => CpuManagerPolicy::None,
    };
    let memory_policy = match topology.attribute(attributes::MEMORY_POLICY) {
        Some(name) => name.parse()?,
        None if reports("memory") => MemoryManagerPolicy::Static,
        None => MemoryManagerPolicy::None,
    };
    // The policies require some reservation. The amounts that count are those of the zones.
    let byte = ResourceList::from([(memory_resource(), Quantity::bytes(1))]);
    let first = zones.first().map_or(0, |(id, _)| i64::from(id.get()));
    Ok(Settings {
        fidelity,
        topology_policy,
        topology_scope,
        topology_options: options(attributes::TOPOLOGY_OPTIONS),
        cpu_options: match cpu_policy {
            CpuManagerPolicy::Static => options(attributes::CPU_OPTIONS),
            CpuManagerPolicy::None => BTreeMap::new(),
        },
        cpu_policy,
        reserved_cpu: Some(Quantity::from(1)),
        memory_policy,
        reserved_memory: vec![MemoryReservation {
            numa_node: first,
            limits: byte.clone(),
        }],
        node_reservation: byte,
        pod_level_resources: topology.attribute(attributes::POD_LEVEL) == Some("true"),
        alpha_cpu_options: true,
        ..Settings::default()
    })
}

/// The memory manager's table, from the amounts of the zones.
fn memory_table(
    zones: &[NumberedZone<'_>],
    policy: TopologyPolicy,
    gaps: &mut Gaps,
) -> MemoryState {
    let all: NodeSet = zones.iter().map(|&(id, _)| id).collect();
    let mut nodes = BTreeMap::new();
    for &(id, zone) in zones {
        let mut memory = BTreeMap::new();
        for row in &zone.resources {
            let name = row.name.as_str();
            if name != "memory" && !is_hugepages(name) {
                continue;
            }
            let Some(counts) = counts(zone, name) else {
                continue;
            };
            let amounts = MemoryAmounts {
                total: counts.capacity,
                system_reserved: counts.capacity - counts.allocatable,
                allocatable: counts.allocatable,
                reserved: counts.allocatable - counts.available,
                free: counts.available,
            };
            memory.insert(row.name.clone(), amounts);
        }
        let in_use = memory.values().any(|amounts| amounts.reserved > 0);
        let alone = NodeSet::single(id);
        let cells = match first(&zone.attributes, attributes::MEMORY_GROUP) {
            Some(text) => (text.split(',').filter_map(numa_id).collect::<NodeSet>()) & all,
            // Under this policy the memory of one container never lies on two NUMA nodes.
            None if policy == TopologyPolicy::SingleNumaNode || zones.len() == 1 => match in_use {
                true => alone,
                false => NodeSet::EMPTY,
            },
            None => {
                gaps.memory_groups |= in_use;
                if in_use { alone } else { NodeSet::EMPTY }
            }
        };
        let row = NodeMemory {
            assignments: u64::from(!cells.is_empty()),
            cells: cells | alone,
            memory,
        };
        nodes.insert(id, row);
    }
    MemoryState::new(nodes, BTreeMap::new(), BTreeMap::new())
}

/// As many placeholder devices near each NUMA node as the zones count, the taken ones held by one placeholder pod.
fn devices(
    topology: &NodeTopology,
    zones: &[NumberedZone<'_>],
    totals: &DeviceTotals,
    gaps: &mut Gaps,
) -> (DevicePool, DeviceState) {
    let wide = topology.attribute(attributes::WIDE_DEVICES).unwrap_or("");
    let wide = wide.split(',').filter(|name| !name.is_empty());
    gaps.wide = wide.map(ResourceName::from).collect();
    let reported = zones
        .iter()
        .flat_map(|(_, zone)| zone.resources.iter().map(|row| &row.name));
    let is_device = |name: &&ResourceName| !is_numa_affine(name.as_str());
    let resources: BTreeSet<&ResourceName> =
        reported.chain(totals.keys()).filter(is_device).collect();
    let mut pool = DevicePool::new(zones.iter().map(|&(id, _)| id).collect());
    let mut state = DeviceState::default();
    for resource in resources {
        let mut devices = PlaceholderDevices::default();
        let mut near = DeviceTotal::default();
        for &(id, zone) in zones {
            let Some(counts) = counts(zone, resource.as_str()) else {
                continue;
            };
            near.allocatable = near.allocatable.saturating_add(counts.allocatable);
            near.free = near.free.saturating_add(counts.available);
            devices.add(Some(id), &counts);
        }
        let total = totals.get(resource).copied().unwrap_or(near);
        if total.allocatable < near.allocatable {
            gaps.wide.insert(resource.clone());
        }
        let elsewhere = total.allocatable.saturating_sub(near.allocatable);
        devices.add(
            None,
            &ZoneCounts {
                capacity: elsewhere,
                allocatable: elsewhere,
                available: total.free.saturating_sub(near.free).min(elsewhere),
            },
        );
        if devices.capped {
            gaps.capped.insert(resource.clone());
        }
        pool.set_devices(resource.clone(), devices.offer);
        if !devices.held.is_empty() {
            let edit = DeviceEdit {
                pod: PodUid::from(OTHERS),
                container: ContainerName::from(OTHERS),
                resource: resource.clone(),
                before: None,
                after: Some(devices.held),
            };
            let fresh = state.apply(&edit);
            debug_assert!(fresh.is_ok(), "every resource is held once");
        }
    }
    (pool, state)
}

/// The placeholder devices of one resource.
#[derive(Default)]
struct PlaceholderDevices {
    offer: AdvertisedDevices,
    held: DeviceSet,
    capped: bool,
}

impl PlaceholderDevices {
    /// Adds the devices near one NUMA node, or near none: first the free ones, then the held, then the unhealthy.
    fn add(&mut self, node: Option<NodeId>, counts: &ZoneCounts) {
        self.capped |= counts.capacity > MAX_DEVICES;
        let place = node.map_or_else(|| "none".to_owned(), |id| id.to_string());
        let free = counts.available.min(MAX_DEVICES);
        let healthy = counts.allocatable.min(MAX_DEVICES);
        for index in 0..counts.capacity.min(MAX_DEVICES) {
            let id = DeviceId::from(format!("{place}-{index}"));
            if (free..healthy).contains(&index) {
                self.held.insert(id.clone());
            }
            let device = Device {
                numa: node.map(|id| vec![i64::from(id.get())]),
                healthy: index < healthy,
            };
            self.offer.insert(id, device);
        }
    }
}
