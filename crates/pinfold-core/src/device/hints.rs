//! The hints of the device manager: the sets of NUMA nodes that fit a request.
//!
//! Mirrors `GetTopologyHints`, `GetPodTopologyHints` and `generateDeviceTopologyHints`. A mask of the nodes that have
//! devices of the resource is a hint if it contains every reusable device and enough devices in all: reusable and free
//! ones. It is preferred if no narrower mask would be enough on an empty machine, counting all devices. A device on
//! several nodes is in every mask that contains one of them.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::ascending::Ascending;
use super::{AdvertisedDevices, Device, DevicePool, DeviceSet, DeviceState, ReusableDevices};
use crate::cover::narrowest;
use crate::demand;
use crate::fidelity::Fidelity;
use crate::hint::{
    Component, Family, Preference, ProviderHints, ResourceHints, Threshold, WideGroup,
};
use crate::name::{DeviceId, ResourceName};
use crate::node_set::{NodeId, NodeSet};
use crate::pod::{Container, Pod, ResourceList};

/// The NUMA nodes that masks are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceMasks {
    /// Those with devices of the resource; all, if none has any.
    NodesWithDevices,
    /// All of the machine.
    AllNodes,
}

impl DeviceMasks {
    /// Those of a kubelet.
    #[must_use]
    pub fn of(fidelity: Fidelity) -> Self {
        match fidelity.narrows_device_masks() {
            true => Self::NodesWithDevices,
            false => Self::AllNodes,
        }
    }
}

/// The hints for one container, a row for each device resource it requests.
#[must_use]
pub fn container_hints(
    pool: &DevicePool,
    state: &DeviceState,
    pod: &Pod,
    container: &Container,
    reusable: &ReusableDevices,
    masks: DeviceMasks,
) -> ProviderHints {
    let nothing = DeviceSet::new();
    rows(pool, state, &container.limits, |resource, request| {
        let held = state.held(&pod.uid, &container.name, resource);
        let left = reusable.of(resource).unwrap_or(&nothing);
        hints(pool, state, resource, request, held, left, masks)
    })
}

/// The hints for all containers of a pod together. Reusable devices of init containers are not considered.
#[must_use]
pub fn pod_hints(
    pool: &DevicePool,
    state: &DeviceState,
    pod: &Pod,
    masks: DeviceMasks,
) -> ProviderHints {
    let limits = demand::effective_limits(pod);
    rows(pool, state, &limits, |resource, request| {
        let held = state.held_by_pod(&pod.uid, resource);
        hints(
            pool,
            state,
            resource,
            request,
            Some(&held),
            &DeviceSet::new(),
            masks,
        )
    })
}

/// One row per device resource in `limits`. For devices, requests and limits are equal.
fn rows(
    pool: &DevicePool,
    state: &DeviceState,
    limits: &ResourceList,
    hints: impl Fn(&ResourceName, i64) -> ResourceHints,
) -> ProviderHints {
    let requested = limits
        .iter()
        .filter(|(resource, _)| pool.is_device(state, resource));
    ProviderHints {
        rows: requested
            .map(|(resource, amount)| (resource.clone(), hints(resource, amount.value())))
            .collect(),
    }
}

fn hints(
    pool: &DevicePool,
    state: &DeviceState,
    resource: &ResourceName,
    request: i64,
    held: Option<&DeviceSet>,
    reusable: &DeviceSet,
    masks: DeviceMasks,
) -> ResourceHints {
    let Some(devices) = pool.devices(resource).filter(|_| pool.is_aligned(resource)) else {
        return ResourceHints::DontCare;
    };
    let none = DeviceSet::new();
    match held {
        // After a restart: the same devices again, or a request that has changed.
        Some(held) if !held.is_empty() => match i64::try_from(held.len()) == Ok(request) {
            true => {
                let mut held = Ascending::new(held.iter());
                let is_available = |id: &DeviceId, _: &Device| held.contains(id);
                let matching = Matching::new(pool.nodes(), masks, devices, request, is_available);
                matching.family(devices, &none)
            }
            false => ResourceHints::Unsatisfiable,
        },
        _ => {
            let mut in_use = Ascending::new(state.in_use_of(resource));
            let is_free = |id: &DeviceId, device: &Device| device.healthy && !in_use.contains(id);
            let matching = Matching::new(pool.nodes(), masks, devices, request, is_free);
            let is_taken = |id: &&DeviceId| {
                let device = devices.get(*id).filter(|device| device.healthy);
                device.is_none() || state.is_in_use(resource, id)
            };
            let left = reusable.iter().filter(is_taken).count();
            match i64::try_from(matching.available() + left).is_ok_and(|enough| enough < request) {
                true => ResourceHints::Unsatisfiable,
                false => matching.family(devices, reusable),
            }
        }
    }
}

