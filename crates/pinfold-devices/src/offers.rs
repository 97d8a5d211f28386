//! [`OfferQueue`]: the plugins' offers on their way to the ledger.
//!
//! A queue with only the latest offer of each resource, so that a plugin that changes its list many times before the
//! offer is read uses the memory of one list.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use pinfold_core::device::AdvertisedDevices;
use pinfold_core::name::ResourceName;

/// The current offer of a resource's plugin: an argument for `Ledger::offer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginOffer {
    /// The resource.
    pub resource: ResourceName,
    /// Its devices; `None` once the plugin has been stopped for longer than the grace period.
    pub devices: Option<AdvertisedDevices>,
}

/// The queue of offers. Clones share the same queue.
#[derive(Clone, Debug, Default)]
pub struct OfferQueue {
    shared: Arc<(Mutex<QueuedOffers>, Condvar)>,
}

#[derive(Debug, Default)]
struct QueuedOffers {
    latest: BTreeMap<ResourceName, Option<AdvertisedDevices>>,
    is_closed: bool,
}

impl OfferQueue {
    /// The next offer; `None` if there is none within `timeout`, or the manager has stopped.
    #[must_use]
    pub fn next(&self, timeout: Duration) -> Option<PluginOffer> {
        let (queued, changed) = &*self.shared;
        let queued = queued.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |queued: &mut QueuedOffers| queued.latest.is_empty() && !queued.is_closed;
        let (mut queued, _) = changed
            .wait_timeout_while(queued, timeout, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        let (resource, devices) = queued.latest.pop_first()?;
        Some(PluginOffer { resource, devices })
    }

    /// The next offer, without a timeout; `None` if the manager has stopped.
    pub(crate) fn wait(&self) -> Option<PluginOffer> {
        let (queued, changed) = &*self.shared;
        let queued = queued.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |queued: &mut QueuedOffers| queued.latest.is_empty() && !queued.is_closed;
        let mut queued = changed
            .wait_while(queued, is_idle)
            .unwrap_or_else(PoisonError::into_inner);
        let (resource, devices) = queued.latest.pop_first()?;
        Some(PluginOffer { resource, devices })
    }

    /// Adds an offer, replacing an unread one of the same resource.
    pub(crate) fn put(&self, resource: ResourceName, devices: Option<AdvertisedDevices>) {
        let (queued, changed) = &*self.shared;
        let mut queued = queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.latest.insert(resource, devices);
        changed.notify_all();
    }

    /// Closes the queue: waiting readers return `None`.
    pub(crate) fn close(&self) {
        let (queued, changed) = &*self.shared;
        let mut queued = queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.is_closed = true;
        changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_offer_of_a_resource_is_queued() {
        let offers = OfferQueue::default();
        let resource = ResourceName::from("example.com/gpu");
        for _ in 0..1000 {
            offers.put(resource.clone(), Some(AdvertisedDevices::new()));
        }
        offers.put(resource.clone(), None);
        let expected = PluginOffer {
            resource,
            devices: None,
        };
        assert_eq!(offers.next(Duration::ZERO), Some(expected));
        assert_eq!(offers.next(Duration::ZERO), None);
    }
}
