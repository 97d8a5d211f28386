//! Which plugin changed which field, for validating plugins.

use std::collections::BTreeMap;

/// The plugins that changed fields, by container id.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OwningPlugins {
    /// Owners of fields, by container id.
    #[prost(btree_map = "string, message", tag = "1")]
    pub owners: BTreeMap<String, FieldOwners>,
}

/// The plugins that changed fields of one container. The keys are numbers of [`Field`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct FieldOwners {
    /// The plugin that changed a field of one value.
    #[prost(btree_map = "int32, string", tag = "1")]
    pub simple: BTreeMap<i32, String>,
    /// The plugins that changed entries of a field of many values.
    #[prost(btree_map = "int32, message", tag = "2")]
    pub compound: BTreeMap<i32, CompoundFieldOwners>,
}

/// The plugins that changed entries of a map or list field.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CompoundFieldOwners {
    /// The plugin, by the entry's key: an annotation's name, a mount's destination, ...
    #[prost(btree_map = "string, string", tag = "1")]
    pub owners: BTreeMap<String, String>,
}

/// A field that plugins can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Field {
    /// No field.
    None = 0,
    /// Annotations, by name.
    Annotations = 1,
    /// Mounts, by destination.
    Mounts = 2,
    /// OCI hooks.
    OciHooks = 3,
    /// Devices, by path.
    Devices = 4,
    /// CDI devices, by name.
    CdiDevices = 5,
    /// Environment variables, by name.
    Env = 6,
    /// The command line.
    Args = 7,
    /// The memory limit.
    MemLimit = 8,
    /// The memory reservation.
    MemReservation = 9,
    /// The limit of memory and swap.
    MemSwapLimit = 10,
    /// The limit of kernel memory.
    MemKernelLimit = 11,
    /// The limit of TCP buffers.
    MemTcpLimit = 12,
    /// The swappiness.
    MemSwappiness = 13,
    /// Whether the OOM killer is off.
    MemDisableOomKiller = 14,
    /// Hierarchical memory accounting.
    MemUseHierarchy = 15,
    /// CPU shares.
    CpuShares = 16,
    /// CPU quota.
    CpuQuota = 17,
    /// CPU period.
    CpuPeriod = 18,
    /// Real-time runtime.
    CpuRealtimeRuntime = 19,
    /// Real-time period.
    CpuRealtimePeriod = 20,
    /// The CPUs.
    CpusetCpus = 21,
    /// The memory nodes.
    CpusetMems = 22,
    /// The number of processes.
    PidsLimit = 23,
    /// Huge pages, by page size.
    HugepageLimits = 24,
    /// The block I/O class.
    BlockioClass = 25,
    /// The RDT class.
    RdtClass = 26,
    /// Files of cgroup v2, by name.
    CgroupsUnified = 27,
    /// The cgroup path.
    CgroupsPath = 28,
    /// The OOM score adjustment.
    OomScoreAdj = 29,
    /// Limits of `setrlimit`, by name.
    Rlimits = 30,
    /// The I/O priority.
    IoPriority = 31,
    /// The seccomp profile.
    SeccompPolicy = 32,
    /// Namespaces, by type.
    Namespace = 33,
    /// Kernel parameters, by name.
    Sysctl = 34,
    /// Network devices, by name on the host.
    LinuxNetDevices = 35,
    /// The scheduling policy.
    LinuxSched = 36,
    /// The RDT class of service.
    RdtClosId = 37,
    /// The RDT schemata.
    RdtSchemata = 38,
    /// Whether RDT monitoring is on.
    RdtEnableMonitoring = 39,
    /// The memory policy.
    MemoryPolicy = 40,
}
