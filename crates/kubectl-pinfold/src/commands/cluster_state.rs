//! [`ClusterState`]: the nodes and pods of a cluster at one moment, from the API server or from files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::node_topology::replica::RulesCache;
use pinfold_cluster::{Cluster, NodeView, PodRequest};
use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest, ClusterPods};
use pinfold_kube::cluster::{DialectName, DialectOptions, NodeSources};
use pinfold_kube::decider::Decider;
use pinfold_kube::diagnostic::Diagnostic;
use pinfold_kube::node::NodeObject;
use pinfold_kube::objects::ClusterObjects;
use pinfold_kube::pod::PodObject;
use pinfold_kube::scheduling_constraints::{NodeMismatch, PodConstraints};
use pinfold_render::text::count;

use super::live::{self, ListedObjects, PodName};
use crate::args::SourceArgs;
use pinfold_terminal::scheduler_config::SchedulerConfig;
use pinfold_terminal::{Failure, WarningCap, object_files, output};

/// The most names listed in a sentence; further ones are counted.
const MAX_NAMES: usize = 3;
/// The most warnings listed; further ones are counted.
const MAX_WARNINGS: usize = 5;

/// The nodes and pods of a cluster at one moment.
pub(super) struct ClusterState {
    /// The objects as they were read, without pods that have terminated.
    pub(super) objects: ClusterObjects,
    /// The nodes with their free resources, for filtering and scoring.
    pub(super) cluster: Cluster,
    /// The program that decides, and how objects are read for it.
    pub(super) options: DialectOptions,
    /// The rules by which the nodes decide.
    dialects: BTreeSet<DialectName>,
    /// Names of the pods.
    names: BTreeMap<PodUid, String>,
    /// Nodes whose reports are invalid, with the first error.
    pub(super) unreadable: BTreeMap<NodeName, String>,
    /// Nodes that report the number of free CPUs but not which.
    pub(super) counted: BTreeSet<NodeName>,
    /// Warnings about missing or inconsistent objects.
    pub(super) notes: Vec<String>,
    /// Why the API server does not list Namespaces.
    without_namespaces: Option<String>,
    /// Why the node of the pod that the command is about does not start it.
    pub(super) start_failure: Option<String>,
}

impl ClusterState {
    /// Reads all objects from files or the API server. If listing all pods is forbidden, those of the namespace of `pod`
    /// are listed.
    pub(super) fn open(args: &SourceArgs, pod: Option<PodName<'_>>) -> Result<Self, Failure> {
        let decider = args.decider.decider;
        let config = match &args.scheduler_config {
            Some(path) => SchedulerConfig::read(path, decider)?,
            None => SchedulerConfig::default(),
        };
        let options = DialectOptions {
            decider,
            koordinator: config.koordinator,
            topology_match: config.topology_match,
        };
        let listed = listed(args, pod)?;
        Self::of(listed, options, config.volcano_weight)
    }

    fn of(listed: ListedObjects, options: DialectOptions, weight: i64) -> Result<Self, Failure> {
        let ListedObjects {
            objects,
            notes,
            without_namespaces,
            start_failure,
        } = listed;
        let names = objects.pods.iter();
        let names = names.map(|pod| (pod.pod.uid.clone(), pod.pod.name.clone()));
        let mut state = Self {
            cluster: Cluster::new().with_volcano_weight(weight),
            options,
            dialects: BTreeSet::new(),
            names: names.collect(),
            objects,
            unreadable: BTreeMap::new(),
            counted: BTreeSet::new(),
            notes,
            without_namespaces,
            start_failure,
        };
        state.add_nodes();
        match state.objects.nodes.is_empty() {
            true => Err(Failure::BadInput(
                "no nodes: expected Node or NodeResourceTopology objects".to_owned(),
            )),
            false => Ok(state),
        }
    }

