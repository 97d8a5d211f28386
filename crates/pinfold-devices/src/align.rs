//! Aligning CPUs and memory to devices that somebody else has chosen.
//!
//! Where a kubelet gives out the devices, its choice is a fact when we place the pod's CPUs and memory. It enters the
//! decision as devices always do, through the hints of the device manager: each container asks for all devices of
//! resources that nobody else has, and that hold exactly what it was given. The only sets of NUMA nodes that can serve
//! such a request are those that reach every one of these devices.

use std::collections::BTreeMap;

use kubelet_api::pod_resources as api;
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::{Container, Pod};
use pinfold_core::quantity::Quantity;

/// The devices that each container of a pod was given, by resource.
pub type Given = BTreeMap<ContainerName, BTreeMap<ResourceName, AdvertisedDevices>>;

/// A pod that asks for what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aligned {
    /// The pod to admit.
    pub pod: Pod,
    /// What to offer to the ledger before that. When the pod has left, these resources are gone: `None` for each.
    pub offers: BTreeMap<ResourceName, AdvertisedDevices>,
}

/// What pod resources say a pod was given. A device without NUMA nodes is close to none in particular.
#[must_use]
pub fn given(pod: &api::PodResources) -> Given {
    let mut given = Given::new();
    for container in &pod.containers {
        let resources = given.entry(container.name.as_str().into()).or_default();
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
    given
}

/// The pod as it is to be admitted beside these devices. Whatever else it asks for stays.
#[must_use]
pub fn aligned(pod: &Pod, given: &Given) -> Aligned {
    let mut pod = pod.clone();
    let mut offers = BTreeMap::new();
    let uid = pod.uid.clone();
    for container in pod.init_containers.iter_mut().chain(&mut pod.containers) {
        for (resource, devices) in given.get(&container.name).into_iter().flatten() {
            let own = own_name(resource, &uid, container);
            let count = Quantity::from(i64::try_from(devices.len()).unwrap_or(i64::MAX));
            for list in [&mut container.requests, &mut container.limits] {
                list.remove(resource);
                list.insert(own.clone(), count);
            }
            offers.insert(own, devices.clone());
        }
    }
    Aligned { pod, offers }
}

/// Whether a resource is one that only this pod has.
#[must_use]
pub fn is_of(resource: &ResourceName, pod: &PodUid) -> bool {
    let mut parts = resource.as_str().splitn(3, '/').skip(2);
    let own = parts.next().and_then(|own| own.strip_prefix(pod.as_str()));
    own.is_some_and(|rest| rest.starts_with('/'))
}

/// A resource of one container. No vendor's has such a name: it has two slashes.
fn own_name(resource: &ResourceName, pod: &PodUid, container: &Container) -> ResourceName {
    format!("{resource}/{pod}/{}", container.name).into()
}
