//! The registration service: who may register, and what follows.
//!
//! Mirrors `server.Register` and `connectClient`: the version is checked, then the name of the resource; then the
//! plugin is connected to and asked for its options, all before the registration is answered. Beyond the kubelet,
//! an endpoint must be the name of a socket in the directory, and everything is bounded. A registration that fails
//! leaves the plugin that was there alone.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use kubelet_api::device_plugin as api;
use pinfold_core::name::ResourceName;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use crate::manager::Shared;
use crate::plugin::{Plugin, PluginError};
use crate::registry::{self, Session};

/// Why a plugin may not register. Where the kubelet has a message, it is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It speaks another version.
    #[error(
        "requested API version {0:?} is not supported by kubelet. Supported version is [{supported:?}]",
        supported = api::VERSION
    )]
    Version(String),
    /// The resource is not one of a vendor.
    #[error("the ResourceName {0:?} is invalid")]
    Resource(String),
    /// The endpoint is not the name of a socket beside the kubelet's.
    #[error("the Endpoint {0:?} is not the name of a socket in the device plugin directory")]
    Endpoint(String),
    /// There are as many resources as are allowed.
    #[error("there are {0} resources already")]
    TooManyResources(usize),
    /// Too many plugins register at the same time.
    #[error("too many registrations at the same time")]
    Busy,
    /// The plugin could not be asked back.
    #[error(transparent)]
    Plugin(#[from] PluginError),
}

impl From<Rejection> for Status {
    /// The kubelet's code for all of them.
    fn from(rejection: Rejection) -> Self {
        Status::unknown(rejection.to_string())
    }
}

/// Answers registrations.
pub(crate) struct Registrar {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
}

impl Registrar {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let places = Arc::new(Semaphore::new(shared.config.limits.registrations));
        Self { shared, places }
    }

    async fn admit(&self, request: api::RegisterRequest) -> Result<(), Rejection> {
        let resource = check(&request)?;
        let _place = self.places.try_acquire().map_err(|_| Rejection::Busy)?;
        let limits = &self.shared.config.limits;
        if self.shared.registry().is_full(&resource, limits.resources) {
            return Err(Rejection::TooManyResources(limits.resources));
        }
        let socket = self.shared.config.directory.join(&request.endpoint);
        let plugin = Plugin::connect(&resource, &socket, limits.options_timeout).await?;
        let mut registry = self.shared.registry();
        // Others may have come in the meantime.
        if registry.is_full(&resource, limits.resources) {
            return Err(Rejection::TooManyResources(limits.resources));
        }
        self.shared.activity().registered(&resource);
        let session = registry.connected(&resource, plugin.clone());
        let watch = watch(self.shared.clone(), resource.clone(), session, plugin);
        registry.followed(&resource, tokio::spawn(watch).abort_handle());
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

/// What can be said without asking the plugin.
fn check(request: &api::RegisterRequest) -> Result<ResourceName, Rejection> {
    if request.version != api::VERSION {
        return Err(Rejection::Version(request.version.clone()));
    }
    if !pinfold_kube::pod::is_extended(&request.resource_name) {
        return Err(Rejection::Resource(request.resource_name.clone()));
    }
    let endpoint = request.endpoint.as_str();
    let is_other = matches!(endpoint, "" | "." | ".." | api::KUBELET_SOCKET);
    if is_other || endpoint.contains(['/', '\\', '\0']) {
        return Err(Rejection::Endpoint(request.endpoint.clone()));
    }
    Ok(request.resource_name.as_str().into())
}

/// Follows a plugin's lists until they end or another plugin has taken its place.
async fn watch(shared: Arc<Shared>, resource: ResourceName, session: Session, plugin: Plugin) {
    follow(&shared, &resource, session, plugin).await;
    let mut registry = shared.registry();
    if let Some(devices) = registry.ended(&resource, session, Instant::now()) {
        shared.offers.put(resource, Some(devices));
    }
}

async fn follow(shared: &Shared, resource: &ResourceName, session: Session, plugin: Plugin) {
    let Ok(mut lists) = plugin.watch().await else {
        return;
    };
    while let Ok(Some(list)) = lists.message().await {
        if list.devices.len() > shared.config.limits.devices {
            return;
        }
        let devices = registry::offer(list.devices, &shared.config.sockets);
        // Put while the registry is locked: offers come in the order of the lists.
        let mut registry = shared.registry();
        if registry.listed(resource, session, &devices) {
            shared.offers.put(resource.clone(), Some(devices));
        }
    }
}

impl Shared {
    pub(crate) fn registry(&self) -> std::sync::MutexGuard<'_, registry::Registry> {
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
