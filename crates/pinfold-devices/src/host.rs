//! [`Host`]: the device side of an agent that is not asynchronous itself.
//!
//! One thread speaks to plugins and answers monitoring agents; everything here is called from other threads and
//! waits for a bounded time. What plugins answered to `Allocate` is in a file in the kubelet's checkpoint format
//! before the caller hears of it, so that a restarted agent can start containers again without asking twice.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use kubelet_api::unix::Peers;
use pinfold_core::device::{AdvertisedDevices, DevicesByResource};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_kube::state::{DeviceState, MAX_FILE_BYTES, RestoreError};
use tokio::task::JoinHandle;

use crate::directory::{DirectoryError, Socket};
use crate::edits::ContainerEdits;
use crate::grants::Grants;
use crate::manager::{Activity, Advice, Config, Manager, StartError};
use crate::plugin::PluginError;
use crate::pod_resources::{Asked, PodResources, Snapshot};

/// Monitoring agents at a time, and calls of each.
const READERS: (usize, usize) = (32, 8);

/// How a host is set up.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Where plugins register, and the bounds. What was known before a restart is read from the file below.
    pub manager: Config,
    /// The file of what plugins answered, in the kubelet's checkpoint format.
    pub checkpoint: PathBuf,
    /// The socket on which pod resources are told, if they are to be.
    pub pod_resources: Option<PathBuf>,
}

/// Why a host does not start, or something was not done.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Plugins cannot be served.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Monitoring agents cannot be served.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// There is no thread for it.
    #[error("start a thread for devices: {0}")]
    Thread(#[source] io::Error),
    /// A plugin failed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// What plugins answered could not be read or kept.
    #[error("{doing} {}: {error}", path.display())]
    Checkpoint {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What came of it.
        #[source]
        error: io::Error,
    },
}

/// Where the offers of plugins come out: a resource and its devices, `None` once the plugin has been gone for longer
/// than the grace period.
pub type OfferReceiver = Receiver<(ResourceName, Option<AdvertisedDevices>)>;

/// The device side of an agent. Dropping it stops it and removes its sockets.
#[derive(Debug)]
pub struct Host {
    manager: Manager,
    grants: Mutex<Grants>,
    checkpoint: PathBuf,
    lost: Option<RestoreError>,
    told: PodResources,
    /// The socket of pod resources and the task that serves it.
    readers: Option<(Socket, JoinHandle<io::Result<()>>)>,
}

impl Host {
    /// Starts to listen. What plugins offer comes out of the receiver; only the latest offer of each resource waits
    /// there, however often it changes.
    ///
    /// # Errors
    /// If a socket cannot be made, a file cannot be read, or there is no thread to be had.
    pub fn start(mut config: HostConfig) -> Result<(Self, OfferReceiver), HostError> {
        let (state, lost) = read(&config.checkpoint)?;
        let (grants, known) = Grants::restore(&state);
        config.manager.restored.extend(known);
        let manager = Manager::start(config.manager)?;
        let told = PodResources::default();
        let serve = |path| {
            let _inside = manager.runtime().enter();
            let (socket, listener) = Socket::bind(path)?;
            let peers = Peers {
                user: rustix::process::geteuid().as_raw(),
                connections: READERS.0,
                calls: READERS.1,
            };
            let serving = manager.runtime().spawn(told.clone().serve(listener, peers));
            Ok::<_, DirectoryError>((socket, serving))
        };
        let readers = config.pod_resources.map(serve).transpose()?;
        let offers = manager.offers();
        let (sender, receiver) = mpsc::sync_channel(0);
        // It ends with the manager or with the receiver, whichever comes first.
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
            grants: Mutex::new(grants),
            checkpoint: config.checkpoint,
            lost,
            told,
            readers,
        };
        Ok((host, receiver))
    }

    /// Why what plugins answered in an earlier life is lost, if it is. The file is replaced by the next one.
    #[must_use]
    pub fn lost(&self) -> Option<&RestoreError> {
        self.lost.as_ref()
    }

    /// The plugins' advice, for one `Ledger::admit`.
    #[must_use]
    pub fn advice(&self) -> Advice<'_> {
        self.manager.advice()
    }

    /// A container gets these devices: asks their plugins what has to be in it. Plugins that have answered for the
    /// same devices of the same container are not asked again, as in the kubelet.
    ///
    /// # Errors
    /// If a plugin fails or the answers cannot be kept: the container must not start.
    pub fn allocate(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        devices: &DevicesByResource,
    ) -> Result<ContainerEdits, HostError> {
        let mut asked = devices.clone();
        {
            let grants = self.grants();
            asked.retain(|resource, devices| !grants.has(pod, container, resource, devices));
        }
        let mut answered = Grants::default();
        self.manager
            .allocate(pod, container, &asked, &mut answered)?;
        let mut grants = self.grants();
        if answered != Grants::default() {
            let mut all = grants.clone();
            all.extend(answered);
            self.save(&all)?;
            *grants = all;
        }
        Ok(grants.edits(pod, container))
    }

    /// What has to be in a container that was given its devices before.
    #[must_use]
    pub fn edits(&self, pod: &PodUid, container: &ContainerName) -> ContainerEdits {
        self.grants().edits(pod, container)
    }

    /// A container is about to start: tells the plugins that want to know.
    ///
    /// # Errors
    /// If a plugin fails: the container must not start.
    pub fn pre_start(&self, pod: &PodUid, container: &ContainerName) -> Result<(), PluginError> {
        let grants = self.grants().clone();
        self.manager.pre_start(pod, container, &grants)
    }

    /// A pod is gone.
    ///
    /// # Errors
    /// If that cannot be kept; it is forgotten all the same.
    pub fn forget(&self, pod: &PodUid) -> Result<(), HostError> {
        let mut grants = self.grants();
        match grants.forget(pod) {
            true => self.save(&grants),
            false => Ok(()),
        }
    }

    /// What plugins did: registrations since the start, durations since the last time.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.manager.activity()
    }

    /// How often monitoring agents have asked so far.
    #[must_use]
    pub fn asked(&self) -> Asked {
        self.told.asked()
    }

    /// From now on, monitoring agents are told this.
    pub fn publish(&self, snapshot: Snapshot) {
        self.told.publish(snapshot);
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, grants: &Grants) -> Result<(), HostError> {
        let content = grants.checkpoint(&self.manager.devices()).write();
        replace(&self.checkpoint, content.as_bytes())
            .map_err(|error| failed("write", &self.checkpoint, error))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some((_, serving)) = self.readers.take() {
            serving.abort();
        }
        // The resources that are known now; the grants are on disk already.
        let _ = self.save(&self.grants());
    }
}

fn failed(doing: &'static str, path: &Path, error: io::Error) -> HostError {
    let path = path.to_owned();
    HostError::Checkpoint { doing, path, error }
}

/// What the file says. Without a file nothing was given; a damaged one is lost, as for the kubelet.
fn read(path: &Path) -> Result<(DeviceState, Option<RestoreError>), HostError> {
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
        match DeviceState::restore(&bytes, &path.to_string_lossy()) {
            Ok(state) => (state, None),
            Err(lost) => (DeviceState::default(), Some(lost)),
        },
    )
}

/// Puts a file in the place of another as one step, on disk when this returns.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
