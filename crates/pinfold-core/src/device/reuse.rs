//! [`ReusableDevices`]: devices of finished init containers that later containers of the same pod reuse.

use super::{DeviceSet, DeviceState, DevicesByResource};
use crate::name::{ContainerName, ResourceName};
use crate::pod::{Container, Pod};

/// The devices that later containers of one pod may reuse, by resource.
///
/// Devices of an init container that finishes are reusable; every other container keeps its devices. Mirrors
/// `devicesToReuse` with `addContainerAllocatedResources` and `removeContainerAllocatedResources`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReusableDevices {
    devices: DevicesByResource,
}

impl ReusableDevices {
    /// The reusable devices when `container` is allocated, after all containers before it.
    #[must_use]
    pub fn before(state: &DeviceState, pod: &Pod, container: &ContainerName) -> Self {
        let mut reusable = Self::default();
        for earlier in pod
            .all_containers()
            .take_while(|one| one.name != *container)
        {
            reusable.after(pod, earlier, state);
        }
        reusable
    }

    /// Records the allocation of `container`, whose devices are in `state`.
    pub fn after(&mut self, pod: &Pod, container: &Container, state: &DeviceState) {
        let is_reusable = pod.is_finishing_init(&container.name);
        let held = state.container(&pod.uid, &container.name);
        for (resource, devices) in held.into_iter().flatten() {
            let reusable = self.devices.entry(resource.clone()).or_default();
            match is_reusable {
                true => reusable.extend(devices.iter().cloned()),
                false => reusable.retain(|device| !devices.contains(device)),
            }
        }
    }

    /// The reusable devices of one resource.
    #[must_use]
    pub fn of(&self, resource: &ResourceName) -> Option<&DeviceSet> {
        self.devices.get(resource)
    }
}

impl From<DevicesByResource> for ReusableDevices {
    fn from(devices: DevicesByResource) -> Self {
        Self { devices }
    }
}
