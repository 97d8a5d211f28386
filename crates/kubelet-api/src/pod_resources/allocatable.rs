//! Messages of `GetAllocatableResources`.

use super::{ContainerDevices, ContainerMemory};

/// A request for the node's allocatable resources.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AllocatableResourcesRequest {}

/// The node's allocatable resources.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AllocatableResourcesResponse {
    /// Healthy devices.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<ContainerDevices>,
    /// CPUs that are not reserved.
    #[prost(int64, repeated, tag = "2")]
    pub cpu_ids: Vec<i64>,
    /// Memory that is not reserved.
    #[prost(message, repeated, tag = "3")]
    pub memory: Vec<ContainerMemory>,
}
