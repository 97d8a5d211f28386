//! Builds cluster nodes and pod requests of the core from Kubernetes objects.
//!
//! ```text
//! Node ────────────────────┐
//! NodeResourceTopology ────┼─► ClusterNode, by dialect
//! Numatopology ────────────┤
//! Pods with nodeName ──────┘
//! Pod ─────────────────────► PodRequest, by dialect
//! ```
//!
//! The [`Decider`] determines the dialect: a kubelet or a scheduler decides about every node by its own rules. Pinfold
//! decides about each node by the rules of the node's objects ([`NodeSources::dialect`]).
//!
//! | dialect | decides from | without it |
//! |---|---|---|
//! | kubelet | the NodeResourceTopology: counts, or the CPUs one by one where the report lists them | the sums only |
//! | Koordinator | labels, annotations, the NodeResourceTopology | as Koordinator: no CPUs to bind |
//! | Volcano | the Numatopology; in sound mode also memory and devices of the NodeResourceTopology | as Volcano: only pods without a policy |
//! | scheduler-plugins | the NodeResourceTopology | as NodeResourceTopologyMatch: every pod fits |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::{Amounts, CPU};
use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_cluster::node_topology::args::TopologyMatchArgs;
use pinfold_cluster::node_topology::replica::{
    DeviceTotal, DeviceTotals, KnownCpus, Replica, RulesCache,
};
use pinfold_cluster::volcano::cpu_detail::CpuRow;
use pinfold_cluster::volcano::numa_amounts::NumaAmounts;
use pinfold_cluster::{Cluster, ClusterNode, Dialect, PODS, PodRequest, TopologyMatchNode};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

use crate::decider::Decider;
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Diagnostics, WithWarnings};
use crate::koordinator::{self, ReportAnnotations, ResourceStatus, keys};
use crate::meta::ObjectMeta;
use crate::node::NodeObject;
use crate::node_resource_topology::{KIND, NodeResourceTopology};
use crate::node_state::PublishedNodeState;
use crate::objects::ClusterObjects;
use crate::pod::PodObject;
use crate::volcano::{self, Numatopology};

mod changes;
mod kubelet_report;
mod pod_location;

pub use changes::{PodChange, find_changes};
pub use kubelet_report::KubeletReport;
pub use pod_location::{LocationSource, PodHoldings, PodLocation};

/// The label of a Node with its dialect.
pub const DIALECT_LABEL: &str = "pinfold.dev/dialect";

/// The program whose rules decide about pods on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DialectName {
    /// The kubelet.
    #[default]
    Kubelet,
    /// Koordinator's scheduler.
    Koordinator,
    /// Volcano's numa-aware plugin.
    Volcano,
    /// The NodeResourceTopologyMatch plugin of scheduler-plugins.
    SchedulerPlugins,
}

impl DialectName {
    /// The name of the dialect.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DialectName::Kubelet => "kubelet",
            DialectName::Koordinator => "koordinator",
            DialectName::Volcano => "volcano",
            DialectName::SchedulerPlugins => "scheduler-plugins",
        }
    }

    /// The dialect in the label [`DIALECT_LABEL`]; `None` for `unknown` and any other text.
    fn from_label(text: &str) -> Option<Self> {
        let labels = [Self::Kubelet, Self::Koordinator, Self::Volcano];
        labels.into_iter().find(|dialect| dialect.name() == text)
    }
}

/// The decider, and the arguments of the schedulers' plugins.
#[derive(Clone, Debug, Default)]
pub struct DialectOptions {
    /// The program that decides.
    pub decider: Decider,
    /// The arguments of Koordinator's plugin.
    pub koordinator: Arc<KoordinatorArgs>,
    /// The arguments of the NodeResourceTopologyMatch plugin.
    pub topology_match: Arc<TopologyMatchArgs>,
}

impl DialectOptions {
    /// Whether the decider's defects are repeated.
    #[must_use]
    pub fn fidelity(&self) -> Fidelity {
        self.decider.fidelity()
    }

    /// The fidelity of parsing Koordinator's annotations. Only Koordinator itself ignores annotations that it cannot
    /// parse: for a kubelet they are just a list of its CPUs.
    fn annotation_fidelity(&self) -> Fidelity {
        match self.decider {
            Decider::Koordinator => Fidelity::Exact,
            _ => Fidelity::Sound,
        }
    }
}

/// All objects about one node.
#[derive(Clone, Debug)]
pub struct NodeSources<'a> {
    /// The Node object.
    pub node: &'a NodeObject,
    /// Its NodeResourceTopology.
    pub topology: Option<&'a NodeResourceTopology>,
    /// Its Numatopology, for Volcano.
    pub numatopology: Option<&'a Numatopology>,
    /// The pods that are bound to it.
    pub pods: Vec<&'a PodObject>,
}

