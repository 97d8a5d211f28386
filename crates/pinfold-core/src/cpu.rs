//! The CPU manager: exclusive CPUs for containers.
//!
//! ```text
//! configuration ─► CpuManager ─► StaticCpus ─┬─ hints ────────► NUMA nodes that fit a request
//!                                            ├─ allocate ─────► take_packed or take_distributed
//!                                            └─ remove, start
//!                                                   │
//!                                      CpuState ◄── CpuEdit
//! ```
//!
//! The policy reads a [`CpuState`] and returns [`CpuEdit`]s; the [ledger](crate::ledger) applies them.

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
pub use distributed::{DistributionOptions, take_distributed};
pub use error::{CpuConfigError, CpuError, CpuPolicyError, CpuStateError};
pub use manager::CpuManager;
pub use options::{CpuOptionError, CpuOptions, OptionGates};
pub use packed::{PackingOptions, take_packed};
pub use pod_level::PodCpuRejection;
pub(crate) use pod_level::check_pod_budget;
pub use state::{ContainerCpus, CpuEdit, CpuEdits, CpuState};
pub use static_policy::{CpuGrant, CpuReservation, PodCpus, StaticCpus, StaticSettings};
pub use take::{CpuSortingStrategy, TakeError};
