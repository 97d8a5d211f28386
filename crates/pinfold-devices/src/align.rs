//! Aligns CPUs and memory to devices that the kubelet has already allocated.
//!
//! Where the kubelet allocates the devices, its choice is fixed when we assign the pod's CPUs and memory. It enters the
//! decision through the hints of the device manager, as devices always do: each container requests all devices of
//! resources that exist only for it and that contain exactly its allocated devices. The only NUMA node sets that
//! satisfy such a request are those that contain a node of every device.

use std::collections::BTreeMap;

use kubelet_api::pod_resources as api;
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::{Container, Pod};
use pinfold_core::quantity::Quantity;

/// The devices allocated to each container of a pod, by resource.
pub type AllocatedDevices = BTreeMap<ContainerName, BTreeMap<ResourceName, AdvertisedDevices>>;

/// A pod that requests the devices allocated to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlignedPod {
    /// The pod to admit.
    pub pod: Pod,
    /// The offers to add to the ledger before. When the pod is removed, offer `None` for each of these resources.
    pub offers: BTreeMap<ResourceName, AdvertisedDevices>,
}

/// The devices allocated to a pod, from the pod resources API. A device without NUMA nodes has no affinity.
#[must_use]
pub fn allocated_devices(pod: &api::PodResources) -> AllocatedDevices {
    let mut allocated_devices = AllocatedDevices::new();
    for container in &pod.containers {
        let resources = allocated_devices
            .entry(container.name.as_str().into())
            .or_default();
        for devices in &container.devices {
            let offer = resources
                .entry(devices.resource_name.as_str().into())
                .or_default();
            // A device is listed once for each of its nodes.
            let nodes = devices.topology.iter().flat_map(|topology| &topology.nodes);
            let nodes: Vec<i64> = nodes.map(|node| node.id).collect();
            for id in &devices.device_ids {
                let device = offer.entry(id.as_str().into()).or_insert(Device {
                    numa: None,
                    healthy: true,
                });
                for node in &nodes {
                    let known = device.numa.get_or_insert_default();
                    if !known.contains(node) {
                        known.push(*node);
                    }
                }
            }
        }
    }
    allocated_devices
}

/// The pod to admit with these devices. Its other requests are unchanged.
#[must_use]
pub fn align_pod(pod: &Pod, allocated_devices: &AllocatedDevices) -> AlignedPod {
    let mut pod = pod.clone();
    let mut offers = BTreeMap::new();
    let uid = pod.uid.clone();
    for container in pod.init_containers.iter_mut().chain(&mut pod.containers) {
        for (resource, devices) in allocated_devices.get(&container.name).into_iter().flatten() {
            let own = own_name(resource, &uid, container);
            let count = Quantity::from(i64::try_from(devices.len()).unwrap_or(i64::MAX));
            for list in [&mut container.requests, &mut container.limits] {
                list.remove(resource);
                list.insert(own.clone(), count);
            }
            offers.insert(own, devices.clone());
        }
    }
    AlignedPod { pod, offers }
}

/// Whether a resource is one that [`align_pod`] created for this pod.
#[must_use]
pub fn is_own_resource(resource: &ResourceName, pod: &PodUid) -> bool {
    let mut parts = resource.as_str().splitn(3, '/').skip(2);
    let own = parts.next().and_then(|own| own.strip_prefix(pod.as_str()));
    own.is_some_and(|rest| rest.starts_with('/'))
}

/// The resource that a container requested, if this one is of [`align_pod`]; the same otherwise.
#[must_use]
pub fn requested_resource(resource: &ResourceName) -> ResourceName {
    let name = resource.as_str();
    match name.match_indices('/').nth(1) {
        Some((end, _)) => name[..end].into(),
        None => resource.clone(),
    }
}

/// The name of a resource that exists for one container. It has two slashes, so it cannot be a vendor's.
fn own_name(resource: &ResourceName, pod: &PodUid, container: &Container) -> ResourceName {
    format!("{resource}/{pod}/{}", container.name).into()
}
