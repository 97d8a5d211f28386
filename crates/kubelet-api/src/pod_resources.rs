//! Pod resources, `v1`: which pod holds which CPUs, memory and devices, for monitoring agents.

use crate::service::service;

mod allocatable;
mod container;
mod pod;

pub use allocatable::{AllocatableResourcesRequest, AllocatableResourcesResponse};
pub use container::{
    CdiDevice, ClaimResource, ContainerDevices, ContainerMemory, ContainerResources,
    DynamicResource, NumaNode, TopologyInfo,
};
pub use pod::{
    GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse, PodResources,
};

/// Where the kubelet serves it.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

service! {
    /// The kubelet's side.
    PodResourcesLister, PodResourcesListerServer, PodResourcesListerClient = "v1.PodResourcesLister" {
        /// All pods and what they hold.
        unary list(ListPodResourcesRequest) -> ListPodResourcesResponse = "List";
        /// What pods could hold if none were there.
        unary get_allocatable_resources(AllocatableResourcesRequest) -> AllocatableResourcesResponse
            = "GetAllocatableResources";
        /// One pod and what it holds.
        unary get(GetPodResourcesRequest) -> GetPodResourcesResponse = "Get";
    }
}
