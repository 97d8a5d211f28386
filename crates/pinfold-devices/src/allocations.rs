//! [`DeviceAllocations`]: the plugins' responses to `Allocate`, kept until the pod is removed.
//!
//! Mirrors `podDevices`, `deviceRunContainerEdits` and the checkpoint: responses survive restarts, and the edits of a
//! container are merged from all its resources.

use std::collections::{BTreeMap, BTreeSet};

use kubelet_api::device_plugin::ContainerAllocateResponse;
use pinfold_core::device::{AdvertisedDevices, DeviceSet};
use pinfold_core::name::{ContainerName, DeviceId, PodUid, ResourceName};
use pinfold_core::node_set::NodeId;
use pinfold_kube::state::device::{DeviceEntry, DeviceManagerState};
use prost::Message;

use crate::edits::ContainerEdits;

/// The devices of one resource allocated to a container, and the plugin's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAllocation {
    /// The devices by NUMA node at the time of allocation; `None` for devices without a node.
    pub by_node: BTreeMap<Option<NodeId>, Vec<DeviceId>>,
    /// The plugin's response.
    pub response: ContainerAllocateResponse,
}

/// The device allocations of all pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceAllocations {
    pods: BTreeMap<PodUid, BTreeMap<ContainerName, BTreeMap<ResourceName, DeviceAllocation>>>,
}

impl DeviceAllocation {
    /// An allocation of `devices`; `offer` gives their NUMA nodes.
    pub(crate) fn new(
        devices: &DeviceSet,
        offer: Option<&AdvertisedDevices>,
        response: ContainerAllocateResponse,
    ) -> Self {
        let mut by_node = BTreeMap::<_, Vec<DeviceId>>::new();
        for id in devices {
            let device = offer.and_then(|offer| offer.get(id));
            let nodes: Vec<NodeId> = device
                .into_iter()
                .flat_map(|device| device.nodes().iter())
                .collect();
            match nodes.is_empty() {
                true => by_node.entry(None).or_default().push(id.clone()),
                false => {
                    for node in nodes {
                        by_node.entry(Some(node)).or_default().push(id.clone());
                    }
                }
            }
        }
        Self { by_node, response }
    }

    /// The allocated devices.
    #[must_use]
    pub fn devices(&self) -> DeviceSet {
        self.by_node.values().flatten().cloned().collect()
    }
}

impl DeviceAllocations {
    /// Records the devices allocated to a container.
    pub fn record(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        resource: &ResourceName,
        allocation: DeviceAllocation,
    ) {
        let containers = self.pods.entry(pod.clone()).or_default();
        let resources = containers.entry(container.clone()).or_default();
        resources.insert(resource.clone(), allocation);
    }

    /// Removes a pod. Returns whether it had allocations.
    pub fn remove_pod(&mut self, pod: &PodUid) -> bool {
        self.pods.remove(pod).is_some()
    }

    /// Whether a container has exactly these devices of a resource.
    #[must_use]
    pub fn has(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        resource: &ResourceName,
        devices: &DeviceSet,
    ) -> bool {
        let mut allocated_devices = self.of_container(pod, container);
        allocated_devices
            .any(|(found, allocation)| found == resource && allocation.devices() == *devices)
    }

    /// Adds the allocations of `others`.
    pub fn extend(&mut self, others: Self) {
        for (pod, containers) in others.pods {
            for (container, resources) in containers {
                for (resource, allocation) in resources {
                    self.record(&pod, &container, &resource, allocation);
                }
            }
        }
    }

    /// The allocations of a container, by resource.
    pub fn of_container(
        &self,
        pod: &PodUid,
        container: &ContainerName,
    ) -> impl Iterator<Item = (&ResourceName, &DeviceAllocation)> {
        let resources = self
            .pods
            .get(pod)
            .and_then(|containers| containers.get(container));
        resources.into_iter().flatten()
    }

    /// The edits of a container, merged from all its resources.
    #[must_use]
    pub fn edits(&self, pod: &PodUid, container: &ContainerName) -> ContainerEdits {
        let mut edits = ContainerEdits::default();
        for (resource, allocation) in self.of_container(pod, container) {
            edits.add(resource, &allocation.response);
        }
        edits
    }

    /// The kubelet's checkpoint of these allocations, with the healthy devices of all resources.
    #[must_use]
    pub fn checkpoint(
        &self,
        known: &BTreeMap<ResourceName, AdvertisedDevices>,
    ) -> DeviceManagerState {
        let healthy = |offer: &AdvertisedDevices| {
            let healthy = offer.iter().filter(|(_, device)| device.healthy);
            healthy.map(|(id, _)| id.to_string()).collect()
        };
        let mut entries = Vec::new();
        for (pod, containers) in &self.pods {
            for (container, resources) in containers {
                for (resource, allocation) in resources {
                    let text = |ids: &Vec<DeviceId>| ids.iter().map(ToString::to_string).collect();
                    let by_node = allocation.by_node.iter();
                    entries.push(DeviceEntry {
                        pod: pod.clone(),
                        container: container.clone(),
                        resource: resource.clone(),
                        devices: by_node.map(|(node, ids)| (*node, text(ids))).collect(),
                        response: allocation.response.encode_to_vec(),
                    });
                }
            }
        }
        let known = known.iter();
        DeviceManagerState {
            entries,
            registered: known
                .map(|(resource, offer)| (resource.clone(), healthy(offer)))
                .collect(),
        }
    }

    /// The allocations in a checkpoint, and its registered resources. An entry whose response cannot be decoded is left
    /// out, as in the kubelet.
    #[must_use]
    pub fn restore(checkpoint: &DeviceManagerState) -> (Self, BTreeSet<ResourceName>) {
        let mut allocations = Self::default();
        for entry in &checkpoint.entries {
            let Ok(response) = ContainerAllocateResponse::decode(entry.response.as_slice()) else {
                continue;
            };
            let ids =
                |ids: &Vec<String>| ids.iter().map(|id| DeviceId::from(id.as_str())).collect();
            let devices = entry.devices.iter();
            let allocation = DeviceAllocation {
                by_node: devices.map(|(node, list)| (*node, ids(list))).collect(),
                response,
            };
            allocations.record(&entry.pod, &entry.container, &entry.resource, allocation);
        }
        (allocations, checkpoint.registered.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests;
