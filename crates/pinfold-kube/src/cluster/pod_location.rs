//! Locates the pods of a node on its NUMA nodes, and builds the node without some of them.
//!
//! A report counts the available resources and rarely lists the pods that hold the rest. A pod is located by the first
//! of
//!
//! 1. the scheduler's annotation on the pod (`resource-status`),
//! 2. our agent's annotation on the node's report ([`PublishedNodeState`]),
//! 3. the pods with exclusive CPUs that the node reports (`pod-cpu-allocs`, `podAllocations`),
//! 4. the policy `single-numa-node`, if the resources in use add up in only one way.
//!
//! Resources of a pod that cannot be located are not released: the node never looks emptier than it would be.

use std::collections::BTreeMap;

use pinfold_cluster::ClusterNode;
use pinfold_cluster::koordinator::amounts::CPU;
use pinfold_cluster::node_topology::topology_manager::TopologyManagerConfig;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::{PodDemand, PodLevel, effective_requests};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::TopologyScope;

use super::{DialectName, DialectOptions, NodeSources};
use crate::diagnostic::{Diagnostics, WithWarnings};
use crate::koordinator::{self, ReportAnnotations, ResourceStatus, keys};
use crate::node_resource_topology::{NodeResourceTopology, NrtResource, NrtZone};
use crate::node_state::{PublishedNodeState, PublishedPodState};
use crate::pod::PodObject;
use crate::volcano::Numatopology;

/// Limit of the combinations of pods and NUMA nodes that are tried.
const MOST_STEPS: u32 = 10_000;

/// The location of a pod on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodLocation {
    /// The pod holds no resource of a NUMA node exclusively.
    Shared,
    /// The location is known.
    Known {
        /// Its exclusive CPUs; empty if it has none, or their numbers are not known.
        cpus: CpuSet,
        /// Its NUMA nodes.
        numa: NodeSet,
        /// The source of the location.
        by: LocationSource,
    },
    /// On one of these NUMA nodes, but it is not known on which.
    OneOf(NodeSet),
    /// The location is not known.
    Unknown,
}

/// The sources of a pod's location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationSource {
    /// An annotation of the pod.
    Pod,
    /// The report of the pod's node.
    Report,
    /// The counts of the report, which leave only one location.
    Counts,
}

/// The resources of NUMA nodes that a pod holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHoldings {
    /// Exclusive CPUs.
    pub cpus: usize,
    /// Memory and hugepages in bytes.
    pub memory: BTreeMap<ResourceName, u64>,
    /// Devices by resource.
    pub devices: BTreeMap<ResourceName, u64>,
}

impl PodHoldings {
    /// The resources that the kubelet's managers assign to a pod.
    #[must_use]
    pub fn of(pod: &PodObject) -> Self {
        let demand = PodDemand::new(&pod.pod, PodLevel::default());
        let memory = match demand.is_guaranteed() {
            true => demand.pod_memory().unwrap_or_default(),
            false => BTreeMap::new(),
        };
        let requests = effective_requests(&pod.pod);
        let devices = requests.iter().filter(|(name, amount)| {
            crate::pod::is_extended(name.as_str()) && amount.is_positive()
        });
        Self {
            cpus: demand.pod_cpus(),
            memory: memory.into_iter().filter(|(_, size)| *size > 0).collect(),
            devices: devices
                .map(|(name, amount)| (name.clone(), u64::try_from(amount.value()).unwrap_or(0)))
                .collect(),
        }
    }

    /// Whether the pod holds no resource of a NUMA node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpus == 0 && self.memory.is_empty() && self.devices.is_empty()
    }

    /// All resources by the names used in zones.
    fn amounts(&self) -> BTreeMap<ResourceName, u64> {
        let mut all = self.memory.clone();
        all.extend(self.devices.clone());
        if self.cpus > 0 {
            all.insert("cpu".into(), self.cpus as u64);
        }
        all
    }
}

