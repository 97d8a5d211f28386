//! The device plugin API, `v1beta1`: how vendors' programs offer devices to the kubelet.
//!
//! ```text
//! plugin ── Register(version, endpoint, resource) ──► kubelet.sock
//!        ◄── GetDevicePluginOptions ───────────────── kubelet, on the plugin's own socket
//!        ◄── ListAndWatch, a list per change ───────►
//!        ◄── GetPreferredAllocation, before devices are chosen (if the plugin offers it)
//!        ◄── Allocate, when devices are allocated to a container
//!        ◄── PreStartContainer, before each start (if the plugin requires it)
//! ```

use crate::service;

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

/// The version of the API.
pub const VERSION: &str = "v1beta1";

/// The directory of the plugins' sockets.
pub const DIRECTORY: &str = "/var/lib/kubelet/device-plugins";

/// The name of the kubelet's socket in that directory.
pub const KUBELET_SOCKET: &str = "kubelet.sock";

service! {
    /// The kubelet's registration service.
    Registration, RegistrationServer, RegistrationClient = "v1beta1.Registration" {
        /// Registers a plugin.
        unary register(RegisterRequest) -> Empty = "Register";
    }
}

service! {
    /// The plugin's service.
    DevicePlugin, DevicePluginServer, DevicePluginClient = "v1beta1.DevicePlugin" {
        /// The options of the plugin: which optional calls it implements.
        unary get_device_plugin_options(Empty) -> DevicePluginOptions = "GetDevicePluginOptions";
        /// Streams the list of all devices, first at once and then after every change.
        stream list_and_watch(Empty) -> ListAndWatchResponse = "ListAndWatch";
        /// The plugin's preferred devices among the available ones. The caller may ignore them.
        unary get_preferred_allocation(PreferredAllocationRequest) -> PreferredAllocationResponse
            = "GetPreferredAllocation";
        /// Allocates devices to a container. The response lists the changes to the container that they need.
        unary allocate(AllocateRequest) -> AllocateResponse = "Allocate";
        /// Prepares the devices of a container that is about to start.
        unary pre_start_container(PreStartContainerRequest) -> PreStartContainerResponse
            = "PreStartContainer";
    }
}
