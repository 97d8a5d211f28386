//! [`StaticMemory`]: the kubelet's `Static` memory policy.

use std::collections::BTreeMap;

use super::edit::MemoryEdit;
use super::reserved::{ReservationError, SystemReserved, initial_nodes};
use super::reuse::PodMemory;
use super::table::{MemoryState, NodeMemory};
use super::transaction::MemoryTransaction;
use crate::demand::{PodDemand, PodLevel};
use crate::fidelity::Fidelity;
use crate::machine::Machine;
use crate::name::{ContainerName, PodUid};
use crate::node_set::NodeId;
use crate::pod::Container;

/// Allocates the memory of Guaranteed pods from NUMA nodes. Contains only settings; the table is a [`MemoryState`].
#[derive(Clone, Debug)]
pub struct StaticMemory {
    pub(super) initial: BTreeMap<NodeId, NodeMemory>,
    pub(super) pod_level: PodLevel,
    pub(super) fidelity: Fidelity,
}

impl StaticMemory {
    /// The policy for a machine. Mirrors `NewPolicyStatic`.
    ///
    /// # Errors
    /// If no memory is reserved for the system.
    pub fn new(
        machine: &Machine,
        reserved: &SystemReserved,
        pod_level: PodLevel,
        fidelity: Fidelity,
    ) -> Result<Self, ReservationError> {
        reserved.require_memory()?;
        Ok(Self {
            initial: initial_nodes(machine, reserved, fidelity),
            pod_level,
            fidelity,
        })
    }

    /// The table of the machine without pods. Mirrors `getDefaultMachineState`.
    #[must_use]
    pub fn initial_state(&self) -> MemoryState {
        MemoryState {
            nodes: self.initial.clone(),
            ..MemoryState::default()
        }
    }

    /// Whether this is an init container that finished and released its memory: a later container of its pod holds
    /// memory, and it holds none. No memory is allocated for it then.
    pub(super) fn has_finished(
        &self,
        own: &PodMemory<'_>,
        demand: &PodDemand<'_>,
        container: &Container,
    ) -> bool {
        !self.fidelity.allocates_for_finished_init_containers()
            && own.later_container_holds_memory()
            && demand.is_finishing_init(&container.name)
    }

    /// Whether the assignments of this pod with pod-level resources are kept as they are, as a whole or by container,
    /// even if the topology manager's scope has changed since.
    pub(super) fn keeps_assignment(&self, demand: &PodDemand<'_>) -> bool {
        demand.is_managed_as_whole() && !self.fidelity.allocates_pod_memory_again()
    }

    /// Releases the memory of a container, if it holds any. Memory of a pod as a whole is released with its last
    /// container. Mirrors `RemoveContainer`.
    #[must_use]
    pub fn remove_container(
        &self,
        state: &MemoryState,
        pod: &PodUid,
        container: &ContainerName,
    ) -> Vec<MemoryEdit> {
        let mut transaction = MemoryTransaction::new(state);
        let of_pod = match self.pod_level {
            PodLevel::Managed => state.pod_blocks(pod),
            PodLevel::Unknown | PodLevel::Ignored => None,
        };
        transaction.set_blocks(pod, container, None);
        match (of_pod, state.blocks(pod, container)) {
            (Some(blocks), _) => {
                let others = state.containers.get(pod);
                let is_last = !others.is_some_and(|held| held.keys().any(|name| name != container));
                if is_last {
                    transaction.release(blocks, self.fidelity);
                    transaction.set_pod_blocks(pod, None);
                }
            }
            (None, Some(blocks)) => transaction.release(blocks, self.fidelity),
            (None, None) => {}
        }
        transaction.into_edits()
    }
}