impl NodeSources<'_> {
    /// Locates one of the node's pods.
    #[must_use]
    pub fn location_of(&self, pod: &PodObject, options: &DialectOptions) -> PodLocation {
        let status = ResourceStatus::read(pod, options.annotation_fidelity()).ok();
        if let Some(status) = status.and_then(|read| read.value) {
            let mut numa: NodeSet = status.numa.iter().map(|part| part.node).collect();
            if numa.is_empty() {
                numa = self.nodes_of(&status.cpus, options);
            }
            return PodLocation::Known {
                cpus: status.cpus,
                numa,
                by: LocationSource::Pod,
            };
        }
        if let Some(state) = self.state_of(pod) {
            let memory = state.memory.iter().map(|held| held.nodes);
            let devices = state.devices.iter().map(|held| held.nodes);
            let mut numa = self.nodes_of(&state.cpus, options);
            memory.chain(devices).for_each(|nodes| numa = numa | nodes);
            if numa.is_empty() && state.cpus.is_empty() {
                return PodLocation::Shared;
            }
            return PodLocation::Known {
                cpus: state.cpus,
                numa,
                by: LocationSource::Report,
            };
        }
        if let Some(cpus) = self.reported_cpus(pod, options) {
            return PodLocation::Known {
                numa: self.nodes_of(&cpus, options),
                cpus,
                by: LocationSource::Report,
            };
        }
        let holdings = PodHoldings::of(pod);
        let is_koordinators = self.dialect(options.decider) == Some(DialectName::Koordinator);
        if holdings.is_empty() || is_koordinators {
            return PodLocation::Shared;
        }
        self.location_from_counts(pod, &holdings)
    }

    /// Our agent's state of the pod; `None` if another program reports the node, or the agent does not list the pod.
    fn state_of(&self, pod: &PodObject) -> Option<PublishedPodState> {
        let state = PublishedNodeState::read(self.topology?).ok()?.value?;
        let mut pods = state.pods.into_iter();
        pods.find(|own| own.uid == pod.pod.uid)
    }

    /// The exclusive CPUs that the node reports for the pod.
    fn reported_cpus(&self, pod: &PodObject, options: &DialectOptions) -> Option<CpuSet> {
        let (uid, meta) = (pod.pod.uid.as_str(), &pod.meta);
        let is_it = |own: &str, namespace: &str, name: &str| match own.is_empty() {
            true => namespace == meta.namespace && name == meta.name,
            false => own == uid,
        };
        let mut cpus = CpuSet::new();
        if let Some(annotations) = self.annotations(options) {
            let own = annotations.pod_cpus.iter();
            let own = own.filter(|row| is_it(&row.uid, &row.namespace, &row.name));
            own.for_each(|row| cpus |= &row.cpus);
        }
        if cpus.is_empty() {
            let pods = self.numatopology.iter().flat_map(|own| &own.pods);
            let own = pods.filter(|row| is_it(&row.uid, &row.namespace, &row.name));
            for container in own.flat_map(|row| &row.containers) {
                let list = container.allocations.get("cpu");
                if let Some(list) = list.and_then(|list| CpuSet::parse(list).ok()) {
                    cpus |= &list;
                }
            }
        }
        (!cpus.is_empty()).then_some(cpus)
    }

    fn annotations(&self, options: &DialectOptions) -> Option<ReportAnnotations> {
        let read = ReportAnnotations::read(self.topology?, options.annotation_fidelity()).ok()?;
        Some(read.value)
    }

    /// The NUMA nodes of a set of CPUs.
    fn nodes_of(&self, cpus: &CpuSet, options: &DialectOptions) -> NodeSet {
        let by_node = self.by_node(cpus, options);
        by_node.into_keys().collect()
    }

    /// The number of CPUs of a set on each NUMA node.
    fn by_node(&self, cpus: &CpuSet, options: &DialectOptions) -> BTreeMap<NodeId, usize> {
        let mut counts = BTreeMap::new();
        let rows = self
            .annotations(options)
            .map(|annotations| annotations.cpus)
            .unwrap_or_default();
        for row in rows.iter().filter(|row| cpus.contains(row.cpu)) {
            count_in(&mut counts, row.node);
        }
        if counts.is_empty() {
            let rows = self.numatopology.iter().flat_map(|own| &own.cpus);
            for (cpu, info) in rows {
                let set = CpuSet::parse(cpu).unwrap_or_default();
                if !set.is_disjoint(cpus) {
                    count_in(&mut counts, info.numa);
                }
            }
        }
        counts
    }

    /// Under `single-numa-node` a pod's resources are on one NUMA node: one on which the resources in use still suffice
    /// for all pods bound to the node.
    fn location_from_counts(&self, pod: &PodObject, holdings: &PodHoldings) -> PodLocation {
        let Some(topology) = self.topology.filter(|_| self.is_on_one_node(pod)) else {
            return PodLocation::Unknown;
        };
        let zones = topology.zones.iter().filter(|zone| zone.kind == "Node");
        let usable = koordinator::usable_cpus(topology);
        let used = |zone: &NrtZone| -> BTreeMap<ResourceName, u64> {
            let rows = zone.resources.iter().map(|row| {
                let cpus = usable.get(zone.name.as_str()).filter(|_| row.name == CPU);
                let all = cpus.copied().unwrap_or(row.allocatable.quantity());
                (row.name.as_str().into(), in_use(row, all))
            });
            rows.collect()
        };
        let zones: Vec<_> = zones
            .filter_map(|zone| Some((zone_id(zone)?, used(zone))))
            .collect();
        let others = self.pods.iter().copied();
        let others = others.filter(|other| other.pod.uid != pod.pod.uid);
        let others: Vec<_> = others
            .filter(|other| self.is_on_one_node(other))
            .map(|other| PodHoldings::of(other).amounts())
            .filter(|amounts| !amounts.is_empty())
            .collect();
        let possible = |at: usize| {
            let mut left: Vec<_> = zones.iter().map(|(_, used)| used.clone()).collect();
            take(&mut left[at], &holdings.amounts())
                && fits_in_use(&mut left, &others, &mut { MOST_STEPS })
        };
        let nodes: NodeSet = (0..zones.len())
            .filter(|&at| possible(at))
            .map(|at| zones[at].0)
            .collect();
        match nodes.len() {
            0 => PodLocation::Unknown,
            1 => PodLocation::Known {
                cpus: CpuSet::new(),
                numa: nodes,
                by: LocationSource::Counts,
            },
            _ => PodLocation::OneOf(nodes),
        }
    }

    /// Whether the pod's resources were assigned together on a single NUMA node.
    fn is_on_one_node(&self, pod: &PodObject) -> bool {
        let Some(topology) = self.topology else {
            return false;
        };
        let manager = TopologyManagerConfig::of(&topology.to_core());
        let containers = pod.pod.all_containers();
        let asking = containers.filter(|container| !container.requests.is_empty());
        manager.policy == TopologyPolicy::SingleNumaNode
            && (manager.scope == TopologyScope::Pod || asking.count() == 1)
    }

    /// The node as a cluster node of the core without these pods.
    ///
    /// # Errors
    /// With every annotation and field that cannot be parsed.
    pub fn member_without_pods(
        &self,
        leaving: &[(&PodObject, PodLocation)],
        options: &DialectOptions,
    ) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        let mut topology = self.topology.cloned();
        let mut numatopology = self.numatopology.cloned();
        for (pod, location_of) in leaving {
            let PodLocation::Known { cpus, numa, .. } = location_of else {
                continue;
            };
            if let Some(topology) = &mut topology {
                self.release(topology, pod, cpus, *numa, options);
            }
            if let Some(numatopology) = &mut numatopology {
                add_free_cpus(numatopology, cpus);
            }
        }
        if let Some(topology) = &mut topology {
            remove_from_annotations(topology, leaving, options);
        }
        let stays = |pod: &&PodObject| leaving.iter().all(|(left, _)| left.pod.uid != pod.pod.uid);
        let without = NodeSources {
            node: self.node,
            topology: topology.as_ref(),
            numatopology: numatopology.as_ref(),
            pods: self.pods.iter().copied().filter(stays).collect(),
        };
        without.member(options)
    }

    /// Adds the pod's resources to the available ones: its CPUs on their nodes, the rest if the pod is on one NUMA
    /// node.
    fn release(
        &self,
        topology: &mut NodeResourceTopology,
        pod: &PodObject,
        cpus: &CpuSet,
        numa: NodeSet,
        options: &DialectOptions,
    ) {
        let holdings = PodHoldings::of(pod);
        let state = self.state_of(pod);
        let counts = self.by_node(cpus, options);
        for zone in topology.zones.iter_mut().filter(|zone| zone.kind == "Node") {
            let Some(id) = zone_id(zone).filter(|id| numa.contains(*id)) else {
                continue;
            };
            let mut amounts = match &state {
                Some(state) => held_on(state, id),
                None if numa.len() == 1 && self.is_on_one_node(pod) => holdings.amounts(),
                None => BTreeMap::new(),
            };
            if let Some(count) = counts.get(&id) {
                amounts.insert("cpu".into(), *count as u64);
            }
            for row in &mut zone.resources {
                if let Some(amount) = amounts.get(row.name.as_str()) {
                    let amount = Quantity::from(i64::try_from(*amount).unwrap_or(i64::MAX));
                    let free = row.available.quantity() + amount;
                    row.available = free.min(row.allocatable.quantity()).into();
                }
            }
        }
    }
}

