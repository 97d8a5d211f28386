//! [`ReusableDevices`]: devices of finished init containers that later containers of the same pod reuse.

use super::{DeviceSet, DeviceState, DevicesByResource};
use crate::demand::PodDemand;
use crate::name::{ContainerName, ResourceName};
use crate::pod::Container;

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
    pub fn before(state: &DeviceState, demand: &PodDemand<'_>, container: &ContainerName) -> Self {
        let mut reusable = Self::default();
        let containers = demand.pod().all_containers();
        for earlier in containers.take_while(|one| one.name != *container) {
            reusable.add(demand, earlier, state);
        }
        reusable
    }

    /// Adds the next container, whose devices are in `state`.
    pub(crate) fn add(
        &mut self,
        demand: &PodDemand<'_>,
        container: &Container,
        state: &DeviceState,
    ) {
        let is_reusable = demand.is_finishing_init(&container.name);
        let held = state.container(&demand.pod().uid, &container.name);
        for (resource, devices) in held.into_iter().flatten() {
            let reusable = self.devices.entry(resource.clone()).or_default();
            match is_reusable {
                true => reusable.extend(devices.iter().cloned()),
                false => {
                    for device in devices {
                        reusable.remove(device);
                    }
                }
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
