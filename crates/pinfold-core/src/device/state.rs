//! [`DeviceState`]: the devices that each container holds, changed only by [`DeviceEdit`]s.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{DeviceSet, DevicesByResource};
use crate::edit::{Direction, StaleEdit, replace_entry};
use crate::name::{ContainerName, DeviceId, PodUid, ResourceName};

type ByContainer = BTreeMap<ContainerName, DevicesByResource>;

/// The devices that each container holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    pods: BTreeMap<PodUid, ByContainer>,
    /// The number of containers that hold each device: more than one only where an init container's device is reused.
    holders: BTreeMap<ResourceName, BTreeMap<DeviceId, u32>>,
    /// The number of containers with an entry of each resource, possibly empty.
    entries: BTreeMap<ResourceName, usize>,
}

/// One change of a [`DeviceState`]: the devices of one resource in one container, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEdit {
    /// The pod.
    pub pod: PodUid,
    /// The container.
    pub container: ContainerName,
    /// The resource.
    pub resource: ResourceName,
    /// The devices before; `None` without an entry.
    pub before: Option<DeviceSet>,
    /// The devices after.
    pub after: Option<DeviceSet>,
}

impl DeviceState {
    /// The devices of a resource that a container holds; `None` without an entry.
    #[must_use]
    pub fn held(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        resource: &ResourceName,
    ) -> Option<&DeviceSet> {
        self.container(pod, container)?.get(resource)
    }

    /// All devices of a container.
    #[must_use]
    pub fn container(&self, pod: &PodUid, container: &ContainerName) -> Option<&DevicesByResource> {
        self.pods.get(pod)?.get(container)
    }

    /// All devices of a resource that the containers of a pod hold together.
    #[must_use]
    pub fn held_by_pod(&self, pod: &PodUid, resource: &ResourceName) -> DeviceSet {
        let containers = self.pods.get(pod).into_iter().flat_map(BTreeMap::values);
        let held = containers.filter_map(|devices| devices.get(resource));
        held.flatten().cloned().collect()
    }

    /// The pods with devices, with their containers.
    pub fn pods(
        &self,
    ) -> impl Iterator<Item = (&PodUid, &BTreeMap<ContainerName, DevicesByResource>)> {
        self.pods.iter()
    }

    /// Whether a pod holds any device.
    #[must_use]
    pub fn holds(&self, pod: &PodUid) -> bool {
        let containers = self.pods.get(pod).into_iter().flat_map(BTreeMap::values);
        containers
            .flat_map(BTreeMap::values)
            .any(|devices| !devices.is_empty())
    }

    /// Whether some container holds the device.
    #[must_use]
    pub fn is_in_use(&self, resource: &ResourceName, device: &DeviceId) -> bool {
        self.holders
            .get(resource)
            .is_some_and(|devices| devices.contains_key(device))
    }

    /// The devices of a resource that containers hold, ascending.
    pub(super) fn in_use_of(
        &self,
        resource: &ResourceName,
    ) -> impl Iterator<Item = &DeviceId> + use<'_> {
        self.holders
            .get(resource)
            .into_iter()
            .flat_map(BTreeMap::keys)
    }

    /// All devices in use, by resource. Resources of which none is in use are left out.
    #[must_use]
    pub fn in_use(&self) -> DevicesByResource {
        let resources = self.holders.iter();
        resources
            .map(|(resource, devices)| (resource.clone(), devices.keys().cloned().collect()))
            .collect()
    }

    /// Whether the same devices are in use and the same resources have entries, whichever containers hold them.
    pub(crate) fn has_same_use(&self, other: &Self) -> bool {
        self.entries.keys().eq(other.entries.keys()) && self.in_use() == other.in_use()
    }

    /// Whether there is an entry for a resource, possibly empty.
    pub(super) fn holds_any(&self, resource: &ResourceName) -> bool {
        self.entries.contains_key(resource)
    }

    /// The edits that release all devices of a pod.
    #[must_use]
    pub fn remove_pod(&self, pod: &PodUid) -> Vec<DeviceEdit> {
        let containers = self.pods.get(pod).into_iter().flatten();
        containers
            .flat_map(|(container, devices)| {
                devices.iter().map(move |(resource, held)| DeviceEdit {
                    pod: pod.clone(),
                    container: container.clone(),
                    resource: resource.clone(),
                    before: Some(held.clone()),
                    after: None,
                })
            })
            .collect()
    }

    /// Applies an edit.
    ///
    /// # Errors
    /// If the state differs from the value before; it is unchanged then.
    pub fn apply(&mut self, edit: &DeviceEdit) -> Result<(), StaleEdit> {
        self.edit(edit, Direction::Apply)
    }

    pub(crate) fn edit(
        &mut self,
        edit: &DeviceEdit,
        direction: Direction,
    ) -> Result<(), StaleEdit> {
        let DeviceEdit {
            pod,
            container,
            resource,
            before,
            after,
        } = edit;
        let (from, to) = direction.order(before.as_ref(), after.as_ref());
        let containers = self.pods.entry(pod.clone()).or_default();
        let held = containers.entry(container.clone()).or_default();
        let replaced = replace_entry(held, resource, (from, to), || {
            format!("{resource} of container {container} of pod {pod}")
        });
        if held.is_empty() {
            containers.remove(container);
        }
        if containers.is_empty() {
            self.pods.remove(pod);
        }
        replaced?;
        self.uncount(resource, from);
        self.count(resource, to);
        Ok(())
    }

    fn count(&mut self, resource: &ResourceName, devices: Option<&DeviceSet>) {
        let Some(devices) = devices else {
            return;
        };
        *self.entries.entry(resource.clone()).or_default() += 1;
        for device in devices {
            let counts = self.holders.entry(resource.clone()).or_default();
            *counts.entry(device.clone()).or_default() += 1;
        }
    }

    fn uncount(&mut self, resource: &ResourceName, devices: Option<&DeviceSet>) {
        let Some(devices) = devices else {
            return;
        };
        match self.entries.get_mut(resource) {
            Some(entries) if *entries > 1 => *entries -= 1,
            _ => drop(self.entries.remove(resource)),
        }
        let Some(counts) = self.holders.get_mut(resource) else {
            return;
        };
        for device in devices {
            match counts.get_mut(device) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    counts.remove(device);
                }
            }
        }
        if counts.is_empty() {
            self.holders.remove(resource);
        }
    }
}

/// Serialized as pod, container, resource, devices.
impl Serialize for DeviceState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.pods.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DeviceState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pods = BTreeMap::<PodUid, ByContainer>::deserialize(deserializer)?;
        let mut state = DeviceState::default();
        for devices in pods.values().flat_map(BTreeMap::values) {
            for (resource, held) in devices {
                state.count(resource, Some(held));
            }
        }
        state.pods = pods;
        Ok(state)
    }
}
