//! [`RegisteredPlugin`]: a registered plugin and the calls to it, each with a timeout.

use std::io;
use std::path::Path;
use std::time::Duration;

use kubelet_api::device_plugin as api;
use pinfold_core::device::DeviceSet;
use pinfold_core::name::ResourceName;
use tonic::{Response, Status, Streaming};

/// Errors of calling a plugin. Where the kubelet has a message, it is the kubelet's.
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
    /// The plugin did not respond in time.
    #[error("{call} of the device plugin for {resource} took longer than {limit:?}")]
    TimedOut {
        /// The call.
        call: &'static str,
        /// The plugin's resource.
        resource: ResourceName,
        /// The timeout.
        limit: Duration,
    },
    /// The plugin responded with an error.
    #[error("{call} of the device plugin for {resource} failed: {message}")]
    Failed {
        /// The call.
        call: &'static str,
        /// The plugin's resource.
        resource: ResourceName,
        /// The plugin's message.
        message: String,
    },
    /// The response to `Allocate` has no entry for the container.
    #[error("no containers return in allocation response of the device plugin for {0}")]
    NoAnswer(ResourceName),
    /// The manager has stopped.
    #[error("the device manager has stopped")]
    ManagerStopped,
}

/// A registered plugin and the connection to it.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredPlugin {
    resource: ResourceName,
    client: api::DevicePluginClient,
    /// The response to `GetDevicePluginOptions`, which may differ from the options of the registration.
    pub(crate) options: api::DevicePluginOptions,
}

impl RegisteredPlugin {
    /// Connects to a plugin's socket and calls `GetDevicePluginOptions`.
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
            .with_timeout("GetDevicePluginOptions", limit, options)
            .await?;
        Ok(plugin)
    }

    /// Calls `ListAndWatch`: the stream of the plugin's device lists.
    pub(crate) async fn watch(&self) -> Result<Streaming<api::ListAndWatchResponse>, Status> {
        let response = self.client.clone().list_and_watch(api::Empty {}).await?;
        Ok(response.into_inner())
    }

    /// Calls `GetPreferredAllocation`; `None` if the plugin does not offer it.
    pub(crate) async fn preferred_allocation(
        &self,
        request: api::ContainerPreferredAllocationRequest,
        limit: Duration,
    ) -> Result<Option<DeviceSet>, PluginError> {
        if !self.options.get_preferred_allocation_available {
            return Ok(None);
        }
        let request = api::PreferredAllocationRequest {
            container_requests: vec![request],
        };
        let mut client = self.client.clone();
        let response = client.get_preferred_allocation(request);
        let response = self
            .with_timeout("GetPreferredAllocation", limit, response)
            .await?;
        // A response without an entry for the container means no preference.
        let first = response.container_responses.into_iter().next();
        let ids = first.unwrap_or_default().device_ids;
        Ok(Some(ids.into_iter().map(Into::into).collect()))
    }

    /// Calls `Allocate` for a container's devices.
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
        let response = client.allocate(request);
        let response = self.with_timeout("Allocate", limit, response).await?;
        let first = response.container_responses.into_iter().next();
        first.ok_or_else(|| PluginError::NoAnswer(self.resource.clone()))
    }

    /// Calls `PreStartContainer`, if the plugin requires it.
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
        let response = client.pre_start_container(request);
        self.with_timeout("PreStartContainer", limit, response)
            .await?;
        Ok(())
    }

    async fn with_timeout<T>(
        &self,
        call: &'static str,
        limit: Duration,
        response: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, PluginError> {
        let resource = self.resource.clone();
        match tokio::time::timeout(limit, response).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
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

/// Device ids as strings, for a request.
pub(crate) fn ids(devices: &DeviceSet) -> Vec<String> {
    devices.iter().map(ToString::to_string).collect()
}
