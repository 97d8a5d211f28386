//! [`PluginRegistry`]: the registered plugins and their devices.
//!
//! Mirrors `PluginConnected`, `genericDeviceUpdateCallback`, `PluginDisconnected` and the clean-up in `GetCapacity`: a
//! list replaces the previous one; when a plugin stops, its devices become unhealthy; after a grace period without a
//! new registration the resource is removed. The registry does not know the allocations of pods and never changes them.
//!
//! Each connection has a number, so that the end of an old connection does not affect the plugin that replaced it (the
//! kubelet disconnects the new one then).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kubelet_api::device_plugin as api;
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;
use tokio::task::AbortHandle;

use crate::plugin::RegisteredPlugin;

/// The number of a plugin's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PluginSession(u64);

/// The registered plugins and their devices.
#[derive(Debug, Default)]
pub(crate) struct PluginRegistry {
    entries: BTreeMap<ResourceName, PluginEntry>,
    sessions: u64,
}

#[derive(Debug)]
struct PluginEntry {
    session: PluginSession,
    plugin: Option<RegisteredPlugin>,
    /// The task that watches its device lists.
    watcher: Option<AbortHandle>,
    /// `None` before the first list.
    devices: Option<AdvertisedDevices>,
    stopped: Option<Instant>,
}

impl PluginRegistry {
    /// Registers the resources of a checkpoint, without devices, until their plugins register again.
    pub(crate) fn restored(resources: &BTreeSet<ResourceName>, now: Instant) -> Self {
        let entry = |resource: &ResourceName| {
            let entry = PluginEntry {
                session: PluginSession(0),
                plugin: None,
                watcher: None,
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

    /// Whether a plugin for this resource would exceed the limit.
    pub(crate) fn is_full(&self, resource: &ResourceName, limit: usize) -> bool {
        self.entries.len() >= limit && !self.entries.contains_key(resource)
    }

    /// Adds a plugin that has registered. It replaces the resource's previous plugin, which is no longer watched; the
    /// devices of the previous one stay until the first list of the new one.
    pub(crate) fn add_plugin(
        &mut self,
        resource: &ResourceName,
        plugin: RegisteredPlugin,
    ) -> PluginSession {
        self.sessions += 1;
        let session = PluginSession(self.sessions);
        let before = self.entries.remove(resource);
        if let Some(watcher) = before.as_ref().and_then(|entry| entry.watcher.as_ref()) {
            watcher.abort();
        }
        let entry = PluginEntry {
            session,
            plugin: Some(plugin),
            watcher: None,
            devices: before.and_then(|entry| entry.devices),
            stopped: None,
        };
        self.entries.insert(resource.clone(), entry);
        session
    }

    /// Sets the task that watches the device lists of a plugin that was just added.
    pub(crate) fn set_watcher(&mut self, resource: &ResourceName, watcher: AbortHandle) {
        if let Some(entry) = self.entries.get_mut(resource) {
            entry.watcher = Some(watcher);
        }
    }

    /// Replaces a plugin's devices. Returns whether they changed.
    pub(crate) fn update_devices(
        &mut self,
        resource: &ResourceName,
        session: PluginSession,
        devices: &AdvertisedDevices,
    ) -> bool {
        match self.entries.get_mut(resource) {
            Some(entry) if entry.session == session => {
                let changed = entry.devices.as_ref() != Some(devices);
                entry.devices = Some(devices.clone());
                changed
            }
            _ => false,
        }
    }

    /// Marks a plugin as stopped and its devices as unhealthy. Returns the devices, if the session is the current one.
    pub(crate) fn plugin_stopped(
        &mut self,
        resource: &ResourceName,
        session: PluginSession,
        now: Instant,
    ) -> Option<AdvertisedDevices> {
        let entry = self.entries.get_mut(resource)?;
        if entry.session != session {
            return None;
        }
        entry.plugin = None;
        entry.watcher = None;
        entry.stopped = Some(now);
        let devices = entry.devices.get_or_insert_default();
        for device in devices.values_mut() {
            device.healthy = false;
        }
        Some(devices.clone())
    }

    /// Removes the resources whose plugins have been stopped for longer than `grace`.
    pub(crate) fn expire(&mut self, now: Instant, grace: Duration) -> Vec<ResourceName> {
        let is_expired = |entry: &PluginEntry| {
            let stopped = entry.stopped;
            stopped.is_some_and(|stopped| now.saturating_duration_since(stopped) > grace)
        };
        let expired = self.entries.extract_if(.., |_, entry| is_expired(entry));
        expired.map(|(resource, _)| resource).collect()
    }

    /// The plugin of a resource: `Some(None)` if it has stopped, `None` if the resource is unknown.
    pub(crate) fn plugin(&self, resource: &ResourceName) -> Option<Option<RegisteredPlugin>> {
        Some(self.entries.get(resource)?.plugin.clone())
    }

    /// The devices of every resource.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&ResourceName, &AdvertisedDevices)> {
        let entries = self.entries.iter();
        entries.filter_map(|(resource, entry)| Some((resource, entry.devices.as_ref()?)))
    }
}

/// A plugin's list as an offer. Of two devices with the same id the last one counts, as in the kubelet. A CPU socket of
/// the API's first design stands for that socket's NUMA nodes.
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
    fn only_healthy_in_this_case_counts_and_the_last_of_two_equal_ids() {
        let update_devices = vec![
            device("a", "Healthy", None),
            device("b", "healthy", None),
            device("c", "Healthy", None),
            device("c", "Unhealthy", None),
        ];
        let offer = offer(update_devices, &BTreeMap::new());
        let healthy: Vec<bool> = offer.values().map(|device| device.healthy).collect();
        assert_eq!(healthy, [true, false, false]);
    }

    #[test]
    fn a_socket_stands_for_its_numa_nodes() {
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
    fn a_resource_is_removed_after_the_grace_period_and_not_before() {
        let now = Instant::now();
        let resource = ResourceName::from("example.com/gpu");
        let mut registry = PluginRegistry::restored(&BTreeSet::from([resource.clone()]), now);
        let grace = Duration::from_secs(300);
        assert_eq!(registry.expire(now + grace, grace), []);
        let later = now + grace + Duration::from_nanos(1);
        assert_eq!(registry.expire(later, grace), [resource]);
        assert_eq!(registry.expire(later, grace), []);
    }
}
