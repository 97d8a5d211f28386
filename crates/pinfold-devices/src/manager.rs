//! [`PluginManager`]: the thread that talks to device plugins, and the calls to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kubelet_api::device_plugin as api;
use kubelet_api::unix::{self, PeerLimits};
use pinfold_core::device::{
    AdvertisedDevices, DeviceSet, DevicesByResource, PreferredAllocation, PreferredAllocationQuery,
};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::allocations::{DeviceAllocation, DeviceAllocations};
use crate::directory::{self, DirectoryError, SocketFile};
use crate::limits::PluginLimits;
use crate::offers::OfferQueue;
use crate::plugin::{PluginError, RegisteredPlugin, ids};
use crate::registrar::Registrar;
use crate::registry::PluginRegistry;

/// Concurrent calls on one connection to the registration socket. Plugins make one.
const CALLS: usize = 8;

/// The configuration of a plugin manager.
#[derive(Clone, Debug)]
pub struct PluginManagerConfig {
    /// The directory of the sockets: [`api::DIRECTORY`] on a node.
    pub directory: PathBuf,
    /// Bounds on what plugins may use.
    pub limits: PluginLimits,
    /// The resources in the checkpoint of an earlier process ([`DeviceAllocations::restore`]).
    pub restored: BTreeSet<ResourceName>,
    /// The NUMA nodes of each CPU socket, for plugins that report sockets instead of NUMA nodes.
    pub sockets: BTreeMap<i32, NodeSet>,
}

impl PluginManagerConfig {
    /// The default configuration for `directory`, without restored resources.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            limits: PluginLimits::default(),
            restored: BTreeSet::new(),
            sockets: BTreeMap::new(),
        }
    }
}

/// Errors of starting a plugin manager.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory or the registration socket could not be created.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// No thread could be started.
    #[error("start a thread for devices: {0}")]
    Thread(#[from] io::Error),
}

/// The state shared by the manager's tasks.
#[derive(Debug)]
pub(crate) struct ManagerState {
    pub(crate) config: PluginManagerConfig,
    pub(crate) registry: Mutex<PluginRegistry>,
    pub(crate) offers: OfferQueue,
    pub(crate) activity: Mutex<PluginActivity>,
}

/// Counters and durations of plugin calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginActivity {
    /// Registrations since the start, by resource.
    pub registrations: BTreeMap<ResourceName, u64>,
    /// Durations of `Allocate` calls since they were last read, at most the latest 1024.
    pub allocations: VecDeque<(ResourceName, Duration)>,
}

/// Upper bound on the durations that are kept until they are read.
const MOST_DURATIONS: usize = 1024;

/// Upper bound on the resources that registrations are counted for.
const MOST_COUNTED: usize = 1024;

impl PluginActivity {
    /// Counts a registration.
    pub(crate) fn registered(&mut self, resource: &ResourceName) {
        if self.registrations.len() < MOST_COUNTED || self.registrations.contains_key(resource) {
            *self.registrations.entry(resource.clone()).or_default() += 1;
        }
    }
}

