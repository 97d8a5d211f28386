//! The memory manager: the NUMA nodes that a container's memory and hugepages are allocated from.
//!
//! Mirrors the kubelet's `memorymanager`. Memory is allocated per NUMA node and type in a table ([`MemoryState`]). A
//! container is assigned a set of nodes; if that set has more than one node, its nodes form a *group* that is used only
//! as a whole until its last assignment is released:
//!
//! ```text
//! node 0 ─ group {0}    ─ single-node assignments       ┐
//! node 1 ┐                                              ├ a node is in one group at a time
//! node 2 ┴ group {1, 2} ─ assignments of exactly {1, 2} ┘
//! ```
//!
//! Nothing here changes a table in place: [`StaticMemory`] returns [`MemoryEdit`]s, which [`MemoryState::apply`]
//! applies and [`MemoryState::revert`] reverts.

use crate::machine::Machine;
use crate::policy::UnknownPolicy;
use crate::settings::{MemoryManagerPolicy, Settings};

mod allocate;
mod allocate_pod;
mod edit;
mod hints;
#[cfg(test)]
mod invariants;
mod reserved;
mod reuse;
mod start;
mod static_policy;
mod table;
#[cfg(test)]
mod tests;
mod transaction;

pub use allocate::{MemoryError, MemoryGrant};
pub use allocate_pod::EmptySharedPool;
pub use edit::MemoryEdit;
pub use hints::{MemoryBasis, MemoryHints};
pub use reserved::{
    MemoryReservation, ReservationError, SystemReserved, hugepages_resource, memory_resource,
};
pub use reuse::{PodMemory, ReusableInitMemory};
pub use start::{MemoryStartError, TableDifference};
pub use static_policy::StaticMemory;
pub use table::{MemoryAmounts, MemoryAssignments, MemoryBlock, MemoryState, NodeMemory};

/// The policy of the memory manager.
#[derive(Clone, Debug)]
pub enum MemoryPolicy {
    /// Memory is not managed: no hints, no allocations.
    None,
    /// Memory of Guaranteed pods is allocated from NUMA nodes.
    Static(StaticMemory),
}

/// Settings that the memory manager does not accept. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemorySettingsError {
    /// A policy that does not exist on Linux.
    #[error("policy \"{0}\" is not available for platform \"linux\"")]
    OtherPlatform(MemoryManagerPolicy),
    /// A policy that this version does not know.
    #[error(transparent)]
    Unknown(#[from] UnknownPolicy),
    /// Reservations that contradict the machine or each other.
    #[error(transparent)]
    Reservation(#[from] ReservationError),
}

impl MemoryPolicy {
    /// The policy with the kubelet's settings. Mirrors `NewManager`.
    ///
    /// # Errors
    /// If Linux has no such policy, or the reservations contradict the machine or each other.
    pub fn new(machine: &Machine, settings: &Settings) -> Result<Self, MemorySettingsError> {
        match settings.memory_policy {
            MemoryManagerPolicy::None => Ok(MemoryPolicy::None),
            MemoryManagerPolicy::Static => {
                let (whole, by_node) = (&settings.node_reservation, &settings.reserved_memory);
                let reserved = SystemReserved::new(machine, whole, by_node)?;
                let (pod_level, fidelity) = (settings.pod_level(), settings.fidelity);
                let policy = StaticMemory::new(machine, &reserved, pod_level, fidelity)?;
                Ok(MemoryPolicy::Static(policy))
            }
            other if !settings.fidelity.knows_best_effort_memory() => Err(UnknownPolicy {
                name: other.name().to_owned(),
            })?,
            other @ MemoryManagerPolicy::BestEffort => {
                Err(MemorySettingsError::OtherPlatform(other))
            }
        }
    }

    /// The table of the machine without pods; empty if memory is not managed.
    #[must_use]
    pub fn initial_state(&self) -> MemoryState {
        match self {
            MemoryPolicy::None => MemoryState::default(),
            MemoryPolicy::Static(policy) => policy.initial_state(),
        }
    }

    /// The static policy; `None` under the policy `None`.
    #[must_use]
    pub fn as_static(&self) -> Option<&StaticMemory> {
        match self {
            MemoryPolicy::None => None,
            MemoryPolicy::Static(policy) => Some(policy),
        }
    }

    /// See [`StaticMemory::start`].
    ///
    /// # Errors
    /// If the restored table contradicts the machine or its own assignments.
    pub fn start(&self, restored: &MemoryState) -> Result<Vec<MemoryEdit>, MemoryStartError> {
        match self {
            MemoryPolicy::None => Ok(Vec::new()),
            MemoryPolicy::Static(policy) => policy.start(restored),
        }
    }
}
