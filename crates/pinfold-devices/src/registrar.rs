//! The registration service: checks a plugin's registration, connects back to it, and watches its devices.
//!
//! Mirrors `server.Register` and `connectClient`: the version is checked, then the resource name; then the plugin is
//! connected to and its options are read, all before the registration is answered. Unlike in the kubelet, the endpoint
//! must be the name of a socket in the directory, and everything is bounded. A failed registration leaves the plugin
//! registered before unchanged.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use kubelet_api::device_plugin as api;
use pinfold_core::name::ResourceName;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use crate::manager::ManagerState;
use crate::plugin::{PluginError, RegisteredPlugin};
use crate::registry::{self, PluginSession};

/// Why a registration is rejected. Where the kubelet has a message, it is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The plugin uses another API version.
    #[error(
        "requested API version {0:?} is not supported by kubelet. Supported version is [{supported:?}]",
        supported = api::VERSION
    )]
    Version(String),
    /// The resource is not an extended resource.
    #[error("the ResourceName {0:?} is invalid")]
    Resource(String),
    /// The endpoint is not the name of a socket in the plugin directory.
    #[error("the Endpoint {0:?} is not the name of a socket in the device plugin directory")]
    Endpoint(String),
    /// The limit of registered resources is reached.
    #[error("there are {0} resources already")]
    TooManyResources(usize),
    /// The limit of concurrent registrations is reached.
    #[error("too many registrations at the same time")]
    Busy,
    /// The plugin could not be connected to.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl From<RegistrationError> for Status {
    /// The kubelet uses the code `Unknown` for all of them.
    fn from(rejection: RegistrationError) -> Self {
        Status::unknown(rejection.to_string())
    }
}

/// The registration service.
pub(crate) struct Registrar {
    shared: Arc<ManagerState>,
    permits: Arc<Semaphore>,
}

impl Registrar {
    pub(crate) fn new(shared: Arc<ManagerState>) -> Self {
        let permits = Arc::new(Semaphore::new(shared.config.limits.registrations));
        Self { shared, permits }
    }

    async fn admit(&self, request: api::RegisterRequest) -> Result<(), RegistrationError> {
        let resource = check(&request)?;
        let _permit = self
            .permits
            .try_acquire()
            .map_err(|_| RegistrationError::Busy)?;
        let limits = &self.shared.config.limits;
        if self.shared.registry().is_full(&resource, limits.resources) {
            return Err(RegistrationError::TooManyResources(limits.resources));
        }
        let socket = self.shared.config.directory.join(&request.endpoint);
        let plugin = RegisteredPlugin::connect(&resource, &socket, limits.options_timeout).await?;
        let mut registry = self.shared.registry();
        // Other plugins may have registered meanwhile.
        if registry.is_full(&resource, limits.resources) {
            return Err(RegistrationError::TooManyResources(limits.resources));
        }
        self.shared.activity().registered(&resource);
        let session = registry.add_plugin(&resource, plugin.clone());
        let watch = watch(self.shared.clone(), resource.clone(), session, plugin);
        registry.set_watcher(&resource, tokio::spawn(watch).abort_handle());
        Ok(())
    }
}

impl api::Registration for Registrar {
    async fn register(
        &self,
        request: Request<api::RegisterRequest>,
    ) -> Result<Response<api::Empty>, Status> {
        self.admit(request.into_inner()).await?;
        Ok(Response::new(api::Empty {}))
    }
}

/// The checks that do not need a connection to the plugin.
fn check(request: &api::RegisterRequest) -> Result<ResourceName, RegistrationError> {
    if request.version != api::VERSION {
        return Err(RegistrationError::Version(request.version.clone()));
    }
    if !pinfold_kube::pod::is_extended(&request.resource_name) {
        return Err(RegistrationError::Resource(request.resource_name.clone()));
    }
    let endpoint = request.endpoint.as_str();
    let is_other = matches!(endpoint, "" | "." | ".." | api::KUBELET_SOCKET);
    if is_other || endpoint.contains(['/', '\\', '\0']) {
        return Err(RegistrationError::Endpoint(request.endpoint.clone()));
    }
    Ok(request.resource_name.as_str().into())
}

