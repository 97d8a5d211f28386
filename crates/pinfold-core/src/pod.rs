//! [`Pod`]: the little of a pod's specification that decides where it runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::{ContainerName, PodUid, ResourceName};
use crate::quantity::Quantity;

/// Amounts by resource name, as a pod's requests and limits state them.
pub type ResourceList = BTreeMap<ResourceName, Quantity>;

/// A pod as the placement rules see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// The id under which the ledger knows it.
    pub uid: PodUid,
    /// `namespace/name`, for people. May be empty.
    #[serde(default)]
    pub name: String,
    /// Init containers, sidecars among them, in order.
    #[serde(default)]
    pub init_containers: Vec<Container>,
    /// App containers, in order.
    pub containers: Vec<Container>,
    /// Requests of the pod as a whole (pod-level resources), if its specification has that section.
    #[serde(default)]
    pub pod_requests: Option<ResourceList>,
    /// Limits of the pod as a whole.
    #[serde(default)]
    pub pod_limits: Option<ResourceList>,
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Unique inside the pod.
    pub name: ContainerName,
    /// An init container that keeps running beside the app containers (restart policy `Always`).
    #[serde(default)]
    pub restartable: bool,
    /// What it asks for.
    #[serde(default)]
    pub requests: ResourceList,
    /// What it may use at most.
    #[serde(default)]
    pub limits: ResourceList,
}

impl Pod {
    /// Init containers, then app containers: the order in which the kubelet walks them.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }

    /// The container of that name, init or app.
    #[must_use]
    pub fn container(&self, name: &ContainerName) -> Option<&Container> {
        self.all_containers()
            .find(|container| container.name == *name)
    }

    /// Whether `name` is an init container that ends before the app containers start, so that what
    /// it held can be used again inside the pod.
    #[must_use]
    pub fn is_finishing_init(&self, name: &ContainerName) -> bool {
        self.init_containers
            .iter()
            .any(|init| init.name == *name && !init.restartable)
    }
}
