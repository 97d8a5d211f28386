//! [`DeviceHost`]: device plugins and the pod resources API for an agent that is not asynchronous itself.
//!
//! One thread talks to plugins and serves monitoring agents; the methods are called from other threads and wait for a
//! bounded time. Responses to `Allocate` are saved in the kubelet's checkpoint format before they are returned, so that
//! a restarted agent can start containers without another `Allocate`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use kubelet_api::unix::PeerLimits;
use pinfold_core::device::{AdvertisedDevices, DevicesByResource};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_kube::state::{DeviceManagerState, MAX_FILE_BYTES, RestoreError};
use tokio::task::JoinHandle;

use crate::allocations::DeviceAllocations;
use crate::directory::{DirectoryError, SocketFile};
use crate::edits::ContainerEdits;
use crate::manager::{
    PluginActivity, PluginManager, PluginManagerConfig, PluginPreferences, StartError,
};
use crate::plugin::PluginError;
use crate::pod_resources::{PodResourcesCalls, PodResourcesServer, PodResourcesSnapshot};

/// Limits of the pod resources socket: connections, and calls per connection.
const POD_RESOURCES_LIMITS: (usize, usize) = (32, 8);

/// The configuration of a device host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The plugin directory and limits. The resources known before a restart are read from `checkpoint`.
    pub manager: PluginManagerConfig,
    /// The checkpoint file of device allocations, in the kubelet's format.
    pub checkpoint: PathBuf,
    /// The socket of the pod resources API; `None` to not serve it.
    pub pod_resources: Option<PathBuf>,
}

