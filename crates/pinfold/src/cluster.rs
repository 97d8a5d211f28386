//! [`SimulatedCluster`]: the cluster that the command line names, with nodes from objects or like a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::{Amounts, CPU};
use pinfold_cluster::node_topology::replica::RulesCache;
use pinfold_cluster::{Cluster, ClusterNode, Dialect, NodeView, PodRequest};
use pinfold_core::device::NoPreference;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest, ClusterPods};
use pinfold_kube::cluster::{self, DialectName, DialectOptions, NodeSources};
use pinfold_kube::decider::Decider;
use pinfold_kube::diagnostic::Diagnostics;
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::meta::ObjectMeta;
use pinfold_kube::node::NodeObject;
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use pinfold_kube::objects::ClusterObjects;
use pinfold_kube::pod::PodObject;
use pinfold_kube::volcano::{self, Numatopology};
use pinfold_render::explain;
use pinfold_render::text::count;
use pinfold_terminal::scheduler_config::SchedulerConfig;
use pinfold_terminal::{Failure, Source, WarningCap, object_files};

use crate::args::{ClusterArgs, NodeArgs, THIS};
use crate::node::{NodeFiles, SimulatedNode};
use crate::output::{drop_default_namespace, remark};

mod place;
pub(crate) mod rejections;
mod status;

pub(crate) use place::{NodeReason, NotPlaced};
pub(crate) use status::RejectedStatus;

/// The nodes of a cluster, and who decides about their pods.
pub(crate) struct SimulatedCluster {
    /// The nodes with their pods.
    pub(crate) cluster: Cluster,
    /// Who decides.
    pub(crate) reading: DialectOptions,
    /// The rules by which the nodes decide.
    pub(crate) dialects: BTreeSet<DialectName>,
    /// The constraints and the sums of the nodes, by name.
    pub(crate) sums: BTreeMap<NodeName, AdmissionNode>,
    /// The pods of the nodes, for the filters about other pods.
    pub(crate) pods: ClusterPods,
    /// The names of all pods by uid.
    pub(crate) names: BTreeMap<PodUid, String>,
    /// Pods of the nodes' files that are not bound to a node.
    pub(crate) pending: Vec<PodObject>,
    /// Prints a warning about a pod.
    pub(crate) remark: fn(&str),
}

/// The files that describe a cluster, read once: several programs can decide about the same cluster.
pub(crate) struct ClusterFiles {
    objects: ClusterObjects,
    sources: Vec<Source>,
    /// What a node without a topology object is like.
    like: Option<NodeFiles>,
    scheduler: SchedulerConfig,
}

impl ClusterFiles {
    /// Reads everything that the arguments name.
    pub(crate) fn read(args: &ClusterArgs, node: &NodeArgs) -> Result<Self, Failure> {
        let scheduler = match &args.scheduler_config {
            Some(path) => SchedulerConfig::read(path, node.decider.decider)?,
            None => SchedulerConfig::default(),
        };
        let mut warned = WarningCap::new(remark);
        let (mut objects, sources) = object_files::read_cluster(&args.nodes, &mut warned)?;
        if objects.without_pods.total() > 0 {
            remark(&format!("ignored {}", objects.without_pods));
        }
        for name in objects.add_reported_nodes() {
            warned.add("no Node object", || {
                format!(
                    "no Node object for {name}: its allocatable resources are the sums of its NUMA nodes"
                )
            });
        }
        warned.finish();
        for pod in &mut objects.pods {
            drop_default_namespace(&mut pod.pod.name);
        }
        if args.nodes.is_empty() {
            let copies = args.copies.unwrap_or(1);
            objects.nodes = (1..=copies)
                .map(|number| plain_node(number, copies))
                .collect();
        }
        Ok(Self {
            like: match args.nodes.is_empty() || node.machine.machine != THIS {
                true => Some(NodeFiles::read(node)?),
                false => None,
            },
            objects,
            sources,
            scheduler,
        })
    }

    /// A cluster with one node like this.
    pub(crate) fn of_one(like: NodeFiles) -> Self {
        Self {
            objects: ClusterObjects {
                nodes: vec![plain_node(1, 1)],
                ..ClusterObjects::default()
            },
            sources: Vec::new(),
            like: Some(like),
            scheduler: SchedulerConfig::default(),
        }
    }

