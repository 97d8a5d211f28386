//! Booking the memory of a pod with pod-level resources as a whole, and dividing it among its containers.
//!
//! Mirrors `AllocatePod`. The pod's own section is booked once, on one set of nodes. Containers whose CPU and memory
//! requests equal their limits get blocks of their own; what they and the sidecars leave is the *shared pool*,
//! whose blocks every other container is shown. An init container without memory of its own may use all that the
//! sidecars before it leave. The containers' blocks divide what is booked; they are not booked again.

use serde::Serialize;

use super::allocate::{MemoryError, MemoryGrant, blocks_on};
use super::hints::MemoryHintSearch;
use super::pod_total::to_book;
use super::reuse::ReusableMemory;
use super::static_policy::StaticMemory;
use super::table::{MemoryBlock, MemoryState};
use super::transaction::MemoryTransaction;
use crate::demand::{MemoryDemand, NotWholeBytes, PodLevel, container_memory, pod_memory};
use crate::fidelity::Fidelity;
use crate::hint::Hint;
use crate::name::{ContainerName, ResourceName};
use crate::node_set::NodeSet;
use crate::pod::Pod;
use crate::qos::QosClass;

/// Some containers need a shared pool that would be empty. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum EmptySharedPool {
    /// Sidecars leave nothing for an init container that shares.
    #[error("pod rejected, pod has shared init containers but no {0} available for them")]
    Init(ResourceName),
    /// Containers with memory of their own leave nothing for those that share.
    #[error(
        "pod rejected, sum of exclusive container {0} requests equals pod budget, leaving no memory for shared containers"
    )]
    App(ResourceName),
    /// An amount that is no whole number of bytes.
    #[error(transparent)]
    NotWholeBytes(#[from] NotWholeBytes),
}

impl StaticMemory {
    /// Books a pod with pod-level resources on `affinity`, or on more nodes if it must.
    ///
    /// # Errors
    /// If containers need a shared pool that would be empty, or no set of nodes that contains `affinity` fits;
    /// nothing is booked then.
    pub fn allocate_pod(
        &self,
        state: &MemoryState,
        affinity: Hint,
        pod: &Pod,
    ) -> Result<MemoryGrant, MemoryError> {
        let Ok(named) = pod_memory(pod, self.pod_level) else {
            return Ok(MemoryGrant::default());
        };
        let held = state.pods.contains_key(&pod.uid) || state.containers.contains_key(&pod.uid);
        if QosClass::of(pod) != QosClass::Guaranteed || (held && self.keeps_booking(pod)) {
            return Ok(MemoryGrant::default());
        }
        check_shared_pool(pod, &named, self.pod_level)?;
        let total = to_book(pod, &named, self.pod_level, self.fidelity)?;
        let search = MemoryHintSearch {
            state,
            requested: &total,
            reusable: ReusableMemory::of_pod(state, pod, self.fidelity),
        };
        let placed = self.place(&search, affinity)?;
        let nodes = placed.mask.unwrap_or_default();

        let shares = self.divide(pod, &total, nodes)?;
        let mut transaction = MemoryTransaction::new(state);
        for (resource, &size) in &total {
            transaction.book(nodes, resource, size);
        }
        transaction.set_pod_blocks(&pod.uid, Some(blocks_on(nodes, &total)));
        for (container, blocks) in shares {
            transaction.set_blocks(&pod.uid, &container, Some(blocks));
        }
        Ok(MemoryGrant {
            placed: Some(placed),
            edits: transaction.into_edits(),
        })
    }

    /// What each container of the pod is shown of `total`.
    fn divide(
        &self,
        pod: &Pod,
        total: &MemoryDemand,
        nodes: NodeSet,
    ) -> Result<Vec<(ContainerName, Vec<MemoryBlock>)>, NotWholeBytes> {
        let mut pool = Pool {
            amounts: total.clone(),
            fidelity: self.fidelity,
        };
        let mut shares = Vec::new();
        let mut sharing = Vec::new();
        for container in pod.all_containers() {
            let own = container_memory(pod, container, self.pod_level)?;
            let ends = pod.is_finishing_init(&container.name);
            let name = container.name.clone();
            match (own.is_empty(), ends) {
                (true, true) => shares.push((name, pool.blocks(nodes))),
                (true, false) => sharing.push(name),
                (false, _) => {
                    shares.push((name, positive_blocks(nodes, &own)));
                    if !ends {
                        let is_app = pod
                            .init_containers
                            .iter()
                            .all(|init| init.name != container.name);
                        pool.take(&own, is_app);
                    }
                }
            }
        }
        let shared = pool.blocks(nodes);
        shares.extend(sharing.into_iter().map(|name| (name, shared.clone())));
        Ok(shares)
    }
}

/// What the containers seen so far leave of the pod's memory.
struct Pool {
    amounts: MemoryDemand,
    fidelity: Fidelity,
}

impl Pool {
    /// Takes a container's own memory out. A sidecar touches only types the pod has.
    fn take(&mut self, own: &MemoryDemand, is_app: bool) {
        for (resource, &size) in own.iter().filter(|(_, size)| **size > 0) {
            if !is_app && !self.amounts.contains_key(resource) {
                continue;
            }
            let left = self.amounts.entry(resource.clone()).or_default();
            *left = match self.fidelity.books_only_what_the_pod_names() {
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

/// Whether the containers that share find something of every type the pod names. Mirrors
/// `validatePodScopeResources`.
pub(super) fn check_shared_pool(
    pod: &Pod,
    named: &MemoryDemand,
    pod_level: PodLevel,
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
    for container in pod.all_containers() {
        let own = container_memory(pod, container, pod_level)?;
        match (own.is_empty(), pod.is_finishing_init(&container.name)) {
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
