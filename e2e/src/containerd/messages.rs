//! The messages of CRI that the suites use, with the fields that they use.

use std::collections::BTreeMap;

/// Declares messages.
macro_rules! messages {
    ($($name:ident { $($(#[$attribute:meta])+ $field:ident: $kind:ty,)* })*) => {$(
        #[derive(Clone, PartialEq, prost::Message)]
        pub(crate) struct $name {
            $($(#[$attribute])+ pub(crate) $field: $kind,)*
        }
    )*};
}

messages! {
    PodMetadata {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "2")] uid: String,
        #[prost(string, tag = "3")] namespace: String,
        #[prost(uint32, tag = "4")] attempt: u32,
    }
    NamespaceOption {
        #[prost(int32, tag = "1")] network: i32,
        #[prost(int32, tag = "2")] pid: i32,
    }
    PodSecurity {
        #[prost(message, optional, tag = "1")] namespaces: Option<NamespaceOption>,
    }
    LinuxPod {
        #[prost(string, tag = "1")] cgroup_parent: String,
        #[prost(message, optional, tag = "2")] security: Option<PodSecurity>,
        #[prost(message, optional, tag = "5")] resources: Option<Resources>,
    }
    PodConfig {
        #[prost(message, optional, tag = "1")] metadata: Option<PodMetadata>,
        #[prost(btree_map = "string, string", tag = "6")] labels: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "7")] annotations: BTreeMap<String, String>,
        #[prost(message, optional, tag = "8")] linux: Option<LinuxPod>,
    }
    RunPod {
        #[prost(message, optional, tag = "1")] config: Option<PodConfig>,
    }
    Image {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "18")] user_specified_image: String,
    }
    ContainerMetadata {
        #[prost(string, tag = "1")] name: String,
        #[prost(uint32, tag = "2")] attempt: u32,
    }
    ContainerSecurity {
        #[prost(message, optional, tag = "3")] namespaces: Option<NamespaceOption>,
    }
    LinuxContainer {
        #[prost(message, optional, tag = "1")] resources: Option<Resources>,
        #[prost(message, optional, tag = "2")] security: Option<ContainerSecurity>,
    }
    ContainerConfig {
        #[prost(message, optional, tag = "1")] metadata: Option<ContainerMetadata>,
        #[prost(message, optional, tag = "2")] image: Option<Image>,
        #[prost(string, repeated, tag = "3")] command: Vec<String>,
        #[prost(message, optional, tag = "15")] linux: Option<LinuxContainer>,
    }
    CreateContainer {
        #[prost(string, tag = "1")] pod: String,
        #[prost(message, optional, tag = "2")] config: Option<ContainerConfig>,
        #[prost(message, optional, tag = "3")] pod_config: Option<PodConfig>,
    }
    HugePages {
        #[prost(string, tag = "1")] page_size: String,
        #[prost(uint64, tag = "2")] limit: u64,
    }
    Resources {
        #[prost(int64, tag = "1")] cpu_period: i64,
        #[prost(int64, tag = "2")] cpu_quota: i64,
        #[prost(int64, tag = "3")] cpu_shares: i64,
        #[prost(int64, tag = "4")] memory_limit: i64,
        #[prost(string, tag = "6")] cpuset_cpus: String,
        #[prost(string, tag = "7")] cpuset_mems: String,
        #[prost(message, repeated, tag = "8")] hugepages: Vec<HugePages>,
    }
    UpdateResources {
        #[prost(string, tag = "1")] container: String,
        #[prost(message, optional, tag = "2")] linux: Option<Resources>,
    }
    StopContainer {
        #[prost(string, tag = "1")] container: String,
        #[prost(int64, tag = "2")] timeout: i64,
    }
    Exec {
        #[prost(string, tag = "1")] container: String,
        #[prost(string, repeated, tag = "2")] command: Vec<String>,
        #[prost(int64, tag = "3")] timeout: i64,
    }
    ExecOutput {
        #[prost(bytes = "vec", tag = "1")] stdout: Vec<u8>,
    }
    ContainerStatus {
        #[prost(int32, tag = "3")] state: i32,
    }
    ContainerStatusAnswer {
        #[prost(message, optional, tag = "1")] status: Option<ContainerStatus>,
    }
    ContainerFilter {
        #[prost(string, tag = "3")] pod: String,
    }
    ListContainers {
        #[prost(message, optional, tag = "1")] filter: Option<ContainerFilter>,
    }
    ListedPod {
        #[prost(string, tag = "1")] id: String,
        #[prost(message, optional, tag = "2")] metadata: Option<PodMetadata>,
    }
    PodList {
        #[prost(message, repeated, tag = "1")] pods: Vec<ListedPod>,
    }
    ContainerList {
        #[prost(message, repeated, tag = "1")] containers: Vec<Id>,
    }
    Id {
        #[prost(string, tag = "1")] id: String,
    }
    Nothing {}
}
