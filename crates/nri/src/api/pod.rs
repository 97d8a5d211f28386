//! Pod sandboxes.

use std::collections::BTreeMap;

use super::{LinuxNamespace, LinuxResources};

/// A pod sandbox of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PodSandbox {
    /// The sandbox id.
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
    /// Linux-specific fields.
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandbox>,
    /// Pid of the sandbox's first process; 0 if not sent.
    #[prost(uint32, tag = "9")]
    pub pid: u32,
    /// The pod's IP addresses.
    #[prost(string, repeated, tag = "10")]
    pub ips: Vec<String>,
}

/// Linux-specific fields of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxPodSandbox {
    /// The pod overhead.
    #[prost(message, optional, tag = "1")]
    pub pod_overhead: Option<LinuxResources>,
    /// The sum of the containers' resources.
    #[prost(message, optional, tag = "2")]
    pub pod_resources: Option<LinuxResources>,
    /// Parent cgroup of the pod's containers.
    #[prost(string, tag = "3")]
    pub cgroup_parent: String,
    /// Cgroup of the sandbox container.
    #[prost(string, tag = "4")]
    pub cgroups_path: String,
    /// The sandbox's namespaces.
    #[prost(message, repeated, tag = "5")]
    pub namespaces: Vec<LinuxNamespace>,
    /// The sandbox's own resources.
    #[prost(message, optional, tag = "6")]
    pub resources: Option<LinuxResources>,
}