/// The devices of one resource and the requested number.
struct Matching {
    /// The nodes that a mask may have.
    universe: NodeSet,
    /// The devices on these nodes.
    devices: SmallVec<[CandidateDevice; 32]>,
    request: u64,
}

/// The NUMA nodes of a device, and whether it is available.
struct CandidateDevice {
    nodes: NodeSet,
    available: bool,
}

impl Matching {
    /// Calls `is_available` for every device once, in ascending order.
    fn new(
        nodes: NodeSet,
        masks: DeviceMasks,
        devices: &AdvertisedDevices,
        request: i64,
        mut is_available: impl FnMut(&DeviceId, &Device) -> bool,
    ) -> Self {
        let mut candidates: SmallVec<[CandidateDevice; 32]> = devices
            .iter()
            .map(|(id, device)| CandidateDevice {
                nodes: device.nodes(),
                available: is_available(id, device),
            })
            .collect();
        let named = candidates
            .iter()
            .fold(NodeSet::EMPTY, |all, device| all | device.nodes);
        let known = named & nodes;
        let universe = match masks {
            DeviceMasks::NodesWithDevices if !known.is_empty() => known,
            DeviceMasks::NodesWithDevices | DeviceMasks::AllNodes => nodes,
        };
        for device in &mut candidates {
            device.nodes = device.nodes & universe;
        }
        Self {
            universe,
            devices: candidates,
            request: u64::try_from(request).unwrap_or(0),
        }
    }

    fn available(&self) -> usize {
        self.devices
            .iter()
            .filter(|device| device.available)
            .count()
    }

    /// The masks that contain all reusable devices, and together with the available ones enough.
    fn family(&self, devices: &AdvertisedDevices, reusable: &DeviceSet) -> ResourceHints {
        let mut must_lie_in: SmallVec<[NodeSet; 8]> = SmallVec::new();
        for device in reusable.iter().filter_map(|id| devices.get(id)) {
            match device.nodes() & self.universe {
                // Without topology information it neither restricts nor counts.
                _ if device.numa.is_none() => {}
                // No mask contains it.
                NodeSet::EMPTY => return ResourceHints::Unsatisfiable,
                nodes => must_lie_in.push(nodes),
            }
        }
        let need = self.request.saturating_sub(must_lie_in.len() as u64);
        let mut thresholds: SmallVec<[Threshold; 1]> = SmallVec::new();
        if need > 0 {
            let available = self.devices.iter().filter(|device| device.available);
            thresholds.push(count(need, available.map(|device| device.nodes)));
        }
        let mut forced = NodeSet::EMPTY;
        for nodes in must_lie_in {
            if nodes.len() == 1 {
                forced = forced | nodes;
            } else {
                let touched = count(1, [nodes]);
                if !thresholds.contains(&touched) {
                    thresholds.push(touched);
                }
            }
        }
        let component = Component {
            universe: self.universe,
            forced,
            thresholds,
        };
        if component.is_empty() {
            return ResourceHints::Unsatisfiable;
        }
        ResourceHints::Family(Family {
            components: SmallVec::from_iter([component]),
            preference: Preference::Width(self.width_when_empty()),
        })
    }

    /// The number of nodes the request needs if every device is free and healthy.
    fn width_when_empty(&self) -> usize {
        let all = count(self.request, self.devices.iter().map(|device| device.nodes));
        let narrow = narrowest(self.universe, NodeSet::EMPTY, &[all]);
        narrow.map_or(self.universe, |narrow| narrow.mask).len()
    }
}

/// The threshold "the mask contains at least `need` of the devices".
fn count(need: u64, devices: impl IntoIterator<Item = NodeSet>) -> Threshold {
    let mut single: SmallVec<[(NodeId, u64); 16]> = SmallVec::new();
    let mut wide = BTreeMap::<NodeSet, u64>::new();
    for nodes in devices {
        match (nodes.len(), nodes.first()) {
            (1, Some(node)) => single.push((node, 1)),
            (0, _) | (_, None) => {}
            _ => *wide.entry(nodes).or_default() += 1,
        }
    }
    let mut threshold = Threshold::new(need, single);
    threshold.groups = wide
        .into_iter()
        .map(|(nodes, count)| WideGroup { nodes, count })
        .collect();
    threshold
}
