//! [`CustomResourceReport`]: the objects that the agent publishes about its node.

use pinfold_kube::node_resource_topology::{self, NodeResourceTopology, NrtVersion};
use pinfold_kube::pod_fingerprint::{self, FingerprintMethod};
use pinfold_kube::volcano::{self, Numatopology};
use serde_json::{Value, json};

use super::pod_set::PodSetFingerprint;

const NUMATOPOLOGIES: &str = "numatopologies";

/// The objects of one journal generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CustomResourceReport {
    /// Number of the last journal entry.
    pub generation: u64,
    /// The objects, at most one of each resource.
    pub objects: Vec<CustomResource>,
    /// The pods that the fingerprint of a NodeResourceTopology covers; `None` to write none.
    pub pods: Option<PodSetFingerprint>,
}

/// A custom resource in every API version that the agent can write.
///
/// The API server stores one object per name, whatever versions it serves, and converts it for readers. So an object is
/// written once, in the first of these versions that the server has.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomResource {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) versions: Vec<ObjectVersion>,
}

/// An object in one API version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectVersion {
    pub(super) version: &'static str,
    pub(super) body: Value,
}

/// The fingerprints of the pods that a report accounts for.
pub(super) struct Fingerprints {
    /// The method of `by_method`.
    pub(super) method: FingerprintMethod,
    pub(super) by_method: String,
    /// By the method [`FingerprintMethod::All`].
    pub(super) all: String,
}

impl CustomResource {
    /// A NodeResourceTopology. The version v1alpha2 has policy and scope both as attributes and in `topologyPolicies`,
    /// for readers of v1alpha1. Koordinator's annotations are the same in both versions.
    #[must_use]
    pub fn topology(topology: &NodeResourceTopology) -> Self {
        let first = topology.converted(NrtVersion::V1Alpha1);
        let mut second = topology.converted(NrtVersion::V1Alpha2);
        second
            .topology_policies
            .clone_from(&first.topology_policies);
        let form = |version, topology: &NodeResourceTopology| ObjectVersion {
            version,
            body: serde_json::to_value(topology.content()).unwrap_or_default(),
        };
        Self {
            group: node_resource_topology::GROUP,
            plural: "noderesourcetopologies",
            versions: vec![form("v1alpha2", &second), form("v1alpha1", &first)],
        }
    }

    /// Volcano's Numatopology.
    #[must_use]
    pub fn numatopology(topology: &Numatopology) -> Self {
        let (group, version) = volcano::API_VERSION
            .split_once('/')
            .unwrap_or((volcano::API_VERSION, "v1alpha1"));
        let body = serde_json::to_value(topology.content()).unwrap_or_default();
        Self {
            group,
            plural: NUMATOPOLOGIES,
            versions: vec![ObjectVersion { version, body }],
        }
    }

    /// The object with the fingerprints of its pods: by the report's method as attributes, and of all pods as the
    /// annotation that readers of v1alpha1 know. Only a NodeResourceTopology has them.
    pub(super) fn with_fingerprints(&self, fingerprints: &Fingerprints) -> Self {
        let mut object = self.clone();
        if object.group != node_resource_topology::GROUP {
            return object;
        }
        for ObjectVersion { body, .. } in &mut object.versions {
            if !body["attributes"].is_array() {
                body["attributes"] = json!([]);
            }
            if let Some(attributes) = body["attributes"].as_array_mut() {
                let method = fingerprints.method.name();
                let own = [
                    (pod_fingerprint::ATTRIBUTE, fingerprints.by_method.as_str()),
                    (pod_fingerprint::METHOD_ATTRIBUTE, method),
                ];
                attributes.extend(own.map(|(name, value)| json!({ "name": name, "value": value })));
            }
            body["metadata"]["annotations"][pod_fingerprint::ANNOTATION] =
                fingerprints.all.as_str().into();
        }
        object
    }

    /// Whether it is Volcano's Numatopology.
    pub(super) fn is_numatopology(&self) -> bool {
        self.plural == NUMATOPOLOGIES
    }

    /// The path of its list in an API version.
    pub(super) fn list_path(&self, version: &str) -> String {
        format!("/apis/{}/{version}/{}", self.group, self.plural)
    }

    /// The resource's full name, such as `noderesourcetopologies.topology.node.k8s.io`.
    pub(super) fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}
