//! Matches pods of the state files with their names in the podresources API, and adds NUMA nodes to devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubelet_api::pod_resources as api;
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_kube::state::StateFiles;

/// Namespace and name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The result of matching pods with names.
#[derive(Debug, Default)]
pub(super) struct PodNames {
    /// The names of pods in the state files.
    pub(super) names: BTreeMap<PodUid, PodName>,
    /// Pods with exclusive resources that are not in the state files.
    pub(super) unknown: Vec<PodName>,
    /// Pods without exclusive CPUs or devices.
    pub(super) sharing: Vec<PodName>,
}

/// A CPU or device that only one container can hold at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ExclusiveResource {
    Cpu(i64),
    Device(String, String),
}

/// The exclusive resources of a pod's containers, by container name.
type HeldByContainer = BTreeMap<String, BTreeSet<ExclusiveResource>>;

/// Finds the names of the pods in the state files. Two pods are the same if a container of the same name holds the same
/// CPUs or devices, and no other container holds different ones. Pods that hold only memory remain unnamed, because
/// other pods may hold the same amount.
pub(super) fn named(files: &StateFiles, pods: &[api::PodResources]) -> PodNames {
    let known = holdings(files);
    let mut owners: BTreeMap<(&str, &ExclusiveResource), &PodUid> = BTreeMap::new();
    for (uid, containers) in &known {
        for (container, held) in containers {
            for one in held {
                owners.insert((container.as_str(), one), uid);
            }
        }
    }
    let mut named = PodNames::default();
    for pod in pods {
        let name = PodName {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
        };
        let listed = listed(pod);
        let held: Vec<_> = listed
            .iter()
            .flat_map(|(container, held)| held.iter().map(move |one| (container.as_str(), one)))
            .collect();
        if held.is_empty() {
            named.sharing.push(name);
            continue;
        }
        let owner = held.iter().find_map(|one| owners.get(one));
        let is_same = |uid: &&&PodUid| {
            let known = known.get(**uid);
            let agrees = |(container, held): (&String, &BTreeSet<ExclusiveResource>)| {
                let known = known.and_then(|known| known.get(container));
                known.map_or(held.is_empty(), |known| known == held)
            };
            listed.iter().all(agrees)
        };
        match owner.filter(is_same) {
            Some(uid) if !named.names.contains_key(*uid) => {
                named.names.insert((*uid).clone(), name);
            }
            _ => named.unknown.push(name),
        }
    }
    named
}

/// The exclusive resources of containers in the state files.
fn holdings(files: &StateFiles) -> BTreeMap<PodUid, HeldByContainer> {
    let mut known: BTreeMap<PodUid, HeldByContainer> = BTreeMap::new();
    for (uid, containers) in files.cpus.iter().flat_map(|file| &file.containers) {
        let pod = known.entry(uid.clone()).or_default();
        for (container, cpus) in containers {
            let cpus = cpus
                .iter()
                .map(|cpu| ExclusiveResource::Cpu(cpu.get().into()));
            let held = pod.entry(container.to_string()).or_default();
            held.extend(cpus);
        }
    }
    for entry in files.devices.iter().flat_map(|file| &file.entries) {
        let pod = known.entry(entry.pod.clone()).or_default();
        let held = pod.entry(entry.container.to_string()).or_default();
        let ids = entry.devices.values().flatten();
        let resource = entry.resource.as_str();
        held.extend(ids.map(|id| ExclusiveResource::Device(resource.to_owned(), id.clone())));
    }
    known
}

/// The exclusive resources of containers in the podresources API.
fn listed(pod: &api::PodResources) -> HeldByContainer {
    let mut listed = HeldByContainer::new();
    for container in &pod.containers {
        let held = listed.entry(container.name.clone()).or_default();
        held.extend(
            container
                .cpu_ids
                .iter()
                .copied()
                .map(ExclusiveResource::Cpu),
        );
        for devices in &container.devices {
            let resource = &devices.resource_name;
            let ids = devices.device_ids.iter();
            held.extend(ids.map(|id| ExclusiveResource::Device(resource.clone(), id.clone())));
        }
    }
    listed
}

/// Adds the NUMA nodes of the podresources API to the devices of the state files. A device that the API lists is healthy;
/// the others keep their state.
pub(super) fn located(
    mut offers: BTreeMap<ResourceName, AdvertisedDevices>,
    listed: &[api::ContainerDevices],
) -> BTreeMap<ResourceName, AdvertisedDevices> {
    let mut nodes_by_device: BTreeMap<(&str, &str), Option<Vec<i64>>> = BTreeMap::new();
    for devices in listed {
        for id in &devices.device_ids {
            let key = (devices.resource_name.as_str(), id.as_str());
            let numa = nodes_by_device.entry(key).or_default();
            for node in devices.topology.iter().flat_map(|topology| &topology.nodes) {
                let nodes = numa.get_or_insert_default();
                if !nodes.contains(&node.id) {
                    nodes.push(node.id);
                }
            }
        }
    }
    for ((resource, id), numa) in nodes_by_device {
        let offer = offers.entry(resource.into()).or_default();
        let healthy = true;
        offer.insert(id.into(), Device { numa, healthy });
    }
    offers
}
