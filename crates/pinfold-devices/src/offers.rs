//! [`Offers`]: what plugins offer, for whoever keeps the ledger.
//!
//! A channel that remembers only the latest offer of each resource: a plugin that changes its mind a thousand
//! times while nobody looks costs the memory of one list.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use pinfold_core::device::AdvertisedDevices;
use pinfold_core::name::ResourceName;

/// What the plugin of a resource offers now: an argument for `Ledger::offer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The resource.
    pub resource: ResourceName,
    /// Its devices; `None` once the plugin has been gone for longer than the grace period.
    pub devices: Option<AdvertisedDevices>,
}

/// The receiving end. Clones share what is waiting.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    shared: Arc<(Mutex<Waiting>, Condvar)>,
}

#[derive(Debug, Default)]
struct Waiting {
    latest: BTreeMap<ResourceName, Option<AdvertisedDevices>>,
    is_closed: bool,
}

impl Offers {
    /// The next offer, waiting for it at most `patience`. `None` if there is none until then, or the manager has
    /// stopped.
    #[must_use]
    pub fn next(&self, patience: Duration) -> Option<Offer> {
        let (waiting, changed) = &*self.shared;
        let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |waiting: &mut Waiting| waiting.latest.is_empty() && !waiting.is_closed;
        let (mut waiting, _) = changed
            .wait_timeout_while(waiting, patience, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        let (resource, devices) = waiting.latest.pop_first()?;
        Some(Offer { resource, devices })
    }

    /// The next offer, however long it takes. `None` if the manager has stopped.
    pub(crate) fn wait(&self) -> Option<Offer> {
        let (waiting, changed) = &*self.shared;
        let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |waiting: &mut Waiting| waiting.latest.is_empty() && !waiting.is_closed;
        let mut waiting = changed
            .wait_while(waiting, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        let (resource, devices) = waiting.latest.pop_first()?;
        Some(Offer { resource, devices })
    }

    /// Puts an offer in the place of an older one that nobody has taken.
    pub(crate) fn put(&self, resource: ResourceName, devices: Option<AdvertisedDevices>) {
        let (waiting, changed) = &*self.shared;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.latest.insert(resource, devices);
        changed.notify_all();
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        let (waiting, changed) = &*self.shared;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_closed = true;
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_offer_of_a_resource_waits() {
        let offers = Offers::default();
        let resource = ResourceName::from("example.com/gpu");
        for _ in 0..1000 {
            offers.put(resource.clone(), Some(AdvertisedDevices::new()));
        }
        offers.put(resource.clone(), None);
        let expected = Offer {
            resource,
            devices: None,
        };
        assert_eq!(offers.next(Duration::ZERO), Some(expected));
        assert_eq!(offers.next(Duration::ZERO), None);
    }
}