/// Watches a plugin's device lists until the stream ends or another plugin replaces it.
async fn watch(
    shared: Arc<ManagerState>,
    resource: ResourceName,
    session: PluginSession,
    plugin: RegisteredPlugin,
) {
    follow(&shared, &resource, session, plugin).await;
    let mut registry = shared.registry();
    if let Some(devices) = registry.plugin_stopped(&resource, session, Instant::now()) {
        shared.offers.put(resource, Some(devices));
    }
}

async fn follow(
    shared: &ManagerState,
    resource: &ResourceName,
    session: PluginSession,
    plugin: RegisteredPlugin,
) {
    let Ok(mut lists) = plugin.watch().await else {
        return;
    };
    while let Ok(Some(list)) = lists.message().await {
        if list.devices.len() > shared.config.limits.devices {
            return;
        }
        let devices = registry::offer(list.devices, &shared.config.sockets);
        // Queued while the registry is locked, so that offers are in the order of the lists.
        let mut registry = shared.registry();
        if registry.update_devices(resource, session, &devices) {
            shared.offers.put(resource.clone(), Some(devices));
        }
    }
}

impl ManagerState {
    pub(crate) fn registry(&self) -> std::sync::MutexGuard<'_, registry::PluginRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_names_the_version_a_vendors_resource_and_a_socket_beside_ours() {
        for (version, resource, endpoint, rejected) in [
            ("v1beta1", "example.com/gpu", "gpu.sock", None),
            ("v1beta1", "example.com/gpu", "..sock", None),
            (
                "v1alpha1",
                "example.com/gpu",
                "gpu.sock",
                Some(
                    "requested API version \"v1alpha1\" is not supported by kubelet. Supported version is [\"v1beta1\"]",
                ),
            ),
            (
                "",
                "example.com/gpu",
                "gpu.sock",
                Some(
                    "requested API version \"\" is not supported by kubelet. Supported version is [\"v1beta1\"]",
                ),
            ),
            (
                "v1beta1",
                "gpu",
                "gpu.sock",
                Some("the ResourceName \"gpu\" is invalid"),
            ),
            (
                "v1beta1",
                "kubernetes.io/gpu",
                "gpu.sock",
                Some("the ResourceName \"kubernetes.io/gpu\" is invalid"),
            ),
            (
                "v1beta1",
                "requests.example.com/gpu",
                "gpu.sock",
                Some("the ResourceName \"requests.example.com/gpu\" is invalid"),
            ),
            (
                "v1beta1",
                "example.com/",
                "gpu.sock",
                Some("the ResourceName \"example.com/\" is invalid"),
            ),
            (
                "v1beta1",
                "example.com/gpu",
                "../gpu.sock",
                Some(
                    "the Endpoint \"../gpu.sock\" is not the name of a socket in the device plugin directory",
                ),
            ),
            (
                "v1beta1",
                "example.com/gpu",
                "/run/gpu.sock",
                Some(
                    "the Endpoint \"/run/gpu.sock\" is not the name of a socket in the device plugin directory",
                ),
            ),
            (
                "v1beta1",
                "example.com/gpu",
                "",
                Some(
                    "the Endpoint \"\" is not the name of a socket in the device plugin directory",
                ),
            ),
            (
                "v1beta1",
                "example.com/gpu",
                "kubelet.sock",
                Some(
                    "the Endpoint \"kubelet.sock\" is not the name of a socket in the device plugin directory",
                ),
            ),
        ] {
            let request = api::RegisterRequest {
                version: version.to_owned(),
                resource_name: resource.to_owned(),
                endpoint: endpoint.to_owned(),
                options: None,
            };
            let rejection = check(&request).err().map(|rejection| rejection.to_string());
            assert_eq!(rejection.as_deref(), rejected);
        }
    }
}
