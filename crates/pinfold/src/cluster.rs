//! [`Nodes`]: a cluster put together from the command line: nodes as objects describe them, or like a machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pinfold_core::cluster::{Cluster, ClusterNode, NodeView, PODS, PodRequest};
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::amounts::Amounts;
use pinfold_core::koordinator::plugin::KoordinatorArgs as PluginArgs;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;
use pinfold_kube::cluster::{self, DialectName, DialectOptions, NodeSources};
use pinfold_kube::diagnostic::{Diagnostic, Diagnostics};
use pinfold_kube::koordinator::{self, ReportAnnotations};
use pinfold_kube::manifest;
use pinfold_kube::meta::ObjectMeta;
use pinfold_kube::node::NodeObject;
use pinfold_kube::node_resource_topology::{self, NodeResourceTopology};
use pinfold_kube::objects::{self, ClusterObjects};
use pinfold_kube::pod::PodObject;
use pinfold_kube::volcano::{self, Numatopology};
use pinfold_render::explain;
use pinfold_render::text::count;

use crate::args::{ClusterArgs, Dialect, NodeArgs, THIS};
use crate::exit::Failure;
use crate::input::Source;
use crate::node::Node;
use crate::output::{drop_default_namespace, remark};

/// How many pods a kubelet takes where nobody says.
const USUAL_PODS: i64 = 110;

/// The nodes, and how pods are read for them.
pub(crate) struct Nodes {
    /// The nodes with what runs on them.
    pub(crate) cluster: Cluster,
    /// Whose rules decide.
    pub(crate) reading: DialectOptions,
    /// What people call the pods that were there from the start, and those that came since.
    pub(crate) names: BTreeMap<PodUid, String>,
    /// Pods of the nodes' files that run nowhere yet.
    pub(crate) waiting: Vec<PodObject>,
}

impl Nodes {
    /// Reads everything that the arguments name.
    pub(crate) fn open(args: &ClusterArgs, node: &NodeArgs) -> Result<Self, Failure> {
        let fidelity = match node.exact {
            true => Fidelity::Exact,
            false => Fidelity::Sound,
        };
        let (plugin, weight) = match &args.scheduler_config {
            Some(path) => scheduler(path, args.dialect)?,
            None => (PluginArgs::default(), 1),
        };
        let reading = DialectOptions {
            dialect: match args.dialect {
                Dialect::Kubelet => DialectName::Kubelet,
                Dialect::Koordinator => DialectName::Koordinator,
                Dialect::Volcano => DialectName::Volcano,
            },
            fidelity,
            args: Arc::new(plugin),
        };
        let mut objects = ClusterObjects::default();
        let mut sources = Vec::new();
        for path in &args.nodes {
            let source = Source::open(path)?;
            let read = objects::read(&source.name, &source.bytes);
            let read = read.map_err(|findings| source.failure(&findings))?;
            source.warn(&read.warnings);
            objects.nodes.extend(read.value.nodes);
            objects.topologies.extend(read.value.topologies);
            objects.numatopologies.extend(read.value.numatopologies);
            objects.pods.extend(read.value.pods);
            sources.push(source);
        }
        for name in objects.add_reported_nodes() {
            remark(&format!(
                "warning: no Node object for {name}: it is taken to have what its NUMA nodes report, and no more"
            ));
        }
        for pod in &mut objects.pods {
            drop_default_namespace(&mut pod.pod.name);
        }
        let like = match args.nodes.is_empty() || node.machine.machine != THIS {
            true => Some(Node::open(node)?),
            false => None,
        };
        if args.nodes.is_empty() {
            let copies = args.copies.unwrap_or(1);
            objects.nodes = (1..=copies)
                .map(|number| plain_node(number, copies))
                .collect();
        }
        let mut opening = Opening {
            like: like.as_ref(),
            reading: &reading,
            sources: &sources,
            cluster: Cluster::new().with_volcano_weight(weight),
            counted: 0,
        };
        for found in objects.nodes_with_sources() {
            opening.add(&found)?;
        }
        let Opening {
            cluster, counted, ..
        } = opening;
        if counted > 0 {
            let nodes = count(counted, "node reports", "nodes report");
            remark(&format!(
                "{nodes} how many CPUs are free and not which: their numbers are stand-ins here"
            ));
        }
        if cluster.nodes().next().is_none() {
            return Err(Failure::BadInput(
                "expected at least one node to place pods on, found none: the files of --nodes hold no \
                 Node that takes pods"
                    .to_owned(),
            ));
        }
        let names = objects.pods.iter();
        let names = names.map(|pod| (pod.pod.uid.clone(), pod.pod.name.clone()));
        Ok(Self {
            cluster,
            reading,
            names: names.collect(),
            waiting: {
                let mut pods = objects.pods;
                pods.retain(|pod| pod.node_name.is_none());
                pods
            },
        })
    }

