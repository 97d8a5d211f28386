//! A node as it would be without some of its pods: what a report says is taken, given back as far as it is known.
//!
//! A report counts what is left and seldom says who took the rest. Where a pod sits is known from the first of
//!
//! 1. what a scheduler wrote on the pod (`resource-status`),
//! 2. what our agent adds to the report of its node ([`PublishedNodeState`]),
//! 3. what the node reports about pods with CPUs of their own (`pod-cpu-allocs`, `podAllocations`),
//! 4. the policy `single-numa-node`, where everything that is in use adds up in only one way.
//!
//! What is not known is not given back: a node never looks emptier than it would be.

use std::collections::BTreeMap;

use pinfold_core::cluster::ClusterNode;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::{self, PodLevel};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::node_topology::topology_manager::TopologyManagerConfig;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::TopologyScope;

use super::{DialectName, DialectOptions, NodeSources};
use crate::diagnostic::{Diagnostics, WithWarnings};
use crate::koordinator::{ReportAnnotations, ResourceStatus, keys};
use crate::node_resource_topology::{NodeResourceTopology, NrtResource, NrtZone};
use crate::node_state::{PublishedNodeState, PublishedPodState};
use crate::pod::PodObject;
use crate::volcano::Numatopology;

/// So many ways for pods to sit are tried.
const MOST_STEPS: u32 = 10_000;

/// Where a pod sits on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodLocation {
    /// It holds nothing of any NUMA node for itself.
    Shared,
    /// Here, by somebody's word.
    Known {
        /// Its own CPUs; empty if their numbers are not known, or it has none.
        cpus: CpuSet,
        /// The NUMA nodes.
        numa: NodeSet,
        /// Whose word it is.
        by: LocationSource,
    },
    /// On one of these; nobody says which.
    OneOf(NodeSet),
    /// Nobody says where.
    Unknown,
}

/// Who says where a pod sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationSource {
    /// An annotation of the pod.
    Pod,
    /// The report of its node.
    Report,
    /// Nobody, but it can only be there.
    Counts,
}

/// What one pod holds of NUMA nodes, if it holds anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHoldings {
    /// Exclusive CPUs.
    pub cpus: usize,
    /// Memory and hugepages in bytes.
    pub memory: BTreeMap<ResourceName, u64>,
    /// Devices.
    pub devices: BTreeMap<ResourceName, u64>,
}

impl PodHoldings {
    /// What the kubelet's managers keep for a pod.
    #[must_use]
    pub fn of(pod: &PodObject) -> Self {
        let guaranteed = QosClass::of(&pod.pod) == QosClass::Guaranteed;
        let memory = match guaranteed {
            true => demand::pod_memory(&pod.pod, PodLevel::default()).unwrap_or_default(),
            false => BTreeMap::new(),
        };
        let requests = demand::effective_requests(&pod.pod);
        let devices = requests.iter().filter(|(name, amount)| {
            crate::pod::is_extended(name.as_str()) && amount.is_positive()
        });
        Self {
            cpus: demand::pod_cpus(&pod.pod, PodLevel::default()),
            memory: memory.into_iter().filter(|(_, size)| *size > 0).collect(),
            devices: devices
                .map(|(name, amount)| (name.clone(), u64::try_from(amount.value()).unwrap_or(0)))
                .collect(),
        }
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cpus == 0 && self.memory.is_empty() && self.devices.is_empty()
    }

