//! In-place changes of the resources of running containers.
//!
//! The kubelet whose CPU manager policy is `none` sends them for every container. The ledger cannot change the CPUs and
//! memory that a container holds exclusively while it runs, so such a change is rejected with its reason.

use super::managed_container::RuntimeResources;
use super::{AdmitError, ManagedNode};
use crate::allowance::{Allowance, Quota};

impl ManagedNode {
    /// Changes the resources of a running container. Returns its allowance, which does not change; `None` if it is not
    /// pinned.
    ///
    /// # Errors
    /// If the container holds CPUs or memory exclusively and would need other amounts.
    pub fn resize_container(
        &mut self,
        id: &str,
        wanted: &RuntimeResources,
    ) -> Result<Option<Allowance>, AdmitError> {
        let Some(container) = self.containers.get_mut(id) else {
            return Ok(None);
        };
        let state = self.journaled.ledger().state();
        let (resident, name) = (&container.resident, &container.name);
        // A pod of Koordinator's that only the runtime describes holds its CPUs as a whole, not by container.
        let is_unlimited = |sent: &Allowance| sent.quota == Quota::Unlimited;
        let has_cpus = state.cpus().container(resident, name).is_some()
            || container.sent_allowance.as_ref().is_some_and(is_unlimited);
        let blocks = state.memory().blocks(resident, name);
        let has_memory = blocks.is_some_and(|blocks| !blocks.is_empty());
        let now = &container.resources;
        let differs = now.change_to(wanted);
        let reason = match differs {
            Some(change) if has_cpus && change.cpu => "exclusive CPUs",
            Some(change) if has_memory && change.memory => "memory on its own NUMA nodes",
            _ => {
                container.resources.update(wanted);
                return Ok(container.sent_allowance.clone());
            }
        };
        self.rejected += 1;
        Err(rejection(&format!("container {name} has {reason}")))
    }

    /// Changes the total resources of a running pod.
    ///
    /// # Errors
    /// If the pod holds CPUs exclusively and would need another number.
    pub fn resize_pod(&mut self, id: &str, wanted: &RuntimeResources) -> Result<(), AdmitError> {
        let Some(sandbox) = self.sandboxes.get(id) else {
            return Ok(());
        };
        let change = sandbox.total.change_to(wanted);
        let residents = self.residents_of(&sandbox.uid);
        let ledger = self.journaled.ledger();
        let mut residents = residents.iter();
        let has_cpus = residents.any(|resident| !ledger.exclusive_cpus(resident).is_empty());
        if has_cpus && change.is_some_and(|change| change.cpu) {
            self.rejected += 1;
            return Err(rejection("the pod has exclusive CPUs"));
        }
        if let Some(sandbox) = self.sandboxes.get_mut(id) {
            sandbox.total.update(wanted);
        }
        Ok(())
    }
}

fn rejection(has: &str) -> AdmitError {
    AdmitError::Rules {
        reason: format!(
            "{has}, which cannot change while it runs: delete the pod and create it with the new resources"
        ),
        decision: None,
    }
}

/// Which amounts a change of resources affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ResourceChange {
    cpu: bool,
    memory: bool,
}

impl RuntimeResources {
    /// The amounts that `wanted` changes; `None` if it changes none. Amounts that it does not have stay as they are.
    fn change_to(&self, wanted: &Self) -> Option<ResourceChange> {
        let (before, after) = (self.cpu_shares, wanted.cpu_shares);
        let cpu =
            before.is_some() && after.is_some_and(|shares| shares > 0 && Some(shares) != before);
        let (before, after) = (self.memory_limit, wanted.memory_limit);
        let memory =
            before.is_some() && after.is_some_and(|limit| limit > 0 && Some(limit) != before);
        (cpu || memory).then_some(ResourceChange { cpu, memory })
    }

    fn update(&mut self, wanted: &Self) {
        self.cpu_shares = wanted.cpu_shares.or(self.cpu_shares);
        self.cpu_quota = wanted.cpu_quota.or(self.cpu_quota);
        self.cpu_period = wanted.cpu_period.or(self.cpu_period);
        self.memory_limit = wanted.memory_limit.or(self.memory_limit);
    }
}
