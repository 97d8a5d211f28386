//! Names for pods that are known by id, and places for devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kubelet_api::pod_resources as api;
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_kube::state::StateFiles;

/// The name of a pod in its namespace.
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

/// Who is who.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// The names of pods in the state files.
    pub(super) names: BTreeMap<PodUid, PodName>,
    /// Pods that hold something, but not by the state files.
    pub(super) unknown: Vec<PodName>,
    /// Pods that hold nothing for themselves alone.
    pub(super) sharing: Vec<PodName>,
}

/// Something that only one container can hold at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Exclusive {
    Cpu(i64),
    Device(String, String),
}

/// What a container of this name holds.
type Holding = BTreeMap<String, BTreeSet<Exclusive>>;

/// Finds the names of the pods in the state files. The pod that has the same CPUs or devices in a container of the
/// same name is the same pod, unless another container of it holds something else. Pods that hold memory only stay
/// without a name: other pods may hold as much.
pub(super) fn named(files: &StateFiles, pods: &[api::PodResources]) -> Named {
    let known = holdings(files);
    let mut owners: BTreeMap<(&str, &Exclusive), &PodUid> = BTreeMap::new();
    for (uid, containers) in &known {
        for (container, held) in containers {
            for one in held {
                owners.insert((container.as_str(), one), uid);
            }
        }
    }
    let mut named = Named::default();
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
            let agrees = |(container, held): (&String, &BTreeSet<Exclusive>)| {
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

/// What containers hold by the state files.
fn holdings(files: &StateFiles) -> BTreeMap<PodUid, Holding> {
    let mut known: BTreeMap<PodUid, Holding> = BTreeMap::new();
    for (uid, containers) in files.cpus.iter().flat_map(|file| &file.containers) {
        let pod = known.entry(uid.clone()).or_default();
        for (container, cpus) in containers {
            let cpus = cpus.iter().map(|cpu| Exclusive::Cpu(cpu.get().into()));
            let held = pod.entry(container.to_string()).or_default();
            held.extend(cpus);
        }
    }
    for entry in files.devices.iter().flat_map(|file| &file.entries) {
        let pod = known.entry(entry.pod.clone()).or_default();
        let held = pod.entry(entry.container.to_string()).or_default();
        let ids = entry.devices.values().flatten();
        let resource = entry.resource.as_str();
        held.extend(ids.map(|id| Exclusive::Device(resource.to_owned(), id.clone())));
    }
    known
}

/// What containers hold by pod resources.
fn listed(pod: &api::PodResources) -> Holding {
    let mut listed = Holding::new();
    for container in &pod.containers {
        let held = listed.entry(container.name.clone()).or_default();
        held.extend(container.cpu_ids.iter().copied().map(Exclusive::Cpu));
        for devices in &container.devices {
            let resource = &devices.resource_name;
            let ids = devices.device_ids.iter();
            held.extend(ids.map(|id| Exclusive::Device(resource.clone(), id.clone())));
        }
    }
    listed
}

/// The devices on offer with the places that pod resources know. Every device that they list works; the others are
/// as the state files have them.
pub(super) fn located(
    mut offers: BTreeMap<ResourceName, AdvertisedDevices>,
    listed: &[api::ContainerDevices],
) -> BTreeMap<ResourceName, AdvertisedDevices> {
    let mut places: BTreeMap<(&str, &str), Option<Vec<i64>>> = BTreeMap::new();
    for devices in listed {
        for id in &devices.device_ids {
            let key = (devices.resource_name.as_str(), id.as_str());
            let place = places.entry(key).or_default();
            for node in devices.topology.iter().flat_map(|topology| &topology.nodes) {
                let nodes = place.get_or_insert_default();
                if !nodes.contains(&node.id) {
                    nodes.push(node.id);
                }
            }
        }
    }
    for ((resource, id), numa) in places {
        let offer = offers.entry(resource.into()).or_default();
        let healthy = true;
        offer.insert(id.into(), Device { numa, healthy });
    }
    offers
}
