//! [`Report`]: the objects in which this node tells the cluster about itself.

use pinfold_kube::node_resource_topology::{self, NodeResourceTopology, NrtVersion};
use pinfold_kube::volcano::{self, Numatopology};
use serde_json::Value;

/// Everything there is to say at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The number of the journal's last entry.
    pub generation: u64,
    /// The objects; at most one of a kind.
    pub objects: Vec<Object>,
}

/// One object, in every version that somebody may want it in.
///
/// A custom resource has one object of a name, however many versions are served: what is written in one version is read
/// in all of them. So an object is written once, in the first of its forms that the cluster serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) forms: Vec<Form>,
}

/// An object in one version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    pub(super) version: &'static str,
    pub(super) body: Value,
}

impl Object {
    /// A NodeResourceTopology. In v1alpha2 it states policy and scope in both ways: as attributes, and in the word that
    /// readers of v1alpha1 know. Koordinator's annotations are the same in both.
    #[must_use]
    pub fn topology(topology: &NodeResourceTopology) -> Self {
        let first = topology.converted(NrtVersion::V1Alpha1);
        let mut second = topology.converted(NrtVersion::V1Alpha2);
        second
            .topology_policies
            .clone_from(&first.topology_policies);
        let form = |version, topology: &NodeResourceTopology| Form {
            version,
            body: serde_json::to_value(topology.content()).unwrap_or_default(),
        };
        Self {
            group: node_resource_topology::GROUP,
            plural: "noderesourcetopologies",
            forms: vec![form("v1alpha2", &second), form("v1alpha1", &first)],
        }
    }

    /// A Numatopology of Volcano.
    #[must_use]
    pub fn numatopology(topology: &Numatopology) -> Self {
        let (group, version) = volcano::API_VERSION
            .split_once('/')
            .unwrap_or((volcano::API_VERSION, "v1alpha1"));
        let body = serde_json::to_value(topology.content()).unwrap_or_default();
        Self {
            group,
            plural: "numatopologies",
            forms: vec![Form { version, body }],
        }
    }

    /// `noderesourcetopologies.topology.node.k8s.io`.
    pub(super) fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}
