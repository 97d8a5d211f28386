//! Seccomp profiles.

/// A seccomp profile: the system calls that a container may make.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxSeccomp {
    /// The default action.
    #[prost(string, tag = "1")]
    pub default_action: String,
    /// The error number of the default action.
    #[prost(message, optional, tag = "2")]
    pub default_errno: Option<u32>,
    /// The architectures the profile is for.
    #[prost(string, repeated, tag = "3")]
    pub architectures: Vec<String>,
    /// Flags of `seccomp(2)`.
    #[prost(string, repeated, tag = "4")]
    pub flags: Vec<String>,
    /// Path of the socket of a seccomp agent (`SCMP_ACT_NOTIFY`).
    #[prost(string, tag = "5")]
    pub listener_path: String,
    /// Metadata for the seccomp agent.
    #[prost(string, tag = "6")]
    pub listener_metadata: String,
    /// The rules.
    #[prost(message, repeated, tag = "7")]
    pub syscalls: Vec<LinuxSyscall>,
}

/// A rule for some system calls.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxSyscall {
    /// The names of the system calls.
    #[prost(string, repeated, tag = "1")]
    pub names: Vec<String>,
    /// The action.
    #[prost(string, tag = "2")]
    pub action: String,
    /// The error number of the action.
    #[prost(message, optional, tag = "3")]
    pub errno_ret: Option<u32>,
    /// Conditions on their arguments.
    #[prost(message, repeated, tag = "4")]
    pub args: Vec<LinuxSeccompArg>,
}

/// A condition on one argument of a system call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxSeccompArg {
    /// Which argument, from 0.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// The value to compare with.
    #[prost(uint64, tag = "2")]
    pub value: u64,
    /// The second operand, where the comparison has two.
    #[prost(uint64, tag = "3")]
    pub value_two: u64,
    /// The comparison, for example `SCMP_CMP_EQ`.
    #[prost(string, tag = "4")]
    pub op: String,
}
