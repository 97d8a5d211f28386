//! Containers.

use std::collections::BTreeMap;

use super::{LinuxIoPriority, LinuxRdt, LinuxResources, LinuxScheduler, LinuxSeccomp, PosixRlimit};

/// A container of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Container {
    /// The container id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The id of its pod sandbox.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// The container's name within its pod.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The state of the container.
    #[prost(enumeration = "ContainerState", tag = "4")]
    pub state: i32,
    /// The container's labels.
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: BTreeMap<String, String>,
    /// The container's annotations (not those of its pod).
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    /// The command line.
    #[prost(string, repeated, tag = "7")]
    pub args: Vec<String>,
    /// The environment, as `NAME=value`.
    #[prost(string, repeated, tag = "8")]
    pub env: Vec<String>,
    /// The mounts.
    #[prost(message, repeated, tag = "9")]
    pub mounts: Vec<Mount>,
    /// The OCI hooks.
    #[prost(message, optional, tag = "10")]
    pub hooks: Option<Hooks>,
    /// Linux-specific fields.
    #[prost(message, optional, tag = "11")]
    pub linux: Option<LinuxContainer>,
    /// Pid of the container's first process; 0 if not sent.
    #[prost(uint32, tag = "12")]
    pub pid: u32,
    /// The limits of `setrlimit`.
    #[prost(message, repeated, tag = "13")]
    pub rlimits: Vec<PosixRlimit>,
    /// When it was created, in nanoseconds since 1970.
    #[prost(int64, tag = "14")]
    pub created_at: i64,
    /// When it was started, in nanoseconds since 1970; 0 if it was not.
    #[prost(int64, tag = "15")]
    pub started_at: i64,
    /// When it ended, in nanoseconds since 1970; 0 if it did not.
    #[prost(int64, tag = "16")]
    pub finished_at: i64,
    /// The exit code.
    #[prost(int32, tag = "17")]
    pub exit_code: i32,
    /// The reason of its state, in one word.
    #[prost(string, tag = "18")]
    pub status_reason: String,
    /// The message about its state.
    #[prost(string, tag = "19")]
    pub status_message: String,
    /// CDI devices.
    #[prost(message, repeated, tag = "20")]
    pub cdi_devices: Vec<CdiDevice>,
    /// The user it runs as.
    #[prost(message, optional, tag = "21")]
    pub user: Option<User>,
}

/// The state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// Unknown.
    Unknown = 0,
    /// Created, not started.
    Created = 1,
    /// Paused.
    Paused = 2,
    /// Running.
    Running = 3,
    /// Stopped.
    Stopped = 4,
}

/// A mount.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Mount {
    /// The path in the container.
    #[prost(string, tag = "1")]
    pub destination: String,
    /// The type of file system, for example `bind`.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// The source path or device.
    #[prost(string, tag = "3")]
    pub source: String,
    /// Options of the mount, for example `ro`.
    #[prost(string, repeated, tag = "4")]
    pub options: Vec<String>,
}

/// The OCI hooks of a container, by phase.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Hooks {
    /// Before the container's process starts (deprecated by OCI).
    #[prost(message, repeated, tag = "1")]
    pub prestart: Vec<Hook>,
    /// While the environment is created, in the runtime's namespaces.
    #[prost(message, repeated, tag = "2")]
    pub create_runtime: Vec<Hook>,
    /// While the environment is created, in the container's namespaces.
    #[prost(message, repeated, tag = "3")]
    pub create_container: Vec<Hook>,
    /// Right before the container's process starts, in its namespaces.
    #[prost(message, repeated, tag = "4")]
    pub start_container: Vec<Hook>,
    /// After the container's process started.
    #[prost(message, repeated, tag = "5")]
    pub poststart: Vec<Hook>,
    /// After the container was deleted.
    #[prost(message, repeated, tag = "6")]
    pub poststop: Vec<Hook>,
}