    /// A pod as the nodes are asked about it. What cannot be understood is told with its place in the file.
    pub(crate) fn ask(&self, pod: &PodObject) -> Result<PodRequest, Failure> {
        let read = cluster::pod_request(pod, &self.reading).map_err(|findings| bad(&findings))?;
        warn(&read.warnings);
        Ok(read.value)
    }

    /// How a node looks now.
    pub(crate) fn node_view(&self, node: &NodeName) -> Option<NodeView> {
        let name_of = |uid: &PodUid| match self.names.get(uid) {
            Some(name) => name.clone(),
            None => uid.to_string(),
        };
        self.cluster.node_view(node, name_of)
    }

    /// How it is decided, in one line.
    pub(crate) fn described(&self) -> String {
        let exact = match self.reading.fidelity {
            Fidelity::Exact => ", exact",
            Fidelity::Sound => "",
        };
        format!("dialect {}{exact}", self.reading.dialect.name())
    }
}

/// Tells what is odd about something whose file is not at hand.
fn warn(warnings: &[Diagnostic]) {
    for warning in warnings {
        remark(&format!("warning: {warning}"));
    }
}

fn bad(findings: &Diagnostics) -> Failure {
    Failure::BadInput(findings.to_string())
}

/// What a scheduler is configured with: Koordinator's plugin, or the weight of Volcano's.
pub(crate) fn scheduler(path: &Path, dialect: Dialect) -> Result<(PluginArgs, i64), Failure> {
    let source = Source::open(path)?;
    let failure = |findings: Diagnostics| source.failure(&findings);
    match dialect {
        Dialect::Kubelet => Err(Failure::BadInput(
            "--scheduler-config belongs to --dialect koordinator or volcano: a kubelet has none"
                .to_owned(),
        )),
        Dialect::Volcano => {
            let read = volcano::scheduler_weight(&source.name, &source.bytes).map_err(failure)?;
            source.warn(&read.warnings);
            let weight = read.value.ok_or_else(|| {
                Failure::BadInput(format!(
                    "{}: expected the plugin numa-aware among the tiers, found none of that name",
                    source.name
                ))
            })?;
            Ok((PluginArgs::default(), weight))
        }
        Dialect::Koordinator => {
            let documents = manifest::read(&source.name, &source.bytes).map_err(failure)?;
            let Some(document) = documents.first() else {
                return Err(Failure::BadInput(format!(
                    "{}: expected a KubeSchedulerConfiguration, found nothing",
                    source.name
                )));
            };
            let read = koordinator::scheduler_args(document).map_err(failure)?;
            source.warn(&read.warnings);
            Ok((read.value, 1))
        }
    }
}

/// A node that says nothing about itself.
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
        at: None,
    }
}

/// Adds one node after the other.
struct Opening<'a> {
    /// What nodes without a report are like.
    like: Option<&'a Node>,
    reading: &'a DialectOptions,
    sources: &'a [Source],
    cluster: Cluster,
    /// So many kubelets are known by counts only.
    counted: usize,
}