impl ManagerState {
    pub(crate) fn activity(&self) -> MutexGuard<'_, PluginActivity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Talks to device plugins on its own thread. Dropping it stops the thread. Calls block until the plugin responds, at
/// most for the timeouts in [`PluginLimits`].
#[derive(Debug)]
pub struct PluginManager {
    shared: Arc<ManagerState>,
    runtime: Handle,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl PluginManager {
    /// Prepares the directory and starts to serve the registration socket.
    ///
    /// # Errors
    /// If the socket cannot be created or no thread can be started.
    pub fn start(config: PluginManagerConfig) -> Result<Self, StartError> {
        directory::prepare(&config.directory)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let first = {
            let _inside = runtime.enter();
            SocketFile::registration(&config.directory)?
        };
        let offers = OfferQueue::default();
        for resource in &config.restored {
            offers.put(resource.clone(), Some(AdvertisedDevices::new()));
        }
        let registry = PluginRegistry::restored(&config.restored, Instant::now());
        let shared = Arc::new(ManagerState {
            registry: Mutex::new(registry),
            config,
            offers,
            activity: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let serving = shared.clone();
        let thread = thread::Builder::new()
            .name("devices".to_owned())
            .spawn(move || {
                runtime.block_on(serve(serving.clone(), first, stopped));
                runtime.shutdown_background();
                serving.offers.close();
            })?;
        Ok(Self {
            shared,
            runtime: handle,
            stop,
            thread: Some(thread),
        })
    }

    /// The queue of the plugins' offers.
    #[must_use]
    pub fn offers(&self) -> OfferQueue {
        self.shared.offers.clone()
    }

    /// The current devices of every resource.
    #[must_use]
    pub fn devices(&self) -> BTreeMap<ResourceName, AdvertisedDevices> {
        let registry = self.shared.registry();
        let known = registry.devices();
        known
            .map(|(resource, devices)| (resource.clone(), devices.clone()))
            .collect()
    }

    /// The plugins' preferred allocations, for one `Ledger::admit`.
    #[must_use]
    pub fn preferences(&self) -> PluginPreferences<'_> {
        let limit = self.shared.config.limits.admission_timeout;
        PluginPreferences {
            manager: self,
            until: Instant::now() + limit,
        }
    }

    /// Registrations since the start, and durations of `Allocate` since the last call.
    #[must_use]
    pub fn activity(&self) -> PluginActivity {
        let mut activity = self.shared.activity();
        PluginActivity {
            registrations: activity.registrations.clone(),
            allocations: std::mem::take(&mut activity.allocations),
        }
    }

    /// The runtime of the manager's thread.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Calls `Allocate` of the plugins of these devices and records their responses. If one fails, nothing is recorded
    /// (the kubelet keeps the other responses until it cleans up).
    ///
    /// # Errors
    /// The error of the first plugin, in resource order, that fails.
    pub fn allocate(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        devices: &DevicesByResource,
        allocations: &mut DeviceAllocations,
    ) -> Result<(), PluginError> {
        let known = self.devices();
        let limit = self.shared.config.limits.allocate_timeout;
        let mut allocated_devices = Vec::new();
        for (resource, devices) in devices.iter().filter(|(_, devices)| !devices.is_empty()) {
            let requested = devices.clone();
            let begun = Instant::now();
            let response = self.call(resource, async move |plugin| {
                plugin.allocate(&requested, limit).await
            });
            self.record_duration(resource, begun.elapsed());
            let response = response?;
            let offer = known.get(resource);
            allocated_devices.push((resource, DeviceAllocation::new(devices, offer, response)));
        }
        for (resource, allocation) in allocated_devices {
            allocations.record(pod, container, resource, allocation);
        }
        Ok(())
    }

    /// Calls `PreStartContainer` of the plugins that require it.
    ///
    /// # Errors
    /// The error of the first plugin, in resource order, that fails: the container must not start.
    pub fn pre_start(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        allocations: &DeviceAllocations,
    ) -> Result<(), PluginError> {
        let limit = self.shared.config.limits.pre_start_timeout;
        for (resource, allocation) in allocations.of_container(pod, container) {
            let devices: DeviceSet = allocation.devices();
            self.call(resource, async move |plugin| {
                plugin.pre_start(&devices, limit).await
            })?;
        }
        Ok(())
    }

    fn record_duration(&self, resource: &ResourceName, duration: Duration) {
        let mut activity = self.shared.activity();
        if activity.allocations.len() >= MOST_DURATIONS {
            activity.allocations.pop_front();
        }
        let entry = (resource.clone(), duration);
        activity.allocations.push_back(entry);
    }

    /// Calls the plugin of a resource on the manager's thread.
    fn call<T: Send + 'static, F>(
        &self,
        resource: &ResourceName,
        request: impl FnOnce(RegisteredPlugin) -> F,
    ) -> Result<T, PluginError>
    where
        F: Future<Output = Result<T, PluginError>> + Send + 'static,
    {
        let plugin = self.shared.registry().plugin(resource);
        let plugin = plugin
            .ok_or_else(|| PluginError::Unknown(resource.clone()))?
            .ok_or_else(|| PluginError::Stopped(resource.clone()))?;
        let (sender, receiver) = mpsc::sync_channel(1);
        let request = request(plugin);
        self.runtime.spawn(async move {
            // The receiver is dropped only together with the manager.
            let _ = sender.send(request.await);
        });
        receiver.recv().unwrap_or(Err(PluginError::ManagerStopped))
    }
}

impl Drop for PluginManager {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The plugins' preferred allocations for one admission.
///
/// All calls together are limited by [`PluginLimits::admission_timeout`], because container runtimes wait for the
/// admission. Without a response in time the admission continues without the plugin's preference.
#[derive(Debug)]
pub struct PluginPreferences<'a> {
    manager: &'a PluginManager,
    until: Instant,
}

impl PreferredAllocation for PluginPreferences<'_> {
    /// Returns the response unchanged, like the kubelet: the device manager ignores ids that are not available and
    /// fills up missing ones.
    fn preferred(
        &mut self,
        call: PreferredAllocationQuery<'_>,
    ) -> Result<Option<DeviceSet>, String> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let limit = left.min(
            self.manager
                .shared
                .config
                .limits
                .preferred_allocation_timeout,
        );
        let request = api::ContainerPreferredAllocationRequest {
            available_device_ids: ids(call.available),
            must_include_device_ids: ids(call.must_include),
            allocation_size: i32::try_from(call.size).unwrap_or(i32::MAX),
        };
        let sender = self.manager.call(call.resource, async move |plugin| {
            plugin.preferred_allocation(request, limit).await
        });
        match sender {
            Err(PluginError::TimedOut { .. }) => Ok(None),
            sender => sender.map_err(|error| error.to_string()),
        }
    }
}

/// Serves the registration socket until `stopped`. A socket that is removed or fails is created again.
async fn serve(
    shared: Arc<ManagerState>,
    first: (SocketFile, tokio::net::UnixListener),
    mut stopped: watch::Receiver<bool>,
) {
    let limits = shared.config.limits.clone();
    let peers = PeerLimits {
        user: rustix::process::geteuid().as_raw(),
        connections: limits.connections,
        calls: CALLS,
    };
    let service = api::RegistrationServer::new(Registrar::new(shared.clone()));
    let mut bound = Some(first);
    let mut current: Option<(SocketFile, tokio::task::JoinHandle<io::Result<()>>)> = None;
    loop {
        if let Some((socket, listener)) = bound.take() {
            let serving = tokio::spawn(unix::serve(listener, service.clone(), peers));
            current = Some((socket, serving));
        }
        if tokio::time::timeout(limits.tick, stopped.wait_for(|stop| *stop))
            .await
            .is_ok()
        {
            return;
        }
        for resource in shared.registry().expire(Instant::now(), limits.grace) {
            shared.offers.put(resource, None);
        }
        let is_serving = |(socket, serving): &(SocketFile, tokio::task::JoinHandle<_>)| {
            socket.is_in_place() && !serving.is_finished()
        };
        if !current.as_ref().is_some_and(is_serving) {
            if let Some((_, serving)) = current.take() {
                serving.abort();
            }
            // Tried again at the next tick if the directory does not exist either.
            bound = SocketFile::registration(&shared.config.directory).ok();
        }
    }
}