impl ClusterObjects {
    /// Adds Node objects for nodes that only have a report, with the sums of their NUMA nodes. Returns their names.
    pub fn add_reported_nodes(&mut self) -> Vec<String> {
        let known: BTreeSet<&str> = self
            .nodes
            .iter()
            .map(|node| node.meta.name.as_str())
            .collect();
        let mut reported: BTreeMap<&str, ResourceList> = BTreeMap::new();
        for numatopology in &self.numatopologies {
            let list = reported.entry(&numatopology.meta.name).or_default();
            let cpus = i64::try_from(numatopology.cpus.len()).unwrap_or(i64::MAX);
            list.insert(CPU.into(), cpus.into());
        }
        for topology in &self.topologies {
            let list = reported.entry(&topology.meta.name).or_default();
            list.clear();
            let zones = topology.zones.iter().filter(|zone| zone.kind == "Node");
            for resource in zones.flat_map(|zone| &zone.resources) {
                let sum = list.entry(resource.name.as_str().into()).or_default();
                *sum += resource.allocatable.quantity();
            }
            if let Some(cpus) = list.get_mut(CPU) {
                let usable = koordinator::usable_cpus(topology).into_values();
                *cpus = usable.fold(Quantity::default(), |sum, zone| sum + zone);
            }
        }
        let missing = reported
            .into_iter()
            .filter(|(name, _)| !known.contains(name));
        let missing: Vec<NodeObject> = missing
            .map(|(name, list)| NodeObject {
                meta: ObjectMeta {
                    name: name.to_owned(),
                    ..ObjectMeta::default()
                },
                capacity: list.clone(),
                allocatable: list,
                unschedulable: false,
                taints: Vec::new(),
                kubelet_version: None,
                is_known: false,
                at: None,
            })
            .collect();
        let names = missing.iter().map(|node| node.meta.name.clone()).collect();
        self.nodes.extend(missing);
        names
    }

    /// All nodes with their objects, in the order of the files.
    #[must_use]
    pub fn nodes_with_sources(&self) -> Vec<NodeSources<'_>> {
        let topologies: BTreeMap<&str, _> = self
            .topologies
            .iter()
            .map(|topology| (topology.meta.name.as_str(), topology))
            .collect();
        let numatopologies: BTreeMap<&str, _> = self
            .numatopologies
            .iter()
            .map(|topology| (topology.meta.name.as_str(), topology))
            .collect();
        let mut bound: BTreeMap<&str, Vec<&PodObject>> = BTreeMap::new();
        for pod in &self.pods {
            if let Some(node) = &pod.node_name {
                bound.entry(node).or_default().push(pod);
            }
        }
        let sources = self.nodes.iter().map(|node| {
            let name = node.meta.name.as_str();
            NodeSources {
                node,
                topology: topologies.get(name).copied(),
                numatopology: numatopologies.get(name).copied(),
                pods: bound.remove(name).unwrap_or_default(),
            }
        });
        sources.collect()
    }
}

