//! [`Scene`]: a cluster at one moment, every node ready to be asked.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cluster::{Cluster, PodRequest};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::plugin::KoordinatorArgs as PluginArgs;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::cluster::{DialectName, DialectOptions, NodeSources};
use pinfold_kube::diagnostic::Diagnostic;
use pinfold_kube::inventory::Inventory;
use pinfold_kube::koordinator::keys;
use pinfold_kube::manifest;
use pinfold_kube::pod::PodObject;
use pinfold_kube::scheduling_constraints::{NodeMismatch, PodConstraints};
use pinfold_render::text::count;

use super::{SourceArgs, live};
use crate::args::Dialect;
use crate::cluster::{Nodes, scheduler};
use crate::exit::Failure;
use crate::input::{Source, call_by_bare_name};

/// More names than this are counted, not listed.
const NAMED: usize = 3;
/// More oddities than this are counted, not listed.
const TOLD: usize = 5;

/// A cluster at one moment.
pub(super) struct Scene {
    /// Its objects.
    pub(super) inventory: Inventory,
    /// Its nodes, ready to be asked.
    pub(super) nodes: Nodes,
    /// Nodes that cannot be asked, with the reason.
    pub(super) unreadable: BTreeMap<NodeName, String>,
    /// Nodes that say how many CPUs are free and not which.
    pub(super) counted: BTreeSet<NodeName>,
    /// What one should know about all this.
    pub(super) notes: Vec<String>,
}

