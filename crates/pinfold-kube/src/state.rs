//! The kubelet's state files: the assignments of its CPU, memory and device managers.
//!
//! | file | manager | formats |
//! |---|---|---|
//! | `cpu_manager_state` | [`cpu`] | 1 (by container id), 2 (by pod and container), 3 (with pod entries), 4 (with a checked copy) |
//! | `memory_manager_state` | [`memory`] | 1, 2 (with pod entries), 3 (with a checked copy) |
//! | `kubelet_internal_checkpoint` | [`device`] | one |
//!
//! Parsing follows the kubelet's version: the same formats are tried in the same order, the same files are accepted, and
//! others are rejected with the kubelet's messages. Writing gives the bytes that the kubelet would write, so that it
//! can restore them. The formats depend on its feature gate `PodLevelResourceManagers`, here [`PodLevel`].

use pinfold_core::cpu_set::CpuSetTextError;
use pinfold_core::demand::PodLevel;
use pinfold_core::node_set::NodeIdOutOfRange;

use crate::go::quote::quoted;

mod checkpoint;
pub mod cpu;
pub mod device;
mod ledger_state;
pub mod memory;

pub use checkpoint::Checksum;
pub use cpu::CpuManagerState;
pub use device::DeviceManagerState;
pub use ledger_state::StateFiles;
pub use memory::MemoryManagerState;

/// Limit of the size of a state file: an entry has about 100 bytes, a node some hundred pods.
pub const MAX_FILE_BYTES: usize = 16 * 1024 * 1024;

/// The manager of a state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletManager {
    /// `cpu_manager_state`.
    Cpu,
    /// `memory_manager_state`.
    Memory,
    /// `kubelet_internal_checkpoint`.
    Device,
}

impl KubeletManager {
    /// The name of the file in the kubelet's root directory (or, for devices, in `device-plugins` below it).
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            KubeletManager::Cpu => "cpu_manager_state",
            KubeletManager::Memory => "memory_manager_state",
            KubeletManager::Device => "kubelet_internal_checkpoint",
        }
    }
}

/// The error of restoring a state file that the kubelet rejects, or that names a NUMA node that no machine has. The
/// message is the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreError {
    /// The manager of the file.
    pub manager: KubeletManager,
    /// The path of the file, for the message.
    pub file: String,
    /// The problem.
    pub fault: Box<Fault>,
}

impl std::error::Error for RestoreError {}

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fault = &self.fault;
        let manager = match self.manager {
            KubeletManager::Cpu => "CPU manager",
            KubeletManager::Memory => "memory manager",
            // The device manager starts without the file's content and logs only the problem.
            KubeletManager::Device => return write!(f, "{fault}"),
        };
        write!(
            f,
            "could not restore state from checkpoint: {fault}, please drain this node and delete the {manager} \
             checkpoint file {} before restarting Kubelet",
            quoted(&self.file)
        )
    }
}

/// The problems of a state file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not JSON, or JSON of another type; Go's message.
    #[error("{0}")]
    Json(String),
    /// The checksum does not match the content.
    #[error("checkpoint is corrupted")]
    Corrupt {
        /// The checksum in the file.
        stored: u64,
        /// The checksum of the content.
        computed: u32,
    },
    /// A CPU file of format 4 is invalid; older formats are not tried then.
    #[error("could not load v4 checkpoint: {0}")]
    Format4(Box<Fault>),
    /// The file was written under another policy.
    #[error("{prefix}configured policy {} differs from state checkpoint policy {}", quoted(.configured), quoted(.found))]
    Policy {
        /// The prefix of the manager's messages.
        prefix: &'static str,
        /// The configured policy.
        configured: String,
        /// The policy in the file.
        found: String,
    },
    /// A memory file of format 3 is invalid; older formats are not tried then.
    #[error("could not load v3 checkpoint: {0}")]
    Format3(Box<Fault>),
    /// The shared pool is not a CPU set.
    #[error("could not parse default {kind} {}: {error}", quoted(.text))]
    DefaultCpus {
        /// What the kubelet's version calls a CPU set.
        kind: &'static str,
        /// The text in the file.
        text: String,
        /// The parser's error.
        error: CpuSetTextError,
    },
    /// The CPUs of a container are not a CPU set.
    #[error("could not parse cpuset {} for container {} in pod {}: {error}", quoted(.text), quoted(.container), quoted(.pod))]
    ContainerCpus {
        /// The text in the file.
        text: String,
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
        /// The parser's error.
        error: CpuSetTextError,
    },
    /// A file of format 1 names an unknown container.
    #[error("{failed}: containerID '{id}' not found in initial containers list")]
    UnknownContainer {
        /// What the kubelet's version says in front.
        failed: &'static str,
        /// The container.
        id: String,
    },
    /// A NUMA node that no machine has. The kubelet would accept it.
    #[error("NUMA node {} is not in 0 to 63", .0.id)]
    NoSuchNode(NodeIdOutOfRange),
    /// A node or its memory table is `null`. The kubelet would crash.
    #[error("NUMA node {0} has a null entry")]
    NullNode(i64),
    /// The file is too large. The kubelet would read it.
    #[error("the file has {0} bytes, more than {MAX_FILE_BYTES}")]
    TooLarge(usize),
}

/// Whether the kubelet uses its newer formats, which have pod entries.
fn uses_pod_entries(pod_level: PodLevel) -> bool {
    pod_level == PodLevel::Managed
}