impl NodeSources<'_> {
    /// The node as a cluster node of the core, with its pods.
    ///
    /// # Errors
    /// With every annotation and field that cannot be parsed.
    pub fn member(
        &self,
        options: &DialectOptions,
    ) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        self.member_with(options, &mut RulesCache::default())
    }

    /// As [`NodeSources::member`], with the rules that kubelets of other nodes have on equal machines.
    ///
    /// # Errors
    /// With every annotation and field that cannot be parsed.
    pub fn member_with(
        &self,
        options: &DialectOptions,
        cache: &mut RulesCache,
    ) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        match self.dialect(options.decider) {
            Some(DialectName::Kubelet) => self.kubelet(options, cache),
            Some(DialectName::Koordinator) => self.koordinator(options),
            Some(DialectName::Volcano) => self.volcano(options),
            Some(DialectName::SchedulerPlugins) => self.scheduler_plugins(options),
            None => self.sums_only(),
        }
    }

    /// The program whose rules decide about pods on this node; `None` if only the node's sums are known.
    ///
    /// For Pinfold the first of these counts: the node's label [`DIALECT_LABEL`], the annotation that Pinfold's agent
    /// adds to the node's report, a report with CPUs in Koordinator's annotations, any other NodeResourceTopology, a
    /// Numatopology.
    #[must_use]
    pub fn dialect(&self, decider: Decider) -> Option<DialectName> {
        match decider {
            Decider::Kubelet(_) => Some(DialectName::Kubelet),
            Decider::Koordinator => Some(DialectName::Koordinator),
            Decider::Volcano => Some(DialectName::Volcano),
            Decider::SchedulerPlugins => Some(DialectName::SchedulerPlugins),
            Decider::Pinfold => self.own_dialect(),
        }
    }

    fn own_dialect(&self) -> Option<DialectName> {
        if let Some(label) = self.node.meta.labels.get(DIALECT_LABEL) {
            return DialectName::from_label(label);
        }
        let Some(topology) = self.topology else {
            return self.numatopology.map(|_| DialectName::Volcano);
        };
        let state = PublishedNodeState::read(topology)
            .ok()
            .and_then(|read| read.value);
        let lists_cpus = topology.meta.annotations.contains_key(keys::CPU_TOPOLOGY);
        Some(match state {
            Some(state) => state.dialect,
            None if lists_cpus => DialectName::Koordinator,
            None => DialectName::Kubelet,
        })
    }

    /// Whether the node has the topology object that these rules need.
    #[must_use]
    pub fn has_report(&self, dialect: DialectName) -> bool {
        match dialect {
            DialectName::Volcano => self.numatopology.is_some(),
            DialectName::Kubelet | DialectName::Koordinator | DialectName::SchedulerPlugins => {
                self.topology.is_some()
            }
        }
    }

    /// Whether the node's kubelet is predicted from counts of CPUs: its report does not list the CPUs.
    #[must_use]
    pub fn counts_cpus(&self, dialect: DialectName) -> bool {
        dialect == DialectName::Kubelet
            && self
                .topology
                .is_some_and(|topology| !topology.meta.annotations.contains_key(keys::CPU_TOPOLOGY))
    }

    /// The node without any NUMA rules.
    fn sums_only(&self) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        let allocatable = Amounts::of(&self.node.allocatable);
        Ok(WithWarnings {
            value: ClusterNode::unknown(allocatable).with_used(self.used()),
            warnings: Vec::new(),
        })
    }

    fn kubelet(
        &self,
        options: &DialectOptions,
        cache: &mut RulesCache,
    ) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        let meta = &self.node.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, "Node", &meta.name);
        let allocatable = Amounts::of(&self.node.allocatable);
        let Some(topology) = self.topology else {
            let message = format!("no {KIND} of that name: only the sums are known");
            report.warning(
                self.node.at,
                "",
                DiagnosticKind::Contradiction(message),
                None,
            );
            return report.finish(ClusterNode::unknown(allocatable).with_used(self.used()));
        };
        let facts = report.take(ReportAnnotations::read(
            topology,
            options.annotation_fidelity(),
        ));
        let cpus = facts.as_ref().and_then(known_cpus);
        let replica = Replica::of(
            &topology.to_core(),
            &self.device_totals(),
            cpus.as_ref(),
            options.fidelity(),
            cache,
        );
        match replica {
            Ok(replica) => {
                let ledger = replica.ledger().clone();
                report.finish(ClusterNode::kubelet(ledger, allocatable).with_used(self.used()))
            }
            Err(why) => {
                report.set_object(KIND, &topology.meta.name);
                let hint = "the kubelet's decisions cannot be predicted from it".to_owned();
                report.error(
                    None,
                    "",
                    DiagnosticKind::Rejected(why.to_string()),
                    Some(hint),
                );
                report.finish_some(None)
            }
        }
    }

    fn koordinator(
        &self,
        options: &DialectOptions,
    ) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        let meta = &self.node.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, "Node", &meta.name);
        let fidelity = options.fidelity();
        let node = report.take(koordinator::node(self.node, self.topology, fidelity));
        let Some(mut node) = node else {
            return report.finish_some(None);
        };
        for pod in &self.pods {
            let demand = report.take(koordinator::demand(pod, fidelity));
            let status = report.take(ResourceStatus::read(pod, fidelity));
            if let (Some(demand), Some(status)) = (demand, status) {
                let held = status.map(|status| status.allocation(&demand));
                node.assume(pod.pod.uid.clone(), &demand.requests, held);
            }
        }
        let member = ClusterNode::koordinator(node, options.koordinator.clone());
        report.finish(member.with_used(self.used()))
    }

    fn volcano(&self, options: &DialectOptions) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        let meta = &self.node.meta;
        let mut report = DiagnosticReport::for_object(&meta.origin.file, "Node", &meta.name);
        let numa = match self.numatopology {
            Some(numatopology) => match report.take(numatopology.node(options.fidelity())) {
                Some(node) => node.numa,
                None => return report.finish_some(None),
            },
            None => None,
        };
        let topology = self.topology.map(NodeResourceTopology::to_core);
        let amounts = topology.as_ref().map(NumaAmounts::of).unwrap_or_default();
        let allocatable = Amounts::of(&self.node.allocatable);
        let member = ClusterNode::volcano(numa, amounts, allocatable, options.fidelity());
        report.finish(member.with_used(self.used()))
    }

    fn scheduler_plugins(
        &self,
        options: &DialectOptions,
    ) -> Result<WithWarnings<ClusterNode>, Diagnostics> {
        let node = TopologyMatchNode::new(
            self.topology.map(NodeResourceTopology::to_core),
            self.node.allocatable.clone(),
            options.topology_match.clone(),
            options.fidelity(),
        );
        Ok(WithWarnings {
            value: ClusterNode::scheduler_plugins(node).with_used(self.used()),
            warnings: Vec::new(),
        })
    }

    /// The sum of the requests of the node's pods, and their number.
    fn used(&self) -> Amounts {
        let mut used = Amounts::new();
        for pod in &self.pods {
            used.add(&Amounts::of(&koordinator::effective_requests(pod)));
        }
        let pods = i64::try_from(self.pods.len()).unwrap_or(i64::MAX);
        used.set(&PODS.into(), pods);
        used
    }

    /// The device totals of the node.
    fn device_totals(&self) -> DeviceTotals {
        device_totals(&Amounts::of(&self.node.allocatable), &self.used())
    }
}