    /// All nodes with their reports and pods, in the order of the files.
    pub(crate) fn sources(&self) -> Vec<NodeSources<'_>> {
        self.objects.nodes_with_sources()
    }

    /// Adds pods that run on their nodes. Those without a node are left out with a remark.
    pub(crate) fn add_running(&mut self, pods: Vec<PodObject>) {
        let (bound, pending): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| pod.node_name.is_some());
        self.objects.pods.extend(bound);
        if !pending.is_empty() {
            let pods = count(pending.len(), "pod", "pods");
            remark(&format!(
                "{pods} without nodeName run nowhere and are left out"
            ));
        }
    }

    /// What a node without a topology object is like.
    pub(crate) fn like(&self) -> Option<&NodeFiles> {
        self.like.as_ref()
    }

    /// The failure of reading the objects of a node, with the line of its file.
    pub(crate) fn failure(&self, node: &NodeObject, findings: &Diagnostics) -> Failure {
        let mut sources = self.sources.iter();
        match sources.find(|source| source.name == node.meta.origin.file) {
            Some(source) => source.failure(findings),
            None => bad(findings),
        }
    }

    /// As [`Self::nodes`]; nothing is printed.
    pub(crate) fn nodes_quietly(&self, decider: Decider) -> Result<SimulatedCluster, Failure> {
        let like = self.like.as_ref();
        let like = like.map(|like| like.node_with(decider, |_, _| {}));
        self.build(decider, like.transpose()?.as_ref(), |_| {})
    }

    /// The nodes about whose pods `decider` decides.
    pub(crate) fn nodes(&self, decider: Decider) -> Result<SimulatedCluster, Failure> {
        let like = self.like.as_ref().map(|like| like.node(decider));
        self.build(decider, like.transpose()?.as_ref(), remark)
    }

    /// The nodes about whose pods Pinfold decides, without printing warnings again; `None` if Pinfold cannot.
    pub(crate) fn as_pinfold(&self) -> Option<SimulatedCluster> {
        let like = match &self.like {
            Some(like) => Some(like.as_pinfold()?),
            None => None,
        };
        self.build(Decider::Pinfold, like.as_ref(), |_| {}).ok()
    }

    fn build(
        &self,
        decider: Decider,
        like: Option<&SimulatedNode>,
        remark: fn(&str),
    ) -> Result<SimulatedCluster, Failure> {
        let reading = DialectOptions {
            decider,
            koordinator: self.scheduler.koordinator.clone(),
            topology_match: self.scheduler.topology_match.clone(),
        };
        let mut builder = ClusterBuilder {
            like,
            reading: &reading,
            sources: &self.sources,
            rules: RulesCache::default(),
            warned: WarningCap::new(remark),
            cluster: Cluster::new().with_volcano_weight(self.scheduler.volcano_weight),
            dialects: BTreeSet::new(),
            sums: BTreeMap::new(),
            pods: ClusterPods::new(self.objects.namespaces.clone()),
            counted: 0,
        };
        for found in self.objects.nodes_with_sources() {
            builder.add(&found)?;
        }
        let ClusterBuilder {
            cluster,
            dialects,
            sums,
            pods: running,
            counted,
            warned,
            ..
        } = builder;
        warned.finish();
        if counted > 0 {
            let nodes = count(counted, "node reports", "nodes report");
            remark(&format!(
                "{nodes} how many CPUs are free, not which: CPU numbers of such a node are placeholder values"
            ));
        }
        if cluster.nodes().next().is_none() {
            return Err(Failure::BadInput(
                "expected at least one node to place pods on, found none: the files of --nodes have no Node"
                    .to_owned(),
            ));
        }
        let pods = self.objects.pods.iter();
        let names = pods.map(|pod| (pod.pod.uid.clone(), pod.pod.name.clone()));
        let pods = self.objects.pods.iter();
        Ok(SimulatedCluster {
            remark,
            cluster,
            reading,
            dialects,
            sums,
            pods: running,
            names: names.collect(),
            pending: pods
                .filter(|pod| pod.node_name.is_none())
                .cloned()
                .collect(),
        })
    }
}

