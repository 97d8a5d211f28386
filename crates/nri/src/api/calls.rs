//! Requests and responses of the two services.
//!
//! Requests with only a pod, or only a pod and a container, share one type here: their encoding is the
//! same.

use super::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, Event, LinuxResources,
    OwningPlugins, PodSandbox,
};

/// The empty response.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// `RegisterPlugin` request of the plugin.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterPluginRequest {
    /// The plugin's name.
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    /// Index of two digits: the runtime calls plugins in this order.
    #[prost(string, tag = "2")]
    pub plugin_idx: String,
    /// The version of NRI the plugin was written for.
    #[prost(string, tag = "3")]
    pub nri_version: String,
}

/// `UpdateContainers` request of the plugin, outside of an event.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainersRequest {
    /// The changes.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    /// Containers to stop.
    #[prost(message, repeated, tag = "2")]
    pub evict: Vec<ContainerEviction>,
}

/// The response to [`UpdateContainersRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainersResponse {
    /// The changes that failed.
    #[prost(message, repeated, tag = "1")]
    pub failed: Vec<ContainerUpdate>,
}

/// `Configure` request of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ConfigureRequest {
    /// The plugin's configuration file, if the runtime has one.
    #[prost(string, tag = "1")]
    pub config: String,
    /// The runtime's name, `containerd` or `cri-o`.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// The runtime's version.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    /// Registration timeout in milliseconds; 0 if not sent.
    #[prost(int64, tag = "4")]
    pub registration_timeout: i64,
    /// Request timeout in milliseconds; 0 if not sent.
    #[prost(int64, tag = "5")]
    pub request_timeout: i64,
    /// The runtime's version of NRI; empty before NRI 0.12.
    #[prost(string, tag = "6")]
    pub nri_version: String,
}

/// The response to [`ConfigureRequest`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ConfigureResponse {
    /// The events that the plugin subscribes to; 0 means all.
    #[prost(int32, tag = "2")]
    pub events: i32,
}

/// `Synchronize` request of the runtime: all pods and containers, in one or several messages.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SynchronizeRequest {
    /// Pods.
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<PodSandbox>,
    /// Containers.
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    /// Whether another message follows.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

/// The response to [`SynchronizeRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct SynchronizeResponse {
    /// Updates of containers; only in the response to the last message.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    /// The request's `more`.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// An event about a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodSandboxRequest {
    /// The pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
}

/// An event about a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerRequest {
    /// The container's pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The container.
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
}

/// `UpdatePodSandbox` request of the runtime: a pod's resources are about to change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdatePodSandboxRequest {
    /// The pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The pod overhead.
    #[prost(message, optional, tag = "2")]
    pub overhead_linux_resources: Option<LinuxResources>,
    /// The sum of its containers' resources.
    #[prost(message, optional, tag = "3")]
    pub linux_resources: Option<LinuxResources>,
}

/// `CreateContainer` request of the runtime.
pub type CreateContainerRequest = ContainerRequest;

/// The response to [`CreateContainerRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateContainerResponse {
    /// Changes to the container.
    #[prost(message, optional, tag = "1")]
    pub adjust: Option<ContainerAdjustment>,
    /// Updates of other containers.
    #[prost(message, repeated, tag = "2")]
    pub update: Vec<ContainerUpdate>,
    /// Containers to stop.
    #[prost(message, repeated, tag = "3")]
    pub evict: Vec<ContainerEviction>,
}

/// `UpdateContainer` request of the runtime: a container's resources are about to change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainerRequest {
    /// The container's pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The container before the change.
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    /// The requested resources.
    #[prost(message, optional, tag = "3")]
    pub linux_resources: Option<LinuxResources>,
}

/// The response to [`UpdateContainerRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainerResponse {
    /// Updates of this or other containers.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    /// Containers to stop.
    #[prost(message, repeated, tag = "2")]
    pub evict: Vec<ContainerEviction>,
}

/// The response to a container's stop.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StopContainerResponse {
    /// Updates of other containers.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
}

/// `StateChange` request: an event without a result, in the format of runtimes before NRI 0.12.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StateChangeEvent {
    /// The event.
    #[prost(enumeration = "Event", tag = "1")]
    pub event: i32,
    /// The pod.
    #[prost(message, optional, tag = "2")]
    pub pod: Option<PodSandbox>,
    /// The container, if the event is about one.
    #[prost(message, optional, tag = "3")]
    pub container: Option<Container>,
}

/// `ValidateContainerAdjustment` request: the changes of all plugins to a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValidateContainerAdjustmentRequest {
    /// The container's pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The container before the changes.
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    /// The changes to it.
    #[prost(message, optional, tag = "3")]
    pub adjust: Option<ContainerAdjustment>,
    /// The updates of other containers.
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<ContainerUpdate>,
    /// The plugin that made each change.
    #[prost(message, optional, tag = "5")]
    pub owners: Option<OwningPlugins>,
    /// The plugins that were called.
    #[prost(message, repeated, tag = "6")]
    pub plugins: Vec<PluginInstance>,
}

/// A plugin.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PluginInstance {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its index.
    #[prost(string, tag = "2")]
    pub index: String,
}

/// The response to [`ValidateContainerAdjustmentRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValidateContainerAdjustmentResponse {
    /// Whether the changes are rejected.
    #[prost(bool, tag = "1")]
    pub reject: bool,
    /// The reason.
    #[prost(string, tag = "2")]
    pub reason: String,
}
