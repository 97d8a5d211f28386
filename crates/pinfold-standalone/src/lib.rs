//! Standalone mode: runs commands on CPUs and memory of their own, without Kubernetes.
//!
//! ```text
//! request ─► RunRegistry (locked) ─► core's Ledger decides ─► Confinement (cgroup v2, cgroup v1 or affinity)
//!                │                                               │
//!                └── runs.json: the live runs ◄── the child finds itself in it, enters its cgroup, execs
//! ```
//!
//! Three rules make it safe. The registry changes only under its lock, and its file is replaced as a whole. A command
//! starts only after its process is in the registry. A run lasts until its last process has ended, whichever process
//! started it.

mod affinity;
mod cgroup;
mod child;
pub mod confinement;
mod error;
mod files;
mod memory_policy;
pub mod placement;
pub mod process;
pub mod request;
mod run;
pub mod run_registry;

pub use affinity::confine_process;
pub use child::become_command;
pub use confinement::Confinement;
pub use error::StandaloneError;
pub use placement::RunPlacement;
pub use request::RunRequest;
pub use run::{RunOutcome, SIGNAL_EXIT, SignalForwarder, run};
pub use run_registry::{Run, RunRegistry};
