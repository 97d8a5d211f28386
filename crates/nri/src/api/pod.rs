//! What a runtime tells about a pod.

use std::collections::BTreeMap;

use super::{LinuxNamespace, LinuxResources};

/// A pod, as far as a plugin may need to know it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodSandbox {
    /// The runtime's id of the sandbox.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The pod's name in Kubernetes.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The pod's UID in Kubernetes.
    #[prost(string, tag = "3")]
    pub uid: String,
    /// The pod's namespace in Kubernetes.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// The pod's labels.
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    /// The pod's annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    /// The handler of the pod's runtime class; empty for the default one.
    #[prost(string, tag = "7")]
    pub runtime_handler: String,
    /// What only exists on Linux.
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandbox>,
    /// The sandbox's first process, where the runtime tells it.
    #[prost(uint32, tag = "9")]
    pub pid: u32,
    /// The pod's addresses.
    #[prost(string, repeated, tag = "10")]
    pub ips: Vec<String>,
}

/// The Linux side of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxPodSandbox {
    /// What the pod costs beyond its containers.
    #[prost(message, optional, tag = "1")]
    pub pod_overhead: Option<LinuxResources>,
    /// The sum over the pod's containers.
    #[prost(message, optional, tag = "2")]
    pub pod_resources: Option<LinuxResources>,
    /// The control group below which the pod's groups are.
    #[prost(string, tag = "3")]
    pub cgroup_parent: String,
    /// The control group of the sandbox itself.
    #[prost(string, tag = "4")]
    pub cgroups_path: String,
    /// The sandbox's namespaces.
    #[prost(message, repeated, tag = "5")]
    pub namespaces: Vec<LinuxNamespace>,
    /// The sandbox's own resources.
    #[prost(message, optional, tag = "6")]
    pub resources: Option<LinuxResources>,
}
