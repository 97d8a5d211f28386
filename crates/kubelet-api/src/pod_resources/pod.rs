//! Messages of `List` and `Get`.

use super::ContainerResources;

/// A request for all pods.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListPodResourcesRequest {}

/// The resources of all pods.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListPodResourcesResponse {
    /// The pods.
    #[prost(message, repeated, tag = "1")]
    pub pod_resources: Vec<PodResources>,
}

/// A request for one pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetPodResourcesRequest {
    /// Its name.
    #[prost(string, tag = "1")]
    pub pod_name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub pod_namespace: String,
}

/// The resources of one pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetPodResourcesResponse {
    /// The pod.
    #[prost(message, optional, tag = "1")]
    pub pod_resources: Option<PodResources>,
}

/// The resources of a pod's containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodResources {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Its containers, sidecars first; init containers that terminate are not listed.
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}