/// The devices among the resources of a node.
fn device_totals(allocatable: &Amounts, used: &Amounts) -> DeviceTotals {
    let devices = allocatable.iter();
    let devices = devices.filter(|(name, _)| name.as_str().contains('/'));
    let total = |amount: i64| u64::try_from(amount).unwrap_or(0);
    devices
        .map(|(name, allocatable)| {
            let free = allocatable.saturating_sub(used.get(name.as_str()));
            let totals = DeviceTotal {
                allocatable: total(allocatable),
                free: total(free),
            };
            (name.clone(), totals)
        })
        .collect()
}

/// The CPUs that a report lists one by one, if it does.
fn known_cpus(annotations: &ReportAnnotations) -> Option<KnownCpus> {
    if annotations.cpus.is_empty() {
        return None;
    }
    let row = |row: &pinfold_cluster::koordinator::cpu_topology::ReportedCpu| {
        Some(CpuRow {
            cpu: row.cpu,
            core: u32::try_from(row.core).ok()?,
            node: NodeId::new(row.node).ok()?,
            socket: u32::try_from(row.socket).ok()?,
        })
    };
    let mut held = CpuSet::new();
    for pod in &annotations.pod_cpus {
        held |= &pod.cpus;
    }
    Some(KnownCpus {
        rows: annotations.cpus.iter().map(row).collect::<Option<_>>()?,
        reserved: annotations.cpu_manager.reserved.clone(),
        held,
    })
}

/// The dialects of a cluster's nodes.
#[must_use]
pub fn dialects_of(cluster: &Cluster) -> BTreeSet<DialectName> {
    let dialects = cluster
        .nodes()
        .filter_map(|(_, node)| match node.dialect() {
            Dialect::Kubelet(_) => Some(DialectName::Kubelet),
            Dialect::Koordinator { .. } => Some(DialectName::Koordinator),
            Dialect::Volcano(_) => Some(DialectName::Volcano),
            Dialect::SchedulerPlugins(_) => Some(DialectName::SchedulerPlugins),
            Dialect::Unknown => None,
        });
    dialects.collect()
}

/// The request of a pod in a cluster of these dialects, with the labels and annotations that they read.
///
/// # Errors
/// With every label and annotation that cannot be parsed.
pub fn pod_request(
    pod: &PodObject,
    options: &DialectOptions,
    dialects: &BTreeSet<DialectName>,
) -> Result<WithWarnings<PodRequest>, Diagnostics> {
    let fidelity = options.fidelity();
    // NodeResourcesFit counts the overhead before any plugin decides.
    let request = PodRequest::new(Arc::new(pod.pod.clone()));
    let mut request = request.with_overhead(pod.overhead.clone());
    let mut warnings = Vec::new();
    for dialect in dialects {
        match dialect {
            DialectName::Kubelet | DialectName::SchedulerPlugins => {}
            DialectName::Koordinator => {
                let demand = koordinator::demand(pod, fidelity)?;
                request = request.with_koordinator(demand.value);
                warnings.extend(demand.warnings);
            }
            DialectName::Volcano => {
                let task = volcano::task(pod, fidelity);
                if let Some(policy) = task.value.policy {
                    request = request.with_volcano_policy(policy);
                }
                warnings.extend(task.warnings);
            }
        }
    }
    Ok(WithWarnings {
        value: request,
        warnings,
    })
}
