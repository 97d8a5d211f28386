//! [`Plugin`]: one registered plugin and the calls to it, each with its time.

use std::io;
use std::path::Path;
use std::time::Duration;

use kubelet_api::device_plugin as api;
use pinfold_core::device::DeviceSet;
use pinfold_core::name::ResourceName;
use tonic::{Response, Status, Streaming};

/// Why a plugin did not answer. Where the kubelet has a message, it is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// No plugin has registered for the resource.
    #[error("endpoint not found in cache for a registered resource: {0}")]
    Unknown(ResourceName),
    /// The plugin has stopped and not registered again.
    #[error("endpoint {0} has been stopped")]
    Stopped(ResourceName),
    /// The plugin could not be reached.
    #[error("failed to dial device plugin: {0}")]
    Unreachable(String),
    /// The plugin did not answer in time.
    #[error("{call} of the device plugin for {resource} took longer than {limit:?}")]
    TimedOut {
        /// Which call.
        call: &'static str,
        /// Whose plugin.
        resource: ResourceName,
        /// The time it had.
        limit: Duration,
    },
    /// The plugin answered with an error.
    #[error("{call} of the device plugin for {resource} failed: {message}")]
    Failed {
        /// Which call.
        call: &'static str,
        /// Whose plugin.
        resource: ResourceName,
        /// What it said.
        message: String,
    },
    /// `Allocate` was answered without saying anything about the container.
    #[error("no containers return in allocation response of the device plugin for {0}")]
    NoAnswer(ResourceName),
    /// The manager has stopped.
    #[error("the device manager has stopped")]
    ManagerStopped,
}

/// A registered plugin.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    resource: ResourceName,
    client: api::DevicePluginClient,
    /// What it answered when it was asked, which may differ from what it said when it registered.
    pub(crate) options: api::DevicePluginOptions,
}

impl Plugin {
    /// Connects to a plugin's socket and asks for its options.
    pub(crate) async fn connect(
        resource: &ResourceName,
        socket: &Path,
        limit: Duration,
    ) -> Result<Self, PluginError> {
        let unreachable = |error: io::Error| PluginError::Unreachable(error.to_string());
        let channel = kubelet_api::unix::connect(socket)
            .await
            .map_err(unreachable)?;
        let mut plugin = Self {
            resource: resource.clone(),
            client: api::DevicePluginClient::new(channel),
            options: api::DevicePluginOptions::default(),
        };
        let mut client = plugin.client.clone();
        let options = client.get_device_plugin_options(api::Empty {});
        plugin.options = plugin
            .within("GetDevicePluginOptions", limit, options)
            .await?;
        Ok(plugin)
    }

    /// Its lists, one now and one per change.
    pub(crate) async fn watch(&self) -> Result<Streaming<api::ListAndWatchResponse>, Status> {
        let answer = self.client.clone().list_and_watch(api::Empty {}).await?;
        Ok(answer.into_inner())
    }

    /// Which devices it would choose; `None` if it does not give advice.
    pub(crate) async fn advise(
        &self,
        ask: api::ContainerPreferredAllocationRequest,
        limit: Duration,
    ) -> Result<Option<DeviceSet>, PluginError> {
        if !self.options.get_preferred_allocation_available {
            return Ok(None);
        }
        let request = api::PreferredAllocationRequest {
            container_requests: vec![ask],
        };
        let mut client = self.client.clone();
        let answer = client.get_preferred_allocation(request);
        let answer = self.within("GetPreferredAllocation", limit, answer).await?;
        // Without an answer for the container there is no advice, and the rest goes by the ids.
        let first = answer.container_responses.into_iter().next();
        let ids = first.unwrap_or_default().device_ids;
        Ok(Some(ids.into_iter().map(Into::into).collect()))
    }

    /// Gives devices to a container.
    pub(crate) async fn allocate(
        &self,
        devices: &DeviceSet,
        limit: Duration,
    ) -> Result<api::ContainerAllocateResponse, PluginError> {
        let request = api::AllocateRequest {
            container_requests: vec![api::ContainerAllocateRequest {
                devices_ids: ids(devices),
            }],
        };
        let mut client = self.client.clone();
        let answer = client.allocate(request);
        let answer = self.within("Allocate", limit, answer).await?;
        let first = answer.container_responses.into_iter().next();
        first.ok_or_else(|| PluginError::NoAnswer(self.resource.clone()))
    }

    /// A container is about to start. Nothing happens if the plugin does not want to know.
    pub(crate) async fn pre_start(
        &self,
        devices: &DeviceSet,
        limit: Duration,
    ) -> Result<(), PluginError> {
        if !self.options.pre_start_required {
            return Ok(());
        }
        let request = api::PreStartContainerRequest {
            devices_ids: ids(devices),
        };
        let mut client = self.client.clone();
        let answer = client.pre_start_container(request);
        self.within("PreStartContainer", limit, answer).await?;
        Ok(())
    }

    async fn within<T>(
        &self,
        call: &'static str,
        limit: Duration,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, PluginError> {
        let resource = self.resource.clone();
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(PluginError::Failed {
                call,
                resource,
                message: status.message().to_owned(),
            }),
            Err(_) => Err(PluginError::TimedOut {
                call,
                resource,
                limit,
            }),
        }
    }
}

/// Ids as the wire has them.
pub(crate) fn ids(devices: &DeviceSet) -> Vec<String> {
    devices.iter().map(ToString::to_string).collect()
}
