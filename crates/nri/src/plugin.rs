//! What a plugin is: one method per event.

use std::fmt;
use std::time::Duration;

use crate::api::{
    Container, ContainerUpdate, CreateContainerResponse, Events, LinuxResources, PodSandbox,
    UpdateContainerResponse, ValidateContainerAdjustmentRequest,
};

/// Why a plugin says no, for people.
///
/// To an event that asks before something happens, a rejection fails the request: the container is
/// *not* created. That is the only way for a plugin to stop a container, short of an event of
/// [`Plugin::validate_container_adjustment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    reason: String,
}

impl Rejection {
    /// A rejection for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Rejection { reason }
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Any error can be the reason of a rejection, so `?` works in a plugin's methods.
impl<E: std::error::Error> From<E> for Rejection {
    fn from(error: E) -> Self {
        Rejection::new(error.to_string())
    }
}

/// The runtime a plugin is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Its name, `containerd` or `cri-o`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its version of NRI; empty before NRI 0.12.
    pub nri_version: String,
    /// The plugin's configuration, if the runtime keeps one for it.
    pub config: String,
    /// How long a plugin has to answer, if the runtime says so (NRI 0.8 and later).
    pub request_timeout: Option<Duration>,
    /// The events this runtime knows. Others never arrive, whatever [`Plugin::events`] says.
    pub events: Events,
}

/// A plugin.
///
/// Methods are called one at a time, in the order of the runtime's requests, on the thread that
/// called [`crate::Runner::run`]. The runtime waits for each of them, two seconds by default. A
/// plugin that takes longer is dropped, and **containers then start as if it did not exist, with
/// success reported**: answer from memory.
///
/// Only the methods of [`Plugin::events`] are called, besides `configure`, `synchronize` and
/// `shutdown`. Every method but `events` may be left out.
pub trait Plugin {
    /// The events this plugin wants, asked for after [`Plugin::configure`]. A runtime rejects
    /// plugins that want events it does not know, so those are left out of what it is told; if
    /// none is left, the session fails.
    fn events(&self) -> Events;

    /// A session begins with this runtime.
    ///
    /// # Errors
    /// A rejection ends the session, and the runtime goes on without the plugin.
    fn configure(&mut self, runtime: &RuntimeInfo) -> Result<(), Rejection> {
        let _ = runtime;
        Ok(())
    }

    /// Everything that exists at the beginning of a session. Containers may have started, changed
    /// and ended while the plugin was away. The answer changes containers that run.
    ///
    /// Runtimes before NRI 0.8, such as containerd 1.7.24, never call it for plugins that they
    /// start themselves; those get events right away.
    ///
    /// # Errors
    /// A rejection ends the session, and the runtime goes on without the plugin.
    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, Rejection> {
        let _ = (pods, containers);
        Ok(Vec::new())
    }

    /// The runtime goes down.
    fn shutdown(&mut self) {}

    /// A pod is being created.
    ///
    /// # Errors
    /// A rejection fails the creation.
    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Rejection> {
        let _ = pod;
        Ok(())
    }

    /// A pod's resources are about to change.
    ///
    /// # Errors
    /// A rejection fails the change.
    fn update_pod_sandbox(
        &mut self,
        pod: &PodSandbox,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), Rejection> {
        let _ = (pod, overhead, resources);
        Ok(())
    }

    /// A pod's resources have changed.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn post_update_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Rejection> {
        let _ = pod;
        Ok(())
    }

    /// A pod is being stopped.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Rejection> {
        let _ = pod;
        Ok(())
    }

    /// A pod is being removed.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Rejection> {
        let _ = pod;
        Ok(())
    }

    /// A container is being created. The answer changes it, and others.
    ///
    /// # Errors
    /// A rejection fails the creation.
    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, Rejection> {
        let _ = (pod, container);
        Ok(CreateContainerResponse::default())
    }

    /// A container was created; it is shown with the changes of all plugins.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn post_create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Rejection> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container is being started.
    ///
    /// # Errors
    /// A rejection fails the start.
    fn start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Rejection> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container was started.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn post_start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Rejection> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container's resources are about to change, because the kubelet asked for it. The answer
    /// changes what will be changed, and other containers.
    ///
    /// # Errors
    /// A rejection fails the change.
    fn update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        resources: &LinuxResources,
    ) -> Result<UpdateContainerResponse, Rejection> {
        let _ = (pod, container, resources);
        Ok(UpdateContainerResponse::default())
    }

    /// A container's resources have changed.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn post_update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Rejection> {
        let _ = (pod, container);
        Ok(())
    }

    /// A container is being stopped. The answer changes others.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn stop_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, Rejection> {
        let _ = (pod, container);
        Ok(Vec::new())
    }

    /// A container is being removed.
    ///
    /// # Errors
    /// A rejection is logged by the runtime.
    fn remove_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Rejection> {
        let _ = (pod, container);
        Ok(())
    }

    /// May the changes that all plugins made to this container stand?
    ///
    /// Runtimes wait for this answer more strictly: containerd 2.3 fails the creation if a plugin
    /// that wants this event hangs up in the middle of it. It does not miss one that is gone already.
    ///
    /// # Errors
    /// A rejection fails the container's creation, with its reason.
    fn validate_container_adjustment(
        &mut self,
        request: &ValidateContainerAdjustmentRequest,
    ) -> Result<(), Rejection> {
        let _ = request;
        Ok(())
    }
}