impl Opening<'_> {
    fn add(&mut self, found: &NodeSources<'_>) -> Result<(), Failure> {
        let name = found.node.name();
        if found.node.unschedulable {
            remark(&format!("node {name} takes no new pods: left out"));
            return Ok(());
        }
        if self.cluster.node(&name).is_some() {
            return Err(Failure::BadInput(format!(
                "two of the files have a node {name}: rename one of them"
            )));
        }
        let member = match self.like {
            Some(like) if !self.reports(found) => self.member_like(like, found)?,
            _ => {
                self.counted += usize::from(self.is_counted(found));
                self.read(found)?
            }
        };
        self.cluster.insert(name, member);
        Ok(())
    }

    /// Whether the node says what its dialect decides from.
    fn reports(&self, found: &NodeSources<'_>) -> bool {
        match self.reading.dialect {
            DialectName::Volcano => found.numatopology.is_some(),
            DialectName::Kubelet | DialectName::Koordinator => found.topology.is_some(),
        }
    }

    /// Whether a kubelet is predicted from numbers of CPUs alone.
    fn is_counted(&self, found: &NodeSources<'_>) -> bool {
        let lists_cpus = |topology: &NodeResourceTopology| {
            let annotations = &topology.meta.annotations;
            annotations.contains_key(koordinator::keys::CPU_TOPOLOGY)
        };
        self.reading.dialect == DialectName::Kubelet
            && found.topology.is_some_and(|topology| !lists_cpus(topology))
    }

    fn read(&self, found: &NodeSources<'_>) -> Result<ClusterNode, Failure> {
        let file = &found.node.meta.origin.file;
        let source = self.sources.iter().find(|source| source.name == *file);
        let read = found
            .member(self.reading)
            .map_err(|findings| match source {
                Some(source) => source.failure(&findings),
                None => bad(&findings),
            })?;
        match source {
            Some(source) => source.warn(&read.warnings),
            None => warn(&read.warnings),
        }
        Ok(read.value)
    }

    /// The node with the reports that its agent would write on such a machine.
    fn member_like(&self, like: &Node, found: &NodeSources<'_>) -> Result<ClusterNode, Failure> {
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
        if self.reading.dialect == DialectName::Kubelet {
            return kubelet_like(like, &sources);
        }
        let (machine, settings) = (like.machine(), like.rules.settings());
        let occupancy = like.ledger().occupancy();
        let plain = node_resource_topology::publish(name, machine, &occupancy, settings);
        match self.reading.dialect {
            DialectName::Volcano => {
                topology = plain;
                numatopology = volcano::publish(name, machine, &occupancy, settings, Vec::new());
                sources.numatopology = Some(&numatopology);
            }
            DialectName::Kubelet | DialectName::Koordinator => {
                let reserved = like.rules.reserved_cpus();
                let facts = ReportAnnotations::of(machine, settings, reserved);
                topology = koordinator::publish(&plain, &facts);
            }
        }
        sources.topology = sources.topology.or(Some(&topology));
        self.read(&sources)
    }
}

/// A kubelet on such a machine, with the node's pods admitted in order.
fn kubelet_like(like: &Node, sources: &NodeSources<'_>) -> Result<ClusterNode, Failure> {
    let mut ledger = like.ledger();
    for pod in &sources.pods {
        let admitted = ledger.admit(&Arc::new(pod.pod.clone()), &mut NoPreference);
        let admitted = admitted.map_err(|error| Failure::BadInput(error.to_string()))?;
        if !admitted.decision.is_admitted() {
            let told = explain::one_line(&admitted.decision);
            let name = &sources.node.meta.name;
            remark(&format!(
                "warning: {} does not run on {name}: {told}",
                pod.pod.name
            ));
        }
    }
    Ok(ClusterNode::kubelet(
        ledger,
        Amounts::of(&sources.node.allocatable),
    ))
}

/// What pods may use of such a machine.
fn allocatable(like: &Node) -> ResourceList {
    let machine = like.machine();
    let mut list = ResourceList::new();
    let cpus = machine.online() - &like.rules.reserved_cpus();
    list.insert("cpu".into(), whole(cpus.len() as u64));
    for row in like.ledger().occupancy().memory {
        *list.entry(row.resource).or_default() += whole(row.allocatable);
    }
    for (resource, offer) in &like.offers {
        list.insert(resource.clone(), whole(offer.len() as u64));
    }
    list.insert(PODS.into(), USUAL_PODS.into());
    list
}

fn whole(amount: u64) -> Quantity {
    i64::try_from(amount).unwrap_or(i64::MAX).into()
}
