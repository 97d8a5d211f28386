//! [`ReusableDevices`]: devices that init containers leave to the containers after them.

use super::{DeviceSet, DeviceState, DevicesByResource};
use crate::name::{ContainerName, ResourceName};
use crate::pod::{Container, Pod};

/// What later containers of one pod may take over, by resource.
///
/// An init container that ends leaves its devices behind; every other container keeps what it takes. Mirrors
/// `devicesToReuse` with `addContainerAllocatedResources` and `removeContainerAllocatedResources`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReusableDevices {
    devices: DevicesByResource,
}

impl ReusableDevices {
    /// What can be taken over when it is the turn of `container`: every container before it has had its turn.
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

    /// The container has had its turn; `state` knows what it holds.
    pub fn after(&mut self, pod: &Pod, container: &Container, state: &DeviceState) {
        let leaves = pod.is_finishing_init(&container.name);
        let held = state.container(&pod.uid, &container.name);
        for (resource, devices) in held.into_iter().flatten() {
            let reusable = self.devices.entry(resource.clone()).or_default();
            match leaves {
                true => reusable.extend(devices.iter().cloned()),
                false => reusable.retain(|device| !devices.contains(device)),
            }
        }
    }

    /// The devices of one resource that can be taken over.
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
