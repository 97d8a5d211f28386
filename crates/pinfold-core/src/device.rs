//! The device manager: GPUs, network cards and other devices that device plugins advertise, and the containers that
//! hold them.
//!
//! A device plugin reports the devices of one resource: an ID, whether the device is healthy, and the NUMA nodes it is
//! close to, if it knows them. The [`DevicePool`] contains the devices of all plugins, the [`DeviceState`] the devices
//! of each container. Mirrored from the kubelet's device manager:
//!
//! - [`container_hints`] and [`pod_hints`]: the sets of NUMA nodes that fit the request.
//! - [`ByAffinity`]: the free devices that are close to the chosen nodes.
//! - [`allocate`]: the devices that the container is assigned. The result is a list of [`DeviceEdit`]s; nothing changes
//!   until they are applied to the state.
//!
//! Devices of init containers can be reused by later containers of the same pod: see [`ReusableDevices`].

use std::collections::{BTreeMap, BTreeSet};

use crate::name::{DeviceId, ResourceName};

mod affinity;
mod allocate;
mod ascending;
mod hints;
mod pool;
mod reuse;
mod state;

pub use affinity::ByAffinity;
pub use allocate::{
    DeviceError, DeviceRequest, NoPreference, PreferredAllocation, PreferredAllocationQuery,
    allocate, devices_to_allocate,
};
pub use hints::{DeviceMasks, container_hints, pod_hints};
pub use pool::{AdvertisedDevices, Device, DevicePool};
pub use reuse::ReusableDevices;
pub use state::{DeviceEdit, DeviceState};

/// Devices of one resource.
pub type DeviceSet = BTreeSet<DeviceId>;

/// Devices of several resources.
pub type DevicesByResource = BTreeMap<ResourceName, DeviceSet>;

#[cfg(test)]
mod tests;