/// Errors of starting or using a device host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The plugin manager could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The pod resources socket could not be created.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// No thread could be started.
    #[error("start a thread for devices: {0}")]
    Thread(#[source] io::Error),
    /// A plugin failed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The checkpoint could not be read or written.
    #[error("{action} {}: {error}", path.display())]
    Checkpoint {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
}

/// Receives the plugins' offers: a resource and its devices, `None` once the plugin has been stopped for longer than
/// the grace period.
pub type OfferReceiver = Receiver<(ResourceName, Option<AdvertisedDevices>)>;

/// Device plugins and the pod resources API of an agent. Dropping it stops both and removes their sockets.
#[derive(Debug)]
pub struct DeviceHost {
    manager: PluginManager,
    allocations: Mutex<DeviceAllocations>,
    checkpoint: PathBuf,
    lost: Option<RestoreError>,
    pod_resources: PodResourcesServer,
    /// The pod resources socket and the task that serves it.
    pod_resources_socket: Option<(SocketFile, JoinHandle<io::Result<()>>)>,
}

impl DeviceHost {
    /// Starts to serve plugins. Their offers are sent to the receiver, which holds at most the latest offer of each
    /// resource.
    ///
    /// # Errors
    /// If a socket cannot be created, the checkpoint cannot be read, or no thread can be started.
    pub fn start(mut config: HostConfig) -> Result<(Self, OfferReceiver), HostError> {
        let (state, lost) = read(&config.checkpoint)?;
        let (allocations, known) = DeviceAllocations::restore(&state);
        config.manager.restored.extend(known);
        let manager = PluginManager::start(config.manager)?;
        let pod_resources = PodResourcesServer::default();
        let serve = |path| {
            let _inside = manager.runtime().enter();
            let (socket, listener) = SocketFile::bind(path)?;
            let peers = PeerLimits {
                user: rustix::process::geteuid().as_raw(),
                connections: POD_RESOURCES_LIMITS.0,
                calls: POD_RESOURCES_LIMITS.1,
            };
            let serving = manager
                .runtime()
                .spawn(pod_resources.clone().serve(listener, peers));
            Ok::<_, DirectoryError>((socket, serving))
        };
        let pod_resources_socket = config.pod_resources.map(serve).transpose()?;
        let offers = manager.offers();
        let (sender, receiver) = mpsc::sync_channel(0);
        // The thread ends when the manager stops or the receiver is dropped.
        thread::Builder::new()
            .name("device-offers".to_owned())
            .spawn(move || {
                while let Some(offer) = offers.wait() {
                    if sender.send((offer.resource, offer.devices)).is_err() {
                        return;
                    }
                }
            })
            .map_err(HostError::Thread)?;
        let host = Self {
            manager,
            allocations: Mutex::new(allocations),
            checkpoint: config.checkpoint,
            lost,
            pod_resources,
            pod_resources_socket,
        };
        Ok((host, receiver))
    }

    /// Why the checkpoint of an earlier process could not be restored, if so. The next save replaces the file.
    #[must_use]
    pub fn lost_checkpoint(&self) -> Option<&RestoreError> {
        self.lost.as_ref()
    }

    /// The plugins' preferred allocations, for one `Ledger::admit`.
    #[must_use]
    pub fn preferences(&self) -> PluginPreferences<'_> {
        self.manager.preferences()
    }

    /// Calls `Allocate` for a container's devices and returns its edits. Plugins that have already responded for the
    /// same devices of the same container are not called again, as in the kubelet.
    ///
    /// # Errors
    /// If a plugin fails or the responses cannot be saved: the container must not start.
    pub fn allocate(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        devices: &DevicesByResource,
    ) -> Result<ContainerEdits, HostError> {
        let mut requested = devices.clone();
        {
            let allocations = self.allocations();
            requested
                .retain(|resource, devices| !allocations.has(pod, container, resource, devices));
        }
        let mut responses = DeviceAllocations::default();
        self.manager
            .allocate(pod, container, &requested, &mut responses)?;
        let mut allocations = self.allocations();
        if responses != DeviceAllocations::default() {
            let mut all = allocations.clone();
            all.extend(responses);
            self.save(&all)?;
            *allocations = all;
        }
        Ok(allocations.edits(pod, container))
    }

    /// The edits of a container whose devices were allocated before.
    #[must_use]
    pub fn edits(&self, pod: &PodUid, container: &ContainerName) -> ContainerEdits {
        self.allocations().edits(pod, container)
    }

    /// Calls `PreStartContainer` of the plugins that require it.
    ///
    /// # Errors
    /// If a plugin fails: the container must not start.
    pub fn pre_start(&self, pod: &PodUid, container: &ContainerName) -> Result<(), PluginError> {
        let allocations = self.allocations().clone();
        self.manager.pre_start(pod, container, &allocations)
    }

    /// Removes the allocations of a pod.
    ///
    /// # Errors
    /// If the checkpoint cannot be saved; the allocations are removed in memory all the same.
    pub fn remove_pod(&self, pod: &PodUid) -> Result<(), HostError> {
        let mut allocations = self.allocations();
        match allocations.remove_pod(pod) {
            true => self.save(&allocations),
            false => Ok(()),
        }
    }

    /// Registrations since the start, and durations of `Allocate` since the last call.
    #[must_use]
    pub fn activity(&self) -> PluginActivity {
        self.manager.activity()
    }

    /// Calls of the pod resources API since the start.
    #[must_use]
    pub fn call_counts(&self) -> PodResourcesCalls {
        self.pod_resources.call_counts()
    }

    /// Serves this snapshot from now on.
    pub fn publish(&self, snapshot: PodResourcesSnapshot) {
        self.pod_resources.publish(snapshot);
    }

    fn allocations(&self) -> MutexGuard<'_, DeviceAllocations> {
        self.allocations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, allocations: &DeviceAllocations) -> Result<(), HostError> {
        let content = allocations.checkpoint(&self.manager.devices()).write();
        pinfold_files::replace(&self.checkpoint, content.as_bytes())
            .map_err(|error| failed("write", &self.checkpoint, error))
    }
}

impl Drop for DeviceHost {
    fn drop(&mut self) {
        if let Some((_, serving)) = self.pod_resources_socket.take() {
            serving.abort();
        }
        // Save the resources known now; the allocations are saved already.
        let _ = self.save(&self.allocations());
    }
}

fn failed(action: &'static str, path: &Path, error: io::Error) -> HostError {
    let path = path.to_owned();
    HostError::Checkpoint {
        action,
        path,
        error,
    }
}

/// Reads the checkpoint. Without a file there are no allocations; a damaged file is discarded, as in the kubelet.
fn read(path: &Path) -> Result<(DeviceManagerState, Option<RestoreError>), HostError> {
    let too_large =
        |length: u64| usize::try_from(length).map_or(true, |bytes| bytes > MAX_FILE_BYTES);
    let bytes = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => return Err(failed("read", path, error)),
        Ok(found) if too_large(found.len()) => {
            let error = io::ErrorKind::FileTooLarge.into();
            return Err(failed("read", path, error));
        }
        Ok(_) => fs::read(path).map_err(|error| failed("read", path, error))?,
    };
    Ok(
        match DeviceManagerState::restore(&bytes, &path.to_string_lossy()) {
            Ok(state) => (state, None),
            Err(lost) => (DeviceManagerState::default(), Some(lost)),
        },
    )
}
