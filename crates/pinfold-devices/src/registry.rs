//! [`Registry`]: the plugins and what they have listed.
//!
//! Mirrors `PluginConnected`, `genericDeviceUpdateCallback`, `PluginDisconnected` and the clean-up in
//! `GetCapacity`: a list replaces the one before; the end of a plugin makes its devices unhealthy; after a grace
//! period without a new registration the resource is gone. Nothing here knows what pods hold, so nothing that
//! they hold is taken away.
//!
//! Each connection has a number, so that the end of an old one never harms the plugin that took its place (the
//! kubelet disconnects the new one then).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kubelet_api::device_plugin as api;
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;
use tokio::task::AbortHandle;

use crate::plugin::Plugin;

/// Which connection of a resource's plugin something came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session(u64);

/// The plugins and what they have listed.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: BTreeMap<ResourceName, Entry>,
    sessions: u64,
}

#[derive(Debug)]
struct Entry {
    session: Session,
    plugin: Option<Plugin>,
    /// The task that follows its lists.
    follower: Option<AbortHandle>,
    /// `None` before the first list.
    devices: Option<AdvertisedDevices>,
    stopped: Option<Instant>,
}

impl Registry {
    /// The resources of an earlier life: known, without devices, until their plugins come back.
    pub(crate) fn restored(resources: &BTreeSet<ResourceName>, now: Instant) -> Self {
        let entry = |resource: &ResourceName| {
            let entry = Entry {
                session: Session(0),
                plugin: None,
                follower: None,
                devices: Some(AdvertisedDevices::new()),
                stopped: Some(now),
            };
            (resource.clone(), entry)
        };
        Self {
            entries: resources.iter().map(entry).collect(),
            sessions: 0,
        }
    }

    /// Whether a plugin for this resource would be one too many.
    pub(crate) fn is_full(&self, resource: &ResourceName, limit: usize) -> bool {
        self.entries.len() >= limit && !self.entries.contains_key(resource)
    }

    /// A plugin has registered; it takes the place of the one before, which is no longer followed, but whose list
    /// counts until the new one comes.
    pub(crate) fn connected(&mut self, resource: &ResourceName, plugin: Plugin) -> Session {
        self.sessions += 1;
        let session = Session(self.sessions);
        let before = self.entries.remove(resource);
        if let Some(follower) = before.as_ref().and_then(|entry| entry.follower.as_ref()) {
            follower.abort();
        }
        let entry = Entry {
            session,
            plugin: Some(plugin),
            follower: None,
            devices: before.and_then(|entry| entry.devices),
            stopped: None,
        };
        self.entries.insert(resource.clone(), entry);
        session
    }

    /// This task follows the lists of the plugin that has just connected.
    pub(crate) fn followed(&mut self, resource: &ResourceName, follower: AbortHandle) {
        if let Some(entry) = self.entries.get_mut(resource) {
            entry.follower = Some(follower);
        }
    }

    /// A plugin lists its devices. Tells whether that is news.
    pub(crate) fn listed(
        &mut self,
        resource: &ResourceName,
        session: Session,
        devices: &AdvertisedDevices,
    ) -> bool {
        match self.entries.get_mut(resource) {
            Some(entry) if entry.session == session => {
                let is_news = entry.devices.as_ref() != Some(devices);
                entry.devices = Some(devices.clone());
                is_news
            }
            _ => false,
        }
    }

    /// A plugin is gone: what it offers now, if it was the current one.
    pub(crate) fn ended(
        &mut self,
        resource: &ResourceName,
        session: Session,
        now: Instant,
    ) -> Option<AdvertisedDevices> {
        let entry = self.entries.get_mut(resource)?;
        if entry.session != session {
            return None;
        }
        entry.plugin = None;
        entry.follower = None;
        entry.stopped = Some(now);
        let devices = entry.devices.get_or_insert_default();
        for device in devices.values_mut() {
            device.healthy = false;
        }
        Some(devices.clone())
    }

