//! The device manager as a hint provider.

use super::{AllocationError, Attempt, HintProvider};
use crate::decision::{RejectionReason, ResourceManager};
use crate::demand;
use crate::device::{self, DeviceError, DeviceGrant, DeviceMasks, DeviceRequest};
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
    ) -> Vec<ResourceFacts> {
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
        let mut all = Vec::new();
        for (resource, amount) in limits {
            let Some(devices) = pool.devices(resource) else {
                continue;
            };
            let mut free = pool.available(&transaction.state.devices, resource);
            if container.is_some() {
                free.extend(pod.devices.of(resource).into_iter().flatten().cloned());
            }
            let mut facts = ResourceFacts {
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
                let free = u64::from(free.contains(id));
                facts.total += 1;
                facts.free += free;
                let near: NodeSet = device.nodes() & pool.nodes();
                for node in facts
                    .nodes
                    .iter_mut()
                    .filter(|node| near.contains(node.node))
                {
                    node.total += 1;
                    node.free += free;
                }
                if near.is_empty() {
                    facts.without_topology.total += 1;
                    facts.without_topology.free += free;
                }
            }
            all.push(facts);
        }
        all
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
        let mut grant = DeviceGrant::default();
        let (pool, devices) = (&state.pool, &state.devices);
        let allocated = device::allocate(pool, devices, request, *plugins, &mut grant);
        // The devices of resources before the one that is short stay assigned as long as other parts of a rejected pod.
        if allocated.is_ok() || !transaction.rules.fidelity().releases_last_pod() {
            transaction.devices(grant.edits);
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
