//! Device plugins, `v1beta1`: how programs of vendors offer devices to the kubelet.
//!
//! ```text
//! plugin ── Register(version, endpoint, resource) ──► kubelet.sock
//!        ◄── GetDevicePluginOptions ───────────────── kubelet, on the plugin's own socket
//!        ◄── ListAndWatch, a list per change ───────►
//!        ◄── GetPreferredAllocation, before devices are chosen (if the plugin offers it)
//!        ◄── Allocate, when a container gets devices
//!        ◄── PreStartContainer, before each start (if the plugin asks for it)
//! ```

use crate::service::service;

mod allocate;
mod device;
mod register;

pub use allocate::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateRequest,
    ContainerAllocateResponse, ContainerPreferredAllocationRequest,
    ContainerPreferredAllocationResponse, DeviceSpec, Mount, PreStartContainerRequest,
    PreStartContainerResponse, PreferredAllocationRequest, PreferredAllocationResponse,
};
pub use device::{Device, HEALTHY, ListAndWatchResponse, NumaNode, TopologyInfo, UNHEALTHY};
pub use register::{DevicePluginOptions, Empty, RegisterRequest};

/// The one version of the interface there is.
pub const VERSION: &str = "v1beta1";

/// Where plugins put their sockets.
pub const DIRECTORY: &str = "/var/lib/kubelet/device-plugins";

/// The name of the kubelet's socket in that directory.
pub const KUBELET_SOCKET: &str = "kubelet.sock";

service! {
    /// The kubelet's side: where plugins register.
    Registration, RegistrationServer, RegistrationClient = "v1beta1.Registration" {
        /// A plugin makes itself known.
        unary register(RegisterRequest) -> Empty = "Register";
    }
}

service! {
    /// The plugin's side.
    DevicePlugin, DevicePluginServer, DevicePluginClient = "v1beta1.DevicePlugin" {
        /// Which of the optional calls the plugin wants.
        unary get_device_plugin_options(Empty) -> DevicePluginOptions = "GetDevicePluginOptions";
        /// All devices, now and again whenever one changes.
        stream list_and_watch(Empty) -> ListAndWatchResponse = "ListAndWatch";
        /// Which of the available devices go well together. Advice only.
        unary get_preferred_allocation(PreferredAllocationRequest) -> PreferredAllocationResponse
            = "GetPreferredAllocation";
        /// Devices are given to a container: what has to be in it so that it can use them?
        unary allocate(AllocateRequest) -> AllocateResponse = "Allocate";
        /// A container is about to start with its devices.
        unary pre_start_container(PreStartContainerRequest) -> PreStartContainerResponse
            = "PreStartContainer";
    }
}
