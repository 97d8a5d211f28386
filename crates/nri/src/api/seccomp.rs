//! A seccomp profile, in full.

/// Which system calls a container may make.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxSeccomp {
    /// What happens to calls that no entry names.
    #[prost(string, tag = "1")]
    pub default_action: String,
    /// The error such a call returns, if the action is an error.
    #[prost(message, optional, tag = "2")]
    pub default_errno: Option<u32>,
    /// The architectures the profile is for.
    #[prost(string, repeated, tag = "3")]
    pub architectures: Vec<String>,
    /// Flags of `seccomp(2)`.
    #[prost(string, repeated, tag = "4")]
    pub flags: Vec<String>,
    /// The socket of an agent that decides in the kernel's place.
    #[prost(string, tag = "5")]
    pub listener_path: String,
    /// What that agent is told.
    #[prost(string, tag = "6")]
    pub listener_metadata: String,
    /// The entries.
    #[prost(message, repeated, tag = "7")]
    pub syscalls: Vec<LinuxSyscall>,
}

/// What happens to some system calls.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LinuxSyscall {
    /// The calls.
    #[prost(string, repeated, tag = "1")]
    pub names: Vec<String>,
    /// What happens to them.
    #[prost(string, tag = "2")]
    pub action: String,
    /// The error they return, if the action is an error.
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
    /// What it is compared with.
    #[prost(uint64, tag = "2")]
    pub value: u64,
    /// The second operand, where the comparison has two.
    #[prost(uint64, tag = "3")]
    pub value_two: u64,
    /// The comparison, for example `SCMP_CMP_EQ`.
    #[prost(string, tag = "4")]
    pub op: String,
}
