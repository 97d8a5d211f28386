//! Devices: GPUs, network cards and whatever else device plugins offer, and which container holds which.
//!
//! A device plugin reports the devices of one resource: an id, whether the device works, and the NUMA nodes
//! it is close to, if it knows them. The [`DevicePool`] is what all plugins have reported, the [`DeviceState`]
//! who holds what. Between them lie three questions, each mirroring the kubelet's device manager:
//!
//! - [`container_hints`] and [`pod_hints`]: which sets of NUMA nodes could serve the request?
//! - [`ByAffinity`]: given the chosen nodes, which free devices are close?
//! - [`allocate`]: which devices does the container get? The answer is a [`DeviceGrant`]; nothing changes until
//!   its edits are applied to the state.
//!
//! What an init container held can be used again by later containers of its pod: see [`ReusableDevices`].

use std::collections::{BTreeMap, BTreeSet};

use crate::name::{DeviceId, ResourceName};

mod affinity;
mod allocate;
mod ascending;
mod hints;
mod pool;
mod reuse;
mod state;
mod width;

pub use affinity::ByAffinity;
pub use allocate::{
    DeviceError, DeviceGrant, DeviceRequest, NoPreference, PreferredAllocation,
    PreferredAllocationQuery, allocate, devices_to_allocate,
};
pub use hints::{container_hints, pod_hints};
pub use pool::{AdvertisedDevices, Device, DevicePool};
pub use reuse::ReusableDevices;
pub use state::{DeviceEdit, DeviceState, StaleDeviceEdit};

/// Some devices of one resource.
pub type DeviceSet = BTreeSet<DeviceId>;

/// Some devices of several resources.
pub type DevicesByResource = BTreeMap<ResourceName, DeviceSet>;

#[cfg(test)]
mod tests;
