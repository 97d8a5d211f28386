//! What is said when devices are chosen, given to a container, and about to be used.

use std::collections::BTreeMap;

/// A question for advice, about one container at a time.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreferredAllocationRequest {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerPreferredAllocationRequest>,
}

/// Which devices of these should a container get?
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerPreferredAllocationRequest {
    /// The devices to choose from.
    #[prost(string, repeated, tag = "1")]
    pub available_device_ids: Vec<String>,
    /// Those of them that the container gets in any case.
    #[prost(string, repeated, tag = "2")]
    pub must_include_device_ids: Vec<String>,
    /// How many it gets.
    #[prost(int32, tag = "3")]
    pub allocation_size: i32,
}

/// The advice, one for each container asked about.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreferredAllocationResponse {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerPreferredAllocationResponse>,
}

/// The devices that a container should get.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerPreferredAllocationResponse {
    /// Their ids.
    #[prost(string, repeated, tag = "1")]
    pub device_ids: Vec<String>,
}

/// Devices are given to containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocateRequest {
    /// The containers. The kubelet always names one.
    #[prost(message, repeated, tag = "1")]
    pub container_requests: Vec<ContainerAllocateRequest>,
}

/// The devices that a container gets.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerAllocateRequest {
    /// Their ids.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// What the containers need, one answer for each.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocateResponse {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub container_responses: Vec<ContainerAllocateResponse>,
}

/// What has to be in a container so that it can use its devices.
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
    /// Devices of the Container Device Interface.
    #[prost(message, repeated, tag = "5")]
    pub cdi_devices: Vec<CdiDevice>,
}

/// A file or folder of the host in a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mount {
    /// Where it is in the container.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// Where it is on the host.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// It cannot be written.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
}

/// A device file in a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DeviceSpec {
    /// Where it is in the container.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// Where it is on the host.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// What the container may do with it: some of `r` (read), `w` (write), `m` (make device files).
    #[prost(string, tag = "3")]
    pub permissions: String,
}

/// A device of the Container Device Interface.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CdiDevice {
    /// Its full name, such as `vendor.com/gpu=gpu1`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A container is about to start with these devices.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreStartContainerRequest {
    /// Their ids.
    #[prost(string, repeated, tag = "1")]
    pub devices_ids: Vec<String>,
}

/// The devices are ready.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PreStartContainerResponse {}
