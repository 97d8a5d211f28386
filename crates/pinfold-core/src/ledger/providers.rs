//! The hint providers: the managers that the topology manager asks for hints and that allocate what a pod is assigned.
//!
//! Admission knows only the trait [`HintProvider`] and the table [`KUBELET`] of its implementations, in the order in
//! which the kubelet registers them (`AddHintProvider`). A further provider is an entry of that table.

use std::fmt::Debug;

use super::admit::Attempt;
use super::state::LedgerState;
use super::transaction::LedgerTransaction;
use crate::cpu::PodCpus;
use crate::decision::{RejectionReason, ResourceManager};
use crate::demand::{PodDemand, PodLevel};
use crate::device::ReusableDevices;
use crate::explanation::{Cause, MemoryGrouping, NodeFacts, ResourceFacts, WithoutTopology};
use crate::hint::{Hint, ProviderHints};
use crate::memory::PodMemory;
use crate::name::{PodUid, ResourceName};
use crate::pod::{Container, Pod};

mod cpu;
mod device;
mod memory;
#[cfg(test)]
mod tests;

/// A manager that gives hints and allocates. Mirrors the kubelet's `HintProvider`.
pub(super) trait HintProvider: Debug + Sync {
    /// The hints for one container, or for the pod as a whole.
    fn hints(&self, attempt: &Attempt<'_, '_>, container: Option<&Container>) -> ProviderHints;

    /// Adds what one container, or the pod as a whole, requests of this provider, and what the machine has of it.
    /// Ascending by resource name, like the rows of the hints.
    fn facts(
        &self,
        attempt: &Attempt<'_, '_>,
        container: Option<&Container>,
        facts: &mut Vec<ResourceFacts>,
    );

    /// Allocates for one container, close to the merged hint.
    fn allocate<'p>(
        &self,
        attempt: &mut Attempt<'_, 'p>,
        container: &'p Container,
        hint: Hint,
    ) -> Result<(), AllocationError>;

    /// Allocates for a pod with pod-level resources as a whole. Nothing for a provider that does not support them.
    fn allocate_pod(&self, _: &mut Attempt<'_, '_>, _: Hint) -> Result<(), AllocationError> {
        Ok(())
    }

    /// The error behind an unsatisfiable hint of a pod with pod-level resources, which the merge cannot report: its
    /// exclusive containers leave nothing for its shared pool.
    fn empty_shared_pool(&self, _: &Attempt<'_, '_>) -> Option<Cause> {
        None
    }

    /// Releases everything that is recorded for a pod. Mirrors `removeStaleState` for a pod that is not active.
    fn release(&self, transaction: &mut LedgerTransaction<'_>, pod: &PodUid);
}

/// The kubelet's providers, in the order of [`ResourceManager::ALL`].
pub(super) static KUBELET: [&dyn HintProvider; 3] = [
    &device::DeviceProvider,
    &cpu::CpuProvider,
    &memory::MemoryProvider,
];

/// A failed allocation.
pub(super) struct AllocationError {
    pub(super) manager: ResourceManager,
    pub(super) reason: RejectionReason,
    pub(super) cause: Cause,
}

/// A pod while it is being admitted: what is computed once for all its containers, and what those decided so far leave
/// to the next one.
pub(super) struct PodInAdmission<'p> {
    pub(super) demand: PodDemand<'p>,
    devices: ReusableDevices,
    cpus: PodCpus,
    memory: PodMemory<'p>,
}

impl<'p> PodInAdmission<'p> {
    pub(super) fn new(state: &LedgerState, pod: &'p Pod, pod_level: PodLevel) -> Self {
        let demand = PodDemand::new(pod, pod_level);
        Self {
            devices: ReusableDevices::default(),
            cpus: PodCpus::new(&state.cpus, &pod.uid, state.reusable_cpus_of(&pod.uid)),
            memory: PodMemory::new(&state.memory, &demand),
            demand,
        }
    }
}

impl ResourceFacts {
    /// A resource of which the machine has nothing.
    fn new(resource: ResourceName, manager: ResourceManager, requested: u64) -> Self {
        Self {
            resource,
            manager,
            requested,
            total: 0,
            free: 0,
            nodes: [].into_iter().collect(),
            without_topology: WithoutTopology::default(),
            hints: None,
            merge_index: None,
        }
    }
}

impl NodeFacts {
    /// Amounts on a NUMA node that may be used alone and in a group.
    fn new(node: crate::node_set::NodeId, total: u64, free: u64) -> Self {
        Self {
            node,
            total,
            free,
            grouping: MemoryGrouping::Unrestricted,
        }
    }
}