    /// Adds every node to the cluster.
    fn add_nodes(&mut self) {
        let (mut silent, mut odd) = (Vec::new(), Vec::new());
        let mut dialects = BTreeSet::new();
        let mut rules = RulesCache::default();
        let options = &self.options;
        for found in self.objects.nodes_with_sources() {
            let name = found.node.name();
            let dialect = found.dialect(options.decider).unwrap_or_default();
            dialects.insert(dialect);
            if !found.has_report(dialect) {
                silent.push(name.to_string());
            } else if found.counts_cpus(dialect) {
                self.counted.insert(name.clone());
            }
            match found.member_with(options, &mut rules) {
                Ok(read) => {
                    if found.has_report(dialect) {
                        odd.extend(read.warnings.iter().map(Diagnostic::to_string));
                    }
                    self.cluster.insert(name, read.value);
                }
                Err(findings) => {
                    let first = findings.0.first().map(Diagnostic::to_string);
                    self.unreadable.insert(name, first.unwrap_or_default());
                }
            }
        }
        let object = match options.decider {
            Decider::Volcano => "Numatopology",
            _ => "NodeResourceTopology",
        };
        self.dialects = dialects;
        if !silent.is_empty() {
            self.notes.push(format!(
                "no {object} for {}: only the node's totals are known",
                named(&silent)
            ));
        }
        let counted: Vec<String> = self.counted.iter().map(NodeName::to_string).collect();
        if !counted.is_empty() {
            self.notes.push(format!(
                "{} the number of free CPUs but not which: CPU ids there are placeholders",
                match counted.len() {
                    1 => format!("{} reports", counted[0]),
                    _ => format!("{} report", named(&counted)),
                }
            ));
        }
        self.notes.extend(odd.iter().take(MAX_WARNINGS).cloned());
        if let Some(more @ 1..) = odd.len().checked_sub(MAX_WARNINGS) {
            let more = count(more, "more warning", "more warnings");
            self.notes.push(format!("... {more}"));
        }
    }

