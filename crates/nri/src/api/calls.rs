//! Requests and answers of the two services.
//!
//! Requests that hold nothing but a pod, or a pod and a container, share one type here: their
//! bytes are the same.

use super::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, Event, LinuxResources,
    OwningPlugins, PodSandbox,
};

/// The answer that says nothing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// Plugin to runtime: who is there.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterPluginRequest {
    /// The plugin's name.
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    /// Two digits: plugins are called in this order.
    #[prost(string, tag = "2")]
    pub plugin_idx: String,
    /// The version of NRI the plugin was written for.
    #[prost(string, tag = "3")]
    pub nri_version: String,
}

/// Plugin to runtime: change containers now.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainersRequest {
    /// The changes.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    /// Containers to stop.
    #[prost(message, repeated, tag = "2")]
    pub evict: Vec<ContainerEviction>,
}

/// The answer to [`UpdateContainersRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainersResponse {
    /// The changes that failed.
    #[prost(message, repeated, tag = "1")]
    pub failed: Vec<ContainerUpdate>,
}

/// Runtime to plugin: who is there, and the plugin's configuration.
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
    /// Milliseconds a plugin has to register; 0 if the runtime does not say.
    #[prost(int64, tag = "4")]
    pub registration_timeout: i64,
    /// Milliseconds a plugin has to answer; 0 if the runtime does not say.
    #[prost(int64, tag = "5")]
    pub request_timeout: i64,
    /// The runtime's version of NRI; empty before NRI 0.12.
    #[prost(string, tag = "6")]
    pub nri_version: String,
}

/// The answer to [`ConfigureRequest`].
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ConfigureResponse {
    /// The events the plugin wants; 0 means all.
    #[prost(int32, tag = "2")]
    pub events: i32,
}

/// Runtime to plugin: everything there is, perhaps in parts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SynchronizeRequest {
    /// Pods.
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<PodSandbox>,
    /// Containers.
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    /// Whether another part follows.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

/// The answer to [`SynchronizeRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct SynchronizeResponse {
    /// Changes; only in the answer to the last part.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    /// The request's `more`, given back.
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

/// Runtime to plugin: a pod's resources are about to change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdatePodSandboxRequest {
    /// The pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// What the pod costs beyond its containers.
    #[prost(message, optional, tag = "2")]
    pub overhead_linux_resources: Option<LinuxResources>,
    /// The sum over its containers.
    #[prost(message, optional, tag = "3")]
    pub linux_resources: Option<LinuxResources>,
}

/// Runtime to plugin: a container is about to be created.
pub type CreateContainerRequest = ContainerRequest;

/// The answer to [`CreateContainerRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct CreateContainerResponse {
    /// Changes to the container.
    #[prost(message, optional, tag = "1")]
    pub adjust: Option<ContainerAdjustment>,
    /// Changes to others.
    #[prost(message, repeated, tag = "2")]
    pub update: Vec<ContainerUpdate>,
    /// Containers to stop.
    #[prost(message, repeated, tag = "3")]
    pub evict: Vec<ContainerEviction>,
}

/// Runtime to plugin: a container's resources are about to change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainerRequest {
    /// The container's pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The container as it is.
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    /// What is asked for.
    #[prost(message, optional, tag = "3")]
    pub linux_resources: Option<LinuxResources>,
}

/// The answer to [`UpdateContainerRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct UpdateContainerResponse {
    /// Changes, to this container or others.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
    /// Containers to stop.
    #[prost(message, repeated, tag = "2")]
    pub evict: Vec<ContainerEviction>,
}

/// The answer to a container's stop.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StopContainerResponse {
    /// Changes to the containers that remain.
    #[prost(message, repeated, tag = "1")]
    pub update: Vec<ContainerUpdate>,
}

/// Runtime to plugin: an event that needs no answer, as runtimes before NRI 0.12 send most.
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

/// Runtime to plugin: may all plugins' changes to this container stand?
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValidateContainerAdjustmentRequest {
    /// The container's pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The container before any change.
    #[prost(message, optional, tag = "2")]
    pub container: Option<Container>,
    /// The changes to it.
    #[prost(message, optional, tag = "3")]
    pub adjust: Option<ContainerAdjustment>,
    /// The changes to others.
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<ContainerUpdate>,
    /// Who made which change.
    #[prost(message, optional, tag = "5")]
    pub owners: Option<OwningPlugins>,
    /// The plugins that were asked.
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

/// The answer to [`ValidateContainerAdjustmentRequest`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValidateContainerAdjustmentResponse {
    /// Whether the container must not be created like this.
    #[prost(bool, tag = "1")]
    pub reject: bool,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub reason: String,
}