impl SimulatedCluster {
    /// A pod with the labels and annotations that the nodes' rules read. Errors show the line of the file.
    pub(crate) fn ask(&self, pod: &PodObject) -> Result<PodRequest, Failure> {
        let read = cluster::pod_request(pod, &self.reading, &self.dialects);
        let read = read.map_err(|findings| bad(&findings))?;
        for warning in &read.warnings {
            (self.remark)(&format!("warning: {warning}"));
        }
        Ok(read.value)
    }

    /// Places the pods of the nodes' files that are not bound to a node.
    pub(crate) fn place_pending(&mut self) -> Result<(), Failure> {
        let pending = std::mem::take(&mut self.pending);
        self.place_running(&pending)
    }

    /// Places pods that run already. Prints a warning for each that fits no node.
    pub(crate) fn place_running(&mut self, pods: &[PodObject]) -> Result<(), Failure> {
        let mut warned = WarningCap::new(self.remark);
        for pod in pods {
            let ask = self.ask(pod)?;
            self.names.insert(ask.uid().clone(), pod.pod.name.clone());
            let placed = self.place(pod, &AdmissionRequest::of(pod), &ask);
            if let Err(NotPlaced::NoNode(rejections)) = placed {
                let why = rejections::text(&rejections);
                warned.add("does not run", || {
                    format!("{} does not run: {why}", pod.pod.name)
                });
            }
        }
        warned.finish();
        Ok(())
    }

    /// The machine of a node with the pods on it; `None` if its topology is not known.
    pub(crate) fn node_view(&self, node: &NodeName) -> Option<NodeView> {
        let name_of = |uid: &PodUid| match self.names.get(uid) {
            Some(name) => name.clone(),
            None => uid.to_string(),
        };
        self.cluster.node_view_with_others(node, name_of)
    }

    /// Who decides: `as kubelet-1.36`.
    pub(crate) fn described(&self) -> String {
        format!("as {}", self.reading.decider)
    }
}

fn bad(findings: &Diagnostics) -> Failure {
    Failure::BadInput(findings.to_string())
}

/// A Node object with no more than a name.
fn plain_node(number: u32, of: u32) -> NodeObject {
    let digits = of.to_string().len();
    NodeObject {
        meta: ObjectMeta {
            name: format!("node-{number:0digits$}"),
            ..ObjectMeta::default()
        },
        capacity: ResourceList::new(),
        allocatable: ResourceList::new(),
        unschedulable: false,
        taints: Vec::new(),
        kubelet_version: None,
        is_known: false,
        at: None,
    }
}

/// Builds a cluster, one node after the other.
struct ClusterBuilder<'a> {
    /// What nodes without a topology object are like.
    like: Option<&'a SimulatedNode>,
    reading: &'a DialectOptions,
    sources: &'a [Source],
    /// The rules of kubelets on equal machines.
    rules: RulesCache,
    /// Prints warnings.
    warned: WarningCap,
    cluster: Cluster,
    dialects: BTreeSet<DialectName>,
    sums: BTreeMap<NodeName, AdmissionNode>,
    pods: ClusterPods,
    /// The kubelets whose reports count CPUs instead of listing them.
    counted: usize,
}

