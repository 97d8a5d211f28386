//! Resources that cgroups limit.

use std::collections::BTreeMap;

/// The resources of a container or pod. `None` or empty means not set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxResources {
    /// Memory.
    #[prost(message, optional, tag = "1")]
    pub memory: Option<LinuxMemory>,
    /// CPU time, CPUs and memory nodes.
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<LinuxCpu>,
    /// Huge pages, one entry per page size.
    #[prost(message, repeated, tag = "3")]
    pub hugepage_limits: Vec<HugepageLimit>,
    /// The block I/O class, a name in the runtime's configuration.
    #[prost(message, optional, tag = "4")]
    pub blockio_class: Option<String>,
    /// The RDT class, a name in the runtime's configuration.
    #[prost(message, optional, tag = "5")]
    pub rdt_class: Option<String>,
    /// Contents of cgroup v2 files, by name.
    #[prost(btree_map = "string, string", tag = "6")]
    pub unified: BTreeMap<String, String>,
    /// Rules of the device controller.
    #[prost(message, repeated, tag = "7")]
    pub devices: Vec<LinuxDeviceCgroup>,
    /// The limit on processes.
    #[prost(message, optional, tag = "8")]
    pub pids: Option<LinuxPids>,
}

/// Memory limits, in bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxMemory {
    /// The limit.
    #[prost(message, optional, tag = "1")]
    pub limit: Option<i64>,
    /// The reservation (soft limit).
    #[prost(message, optional, tag = "2")]
    pub reservation: Option<i64>,
    /// Memory and swap together.
    #[prost(message, optional, tag = "3")]
    pub swap: Option<i64>,
    /// Kernel memory.
    #[prost(message, optional, tag = "4")]
    pub kernel: Option<i64>,
    /// Kernel memory of TCP buffers.
    #[prost(message, optional, tag = "5")]
    pub kernel_tcp: Option<i64>,
    /// The swappiness, 0 to 100.
    #[prost(message, optional, tag = "6")]
    pub swappiness: Option<u64>,
    /// Whether the OOM killer is disabled.
    #[prost(message, optional, tag = "7")]
    pub disable_oom_killer: Option<bool>,
    /// Hierarchical accounting (cgroup v1).
    #[prost(message, optional, tag = "8")]
    pub use_hierarchy: Option<bool>,
}

/// CPU time, CPUs and memory nodes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxCpu {
    /// CPU shares.
    #[prost(message, optional, tag = "1")]
    pub shares: Option<u64>,
    /// CFS quota in microseconds per period; negative for no limit.
    #[prost(message, optional, tag = "2")]
    pub quota: Option<i64>,
    /// CFS period in microseconds.
    #[prost(message, optional, tag = "3")]
    pub period: Option<u64>,
    /// Microseconds of real-time scheduling per real-time period.
    #[prost(message, optional, tag = "4")]
    pub realtime_runtime: Option<i64>,
    /// The real-time period, in microseconds.
    #[prost(message, optional, tag = "5")]
    pub realtime_period: Option<u64>,
    /// The CPUs, in the kernel's list format (`0-3,8`); empty if not set.
    #[prost(string, tag = "6")]
    pub cpus: String,
    /// The memory nodes, in the kernel's list format; empty if not set.
    #[prost(string, tag = "7")]
    pub mems: String,
}

/// The limit of huge pages of one size.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HugepageLimit {
    /// The page size in the format of cgroups (`2MB`, `1GB`).
    #[prost(string, tag = "1")]
    pub page_size: String,
    /// The limit, in bytes.
    #[prost(uint64, tag = "2")]
    pub limit: u64,
}

/// One rule of the device controller.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxDeviceCgroup {
    /// Whether the rule allows or denies access.
    #[prost(bool, tag = "1")]
    pub allow: bool,
    /// `a`, `b` or `c`.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// The major number; any if not set.
    #[prost(message, optional, tag = "3")]
    pub major: Option<i64>,
    /// The minor number; any if not set.
    #[prost(message, optional, tag = "4")]
    pub minor: Option<i64>,
    /// Letters of `rwm`.
    #[prost(string, tag = "5")]
    pub access: String,
}

/// The limit on processes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxPids {
    /// The maximum number.
    #[prost(int64, tag = "1")]
    pub limit: i64,
}

/// RDT settings (`resctrl`): cache and memory bandwidth.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxRdt {
    /// The class of service.
    #[prost(message, optional, tag = "1")]
    pub clos_id: Option<String>,
    /// The lines of its `schemata` file.
    #[prost(message, optional, tag = "2")]
    pub schemata: Option<OptionalRepeatedString>,
    /// Whether monitoring is enabled.
    #[prost(message, optional, tag = "3")]
    pub enable_monitoring: Option<bool>,
    /// Removes the settings (only in adjustments).
    #[prost(bool, tag = "4")]
    pub remove: bool,
}

/// An optional list: unlike a plain one it can be set and empty.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionalRepeatedString {
    /// The list.
    #[prost(string, repeated, tag = "1")]
    pub value: Vec<String>,
}
