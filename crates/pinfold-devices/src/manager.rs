//! [`Manager`]: the thread that speaks to plugins, and what the agent asks of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kubelet_api::device_plugin as api;
use kubelet_api::unix::{self, Peers};
use pinfold_core::device::{
    AdvertisedDevices, DeviceSet, DevicesByResource, PreferredAllocation, PreferredAllocationQuery,
};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use crate::directory::{self, DirectoryError, Socket};
use crate::grants::{Grant, Grants};
use crate::limits::Limits;
use crate::offers::Offers;
use crate::plugin::{Plugin, PluginError, ids};
use crate::registrar::Registrar;
use crate::registry::Registry;

/// Calls at a time on one connection to the registration socket. Plugins make one.
const CALLS: usize = 8;

/// How a manager is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the sockets are: [`api::DIRECTORY`] on a node.
    pub directory: PathBuf,
    /// The bounds.
    pub limits: Limits,
    /// The resources that were known before a restart ([`Grants::restore`]).
    pub restored: BTreeSet<ResourceName>,
    /// The NUMA nodes of each socket, for plugins that still name sockets.
    pub sockets: BTreeMap<i32, NodeSet>,
}

impl Config {
    /// A manager in `directory`, without a past.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            limits: Limits::default(),
            restored: BTreeSet::new(),
            sockets: BTreeMap::new(),
        }
    }
}

/// Why a manager does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// There is no thread for it.
    #[error("start a thread for devices: {0}")]
    Thread(#[from] io::Error),
}

/// What the tasks of a manager share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) registry: Mutex<Registry>,
    pub(crate) offers: Offers,
    pub(crate) activity: Mutex<Activity>,
}

/// What plugins did so far, for whoever counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// How often a plugin registered, by resource.
    pub registrations: BTreeMap<ResourceName, u64>,
    /// How long each `Allocate` took since this was last taken; the latest if there were very many.
    pub allocations: VecDeque<(ResourceName, Duration)>,
}

/// Durations that wait to be taken.
const MOST_DURATIONS: usize = 1024;

/// Resources that are counted. Who invents names all day long is not.
const MOST_COUNTED: usize = 1024;

impl Activity {
    /// A plugin registered.
    pub(crate) fn registered(&mut self, resource: &ResourceName) {
        if self.registrations.len() < MOST_COUNTED || self.registrations.contains_key(resource) {
            *self.registrations.entry(resource.clone()).or_default() += 1;
        }
    }
}

