//! The device manager as a hint provider.

use super::{AllocationError, Attempt, HintProvider};
use crate::decision::{RejectionReason, ResourceManager};
use crate::demand;
use crate::device::{self, DeviceError, DeviceMasks, DeviceRequest};
use crate::explanation::{Cause, NodeFacts, ResourceFacts};
use crate::hint::{Hint, ProviderHints};
use crate::ledger::transaction::LedgerTransaction;
use crate::name::PodUid;
use crate::node_set::NodeSet;
use crate::pod::Container;

/// Devices of device plugins. Does not support pod-level resources.
#[derive(Debug)]
pub(super) struct DeviceProvider;

impl HintProvider for DeviceProvider {
    fn hints(&self, attempt: &Attempt<'_, '_>, container: Option<&Container>) -> ProviderHints {
        let Attempt {
            transaction, pod, ..
        } = attempt;
        let (pool, state) = (&transaction.state.pool, &transaction.state.devices);
        let spec = pod.demand.pod();
        let masks = DeviceMasks::of(transaction.rules.fidelity());
        match container {
            Some(container) => {
                device::container_hints(pool, state, spec, container, &pod.devices, masks)
            }
            None => device::pod_hints(pool, state, spec, masks),
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
        let whole;
        let limits = match container {
            Some(container) => &container.limits,
            None => {
                whole = demand::effective_limits(pod.demand.pod());
                &whole
            }
        };
        let pool = &transaction.state.pool;
        for (resource, amount) in limits {
            let Some(devices) = pool.devices(resource) else {
                continue;
            };
            let mut free = pool.free(&transaction.state.devices, resource).peekable();
            let reusable = pod.devices.of(resource).filter(|_| container.is_some());
            let mut of_resource = ResourceFacts {
                nodes: pool
                    .nodes()
                    .iter()
                    .map(|node| NodeFacts::new(node, 0, 0))
                    .collect(),
                ..ResourceFacts::new(
                    resource.clone(),
                    ResourceManager::Device,
                    u64::try_from(amount.value()).unwrap_or(0),
                )
            };
            for (id, device) in devices.iter().filter(|(_, device)| device.healthy) {
                let is_free = free.next_if(|(next, _)| *next == id).is_some();
                let is_reusable = || reusable.is_some_and(|reusable| reusable.contains(id));
                let free = u64::from(is_free || is_reusable());
                of_resource.total += 1;
                of_resource.free += free;
                let near: NodeSet = device.nodes() & pool.nodes();
                for at in near {
                    let row = of_resource.nodes.iter_mut().find(|row| row.node == at);
                    if let Some(row) = row {
                        row.total += 1;
                        row.free += free;
                    }
                }
                if near.is_empty() {
                    of_resource.without_topology.total += 1;
                    of_resource.without_topology.free += free;
                }
            }
            facts.push(of_resource);
        }
    }

    fn allocate<'p>(
        &self,
        attempt: &mut Attempt<'_, 'p>,
        container: &'p Container,
        hint: Hint,
    ) -> Result<(), AllocationError> {
        let Attempt {
            transaction,
            pod,
            plugins,
            ..
        } = attempt;
        let state = &*transaction.state;
        let request = DeviceRequest {
            pod: pod.demand.pod(),
            container,
            affinity: hint.mask,
            reusable: &pod.devices,
        };
        let mut edits = Vec::new();
        let (pool, devices) = (&state.pool, &state.devices);
        let allocated = device::allocate(pool, devices, request, *plugins, &mut edits);
        // The devices of resources before the one that is short stay assigned as long as other parts of a rejected pod.
        if allocated.is_ok() || !transaction.rules.fidelity().releases_last_pod() {
            transaction.devices(edits);
        }
        allocated?;
        let devices = &transaction.state.devices;
        pod.devices.add(&pod.demand, container, devices);
        Ok(())
    }

    fn release(&self, transaction: &mut LedgerTransaction<'_>, pod: &PodUid) {
        let edits = transaction.state.devices.remove_pod(pod);
        transaction.devices(edits);
    }
}

impl From<DeviceError> for AllocationError {
    fn from(error: DeviceError) -> Self {
        Self {
            manager: ResourceManager::Device,
            reason: RejectionReason::UnexpectedAdmissionError,
            cause: Cause::Device(error),
        }
    }
}
