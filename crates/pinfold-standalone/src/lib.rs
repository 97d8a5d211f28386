//! Standalone mode: runs commands on CPUs and memory of their own, without Kubernetes.
//!
//! ```text
//! request ─► Book (locked) ─► core's Ledger decides ─► Hold (cgroup v2, cgroup v1 or affinity)
//!                │                                        │
//!                └── one file: who runs, on what ◄── child finds itself in the book, enters, execs
//! ```
//!
//! Three rules make it safe. The book is only changed under its lock and replaced as a whole. A command starts
//! only after its process stands in the book. A run lasts until its last process has ended, whoever started it
//! and however that one ended.

mod affinity;
pub mod book;
mod cgroup;
mod child;
mod error;
mod files;
pub mod hold;
mod memory_policy;
pub mod place;
pub mod process;
pub mod request;
mod run;

pub use affinity::confine_process;
pub use book::{Book, Run};
pub use child::become_command;
pub use error::StandaloneError;
pub use hold::Hold;
pub use place::Placement;
pub use request::Request;
pub use run::{Outcome, Passing, SIGNAL_EXIT, run};
