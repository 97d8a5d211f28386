//! The memory manager as a hint provider.

use super::{AllocationError, Attempt, HintProvider};
use crate::decision::{RejectionReason, ResourceManager};
use crate::explanation::{Cause, MemoryGrouping, NodeFacts, ResourceFacts};
use crate::hint::{Hint, ProviderHints};
use crate::ledger::transaction::LedgerTransaction;
use crate::memory::{MemoryBasis, MemoryError};
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::pod::Container;

/// Memory and hugepages; nothing under the policy `None`.
#[derive(Debug)]
pub(super) struct MemoryProvider;

impl HintProvider for MemoryProvider {
    fn hints(&self, attempt: &Attempt<'_, '_>, container: Option<&Container>) -> ProviderHints {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        let Some(policy) = transaction.rules.memory.as_static() else {
            return ProviderHints::none();
        };
        let (state, demand) = (&transaction.state.memory, &pod.demand);
        let hints = match container {
            Some(container) => policy.container_hints(state, &pod.memory, demand, container),
            None => policy.pod_hints(state, demand),
        };
        hints.hints
    }

    fn facts(
        &self,
        attempt: &Attempt<'_, '_>,
        container: Option<&Container>,
        facts: &mut Vec<ResourceFacts>,
    ) {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        let memory = &transaction.state.memory;
        let managed = pod.demand.is_guaranteed() && !pod.demand.is_ignored();
        if memory.nodes().is_empty() || !managed {
            return;
        }
        let requested = match container {
            Some(container) => pod.demand.container_memory(container),
            None => pod.demand.pod_memory(),
        };
        let resource = |(resource, requested): (ResourceName, u64)| {
            let (mut total, mut free) = (0_u64, 0_u64);
            let nodes = memory.nodes().iter().map(|(&node, row)| {
                let amounts = row.amounts(&resource);
                total = total.saturating_add(amounts.allocatable);
                free = free.saturating_add(amounts.free);
                NodeFacts {
                    grouping: match (row.cells.len() > 1, row.assignments) {
                        (true, _) => MemoryGrouping::Group(row.cells),
                        (false, 0) => MemoryGrouping::Unrestricted,
                        (false, _) => MemoryGrouping::SingleNodeOnly,
                    },
                    ..NodeFacts::new(node, amounts.allocatable, amounts.free)
                }
            });
            let nodes = nodes.collect();
            ResourceFacts {
                total,
                free,
                nodes,
                ..ResourceFacts::new(resource, ResourceManager::Memory, requested)
            }
        };
        let requested = requested.unwrap_or_default().into_iter();
        facts.extend(requested.map(resource));
    }

    fn allocate<'p>(
        &self,
        attempt: &mut Attempt<'_, 'p>,
        container: &'p Container,
        hint: Hint,
    ) -> Result<(), AllocationError> {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        let Some(policy) = transaction.rules.memory.as_static() else {
            return Ok(());
        };
        let state = &transaction.state.memory;
        let grant = policy.allocate(state, &mut pod.memory, hint, &pod.demand, container)?;
        transaction.memory(grant.edits);
        Ok(())
    }

    fn allocate_pod(
        &self,
        attempt: &mut Attempt<'_, '_>,
        hint: Hint,
    ) -> Result<(), AllocationError> {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        let Some(policy) = transaction.rules.memory.as_static() else {
            return Ok(());
        };
        let grant = policy.allocate_pod(&transaction.state.memory, hint, &pod.demand)?;
        transaction.memory(grant.edits);
        Ok(())
    }

    fn empty_shared_pool(&self, attempt: &Attempt<'_, '_>) -> Option<Cause> {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        let policy = transaction.rules.memory.as_static()?;
        match policy
            .pod_hints(&transaction.state.memory, &pod.demand)
            .basis
        {
            MemoryBasis::EmptySharedPool(problem) => Some(Cause::Memory(problem.into())),
            _ => None,
        }
    }

    fn release(&self, transaction: &mut LedgerTransaction<'_>, pod: &PodUid) {
        let Some(policy) = transaction.rules.memory.as_static() else {
            return;
        };
        let held = transaction.state.memory.assignments().get(pod);
        let holders: Vec<ContainerName> = held
            .into_iter()
            .flat_map(|held| held.keys().cloned())
            .collect();
        for container in holders {
            let edits = policy.remove_container(&transaction.state.memory, pod, &container);
            transaction.memory(edits);
        }
    }
}

impl From<MemoryError> for AllocationError {
    fn from(error: MemoryError) -> Self {
        let reason = match error {
            MemoryError::EmptySharedPool(_) => RejectionReason::EmptyPodSharedPoolError,
            _ => RejectionReason::UnexpectedAdmissionError,
        };
        Self {
            manager: ResourceManager::Memory,
            reason,
            cause: Cause::Memory(error),
        }
    }
}
