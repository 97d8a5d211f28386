//! Limits, priorities and scheduling of a container's processes.

/// A limit of `setrlimit`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PosixRlimit {
    /// Its name, for example `RLIMIT_NOFILE`.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// The hard limit.
    #[prost(uint64, tag = "2")]
    pub hard: u64,
    /// The soft limit.
    #[prost(uint64, tag = "3")]
    pub soft: u64,
}

/// The I/O priority of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxIoPriority {
    /// The priority class.
    #[prost(enumeration = "IoPrioClass", tag = "1")]
    pub class: i32,
    /// The priority within the class, 0 (highest) to 7.
    #[prost(int32, tag = "2")]
    pub priority: i32,
}

/// A class of I/O priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum IoPrioClass {
    /// No class: derived from the nice value.
    None = 0,
    /// Real time.
    Rt = 1,
    /// Best effort.
    Be = 2,
    /// Idle: only when no other process uses the disk.
    Idle = 3,
}

/// Scheduling attributes of a process (`sched_setattr`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxScheduler {
    /// The policy.
    #[prost(enumeration = "LinuxSchedulerPolicy", tag = "1")]
    pub policy: i32,
    /// The nice value, for ordinary policies.
    #[prost(int32, tag = "2")]
    pub nice: i32,
    /// The static priority, for real-time policies.
    #[prost(int32, tag = "3")]
    pub priority: i32,
    /// Flags.
    #[prost(enumeration = "LinuxSchedulerFlag", repeated, tag = "4")]
    pub flags: Vec<i32>,
    /// Nanoseconds of work per period, for the deadline policy.
    #[prost(uint64, tag = "5")]
    pub runtime: u64,
    /// Nanoseconds within which the work must be done, for the deadline policy.
    #[prost(uint64, tag = "6")]
    pub deadline: u64,
    /// Nanoseconds between two starts, for the deadline policy.
    #[prost(uint64, tag = "7")]
    pub period: u64,
}

/// A scheduling policy of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LinuxSchedulerPolicy {
    /// Not set.
    None = 0,
    /// `SCHED_OTHER`.
    Other = 1,
    /// `SCHED_FIFO`.
    Fifo = 2,
    /// `SCHED_RR`.
    Rr = 3,
    /// `SCHED_BATCH`.
    Batch = 4,
    /// `SCHED_ISO`.
    Iso = 5,
    /// `SCHED_IDLE`.
    Idle = 6,
    /// `SCHED_DEADLINE`.
    Deadline = 7,
}

/// A flag of `sched_setattr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum LinuxSchedulerFlag {
    /// `SCHED_FLAG_RESET_ON_FORK`: children start with the default policy.
    ResetOnFork = 0,
    /// `SCHED_FLAG_RECLAIM`: other deadline tasks may use unused time.
    Reclaim = 1,
    /// `SCHED_FLAG_DL_OVERRUN`: a signal reports an overrun.
    DlOverrun = 2,
    /// `SCHED_FLAG_KEEP_POLICY`.
    KeepPolicy = 3,
    /// `SCHED_FLAG_KEEP_PARAMS`.
    KeepParams = 4,
    /// The lower utilisation clamp is set.
    UtilClampMin = 5,
    /// The upper utilisation clamp is set.
    UtilClampMax = 6,
}
