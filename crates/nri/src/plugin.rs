//! The [`Plugin`] trait: one method per event of the runtime.

use std::fmt;
use std::time::Duration;

use crate::api::{
    Container, ContainerUpdate, CreateContainerResponse, Events, LinuxResources, PodSandbox,
    UpdateContainerResponse, ValidateContainerAdjustmentRequest,
};

/// The error with which a plugin answers an event, with the reason as text.
///
/// Returned for an event that precedes an operation, it fails the operation: the container is *not*
/// created. Besides [`Plugin::validate_container_adjustment`] that is the only way for a plugin to
/// reject a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventError {
    reason: String,
}

impl EventError {
    /// An error with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        EventError { reason }
    }

    /// The reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Any error can become a [`EventError`], so `?` works in a plugin's methods.
impl<E: std::error::Error> From<E> for EventError {
    fn from(error: E) -> Self {
        EventError::new(error.to_string())
    }
}

/// The container runtime that a plugin is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Its name, `containerd` or `cri-o`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// NRI version of the runtime; empty before NRI 0.12.
    pub nri_version: String,
    /// The plugin's configuration from the runtime's configuration directory; empty if there is none.
    pub config: String,
    /// How long the runtime waits for an answer; `None` before NRI 0.8, which does not send it.
    pub request_timeout: Option<Duration>,
    /// The events that the runtime supports. Other events of [`Plugin::events`] never arrive.
    pub events: Events,
}

/// An NRI plugin.
///
/// Methods are called one at a time, in the order of the runtime's requests, on the thread that
/// called [`crate::Runner::run`]. The runtime waits for each of them, two seconds by default. A
/// plugin that takes longer is dropped, and **containers then start as if it did not exist, with
/// success reported**: answer from memory.
///
/// A method that panics fails the request, and the session goes on: a plugin must be usable after
/// a panic.
///
/// Only the methods of [`Plugin::events`] are called, besides `configure`, `synchronize` and
/// `shutdown`. Every method but `events` may be left out.
pub trait Plugin {
    /// The events that the plugin subscribes to. Called after [`Plugin::configure`]. A runtime
    /// rejects subscriptions to events that it does not support, so those are left out; if none is
    /// left, the session fails.
    fn events(&self) -> Events;

    /// Called when a session with a runtime begins.
    ///
    /// # Errors
    /// An error ends the session, and the runtime continues without the plugin.
    fn configure(&mut self, runtime: &RuntimeInfo) -> Result<(), EventError> {
        let _ = runtime;
        Ok(())
    }

    /// Called with all pods and containers at the beginning of a session. Containers may have
    /// started, changed and ended while the plugin was not connected. The answer changes running
    /// containers.
    ///
    /// Runtimes before NRI 0.8, such as containerd 1.7.24, do not call it for plugins that they
    /// start themselves; those receive events at once.
    ///
    /// # Errors
    /// An error ends the session, and the runtime continues without the plugin.
    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        let _ = (pods, containers);
        Ok(Vec::new())
    }

    /// The runtime is shutting down.
    fn shutdown(&mut self) {}

    /// A pod is being created.
    ///
    /// # Errors
    /// An error fails the creation.
    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        let _ = pod;
        Ok(())
    }

    /// A pod's resources are about to change.
    ///
    /// # Errors
    /// An error fails the change.
    fn update_pod_sandbox(
        &mut self,
        pod: &PodSandbox,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), EventError> {
        let _ = (pod, overhead, resources);
        Ok(())
    }

    /// A pod's resources have changed.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn post_update_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        let _ = pod;
        Ok(())
    }

    /// A pod is being stopped.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        let _ = pod;
        Ok(())
    }

    /// A pod is being removed.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        let _ = pod;
        Ok(())
    }

    /// A container is being created. The answer can change it and other containers.
    ///
    /// # Errors
    /// An error fails the creation.
    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, EventError> {
        let _ = (pod, container);
        Ok(CreateContainerResponse::default())
    }

    /// A container was created; `container` includes the changes of all plugins.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn post_create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container is being started.
    ///
    /// # Errors
    /// An error fails the start.
    fn start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container was started.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn post_start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container's resources are about to change, because the kubelet requested it. The answer
    /// can change the new resources and other containers.
    ///
    /// # Errors
    /// An error fails the change.
    fn update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        resources: &LinuxResources,
    ) -> Result<UpdateContainerResponse, EventError> {
        let _ = (pod, container, resources);
        Ok(UpdateContainerResponse::default())
    }

    /// A container's resources have changed.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn post_update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container is being stopped. The answer can change other containers.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn stop_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        let _ = (pod, container);
        Ok(Vec::new())
    }

    /// A container is being removed.
    ///
    /// # Errors
    /// The runtime logs an error.
    fn remove_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _ = (pod, container);
        Ok(())
    }

    /// Accepts or rejects the changes that all plugins made to a container.
    ///
    /// Runtimes are stricter with this event: containerd 2.3 fails the creation if a plugin that
    /// subscribed to it disconnects while handling it. A plugin that was disconnected before is not
    /// missed.
    ///
    /// # Errors
    /// An error fails the container's creation, with its reason.
    fn validate_container_adjustment(
        &mut self,
        request: &ValidateContainerAdjustmentRequest,
    ) -> Result<(), EventError> {
        let _ = request;
        Ok(())
    }
}
