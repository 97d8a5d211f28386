//! Messages with a plugin's changes: adjustments, updates and evictions.

use std::collections::BTreeMap;

use super::{
    CdiDevice, Hooks, LinuxDevice, LinuxIoPriority, LinuxNamespace, LinuxNetDevice, LinuxRdt,
    LinuxResources, LinuxScheduler, LinuxSeccomp, Mount, PosixRlimit,
};

/// Changes to a container that is being created. [`ContainerAdjustment::new`] and the methods in
/// [`crate::adjust`] build one step by step.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerAdjustment {
    /// Annotations to set; a name that begins with `-` removes one.
    #[prost(btree_map = "string, string", tag = "2")]
    pub annotations: BTreeMap<String, String>,
    /// Mounts to add; a destination that begins with `-` removes one.
    #[prost(message, repeated, tag = "3")]
    pub mounts: Vec<Mount>,
    /// Environment variables to set; a name that begins with `-` removes one.
    #[prost(message, repeated, tag = "4")]
    pub env: Vec<KeyValue>,
    /// Hooks to add.
    #[prost(message, optional, tag = "5")]
    pub hooks: Option<Hooks>,
    /// Linux-specific changes.
    #[prost(message, optional, tag = "6")]
    pub linux: Option<LinuxContainerAdjustment>,
    /// Limits of `setrlimit` to set.
    #[prost(message, repeated, tag = "7")]
    pub rlimits: Vec<PosixRlimit>,
    /// Devices to add by their names in the Container Device Interface.
    #[prost(message, repeated, tag = "8")]
    pub cdi_devices: Vec<CdiDevice>,
    /// The command line; an empty first argument allows replacing another plugin's.
    #[prost(string, repeated, tag = "9")]
    pub args: Vec<String>,
}

/// Linux-specific changes of a container that is being created.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxContainerAdjustment {
    /// Devices to add; a path that begins with `-` removes one.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<LinuxDevice>,
    /// Resources to set.
    #[prost(message, optional, tag = "2")]
    pub resources: Option<LinuxResources>,
    /// The cgroup path; empty if not set.
    #[prost(string, tag = "3")]
    pub cgroups_path: String,
    /// The OOM score adjustment.
    #[prost(message, optional, tag = "4")]
    pub oom_score_adj: Option<i64>,
    /// The I/O priority.
    #[prost(message, optional, tag = "5")]
    pub io_priority: Option<LinuxIoPriority>,
    /// The seccomp profile.
    #[prost(message, optional, tag = "6")]
    pub seccomp_policy: Option<LinuxSeccomp>,
    /// Namespaces to add or replace; a type that begins with `-` removes one.
    #[prost(message, repeated, tag = "7")]
    pub namespaces: Vec<LinuxNamespace>,
    /// Kernel parameters to set; a name that begins with `-` removes one.
    #[prost(btree_map = "string, string", tag = "8")]
    pub sysctl: BTreeMap<String, String>,
    /// Network devices to move into it; a name that begins with `-` removes one.
    #[prost(btree_map = "string, message", tag = "9")]
    pub net_devices: BTreeMap<String, LinuxNetDevice>,
    /// The scheduling policy of its first process.
    #[prost(message, optional, tag = "10")]
    pub scheduler: Option<LinuxScheduler>,
    /// RDT settings: cache and memory bandwidth.
    #[prost(message, optional, tag = "11")]
    pub rdt: Option<LinuxRdt>,
    /// The NUMA memory policy.
    #[prost(message, optional, tag = "12")]
    pub memory_policy: Option<LinuxMemoryPolicy>,
}

/// An environment variable.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A NUMA memory policy (`set_mempolicy`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxMemoryPolicy {
    /// The mode.
    #[prost(enumeration = "MpolMode", tag = "1")]
    pub mode: i32,
    /// The memory nodes, in the kernel's list format.
    #[prost(string, tag = "2")]
    pub nodes: String,
    /// Flags.
    #[prost(enumeration = "MpolFlag", repeated, tag = "3")]
    pub flags: Vec<i32>,
}

/// A mode of `set_mempolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MpolMode {
    /// The kernel's default.
    Default = 0,
    /// `MPOL_PREFERRED`: one preferred node.
    Preferred = 1,
    /// `MPOL_BIND`: only these nodes.
    Bind = 2,
    /// `MPOL_INTERLEAVE`: pages alternate between the nodes.
    Interleave = 3,
    /// `MPOL_LOCAL`: the node of the CPU.
    Local = 4,
    /// `MPOL_PREFERRED_MANY`: several preferred nodes.
    PreferredMany = 5,
    /// `MPOL_WEIGHTED_INTERLEAVE`: pages alternate by the nodes' weights.
    WeightedInterleave = 6,
}

/// A flag of `set_mempolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MpolFlag {
    /// `MPOL_F_STATIC_NODES`: the nodes stay when the cpuset changes.
    StaticNodes = 0,
    /// `MPOL_F_RELATIVE_NODES`: the nodes are relative to the cpuset.
    RelativeNodes = 1,
    /// `MPOL_F_NUMA_BALANCING`: the kernel may migrate pages.
    NumaBalancing = 2,
}

/// A change of an existing container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerUpdate {
    /// The container.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// The resources to change.
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxContainerUpdate>,
    /// Whether the runtime ignores a failure of this update.
    #[prost(bool, tag = "3")]
    pub ignore_failure: bool,
}

/// Linux-specific changes of an existing container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxContainerUpdate {
    /// Resources to set.
    #[prost(message, optional, tag = "1")]
    pub resources: Option<LinuxResources>,
}

/// A request to stop a container. No released runtime implements it yet.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerEviction {
    /// The container.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// The reason.
    #[prost(string, tag = "2")]
    pub reason: String,
}