impl Shared {
    pub(crate) fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Speaks to device plugins on a thread of its own. Dropping it stops it; calls wait for their answers, each at
/// most for the time that [`Limits`] gives it.
#[derive(Debug)]
pub struct Manager {
    shared: Arc<Shared>,
    runtime: Handle,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Manager {
    /// Prepares the directory and starts to listen for plugins.
    ///
    /// # Errors
    /// If the directory cannot be used or there is no thread to be had.
    pub fn start(config: Config) -> Result<Self, StartError> {
        directory::prepare(&config.directory)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let first = {
            let _inside = runtime.enter();
            Socket::registration(&config.directory)?
        };
        let offers = Offers::default();
        for resource in &config.restored {
            offers.put(resource.clone(), Some(AdvertisedDevices::new()));
        }
        let registry = Registry::restored(&config.restored, Instant::now());
        let shared = Arc::new(Shared {
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

    /// What the plugins offer, as it changes.
    #[must_use]
    pub fn offers(&self) -> Offers {
        self.shared.offers.clone()
    }

    /// What is known of every resource now.
    #[must_use]
    pub fn devices(&self) -> BTreeMap<ResourceName, AdvertisedDevices> {
        let registry = self.shared.registry();
        let known = registry.devices();
        known
            .map(|(resource, devices)| (resource.clone(), devices.clone()))
            .collect()
    }

    /// The plugins' advice, for one `Ledger::admit`.
    #[must_use]
    pub fn advice(&self) -> Advice<'_> {
        let limit = self.shared.config.limits.admission_timeout;
        Advice {
            manager: self,
            until: Instant::now() + limit,
        }
    }

    /// What plugins did: registrations since the start, durations since the last time.
    #[must_use]
    pub fn activity(&self) -> Activity {
        let mut activity = self.shared.activity();
        Activity {
            registrations: activity.registrations.clone(),
            allocations: std::mem::take(&mut activity.allocations),
        }
    }

    /// Where further tasks can run.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Tells the plugins that a container gets these devices, and keeps what they answer. If one of them fails,
    /// nothing is kept (the kubelet keeps what others answered until it cleans up).
    ///
    /// # Errors
    /// The first plugin, in order of the resources, that fails.
    pub fn allocate(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        devices: &DevicesByResource,
        grants: &mut Grants,
    ) -> Result<(), PluginError> {
        let known = self.devices();
        let limit = self.shared.config.limits.allocate_timeout;
        let mut given = Vec::new();
        for (resource, devices) in devices.iter().filter(|(_, devices)| !devices.is_empty()) {
            let asked = devices.clone();
            let begun = Instant::now();
            let response = self.ask(resource, async move |plugin| {
                plugin.allocate(&asked, limit).await
            });
            self.took(resource, begun.elapsed());
            let response = response?;
            let offer = known.get(resource);
            given.push((resource, Grant::new(devices, offer, response)));
        }
        for (resource, grant) in given {
            grants.record(pod, container, resource, grant);
        }
        Ok(())
    }

    /// Tells the plugins that a container is about to start, those that want to know.
    ///
    /// # Errors
    /// The first plugin, in order of the resources, that fails: the container must not start.
    pub fn pre_start(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        grants: &Grants,
    ) -> Result<(), PluginError> {
        let limit = self.shared.config.limits.pre_start_timeout;
        for (resource, grant) in grants.of(pod, container) {
            let devices: DeviceSet = grant.devices();
            self.ask(resource, async move |plugin| {
                plugin.pre_start(&devices, limit).await
            })?;
        }
        Ok(())
    }

    fn took(&self, resource: &ResourceName, duration: Duration) {
        let mut activity = self.shared.activity();
        if activity.allocations.len() >= MOST_DURATIONS {
            activity.allocations.pop_front();
        }
        let entry = (resource.clone(), duration);
        activity.allocations.push_back(entry);
    }

    /// Asks the plugin of a resource on the manager's thread.
    fn ask<T: Send + 'static, F>(
        &self,
        resource: &ResourceName,
        question: impl FnOnce(Plugin) -> F,
    ) -> Result<T, PluginError>
    where
        F: Future<Output = Result<T, PluginError>> + Send + 'static,
    {
        let plugin = self.shared.registry().plugin(resource);
        let plugin = plugin
            .ok_or_else(|| PluginError::Unknown(resource.clone()))?
            .ok_or_else(|| PluginError::Stopped(resource.clone()))?;
        let (answer, answered) = mpsc::sync_channel(1);
        let question = question(plugin);
        self.runtime.spawn(async move {
            // Whoever asked has gone only with the manager.
            let _ = answer.send(question.await);
        });
        answered.recv().unwrap_or(Err(PluginError::ManagerStopped))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The plugins' advice on which devices go well together, for one admission.
///
/// All plugins together have [`Limits::admission_timeout`]: container runtimes wait for the admission. A plugin that
/// does not answer in time gives no advice, and the admission goes on without it.
#[derive(Debug)]
pub struct Advice<'a> {
    manager: &'a Manager,
    until: Instant,
}

impl PreferredAllocation for Advice<'_> {
    /// Passes the answer on as it is, like the kubelet: what is not available is ignored and what is missing filled
    /// up by the rules that asked.
    fn preferred(
        &mut self,
        ask: PreferredAllocationQuery<'_>,
    ) -> Result<Option<DeviceSet>, String> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let limit = left.min(self.manager.shared.config.limits.advice_timeout);
        let request = api::ContainerPreferredAllocationRequest {
            available_device_ids: ids(ask.available),
            must_include_device_ids: ids(ask.must_include),
            allocation_size: i32::try_from(ask.size).unwrap_or(i32::MAX),
        };
        let answer = self.manager.ask(ask.resource, async move |plugin| {
            plugin.advise(request, limit).await
        });
        match answer {
            Err(PluginError::TimedOut { .. }) => Ok(None),
            answer => answer.map_err(|error| error.to_string()),
        }
    }
}

/// Listens for plugins until told to stop. A socket that is removed or fails is made again.
async fn serve(
    shared: Arc<Shared>,
    first: (Socket, tokio::net::UnixListener),
    mut stopped: watch::Receiver<bool>,
) {
    let limits = shared.config.limits.clone();
    let peers = Peers {
        user: rustix::process::geteuid().as_raw(),
        connections: limits.connections,
        calls: CALLS,
    };
    let service = api::RegistrationServer::new(Registrar::new(shared.clone()));
    let mut bound = Some(first);
    let mut current: Option<(Socket, tokio::task::JoinHandle<io::Result<()>>)> = None;
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
        let is_well = |(socket, serving): &(Socket, tokio::task::JoinHandle<_>)| {
            socket.is_in_place() && !serving.is_finished()
        };
        if !current.as_ref().is_some_and(is_well) {
            if let Some((_, serving)) = current.take() {
                serving.abort();
            }
            // Tried again at the next tick if the directory is gone as well.
            bound = Socket::registration(&shared.config.directory).ok();
        }
    }
}