impl Scene {
    /// Reads everything, from files or from the API server. Who may not list all pods may list those of a namespace.
    pub(super) fn open(args: &SourceArgs, namespace: Option<&str>) -> Result<Self, Failure> {
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
            fidelity: match args.exact {
                true => Fidelity::Exact,
                false => Fidelity::Sound,
            },
            args: plugin.into(),
        };
        let (inventory, notes) = match args.nodes.is_empty() {
            true => live::inventory(args, namespace)?,
            false => files(args)?,
        };
        Self::of(inventory, notes, reading, weight)
    }

    fn of(
        mut inventory: Inventory,
        mut notes: Vec<String>,
        reading: DialectOptions,
        weight: i64,
    ) -> Result<Self, Failure> {
        for pod in &mut inventory.objects.pods {
            call_by_bare_name(&mut pod.pod);
        }
        let invented = inventory.objects.add_reported_nodes();
        if !invented.is_empty() {
            notes.push(format!(
                "no Node object for {}: taken to have what the NUMA nodes report, and no more",
                named(&invented)
            ));
        }
        let names = inventory.objects.pods.iter();
        let names = names.map(|pod| (pod.pod.uid.clone(), pod.pod.name.clone()));
        let mut scene = Self {
            nodes: Nodes {
                cluster: Cluster::new().with_volcano_weight(weight),
                reading,
                names: names.collect(),
                waiting: Vec::new(),
            },
            inventory,
            unreadable: BTreeMap::new(),
            counted: BTreeSet::new(),
            notes,
        };
        scene.seat();
        match scene.inventory.objects.nodes.is_empty() {
            true => Err(Failure::BadInput(
                "expected at least one node, found none: a cluster is made of Node objects, or of what nodes report"
                    .to_owned(),
            )),
            false => Ok(scene),
        }
    }

    /// Makes every node a member.
    fn seat(&mut self) {
        let (mut silent, mut odd) = (Vec::new(), Vec::new());
        let reading = &self.nodes.reading;
        for found in self.inventory.objects.nodes_with_sources() {
            let name = found.node.name();
            if !reports(&found, reading.dialect) {
                silent.push(name.to_string());
            } else if reading.dialect == DialectName::Kubelet && !lists_cpus(&found) {
                self.counted.insert(name.clone());
            }
            match found.member(reading) {
                Ok(read) => {
                    if reports(&found, reading.dialect) {
                        odd.extend(read.warnings.iter().map(Diagnostic::to_string));
                    }
                    self.nodes.cluster.insert(name, read.value);
                }
                Err(findings) => {
                    let first = findings.0.first().map(Diagnostic::to_string);
                    self.unreadable.insert(name, first.unwrap_or_default());
                }
            }
        }
        let object = match reading.dialect {
            DialectName::Volcano => "Numatopology",
            DialectName::Kubelet | DialectName::Koordinator => "NodeResourceTopology",
        };
        if !silent.is_empty() {
            self.notes.push(format!(
                "no {object} of {}: only the sums are known there",
                named(&silent)
            ));
        }
        let counted: Vec<String> = self.counted.iter().map(NodeName::to_string).collect();
        if !counted.is_empty() {
            self.notes.push(format!(
                "{} how many CPUs are free and not which: CPUs are counted there, not numbered",
                match counted.len() {
                    1 => format!("{} reports", counted[0]),
                    _ => format!("{} report", named(&counted)),
                }
            ));
        }
        self.notes.extend(odd.iter().take(TOLD).cloned());
        if let Some(more @ 1..) = odd.len().checked_sub(TOLD) {
            let more = count(more, "more oddity", "more oddities");
            self.notes.push(format!("... {more} of that kind"));
        }
    }

    /// All nodes with what is known about each.
    pub(super) fn sources(&self) -> BTreeMap<NodeName, NodeSources<'_>> {
        let found = self.inventory.objects.nodes_with_sources().into_iter();
        found.map(|found| (found.node.name(), found)).collect()
    }

    /// A pod by its name.
    pub(super) fn pod(&self, namespace: &str, name: &str) -> Result<&PodObject, Failure> {
        let mut pods = self.inventory.objects.pods.iter();
        let is_it = |pod: &&PodObject| pod.meta.namespace == namespace && pod.meta.name == name;
        pods.find(is_it).ok_or_else(|| {
            let elsewhere = self.inventory.objects.pods.iter();
            let elsewhere = elsewhere.filter(|pod| pod.meta.name == name);
            let namespaces: Vec<String> = elsewhere.map(|pod| pod.meta.namespace.clone()).collect();
            let hint = match namespaces.is_empty() {
                true => String::new(),
                false => format!("; there is one in {}: say -n NAMESPACE", named(&namespaces)),
            };
            Failure::BadInput(format!(
                "no pod {name} in the namespace {namespace} that has not ended{hint}"
            ))
        })
    }

    /// What a pod says about nodes.
    pub(super) fn terms(&self, pod: &PodUid) -> PodConstraints {
        self.inventory.pods.get(pod).cloned().unwrap_or_default()
    }

    /// The nodes that a pod may not go to, whatever there is to be had.
    pub(super) fn barred(&self, terms: &PodConstraints) -> BTreeMap<NodeName, NodeMismatch> {
        let nodes = self.inventory.nodes.iter();
        let barred =
            nodes.filter_map(|(name, node)| Some((name.as_str().into(), node.mismatch(terms)?)));
        barred.collect()
    }

    /// A pod as nodes are asked about it.
    pub(super) fn ask(&self, pod: &PodObject) -> Result<PodRequest, Failure> {
        self.nodes.ask(pod)
    }

    /// `dialect kubelet`.
    pub(super) fn described(&self) -> String {
        self.nodes.described()
    }
}

/// Whether the node says what its dialect decides from.
fn reports(found: &NodeSources<'_>, dialect: DialectName) -> bool {
    match dialect {
        DialectName::Volcano => found.numatopology.is_some(),
        DialectName::Kubelet | DialectName::Koordinator => found.topology.is_some(),
    }
}

fn lists_cpus(found: &NodeSources<'_>) -> bool {
    let listed = found
        .topology
        .and_then(|own| own.meta.annotations.get(keys::CPU_TOPOLOGY));
    listed.is_some()
}

/// `a, b, c`; `a, b, c and 4 more`.
pub(super) fn named<S: AsRef<str>>(names: &[S]) -> String {
    let told: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let told = told.join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// The objects of some files.
fn files(args: &SourceArgs) -> Result<(Inventory, Vec<String>), Failure> {
    let mut inventory = Inventory::default();
    for path in &args.nodes {
        let source = Source::open(path)?;
        let documents = manifest::read(&source.name, &source.bytes);
        let documents = documents.map_err(|findings| source.failure(&findings))?;
        for document in &documents {
            let added = inventory.add(document);
            source.warn(&added.map_err(|findings| source.failure(&findings))?);
        }
    }
    Ok((inventory, Vec::new()))
}