/// The pod's resources on one NUMA node alone. A resource on several nodes is counted on each of them, and the report
/// does not say how it is divided.
fn held_on(state: &PublishedPodState, node: NodeId) -> BTreeMap<ResourceName, u64> {
    let alone = NodeSet::single(node);
    let mut amounts = BTreeMap::new();
    let memory = state.memory.iter().filter(|held| held.nodes == alone);
    let memory = memory.map(|held| (&held.resource, held.bytes));
    let devices = state.devices.iter().filter(|held| held.nodes == alone);
    let devices = devices.map(|held| (&held.resource, held.count));
    for (resource, amount) in memory.chain(devices) {
        *amounts.entry(resource.clone()).or_insert(0) += amount;
    }
    amounts
}

fn count_in(counts: &mut BTreeMap<NodeId, usize>, node: i64) {
    if let Ok(node) = NodeId::new(node) {
        *counts.entry(node).or_default() += 1;
    }
}

/// The amount that running pods hold of `all` that they may use, in whole units.
fn in_use(row: &NrtResource, all: Quantity) -> u64 {
    let used = all.value() - row.available.quantity().value();
    u64::try_from(used).unwrap_or(0)
}

/// Subtracts amounts, if there is enough of all. Returns whether there was.
fn take(from: &mut BTreeMap<ResourceName, u64>, amounts: &BTreeMap<ResourceName, u64>) -> bool {
    let enough =
        |(name, amount): (&ResourceName, &u64)| from.get(name).is_some_and(|own| own >= amount);
    let all = amounts.iter().all(enough);
    if all {
        for (name, amount) in amounts {
            if let Some(own) = from.get_mut(name) {
                *own -= amount;
            }
        }
    }
    all
}

