//! The pod resources API, `v1`: the CPUs, memory and devices of each pod, for monitoring agents.

use crate::service;

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

/// The kubelet's socket.
pub const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";

service! {
    /// The kubelet's service.
    PodResourcesLister, PodResourcesListerServer, PodResourcesListerClient = "v1.PodResourcesLister" {
        /// The resources of all pods.
        unary list(ListPodResourcesRequest) -> ListPodResourcesResponse = "List";
        /// The allocatable resources of the node.
        unary get_allocatable_resources(AllocatableResourcesRequest) -> AllocatableResourcesResponse
            = "GetAllocatableResources";
        /// The resources of one pod.
        unary get(GetPodResourcesRequest) -> GetPodResourcesResponse = "Get";
    }
}
