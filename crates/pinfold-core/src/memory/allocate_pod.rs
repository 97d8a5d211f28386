//! Allocates the memory of a pod with pod-level resources as a whole, and divides it among its containers.
//!
//! Mirrors `AllocatePod`. The pod-level amount is allocated once, from one set of nodes. Containers whose CPU and
//! memory requests equal their limits get blocks of their own; what they and the sidecars leave is the *shared pool*,
//! whose blocks are reported for every other container. An init container without memory of its own may use all that
//! the sidecars before it leave. The containers' blocks divide the pod's allocation; they are not allocated again.

use serde::Serialize;

use super::allocate::{MemoryError, MemoryGrant, blocks_on};
use super::hints::MemoryHintSearch;
use super::reuse::ReusableMemory;
use super::static_policy::StaticMemory;
use super::table::{MemoryBlock, MemoryState};
use super::transaction::MemoryTransaction;
use crate::demand::{MemoryDemand, NotWholeBytes, PodDemand};
use crate::fidelity::Fidelity;
use crate::hint::Hint;
use crate::name::{ContainerName, ResourceName};
use crate::node_set::NodeSet;

/// The shared pool of a pod would be empty although some of its containers need it. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum EmptySharedPool {
    /// Sidecars leave nothing for an init container in the shared pool.
    #[error("pod rejected, pod has shared init containers but no {0} available for them")]
    Init(ResourceName),
    /// Containers with memory of their own leave nothing for the shared pool.
    #[error(
        "pod rejected, sum of exclusive container {0} requests equals pod budget, leaving no memory for shared containers"
    )]
    App(ResourceName),
    /// An amount that is not a whole number of bytes.
    #[error(transparent)]
    NotWholeBytes(#[from] NotWholeBytes),
}

impl StaticMemory {
    /// Allocates the memory of a pod with pod-level resources from `affinity`, extended if necessary.
    ///
    /// # Errors
    /// If the shared pool would be empty although containers need it, or no hint contains `affinity`; nothing is
    /// allocated then.
    pub(crate) fn allocate_pod(
        &self,
        state: &MemoryState,
        affinity: Hint,
        demand: &PodDemand<'_>,
    ) -> Result<MemoryGrant, MemoryError> {
        let Ok(named) = demand.pod_memory() else {
            return Ok(MemoryGrant::default());
        };
        let pod = &demand.pod().uid;
        let held = state.pods.contains_key(pod) || state.containers.contains_key(pod);
        if !demand.is_guaranteed() || (held && self.keeps_assignment(demand)) {
            return Ok(MemoryGrant::default());
        }
        check_shared_pool(demand, &named)?;
        let total = pod_total(demand, &named, self.fidelity)?;
        let search = MemoryHintSearch {
            state,
            requested: &total,
            reusable: ReusableMemory::of_pod(state, pod, self.fidelity),
        };
        let placed = self.place(&search, affinity)?;
        let nodes = placed.mask.unwrap_or_default();

        let shares = self.divide(demand, &total, nodes)?;
        let mut transaction = MemoryTransaction::new(state);
        for (resource, &size) in &total {
            transaction.allocate(nodes, resource, size);
        }
        transaction.set_pod_blocks(pod, Some(blocks_on(nodes, &total)));
        for (container, blocks) in shares {
            transaction.set_blocks(pod, &container, Some(blocks));
        }
        Ok(MemoryGrant {
            placed: Some(placed),
            edits: transaction.into_edits(),
        })
    }

    /// The blocks of each container of the pod.
    fn divide(
        &self,
        demand: &PodDemand<'_>,
        total: &MemoryDemand,
        nodes: NodeSet,
    ) -> Result<Vec<(ContainerName, Vec<MemoryBlock>)>, NotWholeBytes> {
        let mut pool = Pool {
            amounts: total.clone(),
            fidelity: self.fidelity,
        };
        let mut shares = Vec::new();
        let mut sharing = Vec::new();
        let (inits, apps) = (&demand.pod().init_containers, &demand.pod().containers);
        let inits = inits.iter().map(|init| (init, true));
        for (container, is_init) in inits.chain(apps.iter().map(|app| (app, false))) {
            let own = demand.container_memory(container)?;
            let ends = is_init && !container.restartable;
            let name = container.name.clone();
            match (own.is_empty(), ends) {
                (true, true) => shares.push((name, pool.blocks(nodes))),
                (true, false) => sharing.push(name),
                (false, _) => {
                    shares.push((name, positive_blocks(nodes, &own)));
                    if !ends {
                        pool.take(&own, !is_init);
                    }
                }
            }
        }
        let shared = pool.blocks(nodes);
        shares.extend(sharing.into_iter().map(|name| (name, shared.clone())));
        Ok(shares)
    }
}