/// A program that runs in a phase of a container's life cycle.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Hook {
    /// Path of the program.
    #[prost(string, tag = "1")]
    pub path: String,
    /// Its command line, beginning with its name.
    #[prost(string, repeated, tag = "2")]
    pub args: Vec<String>,
    /// Its environment, as `NAME=value`.
    #[prost(string, repeated, tag = "3")]
    pub env: Vec<String>,
    /// Timeout in seconds.
    #[prost(message, optional, tag = "4")]
    pub timeout: Option<i64>,
}

/// Linux-specific fields of a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxContainer {
    /// The namespaces.
    #[prost(message, repeated, tag = "1")]
    pub namespaces: Vec<LinuxNamespace>,
    /// The device files.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<LinuxDevice>,
    /// CPU, memory and other resources of its cgroup.
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
    /// The OOM score adjustment.
    #[prost(message, optional, tag = "4")]
    pub oom_score_adj: Option<i64>,
    /// The cgroup path.
    #[prost(string, tag = "5")]
    pub cgroups_path: String,
    /// The I/O priority.
    #[prost(message, optional, tag = "6")]
    pub io_priority: Option<LinuxIoPriority>,
    /// The seccomp profile, by reference.
    #[prost(message, optional, tag = "7")]
    pub seccomp_profile: Option<SecurityProfile>,
    /// The seccomp profile, in full.
    #[prost(message, optional, tag = "8")]
    pub seccomp_policy: Option<LinuxSeccomp>,
    /// Kernel parameters of its namespaces.
    #[prost(btree_map = "string, string", tag = "9")]
    pub sysctl: BTreeMap<String, String>,
    /// Network devices moved into it, by their names on the host.
    #[prost(btree_map = "string, message", tag = "10")]
    pub net_devices: BTreeMap<String, LinuxNetDevice>,
    /// The scheduling policy of its first process.
    #[prost(message, optional, tag = "11")]
    pub scheduler: Option<LinuxScheduler>,
    /// RDT settings: cache and memory bandwidth.
    #[prost(message, optional, tag = "12")]
    pub rdt: Option<LinuxRdt>,
}

/// A namespace.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxNamespace {
    /// Its type, for example `network`.
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Path of an existing namespace to join; empty for a new one.
    #[prost(string, tag = "2")]
    pub path: String,
}

/// A device file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxDevice {
    /// The path in the container.
    #[prost(string, tag = "1")]
    pub path: String,
    /// `c`, `b`, `u` or `p`.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// The major number.
    #[prost(int64, tag = "3")]
    pub major: i64,
    /// The minor number.
    #[prost(int64, tag = "4")]
    pub minor: i64,
    /// The permissions.
    #[prost(message, optional, tag = "5")]
    pub file_mode: Option<u32>,
    /// The owner.
    #[prost(message, optional, tag = "6")]
    pub uid: Option<u32>,
    /// The group.
    #[prost(message, optional, tag = "7")]
    pub gid: Option<u32>,
}

/// A device by its name in the Container Device Interface.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CdiDevice {
    /// The full name, `vendor.com/class=device`.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The user a container runs as.
#[derive(Clone, PartialEq, prost::Message)]
pub struct User {
    /// The user.
    #[prost(uint32, tag = "1")]
    pub uid: u32,
    /// The group.
    #[prost(uint32, tag = "2")]
    pub gid: u32,
    /// Additional groups.
    #[prost(uint32, repeated, tag = "3")]
    pub additional_gids: Vec<u32>,
}

/// A network device in a container.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxNetDevice {
    /// Its name in the container.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A security profile, by reference.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SecurityProfile {
    /// Where the profile comes from.
    #[prost(enumeration = "ProfileType", tag = "1")]
    pub profile_type: i32,
    /// The profile's name, if it is a local one.
    #[prost(string, tag = "2")]
    pub localhost_ref: String,
}

/// Where a security profile comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ProfileType {
    /// The runtime's default profile.
    RuntimeDefault = 0,
    /// No profile.
    Unconfined = 1,
    /// A profile on this host.
    Localhost = 2,
}
