//! [`DevicePool`]: the devices that the device plugins of a node advertise.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ascending::Ascending;
use super::{DeviceSet, DeviceState};
use crate::edit::{StaleEdit, replace_entry};
use crate::name::{DeviceId, ResourceName};
use crate::node_set::{NodeId, NodeSet};

/// One device as its plugin reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The IDs of the NUMA nodes it is close to. `None`: the plugin gives no topology information. Empty lists and IDs
    /// of nodes that do not exist occur, and differ from `None`.
    pub numa: Option<Vec<i64>>,
    /// Whether it can be assigned.
    pub healthy: bool,
}

impl Device {
    /// The ID that stands for "no NUMA node" in topology information.
    pub(super) const NO_NODE: i64 = -1;

    /// The NUMA nodes it is close to, without impossible IDs.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        let ids = self.numa.iter().flatten();
        ids.filter_map(|&id| NodeId::new(id).ok()).collect()
    }

    /// Whether its plugin reports a NUMA node, existing or not.
    pub(super) fn reports_a_node(&self) -> bool {
        self.numa.as_ref().is_some_and(|ids| !ids.is_empty())
    }
}

/// The devices that the plugin of one resource advertises.
pub type AdvertisedDevices = BTreeMap<DeviceId, Device>;

/// All devices of a node, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicePool {
    /// The NUMA nodes of the machine; device plugins may report others.
    nodes: NodeSet,
    resources: BTreeMap<ResourceName, BTreeMap<DeviceId, Device>>,
}

impl DevicePool {
    /// A machine with these NUMA nodes and no registered plugins.
    #[must_use]
    pub fn new(nodes: NodeSet) -> Self {
        Self {
            nodes,
            resources: BTreeMap::new(),
        }
    }

    /// Sets the devices of the plugin of `resource`, replacing earlier ones. An empty list means that the plugin has
    /// registered but has no devices.
    pub fn set_devices(
        &mut self,
        resource: ResourceName,
        devices: impl IntoIterator<Item = (DeviceId, Device)>,
    ) {
        self.resources
            .insert(resource, devices.into_iter().collect());
    }

    /// Replaces the devices of a plugin; `None` if it is not registered.
    pub(crate) fn edit(
        &mut self,
        resource: &ResourceName,
        change: (Option<&AdvertisedDevices>, Option<&AdvertisedDevices>),
    ) -> Result<(), StaleEdit> {
        replace_entry(&mut self.resources, resource, change, || {
            format!("devices of {resource}")
        })
    }

    /// The NUMA nodes of the machine.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        self.nodes
    }

    /// The resources with a registered plugin, ascending.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceName> {
        self.resources.keys()
    }

    /// The devices of a resource, or `None` if its plugin has not registered.
    #[must_use]
    pub fn devices(&self, resource: &ResourceName) -> Option<&BTreeMap<DeviceId, Device>> {
        self.resources.get(resource)
    }

    /// One device of a resource.
    #[must_use]
    pub fn device(&self, resource: &ResourceName, id: &DeviceId) -> Option<&Device> {
        self.resources.get(resource)?.get(id)
    }

    /// Whether some device of the resource reports a NUMA node. Mirrors `deviceHasTopologyAlignment`.
    pub(crate) fn is_aligned(&self, resource: &ResourceName) -> bool {
        let mut devices = self.resources.get(resource).into_iter().flatten();
        devices.any(|(_, device)| device.reports_a_node())
    }

    /// The healthy devices of a resource that no container holds, ascending. Mirrors `getAvailableDevices`.
    pub fn free<'p>(
        &'p self,
        state: &'p DeviceState,
        resource: &ResourceName,
    ) -> impl Iterator<Item = (&'p DeviceId, &'p Device)> {
        let mut in_use = Ascending::new(state.in_use_of(resource));
        let devices = self.resources.get(resource).into_iter().flatten();
        devices.filter(move |(id, device)| device.healthy && !in_use.contains(id))
    }

    /// The IDs of the [free](Self::free) devices.
    #[must_use]
    pub fn available(&self, state: &DeviceState, resource: &ResourceName) -> DeviceSet {
        self.free(state, resource)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Whether a plugin advertises the resource, or a container still holds devices of it. Mirrors
    /// `isDevicePluginResource`.
    #[must_use]
    pub fn is_device(&self, state: &DeviceState, resource: &ResourceName) -> bool {
        self.resources.contains_key(resource) || state.holds_any(resource)
    }
}