/// The pod's memory that the containers so far leave.
struct Pool {
    amounts: MemoryDemand,
    fidelity: Fidelity,
}

impl Pool {
    /// Subtracts a container's own memory. A sidecar affects only types that the pod-level amounts have.
    fn take(&mut self, own: &MemoryDemand, is_app: bool) {
        for (resource, &size) in own.iter().filter(|(_, size)| **size > 0) {
            if !is_app && !self.amounts.contains_key(resource) {
                continue;
            }
            let left = self.amounts.entry(resource.clone()).or_default();
            *left = match self.fidelity.allocates_only_pod_level_types() {
                true => left.wrapping_sub(size),
                false => left.saturating_sub(size),
            };
        }
    }

    fn blocks(&self, nodes: NodeSet) -> Vec<MemoryBlock> {
        positive_blocks(nodes, &self.amounts)
    }
}

fn positive_blocks(nodes: NodeSet, amounts: &MemoryDemand) -> Vec<MemoryBlock> {
    let mut blocks = blocks_on(nodes, amounts);
    blocks.retain(|block| block.size > 0);
    blocks
}

/// Checks that the shared pool has something of every type in the pod-level amounts. Mirrors
/// `validatePodScopeResources`.
pub(super) fn check_shared_pool(
    demand: &PodDemand<'_>,
    named: &MemoryDemand,
) -> Result<(), EmptySharedPool> {
    let mut exclusive = MemoryDemand::new();
    let mut shares = false;
    let used_up = |exclusive: &MemoryDemand| {
        let of = |resource: &ResourceName| exclusive.get(resource).copied().unwrap_or(0);
        let mut empty = named
            .iter()
            .filter(|(resource, pool)| of(resource) >= **pool);
        empty.next().map(|(resource, _)| resource.clone())
    };
    for container in demand.pod().all_containers() {
        let own = demand.container_memory(container)?;
        match (own.is_empty(), demand.is_finishing_init(&container.name)) {
            (true, true) => {
                if let Some(resource) = used_up(&exclusive) {
                    return Err(EmptySharedPool::Init(resource));
                }
            }
            (true, false) => shares = true,
            (false, true) => {}
            (false, false) => {
                for (resource, amount) in own {
                    let sum = exclusive.entry(resource).or_default();
                    *sum = sum.saturating_add(amount);
                }
            }
        }
    }
    match used_up(&exclusive) {
        Some(resource) if shares => Err(EmptySharedPool::App(resource)),
        _ => Ok(()),
    }
}

/// The pod-level amounts, or what its containers need if that is more.
pub(super) fn pod_total(
    demand: &PodDemand<'_>,
    named: &MemoryDemand,
    fidelity: Fidelity,
) -> Result<MemoryDemand, NotWholeBytes> {
    let mut total = named.clone();
    if !fidelity.allocates_only_pod_level_types() {
        for (resource, peak) in peak(demand)? {
            if peak > 0 {
                let amount = total.entry(resource).or_default();
                *amount = peak.max(*amount);
            }
        }
    }
    Ok(total)
}

/// The largest amount that containers with memory of their own hold at the same time.
fn peak(demand: &PodDemand<'_>) -> Result<MemoryDemand, NotWholeBytes> {
    let mut running = MemoryDemand::new();
    let mut peak = MemoryDemand::new();
    for container in demand.pod().all_containers() {
        let ends = demand.is_finishing_init(&container.name);
        for (resource, bytes) in demand.container_memory(container)? {
            let beside = running.entry(resource.clone()).or_default();
            let together = beside.saturating_add(bytes);
            if !ends {
                *beside = together;
            }
            let most = peak.entry(resource).or_default();
            *most = together.max(*most);
        }
    }
    Ok(peak)
}
