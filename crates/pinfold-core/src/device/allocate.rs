//! Allocates the devices of a container.
//!
//! Mirrors `allocateContainerResources` and `devicesToAllocate`. Reusable devices of init containers come first, then
//! free ones close to the chosen NUMA nodes, then the others. Before it chooses among equal devices the manager calls
//! the plugin's `GetPreferredAllocation`, and follows it as far as possible. The rest is taken in ascending order of
//! the IDs.

use std::collections::BTreeSet;

use serde::Serialize;
use smallvec::SmallVec;

use super::{ByAffinity, Device, DeviceEdit, DevicePool, DeviceSet, DeviceState, ReusableDevices};
use crate::name::{ContainerName, DeviceId, PodUid, ResourceName};
use crate::node_set::NodeSet;
use crate::pod::{Container, Pod};

/// Why a container is not assigned its devices. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceError {
    /// The container already holds another number of devices than it requests.
    #[error(
        "pod {pod:?} container {container:?} changed request for resource {resource:?} from {held} to {required}"
    )]
    ChangedRequest {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// The resource.
        resource: ResourceName,
        /// The number of devices it holds.
        held: usize,
        /// The number of devices it requests.
        required: i64,
    },
    /// No plugin is registered for the resource any more.
    #[error("cannot allocate unregistered device {resource}")]
    Unregistered {
        /// The resource.
        resource: ResourceName,
    },
    /// All devices of the resource are unhealthy.
    #[error("no healthy devices present; cannot allocate unhealthy devices {resource}")]
    NoneHealthy {
        /// The resource.
        resource: ResourceName,
    },
    /// A device that the container already holds is unhealthy.
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
        /// The number of missing devices after the reusable ones.
        requested: i64,
        /// The number of free devices.
        available: usize,
    },
    /// A negative request.
    #[error(
        "unexpectedly allocated less resources than required. Requested: {requested}, Got: {got}"
    )]
    TooFew {
        /// The requested number.
        requested: i64,
        /// The number of devices found.
        got: usize,
    },
    /// The call of the plugin's `GetPreferredAllocation` failed.
    #[error("device plugin GetPreferredAllocation rpc failed with err: {message}")]
    NoAdvice {
        /// The plugin's error message.
        message: String,
    },
}

/// The arguments of `GetPreferredAllocation`, which a device plugin answers before devices are chosen.
#[derive(Clone, Copy, Debug)]
pub struct PreferredAllocationQuery<'a> {
    /// The resource.
    pub resource: &'a ResourceName,
    /// The devices to choose from.
    pub available: &'a DeviceSet,
    /// The devices that must be chosen.
    pub must_include: &'a DeviceSet,
    /// The number of devices to choose.
    pub size: usize,
}

/// A device plugin's `GetPreferredAllocation`: which devices go well together.
///
/// The answer is advice: devices that are not available are ignored, too many are cut, too few are filled up.
pub trait PreferredAllocation {
    /// Whether some plugin implements the call. If not, no query is made.
    fn has_advice(&self) -> bool {
        true
    }

    /// The devices the plugin would choose, or `None` if it does not implement the call.
    ///
    /// # Errors
    /// With a message for people.
    fn preferred(
        &mut self,
        query: PreferredAllocationQuery<'_>,
    ) -> Result<Option<DeviceSet>, String>;
}

impl<F> PreferredAllocation for F
where
    F: FnMut(PreferredAllocationQuery<'_>) -> Result<Option<DeviceSet>, String>,
{
    fn preferred(
        &mut self,
        query: PreferredAllocationQuery<'_>,
    ) -> Result<Option<DeviceSet>, String> {
        self(query)
    }
}

/// Plugins that do not implement `GetPreferredAllocation`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPreference;

impl PreferredAllocation for NoPreference {
    fn has_advice(&self) -> bool {
        false
    }

    fn preferred(&mut self, _: PreferredAllocationQuery<'_>) -> Result<Option<DeviceSet>, String> {
        Ok(None)
    }
}

/// A request for the devices of one container.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// One of its containers.
    pub container: &'a Container,
    /// The NUMA affinity; `None` without one.
    pub affinity: Option<NodeSet>,
    /// Devices of earlier init containers of the pod.
    pub reusable: &'a ReusableDevices,
}

