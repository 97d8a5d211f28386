//! Everything a cluster says about nodes and pods, from files that mix kinds.

use crate::diagnostic::{DiagnosticReport, Diagnostics, WithWarnings};
use crate::manifest::{self, Document};
use crate::node::NodeObject;
use crate::node_resource_topology::{self, NodeResourceTopology};
use crate::pod::{self, PodObject};
use crate::volcano::{self, Numatopology};

/// The objects of a file, each kind in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterObjects {
    /// Nodes.
    pub nodes: Vec<NodeObject>,
    /// What nodes report (NodeResourceTopology).
    pub topologies: Vec<NodeResourceTopology>,
    /// What nodes report to Volcano (Numatopology).
    pub numatopologies: Vec<Numatopology>,
    /// Pods, replicas written out.
    pub pods: Vec<PodObject>,
}

impl ClusterObjects {
    /// Adds what one document says.
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
            _ => {
                let read = pod::pods_of(document);
                self.pods.extend(report.take(read).into_iter().flatten());
            }
        }
    }

    /// Adds all others behind those that are here.
    pub fn append(&mut self, others: ClusterObjects) {
        self.nodes.extend(others.nodes);
        self.topologies.extend(others.topologies);
        self.numatopologies.extend(others.numatopologies);
        self.pods.extend(others.pods);
    }
}

/// Reads all objects of a file: documents of YAML or JSON, lists among them, kinds in any mixture.
///
/// # Errors
/// With everything that makes the file unusable.
pub fn read(file: &str, bytes: &[u8]) -> Result<WithWarnings<ClusterObjects>, Diagnostics> {
    let mut objects = ClusterObjects::default();
    let mut report = DiagnosticReport::new(file);
    for document in manifest::read(file, bytes)? {
        objects.add(&document, &mut report);
    }
    pod::reject_same_uid(&objects.pods, &mut report);
    report.finish(objects)
}
