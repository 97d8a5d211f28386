//! Messages of `GetPreferredAllocation`, `Allocate` and `PreStartContainer`.

use std::collections::BTreeMap;

/// A request for the plugin's preferred devices, per container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreferredAllocationRequest {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerPreferredAllocationRequest>,
}

/// The devices that a container could get, and how many it needs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerPreferredAllocationRequest {
    /// The available devices.
    #[prost(string, repeated, tag = "1")]
    pub available_device_ids: Vec<String>,
    /// The available devices that must be among the chosen ones.
    #[prost(string, repeated, tag = "2")]
    pub must_include_device_ids: Vec<String>,
    /// The number of devices to choose.
    #[prost(int32, tag = "3")]
    pub allocation_size: i32,
}

/// The preferred devices, one entry per container of the request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreferredAllocationResponse {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerPreferredAllocationResponse>,
}

/// The preferred devices of a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerPreferredAllocationResponse {
    /// Their ids.
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

/// A request to allocate devices to containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocateRequest {
    /// The containers. The kubelet sends exactly one.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerAllocateRequest>,
}

/// The devices to allocate to a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerAllocateRequest {
    /// Their ids.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// The changes to the containers, one entry per container of the request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocateResponse {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerAllocateResponse>,
}

/// The changes to a container that its devices need.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerAllocateResponse {
    /// Environment variables.
    #[prost(btree_map = "string, string", tag = "1")]
    pub envs: BTreeMap<String, String>,
    /// Files and folders of the host.
    #[prost(message, repeated, tag = "2")]
    pub mounts: Vec<Mount>,
    /// Device files.
    #[prost(message, repeated, tag = "3")]
    pub devices: Vec<DeviceSpec>,
    /// Annotations for the container runtime.
    #[prost(btree_map = "string, string", tag = "4")]
    pub annotations: BTreeMap<String, String>,
    /// Devices of the Container Device Interface (CDI).
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

/// A bind mount of a host path.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mount {
    /// The path in the container.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// The path on the host.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// Whether the mount is read-only.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
}

/// A device file in a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceSpec {
    /// The path in the container.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// The path on the host.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// Permissions in the device cgroup: some of `r` (read), `w` (write), `m` (mknod).
    #[prost(string, tag = "3")]
    pub permissions: String,
}

/// A device of the Container Device Interface (CDI).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CdiDevice {
    /// Its full name, such as `vendor.com/gpu=gpu1`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A request to prepare the devices of a container that is about to start.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreStartContainerRequest {
    /// Their ids.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// The devices are prepared.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PreStartContainerResponse {}
