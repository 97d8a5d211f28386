//! [`ClusterObjects`]: nodes, their reports and pods from files with objects of several kinds.

use std::collections::BTreeMap;

use crate::diagnostic::{Diagnostic, DiagnosticReport, Diagnostics, WithWarnings};
use crate::manifest::{self, Document};
use crate::meta::ObjectMeta;
use crate::node::NodeObject;
use crate::node_resource_topology::{self, NodeResourceTopology};
use crate::pod::{self, KindCounts, PodObject};
use crate::scheduling_constraints::Labels;
use crate::volcano::{self, Numatopology};

/// The objects of a file, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterObjects {
    /// Nodes.
    pub nodes: Vec<NodeObject>,
    /// NodeResourceTopology objects.
    pub topologies: Vec<NodeResourceTopology>,
    /// Numatopology objects, for Volcano.
    pub numatopologies: Vec<Numatopology>,
    /// Pods, with one entry per replica.
    pub pods: Vec<PodObject>,
    /// The labels of namespaces.
    pub namespaces: BTreeMap<String, Labels>,
    /// All other objects.
    pub without_pods: KindCounts,
}

impl ClusterObjects {
    /// Adds the object of a document.
    pub(crate) fn add(&mut self, document: &Document, report: &mut DiagnosticReport) {
        match document.kind() {
            "Node" => {
                let read = NodeObject::read(document);
                self.nodes.extend(report.take(read));
            }
            node_resource_topology::KIND => {
                let read = NodeResourceTopology::read(document);
                self.topologies.extend(report.take(read));
            }
            volcano::KIND => {
                let read = Numatopology::read(document);
                self.numatopologies.extend(report.take(read));
            }
            "Namespace" if document.api_version() == "v1" => {
                if let Some(meta) = ObjectMeta::read_cluster_scoped(document, report) {
                    self.namespaces.insert(meta.name, meta.labels);
                }
            }
            _ => {
                if let Some(found) = report.take(pod::objects_of(document)) {
                    self.pods.extend(found.pods);
                    self.without_pods.append(found.without_pods);
                }
            }
        }
    }

    /// Adds the object of a document. Returns the warnings about it.
    ///
    /// # Errors
    /// With every error in the object.
    pub fn add_object(&mut self, document: &Document) -> Result<Vec<Diagnostic>, Diagnostics> {
        let mut report = DiagnosticReport::new(document.file());
        self.add(document, &mut report);
        report.finish(()).map(|read| read.warnings)
    }

    /// Checks that no two pods have the same uid.
    ///
    /// # Errors
    /// With an error for each pod that has the uid of an earlier one.
    pub fn check_uids(&self, file: &str) -> Result<(), Diagnostics> {
        let mut report = DiagnosticReport::new(file);
        pod::reject_same_uid(&self.pods, &mut report);
        report.finish(()).map(|_| ())
    }
}

/// Reads all objects of a YAML or JSON file, in lists or not, of any kinds.
///
/// # Errors
/// With every error in the file.
pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<ClusterObjects>, Diagnostics> {
    let mut objects = ClusterObjects::default();
    let mut report = DiagnosticReport::new(file);
    for document in manifest::read(file, bytes)? {
        objects.add(&document, &mut report);
    }
    pod::reject_same_uid(&objects.pods, &mut report);
    report.finish(objects)
}
