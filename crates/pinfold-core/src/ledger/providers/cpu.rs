//! The CPU manager as a hint provider.

use super::{AllocationError, Attempt, HintProvider};
use crate::cpu::{CpuError, CpuGrant, check_pod_budget};
use crate::decision::ResourceManager;
use crate::explanation::{Cause, NodeFacts, ResourceFacts};
use crate::hint::{Hint, ProviderHints};
use crate::ledger::state::ReusableCpus;
use crate::ledger::transaction::LedgerTransaction;
use crate::name::PodUid;
use crate::pod::Container;

/// Exclusive CPUs; nothing under the policy `none`.
#[derive(Debug)]
pub(super) struct CpuProvider;

impl HintProvider for CpuProvider {
    fn hints(&self, attempt: &Attempt<'_, '_>, container: Option<&Container>) -> ProviderHints {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        let Some(policy) = transaction.rules.cpus.as_static() else {
            return ProviderHints::none();
        };
        let state = &transaction.state.cpus;
        match container {
            Some(container) => policy.container_hints(state, &pod.cpus, &pod.demand, container),
            None => policy.pod_hints(state, &pod.cpus, &pod.demand),
        }
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
        let Some(policy) = transaction.rules.cpus.as_static() else {
            return;
        };
        let requested = match container {
            Some(container) => pod.demand.container_cpus(container),
            None => pod.demand.pod_cpus(),
        };
        if requested == 0 || pod.demand.is_ignored() {
            return;
        }
        let free = policy.usable(&transaction.state.cpus, &pod.cpus);
        let nodes = policy.topology().nodes().iter().map(|node| {
            let reserved = node.cpus.common_len(policy.reserved());
            let free = node.cpus.common_len(&free) as u64;
            NodeFacts::new(node.id, (node.cpus.len() - reserved) as u64, free)
        });
        facts.push(ResourceFacts {
            total: policy.num_allocatable() as u64,
            free: free.len() as u64,
            nodes: nodes.collect(),
            ..ResourceFacts::new(
                policy.resource().clone(),
                ResourceManager::Cpu,
                requested as u64,
            )
        });
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
        let Some(policy) = transaction.rules.cpus.as_static() else {
            return Ok(());
        };
        let state = &transaction.state.cpus;
        let grant = policy.allocate(state, &pod.cpus, hint.mask, &pod.demand, container)?;
        pod.cpus.record(&grant);
        let CpuGrant {
            edits, reusable, ..
        } = grant;
        transaction.cpu(edits);
        if let Some(cpus) = reusable {
            let pod = pod.demand.pod().uid.clone();
            transaction.reusable_cpus(Some(ReusableCpus { pod, cpus }));
        }
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
        let Some(policy) = transaction.rules.cpus.as_static() else {
            return Ok(());
        };
        match policy.allocate_pod(&transaction.state.cpus, hint.mask, &pod.demand) {
            Ok(grant) => {
                transaction.cpu(grant.edits);
                Ok(())
            }
            Err(rejection) => {
                transaction.cpu(rejection.left_behind);
                Err(rejection.error.into())
            }
        }
    }

    fn empty_shared_pool(&self, attempt: &Attempt<'_, '_>) -> Option<Cause> {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        transaction.rules.cpus.as_static()?;
        check_pod_budget(&pod.demand).err().map(Cause::Cpu)
    }

    fn release(&self, transaction: &mut LedgerTransaction<'_>, pod: &PodUid) {
        if let Some(policy) = transaction.rules.cpus.as_static() {
            let edits = policy.remove_pod(&transaction.state.cpus, pod);
            transaction.cpu(edits);
        }
    }
}

impl From<CpuError> for AllocationError {
    fn from(error: CpuError) -> Self {
        Self {
            manager: ResourceManager::Cpu,
            reason: error.reason(),
            cause: Cause::Cpu(error),
        }
    }
}