impl ClusterBuilder<'_> {
    fn add(&mut self, found: &NodeSources<'_>) -> Result<(), Failure> {
        let name = found.node.name();
        if self.cluster.node(&name).is_some() {
            return Err(Failure::BadInput(format!(
                "two of the files have a node {name}: rename one of them"
            )));
        }
        let dialect = self.dialect(found);
        let member = match self.like {
            Some(like) if !found.has_report(dialect) => self.member_like(like, found, dialect)?,
            _ => {
                self.counted += usize::from(found.counts_cpus(dialect));
                self.read(found)?
            }
        };
        self.dialects.insert(dialect);
        let sums = self.sums_of(found, &member);
        self.sums.insert(name.clone(), sums);
        self.cluster.insert(name, member);
        Ok(())
    }

    /// The constraints of a node, and the requests and host ports of its pods.
    fn sums_of(&mut self, found: &NodeSources<'_>, member: &ClusterNode) -> AdmissionNode {
        let mut sums = AdmissionNode::of(found.node, member.allocatable().clone());
        // The ledger of a kubelet like the machine has no pod that the kubelet rejects.
        let ledger = match (self.like, member.dialect()) {
            (Some(_), Dialect::Kubelet(ledger)) => Some(ledger.state().admitted_pods()),
            _ => None,
        };
        for pod in &found.pods {
            if ledger.is_none_or(|ledger| ledger.contains_key(&pod.pod.uid)) {
                let request = AdmissionRequest::of(pod);
                sums.add(&pod.pod.uid, &request);
                self.pods.add(&found.node.name(), &pod.pod.uid, &request);
            }
        }
        sums
    }

    /// Whose rules decide about the node's pods. A node like a machine has a kubelet or an agent in its place.
    fn dialect(&self, found: &NodeSources<'_>) -> DialectName {
        let dialect = found.dialect(self.reading.decider);
        dialect.unwrap_or(DialectName::Kubelet)
    }

    fn read(&mut self, found: &NodeSources<'_>) -> Result<ClusterNode, Failure> {
        let file = &found.node.meta.origin.file;
        let source = self.sources.iter().find(|source| source.name == *file);
        let read =
            found
                .member_with(self.reading, &mut self.rules)
                .map_err(|findings| match source {
                    Some(source) => source.failure(&findings),
                    None => bad(&findings),
                })?;
        match source {
            Some(source) => self.warned.add_all(source, &read.warnings),
            None => {
                for warning in &read.warnings {
                    self.warned.add("node", || warning.to_string());
                }
            }
        }
        Ok(read.value)
    }

    /// The node with the topology objects that Pinfold's agent would report on such a machine.
    fn member_like(
        &mut self,
        like: &SimulatedNode,
        found: &NodeSources<'_>,
        dialect: DialectName,
    ) -> Result<ClusterNode, Failure> {
        let mut node = found.node.clone();
        if node.allocatable.is_empty() {
            node.allocatable = allocatable(like);
        }
        let name = node.meta.name.as_str();
        let (topology, numatopology): (NodeResourceTopology, Numatopology);
        let mut sources = NodeSources {
            node: &node,
            topology: found.topology,
            numatopology: found.numatopology,
            pods: found.pods.clone(),
        };
        if dialect == DialectName::Kubelet {
            return kubelet_like(like, &sources, &mut self.warned);
        }
        let (machine, settings) = (like.machine(), like.rules.settings());
        let occupancy = like.ledger().occupancy();
        let plain = node_resource_topology::publish(name, machine, &occupancy, settings);
        match dialect {
            DialectName::Volcano => {
                topology = plain;
                numatopology = volcano::publish_as_exporter(name, machine, &occupancy, settings);
                sources.numatopology = Some(&numatopology);
            }
            DialectName::Koordinator => {
                let reserved = like.rules.reserved_cpus();
                let facts = ReportAnnotations::of(machine, settings, reserved);
                topology = koordinator::publish(&plain, &facts);
            }
            DialectName::Kubelet | DialectName::SchedulerPlugins => topology = plain,
        }
        sources.topology = sources.topology.or(Some(&topology));
        self.read(&sources)
    }
}

/// A kubelet on such a machine, with the node's pods admitted in order.
fn kubelet_like(
    like: &SimulatedNode,
    sources: &NodeSources<'_>,
    warned: &mut WarningCap,
) -> Result<ClusterNode, Failure> {
    let mut ledger = like.ledger();
    let allocatable = Amounts::of(&sources.node.allocatable);
    let mut sums = AdmissionNode::of(sources.node, allocatable.clone());
    for pod in &sources.pods {
        let admitted = ledger.admit(&Arc::new(pod.pod.clone()), &mut NoPreference);
        let admitted = admitted.map_err(|error| Failure::BadInput(error.to_string()))?;
        if admitted.decision.is_admitted() {
            sums.add(&pod.pod.uid, &AdmissionRequest::of(pod));
        } else {
            let reason = explain::one_line(&admitted.decision);
            let name = &sources.node.meta.name;
            warned.add("does not run", || {
                format!("{} does not run on {name}: {reason}", pod.pod.name)
            });
        }
    }
    Ok(ClusterNode::kubelet(ledger, allocatable).with_used(sums.used().clone()))
}

/// The allocatable resources of a node on such a machine, as quantities.
fn allocatable(like: &SimulatedNode) -> ResourceList {
    let quantity = |name: &str, amount: i64| match name {
        CPU => Quantity::milli(amount),
        _ => Quantity::from(amount),
    };
    let amounts = like.allocatable.iter();
    amounts
        .map(|(name, amount)| (name.clone(), quantity(name.as_str(), amount)))
        .collect()
}
