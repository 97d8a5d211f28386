//! The resources of a container.

/// The resources of a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerResources {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Devices of device plugins.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// Exclusive CPUs; empty if it runs in the shared pool.
    #[prost(int64, repeated, tag = "3")]
    pub cpu_ids: Vec<i64>,
    /// Memory reserved by the memory manager.
    #[prost(message, repeated, tag = "4")]
    pub memory: Vec<ContainerMemory>,
    /// Devices of resource claims.
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Memory on some NUMA nodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerMemory {
    /// `memory` or a page size, such as `hugepages-2Mi`.
    #[prost(string, tag = "1")]
    pub memory_type: String,
    /// The size in bytes.
    #[prost(uint64, tag = "2")]
    pub size: u64,
    /// The nodes.
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

/// Devices of one resource with the same NUMA nodes. The kubelet lists every device by itself, once for each of its
/// nodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerDevices {
    /// The resource.
    #[prost(string, tag = "1")]
    pub resource_name: String,
    /// The devices.
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
    /// The nodes, if the plugin reports them.
    #[prost(message, optional, tag = "3")]
    pub topology: Option<TopologyInfo>,
}

/// Some NUMA nodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TopologyInfo {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NumaNode>,
}

/// A NUMA node.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NumaNode {
    /// Its id.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The devices of a resource claim.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DynamicResource {
    /// The claim.
    #[prost(string, tag = "2")]
    pub claim_name: String,
    /// The claim's namespace.
    #[prost(string, tag = "3")]
    pub claim_namespace: String,
    /// The devices allocated for it.
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// A device allocated for a resource claim.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ClaimResource {
    /// Its CDI names.
    #[prost(message, repeated, tag = "1")]
    pub cdi_devices: Vec<CdiDevice>,
    /// The DRA driver.
    #[prost(string, tag = "2")]
    pub driver_name: String,
    /// The resource pool.
    #[prost(string, tag = "3")]
    pub pool_name: String,
    /// Its name in the pool.
    #[prost(string, tag = "4")]
    pub device_name: String,
    /// The id of its share, if it is shared.
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

/// A device of the Container Device Interface (CDI).
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CdiDevice {
    /// Its full name, such as `vendor.com/gpu=gpu1`.
    #[prost(string, tag = "1")]
    pub name: String,
}
