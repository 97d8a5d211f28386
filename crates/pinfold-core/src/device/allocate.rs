//! Which devices a container gets.
//!
//! Mirrors `allocateContainerResources` and `devicesToAllocate`. Devices that init containers left come first,
//! then free ones close to the chosen NUMA nodes, then the others. Before it chooses among equals
//! the manager asks the plugin for advice, and takes as much of it as fits. Whatever is
//! still open is taken in ascending order of the ids.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    ByAffinity, DeviceEdit, DevicePool, DeviceSet, DeviceState, DevicesByResource, ReusableDevices,
};
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::NodeSet;
use crate::pod::{Container, Pod};

/// Why a container does not get its devices. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceError {
    /// The container already holds devices, and another number than it asks for.
    #[error(
        "pod {pod:?} container {container:?} changed request for resource {resource:?} from {held} to {required}"
    )]
    ChangedRequest {
        /// Whose request.
        pod: PodUid,
        /// Of which container.
        container: ContainerName,
        /// Of which resource.
        resource: ResourceName,
        /// How many it holds.
        held: usize,
        /// How many it asks for.
        required: i64,
    },
    /// No plugin offers the resource any more.
    #[error("cannot allocate unregistered device {resource}")]
    Unregistered {
        /// The resource.
        resource: ResourceName,
    },
    /// Every device of the resource is out of order.
    #[error("no healthy devices present; cannot allocate unhealthy devices {resource}")]
    NoneHealthy {
        /// The resource.
        resource: ResourceName,
    },
    /// A device that the container already holds is out of order.
    #[error(
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
    )]
    NoLongerHealthy {
        /// The resource.
        resource: ResourceName,
    },
    /// Not enough devices are free.
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}"
    )]
    Unavailable {
        /// The resource.
        resource: ResourceName,
        /// How many are missing after the reusable ones.
        requested: i64,
        /// How many are free.
        available: usize,
    },
    /// A request that no number of devices fulfils: a negative one.
    #[error(
        "unexpectedly allocated less resources than required. Requested: {requested}, Got: {got}"
    )]
    TooFew {
        /// What was asked for.
        requested: i64,
        /// What was found.
        got: usize,
    },
    /// The plugin could not give the advice it offers.
    #[error("device plugin GetPreferredAllocation rpc failed with err: {message}")]
    NoAdvice {
        /// What the plugin said.
        message: String,
    },
}

/// What a device plugin is asked before devices are chosen (`GetPreferredAllocation`).
#[derive(Clone, Copy, Debug)]
pub struct PreferredAllocationQuery<'a> {
    /// The resource.
    pub resource: &'a ResourceName,
    /// The devices to choose from.
    pub available: &'a DeviceSet,
    /// Those of them that are chosen already.
    pub must_include: &'a DeviceSet,
    /// How many there are to be in the end.
    pub size: usize,
}

/// A device plugin's advice about which devices go well together.
///
/// Advice it is: devices that are not available are ignored, too many are cut, too few are filled up.
pub trait PreferredAllocation {
    /// The devices the plugin would choose, or `None` if it does not offer advice.
    ///
    /// # Errors
    /// What went wrong, for people.
    fn preferred(&mut self, ask: PreferredAllocationQuery<'_>)
    -> Result<Option<DeviceSet>, String>;
}

impl<F> PreferredAllocation for F
where
    F: FnMut(PreferredAllocationQuery<'_>) -> Result<Option<DeviceSet>, String>,
{
    fn preferred(
        &mut self,
        ask: PreferredAllocationQuery<'_>,
    ) -> Result<Option<DeviceSet>, String> {
        self(ask)
    }
}

/// Plugins that give no advice.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPreference;

impl PreferredAllocation for NoPreference {
    fn preferred(&mut self, _: PreferredAllocationQuery<'_>) -> Result<Option<DeviceSet>, String> {
        Ok(None)
    }
}

/// Whose turn it is to get devices.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// One of its containers.
    pub container: &'a Container,
    /// The chosen NUMA nodes; `None` if none were chosen.
    pub affinity: Option<NodeSet>,
    /// What earlier containers of the pod left.
    pub reusable: &'a ReusableDevices,
    /// The container is found running while the node agent starts again: it has what it needs.
    pub already_running: bool,
}

/// The devices of one container, and the changes that give them to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceGrant {
    /// The devices that are new to the container.
    pub devices: DevicesByResource,
    /// One edit for each resource of which it gets devices.
    pub edits: Vec<DeviceEdit>,
}

/// Chooses the devices of one container. Nothing changes until the grant's edits are applied.
///
/// # Errors
/// The first resource, in order of the names, that cannot be given.
pub fn allocate(
    pool: &DevicePool,
    state: &DeviceState,
    request: DeviceRequest<'_>,
    plugins: &mut dyn PreferredAllocation,
) -> Result<DeviceGrant, DeviceError> {
    let mut grant = DeviceGrant::default();
    for (resource, amount) in &request.container.limits {
        if !pool.is_device(state, resource) {
            continue;
        }
        let chosen = devices_to_allocate(pool, state, request, resource, amount.value(), plugins)?;
        let Some(devices) = chosen.filter(|devices| !devices.is_empty()) else {
            continue;
        };
        let (pod, container) = (&request.pod.uid, &request.container.name);
        grant.edits.push(DeviceEdit {
            pod: pod.clone(),
            container: container.clone(),
            resource: resource.clone(),
            before: state.held(pod, container, resource).cloned(),
            after: Some(devices.clone()),
        });
        grant.devices.insert(resource.clone(), devices);
    }
    Ok(grant)
}

