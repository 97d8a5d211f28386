//! The CPU manager: who gets which CPUs for itself alone.
//!
//! ```text
//! configuration ─► CpuManager ─► StaticCpus ─┬─ hints ────────► where a request could go
//!                                            ├─ allocate ─────► take_packed or take_distributed
//!                                            └─ remove, start
//!                                                   │
//!                                      CpuState ◄── CpuEdit
//! ```
//!
//! Decisions look at a [`CpuState`] and return [`CpuEdit`]s; whoever keeps the state applies them.

mod accumulator;
mod combinations;
mod distributed;
mod distribution;
mod error;
mod hints;
mod manager;
mod options;
mod packed;
mod pod_level;
mod start;
mod state;
mod static_policy;
mod take;
#[cfg(test)]
mod tests;

pub(crate) use combinations::Combinations;
pub use distributed::take_distributed;
pub use error::{CpuConfigError, CpuError, CpuPolicyError, CpuStateError};
pub use manager::{CpuConfig, CpuManager};
pub use options::{CpuOptionError, CpuOptions, OptionGates};
pub use packed::{PackingOptions, take_packed};
pub use pod_level::PodCpuRejection;
pub use state::{ContainerCpus, CpuEdit, CpuEdits, CpuState, StaleCpuEdit};
pub use static_policy::{CpuGrant, CpuReservation, StaticCpus, StaticSettings};
pub use take::{CpuOrder, TakeError};