/// Whether every pod can be assigned to a NUMA node with enough in use. `true` if the search limit is reached.
fn fits_in_use(
    left: &mut [BTreeMap<ResourceName, u64>],
    others: &[BTreeMap<ResourceName, u64>],
    steps: &mut u32,
) -> bool {
    let Some((first, rest)) = others.split_first() else {
        return true;
    };
    for at in 0..left.len() {
        *steps = steps.saturating_sub(1);
        if *steps == 0 {
            return true;
        }
        let before = left[at].clone();
        if take(&mut left[at], first) && fits_in_use(left, rest, steps) {
            return true;
        }
        left[at] = before;
    }
    false
}

fn zone_id(zone: &NrtZone) -> Option<NodeId> {
    let id = zone.name.strip_prefix("node-")?;
    NodeId::new(id.parse::<i64>().ok()?).ok()
}

/// Removes pods from the report's annotations about exclusive CPUs.
fn remove_from_annotations(
    topology: &mut NodeResourceTopology,
    leaving: &[(&PodObject, PodLocation)],
    options: &DialectOptions,
) {
    if !(topology.meta.annotations).contains_key(keys::POD_CPU_ALLOCS) {
        return;
    }
    let Ok(read) = ReportAnnotations::read(topology, options.annotation_fidelity()) else {
        return;
    };
    let mut annotations = read.value;
    annotations.pod_cpus.retain(|row| {
        let is_it = |pod: &PodObject| match row.uid.is_empty() {
            true => row.namespace == pod.meta.namespace && row.name == pod.meta.name,
            false => row.uid == pod.pod.uid.as_str(),
        };
        !leaving.iter().any(|(pod, _)| is_it(pod))
    });
    let key = keys::POD_CPU_ALLOCS;
    let text = annotations.annotations().remove(key);
    let annotations = &mut topology.meta.annotations;
    match text {
        Some(text) => annotations.insert(key.to_owned(), text),
        None => annotations.remove(key),
    };
}

/// Adds CPUs to the allocatable ones of a Numatopology.
fn add_free_cpus(numatopology: &mut Numatopology, cpus: &CpuSet) {
    if let Some(info) = numatopology.resources.get_mut("cpu")
        && let Ok(mut all) = CpuSet::parse(&info.allocatable)
    {
        all |= cpus;
        info.allocatable = all.to_string();
    }
}

#[cfg(test)]
mod tests;
