//! [`DevicePool`]: what the device plugins of a node have reported.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ascending::Ascending;
use super::{DeviceSet, DeviceState};
use crate::name::{DeviceId, ResourceName};
use crate::node_set::{NodeId, NodeSet};

/// One device as its plugin reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The ids of the NUMA nodes it is close to. `None`: the plugin gives no topology information. An empty list
    /// and ids of nodes that do not exist occur, and are not the same as `None`.
    pub numa: Option<Vec<i64>>,
    /// Whether it can be handed out.
    pub healthy: bool,
}

impl Device {
    /// The id that stands for "no NUMA node" in topology information.
    pub(super) const NO_NODE: i64 = -1;

    /// The NUMA nodes it is close to, as far as their ids are possible ones.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        let ids = self.numa.iter().flatten();
        ids.filter_map(|&id| NodeId::new(id).ok()).collect()
    }

    /// Whether its plugin names a node at all, existing or not.
    pub(super) fn names_a_node(&self) -> bool {
        self.numa.as_ref().is_some_and(|ids| !ids.is_empty())
    }
}

/// What the plugin of one resource offers.
pub type AdvertisedDevices = BTreeMap<DeviceId, Device>;

/// All devices of a node, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePool {
    /// The NUMA nodes of the machine; device plugins may name others.
    nodes: NodeSet,
    resources: BTreeMap<ResourceName, BTreeMap<DeviceId, Device>>,
}

impl DevicePool {
    /// A machine with these NUMA nodes, on which no plugin has registered yet.
    #[must_use]
    pub fn new(nodes: NodeSet) -> Self {
        Self {
            nodes,
            resources: BTreeMap::new(),
        }
    }

    /// The plugin of `resource` reports its devices; what it reported before is forgotten. An empty report is a
    /// plugin that has registered but offers nothing.
    pub fn set_devices(
        &mut self,
        resource: ResourceName,
        devices: impl IntoIterator<Item = (DeviceId, Device)>,
    ) {
        self.resources
            .insert(resource, devices.into_iter().collect());
    }

    /// The plugin of `resource` is gone for good.
    pub fn remove_resource(&mut self, resource: &ResourceName) {
        self.resources.remove(resource);
    }

    /// The NUMA nodes of the machine.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        self.nodes
    }

    /// The resources whose plugins have registered, ascending.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceName> {
        self.resources.keys()
    }

    /// The devices of a resource, or `None` if its plugin has not registered.
    #[must_use]
    pub fn devices(&self, resource: &ResourceName) -> Option<&BTreeMap<DeviceId, Device>> {
        self.resources.get(resource)
    }

    /// One device.
    #[must_use]
    pub fn device(&self, resource: &ResourceName, id: &DeviceId) -> Option<&Device> {
        self.resources.get(resource)?.get(id)
    }

    /// Whether the placement of a resource matters: some device of it names a NUMA node. Mirrors
    /// `deviceHasTopologyAlignment`.
    #[must_use]
    pub fn is_aligned(&self, resource: &ResourceName) -> bool {
        let mut devices = self.resources.get(resource).into_iter().flatten();
        devices.any(|(_, device)| device.names_a_node())
    }

    /// The healthy devices of a resource that nobody holds. Mirrors `getAvailableDevices`.
    #[must_use]
    pub fn available(&self, state: &DeviceState, resource: &ResourceName) -> DeviceSet {
        let mut in_use = Ascending::new(state.in_use_of(resource));
        let devices = self.resources.get(resource).into_iter().flatten();
        devices
            .filter(|(id, device)| device.healthy && !in_use.contains(id))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Whether a resource is offered by a plugin, or is still held by a container because one offered it
    /// earlier. Mirrors `isDevicePluginResource`.
    #[must_use]
    pub fn is_device(&self, state: &DeviceState, resource: &ResourceName) -> bool {
        self.resources.contains_key(resource) || state.holds_any(resource)
    }
}
