//! What a plugin asks for: changes to the container being created, to others, and evictions.

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
    /// What only exists on Linux.
    #[prost(message, optional, tag = "6")]
    pub linux: Option<LinuxContainerAdjustment>,
    /// Limits of `setrlimit` to set.
    #[prost(message, repeated, tag = "7")]
    pub rlimits: Vec<PosixRlimit>,
    /// Devices to add by their names in the Container Device Interface.
    #[prost(message, repeated, tag = "8")]
    pub cdi_devices: Vec<CdiDevice>,
    /// The command line; one that begins with an empty word may replace another plugin's.
    #[prost(string, repeated, tag = "9")]
    pub args: Vec<String>,
}

/// The Linux side of an adjustment.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxContainerAdjustment {
    /// Devices to add; a path that begins with `-` removes one.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<LinuxDevice>,
    /// Resources to set.
    #[prost(message, optional, tag = "2")]
    pub resources: Option<LinuxResources>,
    /// The control group; empty says nothing.
    #[prost(string, tag = "3")]
    pub cgroups_path: String,
    /// How readily the kernel kills it when memory runs out.
    #[prost(message, optional, tag = "4")]
    pub oom_score_adj: Option<i64>,
    /// The priority of its I/O.
    #[prost(message, optional, tag = "5")]
    pub io_priority: Option<LinuxIoPriority>,
    /// The seccomp profile.
    #[prost(message, optional, tag = "6")]
    pub seccomp_policy: Option<LinuxSeccomp>,
    /// Namespaces to add or replace; a kind that begins with `-` removes one.
    #[prost(message, repeated, tag = "7")]
    pub namespaces: Vec<LinuxNamespace>,
    /// Kernel parameters to set; a name that begins with `-` removes one.
    #[prost(btree_map = "string, string", tag = "8")]
    pub sysctl: BTreeMap<String, String>,
    /// Network devices to move into it; a name that begins with `-` removes one.
    #[prost(btree_map = "string, message", tag = "9")]
    pub net_devices: BTreeMap<String, LinuxNetDevice>,
    /// How the kernel schedules its first process.
    #[prost(message, optional, tag = "10")]
    pub scheduler: Option<LinuxScheduler>,
    /// Its share of caches and memory bandwidth.
    #[prost(message, optional, tag = "11")]
    pub rdt: Option<LinuxRdt>,
    /// Where its memory comes from.
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

/// Where a process's memory comes from (`set_mempolicy`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxMemoryPolicy {
    /// The mode.
    #[prost(enumeration = "MpolMode", tag = "1")]
    pub mode: i32,
    /// The memory nodes, as a list of the kernel.
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
    /// One node first, others after.
    Preferred = 1,
    /// These nodes only.
    Bind = 2,
    /// Page by page in turn.
    Interleave = 3,
    /// The node of the CPU.
    Local = 4,
    /// Several nodes first, others after.
    PreferredMany = 5,
    /// In turn, by weight.
    WeightedInterleave = 6,
}

/// A flag of `set_mempolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MpolFlag {
    /// The nodes stay when the cpuset changes.
    StaticNodes = 0,
    /// The nodes are relative to the cpuset.
    RelativeNodes = 1,
    /// The kernel may move pages.
    NumaBalancing = 2,
}

/// A change to a container that exists already.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerUpdate {
    /// The container.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// What only exists on Linux: everything.
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxContainerUpdate>,
    /// Whether the event goes on if this change fails.
    #[prost(bool, tag = "3")]
    pub ignore_failure: bool,
}

/// The Linux side of an update.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxContainerUpdate {
    /// Resources to set.
    #[prost(message, optional, tag = "1")]
    pub resources: Option<LinuxResources>,
}

/// Asks the runtime to stop a container. No released runtime follows it yet.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerEviction {
    /// The container.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// Why, for people.
    #[prost(string, tag = "2")]
    pub reason: String,
}
