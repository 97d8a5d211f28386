//! [`Grants`]: what plugins answered when devices were given, kept until the pod is gone.
//!
//! Mirrors `podDevices`, `deviceRunContainerEdits` and the checkpoint: answers survive restarts, and all
//! resources of a container together say what has to be in it.

use std::collections::{BTreeMap, BTreeSet};

use kubelet_api::device_plugin::ContainerAllocateResponse;
use pinfold_core::device::{AdvertisedDevices, DeviceSet};
use pinfold_core::name::{ContainerName, DeviceId, PodUid, ResourceName};
use pinfold_core::node_set::NodeId;
use pinfold_kube::state::device::{DeviceEntry, DeviceState};
use prost::Message;

use crate::edits::ContainerEdits;

/// The devices of one resource that a container holds, and what their plugin said about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The devices by the NUMA nodes they were close to when they were given; `None` for no node.
    pub by_node: BTreeMap<Option<NodeId>, Vec<DeviceId>>,
    /// What has to be in the container.
    pub response: ContainerAllocateResponse,
}

/// Who was given what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    pods: BTreeMap<PodUid, BTreeMap<ContainerName, BTreeMap<ResourceName, Grant>>>,
}

impl Grant {
    /// These devices, of which the plugin has told where they are.
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

    /// The devices.
    #[must_use]
    pub fn devices(&self) -> DeviceSet {
        self.by_node.values().flatten().cloned().collect()
    }
}

impl Grants {
    /// A container was given devices.
    pub fn record(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        resource: &ResourceName,
        grant: Grant,
    ) {
        let containers = self.pods.entry(pod.clone()).or_default();
        let resources = containers.entry(container.clone()).or_default();
        resources.insert(resource.clone(), grant);
    }

    /// A pod is gone. Whether it was known.
    pub fn forget(&mut self, pod: &PodUid) -> bool {
        self.pods.remove(pod).is_some()
    }

    /// Whether a container was given exactly these devices of a resource.
    #[must_use]
    pub fn has(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        resource: &ResourceName,
        devices: &DeviceSet,
    ) -> bool {
        let mut given = self.of(pod, container);
        given.any(|(found, grant)| found == resource && grant.devices() == *devices)
    }

    /// Takes over what others were given.
    pub fn extend(&mut self, others: Self) {
        for (pod, containers) in others.pods {
            for (container, resources) in containers {
                for (resource, grant) in resources {
                    self.record(&pod, &container, &resource, grant);
                }
            }
        }
    }

    /// What a container was given.
    pub fn of(
        &self,
        pod: &PodUid,
        container: &ContainerName,
    ) -> impl Iterator<Item = (&ResourceName, &Grant)> {
        let resources = self
            .pods
            .get(pod)
            .and_then(|containers| containers.get(container));
        resources.into_iter().flatten()
    }

    /// What has to be in a container.
    #[must_use]
    pub fn edits(&self, pod: &PodUid, container: &ContainerName) -> ContainerEdits {
        let mut edits = ContainerEdits::default();
        for (resource, grant) in self.of(pod, container) {
            edits.add(resource, &grant.response);
        }
        edits
    }

    /// The kubelet's checkpoint, with the healthy devices of all resources as they are known now.
    #[must_use]
    pub fn checkpoint(&self, known: &BTreeMap<ResourceName, AdvertisedDevices>) -> DeviceState {
        let healthy = |offer: &AdvertisedDevices| {
            let healthy = offer.iter().filter(|(_, device)| device.healthy);
            healthy.map(|(id, _)| id.to_string()).collect()
        };
        let mut entries = Vec::new();
        for (pod, containers) in &self.pods {
            for (container, resources) in containers {
                for (resource, grant) in resources {
                    let text = |ids: &Vec<DeviceId>| ids.iter().map(ToString::to_string).collect();
                    let by_node = grant.by_node.iter();
                    entries.push(DeviceEntry {
                        pod: pod.clone(),
                        container: container.clone(),
                        resource: resource.clone(),
                        devices: by_node.map(|(node, ids)| (*node, text(ids))).collect(),
                        response: grant.response.encode_to_vec(),
                    });
                }
            }
        }
        let known = known.iter();
        DeviceState {
            entries,
            registered: known
                .map(|(resource, offer)| (resource.clone(), healthy(offer)))
                .collect(),
        }
    }

    /// What a checkpoint says, and the resources that were known. An entry whose answer cannot be read is left out, as
    /// in the kubelet.
    #[must_use]
    pub fn restore(checkpoint: &DeviceState) -> (Self, BTreeSet<ResourceName>) {
        let mut grants = Self::default();
        for entry in &checkpoint.entries {
            let Ok(response) = ContainerAllocateResponse::decode(entry.response.as_slice()) else {
                continue;
            };
            let ids =
                |ids: &Vec<String>| ids.iter().map(|id| DeviceId::from(id.as_str())).collect();
            let devices = entry.devices.iter();
            let grant = Grant {
                by_node: devices.map(|(node, list)| (*node, ids(list))).collect(),
                response,
            };
            grants.record(&entry.pod, &entry.container, &entry.resource, grant);
        }
        (grants, checkpoint.registered.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests;