/// Chooses the devices of one container and adds the edits that assign them, one for each resource. Nothing changes until
/// they are applied.
///
/// # Errors
/// With the first resource, by name, that cannot be allocated. The edits then have those before it.
pub fn allocate(
    pool: &DevicePool,
    state: &DeviceState,
    request: DeviceRequest<'_>,
    plugins: &mut dyn PreferredAllocation,
    edits: &mut Vec<DeviceEdit>,
) -> Result<(), DeviceError> {
    for (resource, amount) in &request.container.limits {
        if !pool.is_device(state, resource) {
            continue;
        }
        let chosen = devices_to_allocate(pool, state, request, resource, amount.value(), plugins)?;
        let Some(devices) = chosen.filter(|devices| !devices.is_empty()) else {
            continue;
        };
        let (pod, container) = (&request.pod.uid, &request.container.name);
        edits.push(DeviceEdit {
            pod: pod.clone(),
            container: container.clone(),
            resource: resource.clone(),
            before: state.held(pod, container, resource).cloned(),
            after: Some(devices),
        });
    }
    Ok(())
}

/// Chooses the devices of one resource; `None` if the container already has them or needs none.
///
/// # Errors
/// If there are not enough, or the container already holds another number.
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
    if choice.take(request.reusable.of(resource).into_iter().flatten()) {
        return Ok(Some(choice.chosen));
    }
    let available = pool.free(state, resource);
    let available = available.filter(|(device, _)| !choice.chosen.contains(*device));
    let available: SmallVec<[(&DeviceId, &Device); 16]> = available.collect();
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

/// Checks that the plugin is registered and has healthy devices, and that the devices of the container are among them.
fn check_health(
    pool: &DevicePool,
    resource: &ResourceName,
    held: Option<&DeviceSet>,
) -> Result<(), DeviceError> {
    let devices = pool.devices(resource);
    let resource = || resource.clone();
    let Some(devices) = devices else {
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

/// Devices chosen so far.
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

    /// Adds as many of `devices` as are missing, in ascending order. True if the choice is complete.
    fn take<'d>(&mut self, devices: impl IntoIterator<Item = &'d DeviceId>) -> bool {
        for device in devices {
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
        available: &[(&DeviceId, &Device)],
        affinity: Option<NodeSet>,
    ) -> Result<(), DeviceError> {
        let sorted = ByAffinity::sort(pool, self.resource, available, affinity);
        if self.missing() < sorted.aligned.len() {
            self.add_preferred(sorted.aligned.iter().copied())?;
            self.take(sorted.aligned);
        } else if !self.take(sorted.aligned) {
            // The aligned devices are chosen already, so the plugin is asked only about the rest.
            self.add_preferred(available.iter().map(|(id, _)| *id))?;
            self.take(sorted.unaligned.into_iter().chain(sorted.no_affinity));
        }
        Ok(())
    }

    /// Adds the devices that the plugin prefers among `devices`.
    fn add_preferred<'d>(
        &mut self,
        devices: impl Iterator<Item = &'d DeviceId>,
    ) -> Result<(), DeviceError> {
        if !self.plugins.has_advice() {
            return Ok(());
        }
        let devices: DeviceSet = devices.cloned().collect();
        let query = PreferredAllocationQuery {
            resource: self.resource,
            available: &(&devices | &self.chosen),
            must_include: &self.chosen,
            size: self.size,
        };
        let advice = self.plugins.preferred(query);
        let advice = advice.map_err(|message| DeviceError::NoAdvice { message })?;
        if let Some(advice) = advice {
            self.take(&(&advice & &devices));
        }
        Ok(())
    }
}
