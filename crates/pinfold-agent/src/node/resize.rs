//! In-place changes of the resources of running containers.
//!
//! The kubelet whose CPU manager policy is `none` sends them for every container. The ledger cannot change the CPUs and
//! memory that a container holds exclusively while it runs, so such a change is rejected with its reason. Of all other
//! containers the ledger gets the new requests and limits.

use std::sync::Arc;

use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;
use pinfold_journal::Timestamp;

use super::managed_container::RuntimeResources;
use super::{AdmitError, ManagedNode};
use crate::allowance::{Allowance, Quota};

impl ManagedNode {
    /// Changes the resources of a running container. Returns its allowance, whose CPUs do not change; `None` if it is not
    /// pinned.
    ///
    /// # Errors
    /// If the container holds CPUs or memory exclusively and would need other amounts, or the journal cannot be written.
    pub fn resize_container(
        &mut self,
        id: &str,
        wanted: &RuntimeResources,
        now: Timestamp,
    ) -> Result<Option<Allowance>, AdmitError> {
        let Some(container) = self.containers.get(id) else {
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
        let differs = container.resources.change_to(wanted);
        let reason = match differs {
            Some(change) if has_cpus && change.cpu => "exclusive CPUs",
            Some(change) if has_memory && change.memory => "memory on its own NUMA nodes",
            change => {
                if change.is_some() {
                    self.journal_resize(&resident.clone(), &name.clone(), wanted, now)?;
                }
                return Ok(self.resized(id, wanted));
            }
        };
        let rejected = rejection(&format!("container {name} has {reason}"));
        self.rejected += 1;
        Err(rejected)
    }

    /// Notes the resources of a container. Returns its allowance.
    fn resized(&mut self, id: &str, wanted: &RuntimeResources) -> Option<Allowance> {
        let container = self.containers.get_mut(id)?;
        container.resources.update(wanted);
        let sent = container.sent_allowance.as_mut()?;
        if wanted.cpu_quota.is_some() && matches!(sent.quota, Quota::Limited { .. }) {
            // The runtime sets the new quota, which replaces the one that the container got back.
            sent.quota = Quota::AsSpecified;
        }
        Some(sent.clone())
    }

    /// Gives the ledger the new requests and limits of a container, if it keeps what it holds.
    fn journal_resize(
        &mut self,
        resident: &PodUid,
        name: &ContainerName,
        wanted: &RuntimeResources,
        now: Timestamp,
    ) -> Result<(), AdmitError> {
        let pods = self.journaled.ledger().state().admitted_pods();
        let Some(admitted) = pods.get(resident) else {
            return Ok(());
        };
        let mut pod = admitted.pod.clone();
        if !resize(Arc::make_mut(&mut pod), name, wanted) {
            return Ok(());
        }
        let message = format!("container {name} was resized in place");
        self.journaled.replace_spec(&pod, message, now)?;
        Ok(())
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

/// Sets the amounts of a container that the runtime gets. Returns whether one of them is another than before.
fn resize(pod: &mut Pod, name: &ContainerName, wanted: &RuntimeResources) -> bool {
    let is_guaranteed = QosClass::of(pod) == QosClass::Guaranteed;
    let mut containers = pod.init_containers.iter_mut().chain(&mut pod.containers);
    let Some(container) = containers.find(|container| container.name == *name) else {
        return false;
    };
    let before = container.clone();
    let Container {
        requests, limits, ..
    } = container;
    let class = match is_guaranteed {
        true => QosClass::Guaranteed,
        false => QosClass::Burstable,
    };
    let amounts = wanted.container(name.clone(), Some(class));
    let set = |list: &mut ResourceList, resource: &str, amount: Option<&Quantity>| {
        let resource = ResourceName::from(resource);
        if let (Some(own), Some(amount)) = (list.get_mut(&resource), amount)
            && own.milli_value() != amount.milli_value()
        {
            *own = *amount;
        }
    };
    for resource in ["cpu", "memory"] {
        let (requested, limit) = (amounts.requests.get(resource), amounts.limits.get(resource));
        set(requests, resource, requested);
        set(limits, resource, limit);
    }
    *container != before
}
