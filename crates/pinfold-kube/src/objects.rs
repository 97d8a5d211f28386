//! Everything a cluster says about nodes and pods, from files that mix kinds.

use crate::finding::{Findings, Read, Report};
use crate::manifest;
use crate::node::NodeObject;
use crate::node_resource_topology::{self, NodeResourceTopology};
use crate::pod::{self, PodObject};
use crate::volcano::{self, Numatopology};

/// The objects of a file, each kind in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Nodes.
    pub nodes: Vec<NodeObject>,
    /// What nodes report (NodeResourceTopology).
    pub topologies: Vec<NodeResourceTopology>,
    /// What nodes report to Volcano (Numatopology).
    pub numatopologies: Vec<Numatopology>,
    /// Pods, replicas written out.
    pub pods: Vec<PodObject>,
}

/// Reads all objects of a file: documents of YAML or JSON, lists among them, kinds in any mixture.
///
/// # Errors
/// With everything that makes the file unusable.
pub fn read(file: &str, bytes: &[u8]) -> Result<Read<Objects>, Findings> {
    let mut objects = Objects::default();
    let mut report = Report::new(file);
    for document in manifest::read(file, bytes)? {
        match document.kind() {
            "Node" => {
                let read = NodeObject::read(&document);
                objects.nodes.extend(report.take(read));
            }
            node_resource_topology::KIND => {
                let read = NodeResourceTopology::read(&document);
                objects.topologies.extend(report.take(read));
            }
            volcano::KIND => {
                let read = Numatopology::read(&document);
                objects.numatopologies.extend(report.take(read));
            }
            _ => {
                let read = pod::pods_of(&document);
                objects.pods.extend(report.take(read).into_iter().flatten());
            }
        }
    }
    pod::refuse_same_uid(&objects.pods, &mut report);
    report.finish(objects)
}