    /// Forgets the resources whose plugins have been gone for longer than `grace`.
    pub(crate) fn expire(&mut self, now: Instant, grace: Duration) -> Vec<ResourceName> {
        let is_over = |entry: &Entry| {
            let stopped = entry.stopped;
            stopped.is_some_and(|stopped| now.saturating_duration_since(stopped) > grace)
        };
        let over = self.entries.extract_if(.., |_, entry| is_over(entry));
        over.map(|(resource, _)| resource).collect()
    }

    /// The plugin of a resource: `Some(None)` if it has stopped, `None` if there never was one.
    pub(crate) fn plugin(&self, resource: &ResourceName) -> Option<Option<Plugin>> {
        Some(self.entries.get(resource)?.plugin.clone())
    }

    /// What is known of every resource.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&ResourceName, &AdvertisedDevices)> {
        let entries = self.entries.iter();
        entries.filter_map(|(resource, entry)| Some((resource, entry.devices.as_ref()?)))
    }
}

/// A plugin's list in core's terms. The last of two devices with one id counts, as in the kubelet. A socket of
/// the first design stands for the NUMA nodes of that socket.
pub(crate) fn offer(
    devices: Vec<api::Device>,
    sockets: &BTreeMap<i32, NodeSet>,
) -> AdvertisedDevices {
    let one = |device: api::Device| {
        let numa = device.topology.map(|topology| {
            let socket = topology.socket.and_then(|socket| sockets.get(&socket));
            let of_socket = socket.into_iter().flat_map(|nodes| nodes.iter());
            let nodes = topology.nodes.iter().map(|node| node.id);
            nodes
                .chain(of_socket.map(|node| i64::from(node.get())))
                .collect()
        });
        let healthy = device.health == api::HEALTHY;
        (device.id.into(), Device { numa, healthy })
    };
    devices.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{NumaNode, TopologyInfo};

    fn device(id: &str, health: &str, topology: Option<TopologyInfo>) -> api::Device {
        api::Device {
            id: id.to_owned(),
            health: health.to_owned(),
            topology,
        }
    }

    #[test]
    fn health_is_one_word_and_the_last_of_two_counts() {
        let listed = vec![
            device("a", "Healthy", None),
            device("b", "healthy", None),
            device("c", "Healthy", None),
            device("c", "Unhealthy", None),
        ];
        let offer = offer(listed, &BTreeMap::new());
        let healthy: Vec<bool> = offer.values().map(|device| device.healthy).collect();
        assert_eq!(healthy, [true, false, false]);
    }

    #[test]
    fn a_socket_stands_for_its_nodes() {
        let nodes: NodeSet = [2, 3]
            .map(|id| pinfold_core::node_set::NodeId::new(id).unwrap())
            .into_iter()
            .collect();
        let sockets = BTreeMap::from([(1, nodes)]);
        for (topology, expected) in [
            (None, None),
            (Some(TopologyInfo::default()), Some(vec![])),
            (
                Some(TopologyInfo {
                    nodes: vec![],
                    socket: Some(-1),
                }),
                Some(vec![]),
            ),
            (
                Some(TopologyInfo {
                    nodes: vec![],
                    socket: Some(1),
                }),
                Some(vec![2, 3]),
            ),
            (
                Some(TopologyInfo {
                    nodes: vec![NumaNode { id: 7 }],
                    socket: None,
                }),
                Some(vec![7]),
            ),
        ] {
            let offer = offer(vec![device("a", "Healthy", topology)], &sockets);
            assert_eq!(offer["a"].numa, expected);
        }
    }

    #[test]
    fn a_resource_is_forgotten_after_the_grace_period_and_not_before() {
        let now = Instant::now();
        let resource = ResourceName::from("example.com/gpu");
        let mut registry = Registry::restored(&BTreeSet::from([resource.clone()]), now);
        let grace = Duration::from_secs(300);
        assert_eq!(registry.expire(now + grace, grace), []);
        let later = now + grace + Duration::from_nanos(1);
        assert_eq!(registry.expire(later, grace), [resource]);
        assert_eq!(registry.expire(later, grace), []);
    }
}