    /// Everything by the names that zones use.
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
    /// Where one of the node's pods sits.
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
        let holding = PodHoldings::of(pod);
        let is_koordinators = self.dialect(options.decider) == Some(DialectName::Koordinator);
        if holding.is_empty() || is_koordinators {
            return PodLocation::Shared;
        }
        self.location_from_counts(pod, &holding)
    }

    /// What our agent says the pod holds; `None` if another program reports the node, or the agent knows no such pod.
    fn state_of(&self, pod: &PodObject) -> Option<PublishedPodState> {
        let state = PublishedNodeState::read(self.topology?).ok()?.value?;
        let mut pods = state.pods.into_iter();
        pods.find(|own| own.uid == pod.pod.uid)
    }

    /// The CPUs that the node reports as the pod's own.
    fn reported_cpus(&self, pod: &PodObject, options: &DialectOptions) -> Option<CpuSet> {
        let (uid, meta) = (pod.pod.uid.as_str(), &pod.meta);
        let is_it = |own: &str, namespace: &str, name: &str| match own.is_empty() {
            true => namespace == meta.namespace && name == meta.name,
            false => own == uid,
        };
        let mut cpus = CpuSet::new();
        if let Some(facts) = self.facts(options) {
            let own = facts.pod_cpus.iter();
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

    fn facts(&self, options: &DialectOptions) -> Option<ReportAnnotations> {
        let read = ReportAnnotations::read(self.topology?, options.annotation_fidelity()).ok()?;
        Some(read.value)
    }

    /// The NUMA nodes of some CPUs.
    fn nodes_of(&self, cpus: &CpuSet, options: &DialectOptions) -> NodeSet {
        let by_node = self.by_node(cpus, options);
        by_node.into_keys().collect()
    }

    /// How many of some CPUs each NUMA node has.
    fn by_node(&self, cpus: &CpuSet, options: &DialectOptions) -> BTreeMap<NodeId, usize> {
        let mut counts = BTreeMap::new();
        let rows = self
            .facts(options)
            .map(|facts| facts.cpus)
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

    /// Under `single-numa-node` everything that a pod holds lies on one NUMA node: on those where all pods that are
    /// bound to the node still find what is counted as in use.
    fn location_from_counts(&self, pod: &PodObject, holding: &PodHoldings) -> PodLocation {
        let Some(topology) = self.topology.filter(|_| self.lies_on_one_node(pod)) else {
            return PodLocation::Unknown;
        };
        let zones = topology.zones.iter().filter(|zone| zone.kind == "Node");
        let used = |zone: &NrtZone| -> BTreeMap<ResourceName, u64> {
            let rows = zone.resources.iter();
            rows.map(|row| (row.name.as_str().into(), in_use(row)))
                .collect()
        };
        let zones: Vec<_> = zones
            .filter_map(|zone| Some((zone_id(zone)?, used(zone))))
            .collect();
        let others = self.pods.iter().copied();
        let others = others.filter(|other| other.pod.uid != pod.pod.uid);
        let others: Vec<_> = others
            .filter(|other| self.lies_on_one_node(other))
            .map(|other| PodHoldings::of(other).amounts())
            .filter(|amounts| !amounts.is_empty())
            .collect();
        let possible = |at: usize| {
            let mut left: Vec<_> = zones.iter().map(|(_, used)| used.clone()).collect();
            take(&mut left[at], &holding.amounts())
                && adds_up(&mut left, &others, &mut { MOST_STEPS })
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

    /// Whether everything that the pod holds was given to it as one, on a single NUMA node.
    fn lies_on_one_node(&self, pod: &PodObject) -> bool {
        let Some(topology) = self.topology else {
            return false;
        };
        let manager = TopologyManagerConfig::of(&topology.to_core());
        let containers = pod.pod.all_containers();
        let asking = containers.filter(|container| !container.requests.is_empty());
        manager.policy == TopologyPolicy::SingleNumaNode
            && (manager.scope == TopologyScope::Pod || asking.count() == 1)
    }

    /// The node as a member of a cluster when these of its pods have left their seats.
    ///
    /// # Errors
    /// With everything that cannot be understood.
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

    /// Counts as free again what the pod held: its CPUs where they were, everything else if it lay on one NUMA node.
    fn release(
        &self,
        topology: &mut NodeResourceTopology,
        pod: &PodObject,
        cpus: &CpuSet,
        numa: NodeSet,
        options: &DialectOptions,
    ) {
        let holding = PodHoldings::of(pod);
        let state = self.state_of(pod);
        let counts = self.by_node(cpus, options);
        for zone in topology.zones.iter_mut().filter(|zone| zone.kind == "Node") {
            let Some(id) = zone_id(zone).filter(|id| numa.contains(*id)) else {
                continue;
            };
            let mut amounts = match &state {
                Some(state) => held_on(state, id),
                None if numa.len() == 1 && self.lies_on_one_node(pod) => holding.amounts(),
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

/// What a pod holds on one NUMA node alone. What lies on several together is counted on each of them, and nobody knows options
/// much of it is where.
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

/// What of a resource running pods hold, in whole units.
fn in_use(row: &NrtResource) -> u64 {
    let used = row.allocatable.quantity().value() - row.available.quantity().value();
    u64::try_from(used).unwrap_or(0)
}

/// Takes amounts from what is there, if there is enough of all.
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

/// Whether everybody finds a NUMA node with as much in use as they hold. In doubt, yes.
fn adds_up(
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
        if take(&mut left[at], first) && adds_up(left, rest, steps) {
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

/// Takes pods out of what the node reports about pods with CPUs of their own.
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
    let mut facts = read.value;
    facts.pod_cpus.retain(|row| {
        let is_it = |pod: &PodObject| match row.uid.is_empty() {
            true => row.namespace == pod.meta.namespace && row.name == pod.meta.name,
            false => row.uid == pod.pod.uid.as_str(),
        };
        !leaving.iter().any(|(pod, _)| is_it(pod))
    });
    let key = keys::POD_CPU_ALLOCS;
    let text = facts.annotations().remove(key);
    let annotations = &mut topology.meta.annotations;
    match text {
        Some(text) => annotations.insert(key.to_owned(), text),
        None => annotations.remove(key),
    };
}

/// Lists CPUs among those that no container owns.
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
