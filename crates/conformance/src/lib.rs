//! Replays test vectors made by the real programs through the public API of `pinfold-core`.
//!
//! A folder of vectors belongs to one [`System`] (kubelet, koordinator, volcano, scheduler-plugins) and holds
//! one file per family: `<family>.jsonl` or `<family>.jsonl.gz`, one case a line. [`run`] replays one such
//! folder, or every such folder below the one it is given, and reads nothing else.

mod case;
mod folder;
pub mod koordinator;
pub mod kubelet;
pub mod peers;
mod report;
pub mod scheduler_plugins;
pub mod volcano;

pub use case::{Case, ReplayOutcome, check};
pub use folder::{ReplayError, Replayed, System, run};
pub use report::{ConformanceReport, FamilyReport, ReplayFailure};
