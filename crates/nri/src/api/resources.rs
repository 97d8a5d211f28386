//! What control groups limit.

use std::collections::BTreeMap;

/// The resources of a container or pod. What is `None` or empty is not said.
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
    /// The block I/O class, a name of the runtime's configuration.
    #[prost(message, optional, tag = "4")]
    pub blockio_class: Option<String>,
    /// The RDT class, a name of the runtime's configuration.
    #[prost(message, optional, tag = "5")]
    pub rdt_class: Option<String>,
    /// Files of the cgroup v2 tree and what to write into them.
    #[prost(btree_map = "string, string", tag = "6")]
    pub unified: BTreeMap<String, String>,
    /// Rules of the device controller.
    #[prost(message, repeated, tag = "7")]
    pub devices: Vec<LinuxDeviceCgroup>,
    /// The number of processes.
    #[prost(message, optional, tag = "8")]
    pub pids: Option<LinuxPids>,
}

/// Memory limits, in bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxMemory {
    /// The most it may use.
    #[prost(message, optional, tag = "1")]
    pub limit: Option<i64>,
    /// What it should keep when memory is short.
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
    /// How readily it is swapped out, 0 to 100.
    #[prost(message, optional, tag = "6")]
    pub swappiness: Option<u64>,
    /// Whether it waits instead of being killed when memory runs out.
    #[prost(message, optional, tag = "7")]
    pub disable_oom_killer: Option<bool>,
    /// Whether groups below count as well (cgroup v1).
    #[prost(message, optional, tag = "8")]
    pub use_hierarchy: Option<bool>,
}

/// CPU time, CPUs and memory nodes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxCpu {
    /// The weight against other groups.
    #[prost(message, optional, tag = "1")]
    pub shares: Option<u64>,
    /// Microseconds of CPU time per period; negative for no limit.
    #[prost(message, optional, tag = "2")]
    pub quota: Option<i64>,
    /// The period, in microseconds.
    #[prost(message, optional, tag = "3")]
    pub period: Option<u64>,
    /// Microseconds of real-time scheduling per real-time period.
    #[prost(message, optional, tag = "4")]
    pub realtime_runtime: Option<i64>,
    /// The real-time period, in microseconds.
    #[prost(message, optional, tag = "5")]
    pub realtime_period: Option<u64>,
    /// The CPUs, as a list of the kernel (`0-3,8`); empty says nothing.
    #[prost(string, tag = "6")]
    pub cpus: String,
    /// The memory nodes, as a list of the kernel; empty says nothing.
    #[prost(string, tag = "7")]
    pub mems: String,
}

/// How many huge pages of one size.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HugepageLimit {
    /// The size, as control groups spell it (`2MB`, `1GB`).
    #[prost(string, tag = "1")]
    pub page_size: String,
    /// The limit, in bytes.
    #[prost(uint64, tag = "2")]
    pub limit: u64,
}

/// One rule of the device controller.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxDeviceCgroup {
    /// Whether the rule allows or forbids.
    #[prost(bool, tag = "1")]
    pub allow: bool,
    /// `a`, `b` or `c`.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// The major number; any if not said.
    #[prost(message, optional, tag = "3")]
    pub major: Option<i64>,
    /// The minor number; any if not said.
    #[prost(message, optional, tag = "4")]
    pub minor: Option<i64>,
    /// Letters of `rwm`.
    #[prost(string, tag = "5")]
    pub access: String,
}

/// The number of processes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxPids {
    /// The most there may be.
    #[prost(int64, tag = "1")]
    pub limit: i64,
}

/// A share of caches and memory bandwidth (`resctrl`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxRdt {
    /// The class of service.
    #[prost(message, optional, tag = "1")]
    pub clos_id: Option<String>,
    /// The lines of its `schemata` file.
    #[prost(message, optional, tag = "2")]
    pub schemata: Option<OptionalRepeatedString>,
    /// Whether its use is measured.
    #[prost(message, optional, tag = "3")]
    pub enable_monitoring: Option<bool>,
    /// Takes away what was configured (only in adjustments).
    #[prost(bool, tag = "4")]
    pub remove: bool,
}

/// A list that may be said to be empty.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionalRepeatedString {
    /// The list.
    #[prost(string, repeated, tag = "1")]
    pub value: Vec<String>,
}
