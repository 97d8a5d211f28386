//! [`Pod`]: the part of a pod's spec that the resource managers read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::name::{ContainerName, PodUid, ResourceName};
use crate::quantity::Quantity;

/// Amounts by resource name: the requests or limits of a pod or container.
pub type ResourceList = BTreeMap<ResourceName, Quantity>;

/// The part of a pod's spec that the resource managers read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// The pod's UID, its key in the ledger.
    pub uid: PodUid,
    /// `namespace/name`, for display. May be empty.
    #[serde(default)]
    pub name: String,
    /// Init containers, sidecars among them, in order.
    #[serde(default)]
    pub init_containers: Vec<Container>,
    /// App containers, in order.
    pub containers: Vec<Container>,
    /// Pod-level requests, if the spec has them.
    #[serde(default)]
    pub pod_requests: Option<ResourceList>,
    /// Pod-level limits, if the spec has them.
    #[serde(default)]
    pub pod_limits: Option<ResourceList>,
}

/// One container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Unique inside the pod.
    pub name: ContainerName,
    /// Whether it is a sidecar: an init container with restart policy `Always`.
    #[serde(default)]
    pub restartable: bool,
    /// The container's requests.
    #[serde(default)]
    pub requests: ResourceList,
    /// The container's limits.
    #[serde(default)]
    pub limits: ResourceList,
}

impl Container {
    /// A container whose requests equal its limits.
    #[must_use]
    pub fn guaranteed<R: Into<ResourceName>>(
        name: &str,
        amounts: impl IntoIterator<Item = (R, Quantity)>,
    ) -> Self {
        let amounts = amounts.into_iter();
        let list: ResourceList = amounts
            .map(|(name, amount)| (name.into(), amount))
            .collect();
        Self {
            name: name.into(),
            restartable: false,
            requests: list.clone(),
            limits: list,
        }
    }

    /// The same container as a sidecar, if it is among the init containers.
    #[must_use]
    pub fn restartable(mut self) -> Self {
        self.restartable = true;
        self
    }
}

impl Pod {
    /// A pod of these app containers.
    #[must_use]
    pub fn new(uid: &str, containers: impl IntoIterator<Item = Container>) -> Self {
        Self {
            uid: uid.into(),
            containers: containers.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A pod of one container, `app`, whose requests equal its limits.
    #[must_use]
    pub fn guaranteed<R: Into<ResourceName>>(
        uid: &str,
        amounts: impl IntoIterator<Item = (R, Quantity)>,
    ) -> Self {
        Self::new(uid, [Container::guaranteed("app", amounts)])
    }

    /// The same pod with these init containers.
    #[must_use]
    pub fn with_init(mut self, init: impl IntoIterator<Item = Container>) -> Self {
        self.init_containers = init.into_iter().collect();
        self
    }

    /// Init containers, then app containers: the order in which the kubelet allocates them.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }

    /// The container with this name, init or app.
    #[must_use]
    pub fn container(&self, name: &ContainerName) -> Option<&Container> {
        self.all_containers()
            .find(|container| container.name == *name)
    }

    /// Whether `name` is an init container that finishes before the app containers start, so that later containers can
    /// reuse its resources.
    #[must_use]
    pub fn is_finishing_init(&self, name: &ContainerName) -> bool {
        self.init_containers
            .iter()
            .any(|init| init.name == *name && !init.restartable)
    }
}