    /// All nodes by name, each with its reports and pods.
    pub(super) fn sources(&self) -> BTreeMap<NodeName, NodeSources<'_>> {
        let found = self.objects.nodes_with_sources().into_iter();
        found.map(|found| (found.node.name(), found)).collect()
    }

    /// The pod of this namespace and name.
    pub(super) fn pod(&self, namespace: &str, name: &str) -> Result<&PodObject, Failure> {
        let mut pods = self.objects.pods.iter();
        let is_it = |pod: &&PodObject| pod.meta.namespace == namespace && pod.meta.name == name;
        pods.find(is_it).ok_or_else(|| {
            let elsewhere = self.objects.pods.iter();
            let elsewhere = elsewhere.filter(|pod| pod.meta.name == name);
            let namespaces: Vec<String> = elsewhere.map(|pod| pod.meta.namespace.clone()).collect();
            let hint = match namespaces.is_empty() {
                true => String::new(),
                false => format!("; found in {}: use -n NAMESPACE", named(&namespaces)),
            };
            Failure::BadInput(format!(
                "no running or pending pod {name} in namespace {namespace}{hint}"
            ))
        })
    }

    /// The nodes that a pod's constraints exclude as if it were not bound, with the reason: selector, tolerations, host
    /// ports, and the pods around it.
    pub(super) fn excluded_nodes(&self, pod: &PodObject) -> BTreeMap<NodeName, NodeMismatch> {
        let (nodes, pods) = self.admission_nodes(Some(&pod.pod.uid));
        let pod = AdmissionRequest::of(&PodObject {
            constraints: Arc::new(PodConstraints {
                node_name: None,
                ..PodConstraints::clone(&pod.constraints)
            }),
            ..pod.clone()
        });
        let filters = pods.prepare(&pod, &nodes);
        let excluded = nodes.iter().filter_map(|(name, node)| {
            let mismatch = filters.first_mismatch(node, &pod)?;
            Some((name.clone(), mismatch))
        });
        excluded.collect()
    }

    /// The note that labels of namespaces are not known, if a term of the pod or of a bound pod selects by them.
    pub(super) fn unknown_namespaces(&self, pod: &PodObject) -> Option<String> {
        let mut others = self.objects.pods.iter();
        let reads = |pod: &PodObject| pod.constraints.pod_terms.reads_namespace_labels();
        let is_read = reads(pod) || others.any(|other| other.node_name.is_some() && reads(other));
        (self.objects.namespaces.is_empty() && is_read).then(|| {
            let why = self.without_namespaces.as_deref();
            let why = why.unwrap_or("no Namespace object");
            format!("not simulated: labels of namespaces in pod affinity ({why})")
        })
    }

    /// All nodes with their bound pods, one of them left out.
    pub(super) fn admission_nodes(
        &self,
        without: Option<&PodUid>,
    ) -> (BTreeMap<NodeName, AdmissionNode>, ClusterPods) {
        let objects = &self.objects;
        let node = |object: &NodeObject| {
            let allocatable = match self.cluster.node(&object.name()) {
                Some(member) => member.allocatable().clone(),
                None => Amounts::of(&object.allocatable),
            };
            (object.name(), AdmissionNode::of(object, allocatable))
        };
        let mut nodes: BTreeMap<NodeName, AdmissionNode> = objects.nodes.iter().map(node).collect();
        let mut pods = ClusterPods::new(objects.namespaces.clone());
        let others = objects.pods.iter();
        for pod in others.filter(|pod| Some(&pod.pod.uid) != without) {
            let Some(name) = pod.node_name.as_deref().map(NodeName::from) else {
                continue;
            };
            let request = AdmissionRequest::of(pod);
            if let Some(node) = nodes.get_mut(&name) {
                node.add(&pod.pod.uid, &request);
            }
            pods.add(&name, &pod.pod.uid, &request);
        }
        (nodes, pods)
    }

    /// The request of a pod as the deciding program reads it.
    pub(super) fn request(&self, pod: &PodObject) -> Result<PodRequest, Failure> {
        let read = pinfold_kube::cluster::pod_request(pod, &self.options, &self.dialects);
        let read = read.map_err(|findings| Failure::BadInput(findings.to_string()))?;
        for warning in &read.warnings {
            output::remark(&format!("warning: {warning}"));
        }
        Ok(read.value)
    }

    /// A node with the CPUs, memory and devices of its pods.
    pub(super) fn node_view(&self, node: &NodeName) -> Option<NodeView> {
        let name_of = |uid: &PodUid| match self.names.get(uid) {
            Some(name) => name.clone(),
            None => uid.to_string(),
        };
        self.cluster.node_view(node, name_of)
    }

    /// Who decides: `as kubelet-1.36`.
    pub(super) fn described(&self) -> String {
        format!("as {}", self.options.decider)
    }
}

/// `a, b, c`; `a, b, c and 4 more`.
pub(super) fn named<S: AsRef<str>>(names: &[S]) -> String {
    let first: Vec<&str> = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
    let first = first.join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Reads all objects from files or the API server, without pods that have terminated. Nodes that only have a report get a
/// Node object.
pub(super) fn listed(
    args: &SourceArgs,
    pod: Option<PodName<'_>>,
) -> Result<ListedObjects, Failure> {
    let mut listed = match args.objects.nodes.is_empty() {
        true => live::list(args, pod)?,
        false => files(args)?,
    };
    let objects = &mut listed.objects;
    objects.pods.retain(|pod| !pod.constraints.finished);
    for pod in &mut objects.pods {
        output::drop_default_namespace(&mut pod.pod.name);
    }
    let invented = objects.add_reported_nodes();
    if !invented.is_empty() {
        listed.notes.push(format!(
            "no Node object for {}: allocatable is taken from the NodeResourceTopology",
            named(&invented)
        ));
    }
    Ok(listed)
}

/// Reads the objects of the files in `--nodes`.
fn files(args: &SourceArgs) -> Result<ListedObjects, Failure> {
    let mut warned = WarningCap::new(output::remark);
    let (objects, _) = object_files::read_cluster(&args.objects.nodes, &mut warned)?;
    warned.finish();
    Ok(ListedObjects {
        objects,
        notes: Vec::new(),
        without_namespaces: None,
        start_failure: None,
    })
}
