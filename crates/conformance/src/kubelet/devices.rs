//! Device plugins in the format of the vectors: their devices, and their preferred allocations.

use std::collections::BTreeMap;

use pinfold_core::device::{
    AdvertisedDevices, Device, DeviceSet, PreferredAllocation, PreferredAllocationQuery,
};
use pinfold_core::name::{DeviceId, ResourceName};
use serde::Deserialize;

/// A device plugin.
#[derive(Deserialize)]
pub(super) struct DeviceResource {
    /// The name of its resource.
    pub(super) name: ResourceName,
    preferred_allocation: Advice,
    devices: Vec<Reported>,
}

#[derive(Deserialize)]
struct Reported {
    id: DeviceId,
    #[serde(flatten)]
    device: Device,
}

/// How a plugin answers `GetPreferredAllocation`.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Advice {
    /// It does not implement the call.
    None,
    /// It prefers the lowest ids.
    First,
    /// It prefers the highest ids.
    Last,
}

impl DeviceResource {
    /// The devices it reports.
    pub(super) fn offer(&self) -> AdvertisedDevices {
        self.devices
            .iter()
            .map(|one| (one.id.clone(), one.device.clone()))
            .collect()
    }
}

/// The plugins of a case.
pub(super) struct Plugins(BTreeMap<ResourceName, Advice>);

impl Plugins {
    pub(super) fn new<'a>(resources: impl IntoIterator<Item = &'a DeviceResource>) -> Self {
        let advice =
            |resource: &DeviceResource| (resource.name.clone(), resource.preferred_allocation);
        Self(resources.into_iter().map(advice).collect())
    }
}

impl PreferredAllocation for Plugins {
    fn preferred(
        &mut self,
        ask: PreferredAllocationQuery<'_>,
    ) -> Result<Option<DeviceSet>, String> {
        let rest = || ask.available.difference(ask.must_include).cloned();
        let missing = ask.size.saturating_sub(ask.must_include.len());
        let mut advice = ask.must_include.clone();
        match self.0.get(ask.resource) {
            None | Some(Advice::None) => return Ok(None),
            Some(Advice::First) => advice.extend(rest().take(missing)),
            Some(Advice::Last) => {
                advice.extend(rest().collect::<Vec<_>>().into_iter().rev().take(missing));
            }
        }
        Ok(Some(advice))
    }
}