/// Chooses the devices of one resource; `None` if the container has or needs nothing.
///
/// # Errors
/// If there are not enough, or the container holds another number already.
pub fn devices_to_allocate(
    pool: &DevicePool,
    state: &DeviceState,
    request: DeviceRequest<'_>,
    resource: &ResourceName,
    required: i64,
    plugins: &mut dyn PreferredAllocation,
) -> Result<Option<DeviceSet>, DeviceError> {
    let (pod, container) = (&request.pod.uid, &request.container.name);
    let held = state.held(pod, container, resource);
    if let Some(held) = held
        && i64::try_from(held.len()) != Ok(required)
    {
        return Err(DeviceError::ChangedRequest {
            pod: pod.clone(),
            container: container.clone(),
            resource: resource.clone(),
            held: held.len(),
            required,
        });
    }
    if request.already_running {
        return Ok(None);
    }
    check_health(pool, resource, held)?;
    if held.is_some() || required == 0 {
        return Ok(None);
    }
    let Ok(size) = usize::try_from(required) else {
        return Err(DeviceError::TooFew {
            requested: required,
            got: 0,
        });
    };
    let mut choice = DeviceChoice {
        resource,
        size,
        chosen: BTreeSet::new(),
        plugins,
    };
    if choice.take(request.reusable.of(resource)) {
        return Ok(Some(choice.chosen));
    }
    let mut available = pool.available(state, resource);
    available.retain(|device| !choice.chosen.contains(device));
    if available.len() < choice.missing() {
        return Err(DeviceError::Unavailable {
            resource: resource.clone(),
            requested: i64::try_from(choice.missing()).unwrap_or(i64::MAX),
            available: available.len(),
        });
    }
    choice.fill(pool, &available, request.affinity)?;
    Ok(Some(choice.chosen))
}

/// The plugin must be there, have working devices, and those that the container holds must be among them.
fn check_health(
    pool: &DevicePool,
    resource: &ResourceName,
    held: Option<&DeviceSet>,
) -> Result<(), DeviceError> {
    let resource = || resource.clone();
    let Some(devices) = pool.devices(&resource()) else {
        return Err(DeviceError::Unregistered {
            resource: resource(),
        });
    };
    if !devices.values().any(|device| device.healthy) {
        return Err(DeviceError::NoneHealthy {
            resource: resource(),
        });
    }
    let is_healthy = |id| devices.get(id).is_some_and(|device| device.healthy);
    if !held.into_iter().flatten().all(is_healthy) {
        return Err(DeviceError::NoLongerHealthy {
            resource: resource(),
        });
    }
    Ok(())
}

/// A choice of devices that grows until it is complete.
struct DeviceChoice<'a> {
    resource: &'a ResourceName,
    size: usize,
    chosen: DeviceSet,
    plugins: &'a mut dyn PreferredAllocation,
}

impl DeviceChoice<'_> {
    fn missing(&self) -> usize {
        self.size - self.chosen.len()
    }

    /// Takes as many of `devices` as are missing, in ascending order; tells whether the choice is complete.
    fn take<'d>(&mut self, devices: impl IntoIterator<Item = &'d DeviceSet>) -> bool {
        for device in devices.into_iter().flatten() {
            if self.missing() == 0 {
                break;
            }
            self.chosen.insert(device.clone());
        }
        self.missing() == 0
    }

    /// Completes the choice from available devices, of which there are enough.
    fn fill(
        &mut self,
        pool: &DevicePool,
        available: &DeviceSet,
        affinity: Option<NodeSet>,
    ) -> Result<(), DeviceError> {
        let sorted = ByAffinity::sort(pool, self.resource, available.clone(), affinity);
        if self.missing() < sorted.aligned.len() {
            self.take_advice(&sorted.aligned)?;
            self.take([&sorted.aligned]);
        } else if !self.take([&sorted.aligned]) {
            // Alignment was promised, so the plugin is only asked about the rest.
            self.take_advice(available)?;
            self.take([&sorted.unaligned, &sorted.no_affinity]);
        }
        Ok(())
    }

    /// Takes what the plugin advises out of `devices`.
    fn take_advice(&mut self, devices: &DeviceSet) -> Result<(), DeviceError> {
        let ask = PreferredAllocationQuery {
            resource: self.resource,
            available: &(devices | &self.chosen),
            must_include: &self.chosen,
            size: self.size,
        };
        let advice = self.plugins.preferred(ask);
        let advice = advice.map_err(|message| DeviceError::NoAdvice { message })?;
        if let Some(advice) = advice {
            self.take([&(&advice & devices)]);
        }
        Ok(())
    }
}
