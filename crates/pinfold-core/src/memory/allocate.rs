//! Allocates a container's memory from the NUMA nodes that the topology manager chose.
//!
//! Mirrors `Allocate`. Without an affinity, the memory manager's own best hint is used. An affinity with too little
//! free memory (it may be narrower than any hint: the topology manager ANDs the hints of several managers) is extended
//! to the best hint that contains it. A preferred affinity must stay preferred.

use serde::Serialize;

use super::allocate_pod::EmptySharedPool;
use super::edit::MemoryEdit;
use super::hints::{MemoryHintSearch, breaks_group, is_inside_group, is_managed};
use super::reuse::{self, PodMemory, ReusableMemory};
use super::static_policy::StaticMemory;
use super::table::{MemoryBlock, MemoryState};
use super::transaction::MemoryTransaction;
use crate::demand::{MemoryDemand, NotWholeBytes, PodDemand};
use crate::hint::Hint;
use crate::node_set::NodeSet;
use crate::pod::Container;

/// The allocated memory of a container or pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryGrant {
    /// The NUMA nodes, and whether they are preferred; `None` if no memory was requested.
    pub placed: Option<Hint>,
    /// The edits of the table.
    pub edits: Vec<MemoryEdit>,
}

/// Why memory could not be allocated. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryError {
    /// An amount that is not a whole number of bytes.
    #[error(transparent)]
    NotWholeBytes(#[from] NotWholeBytes),
    /// There is no affinity, and no set of NUMA nodes has enough memory.
    #[error(
        "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
    )]
    NoNodes {
        /// The requested bytes by type.
        requested: MemoryDemand,
    },
    /// There is no affinity, and the best hint is not preferred although a preferred one is required.
    #[error("[memorymanager] failed to find the default preferred hint")]
    DefaultNotPreferred {
        /// The best hint.
        best: NodeSet,
    },
    /// The affinity has too little free memory, and no hint contains it.
    #[error("[memorymanager] failed to find NUMA nodes to extend the current topology hint")]
    CannotExtend {
        /// The affinity.
        chosen: NodeSet,
        /// The requested bytes by type.
        requested: MemoryDemand,
    },
    /// The affinity is preferred but has too little free memory, and the extended hint is not preferred.
    #[error("[memorymanager] failed to find the extended preferred hint")]
    ExtendedNotPreferred {
        /// The affinity.
        chosen: NodeSet,
        /// The extended hint.
        best: NodeSet,
    },
    /// A NUMA node cannot have single-node and group assignments at once, nor be in two groups.
    #[error("[memorymanager] preferred hint violates NUMA node allocation")]
    BreaksGroup {
        /// The chosen nodes.
        chosen: NodeSet,
    },
    /// Containers with their own memory leave none for the shared pool.
    #[error(transparent)]
    EmptySharedPool(#[from] EmptySharedPool),
    /// The affinity contains NUMA nodes that the machine does not have.
    #[error("NUMA nodes {unknown} were chosen for memory, but this machine does not have them")]
    UnknownNodes {
        /// The missing nodes.
        unknown: NodeSet,
    },
}

impl StaticMemory {
    /// Allocates the memory of one container from `affinity`, extended if necessary. A container that holds memory
    /// already keeps it. `own` is what the earlier containers of its pod have; the container is added to it.
    ///
    /// # Errors
    /// If no hint contains `affinity`; nothing is allocated then.
    pub fn allocate<'p>(
        &self,
        state: &MemoryState,
        own: &mut PodMemory<'p>,
        affinity: Hint,
        demand: &PodDemand<'p>,
        container: &'p Container,
    ) -> Result<MemoryGrant, MemoryError> {
        if !is_managed(demand) {
            return Ok(MemoryGrant::default());
        }
        let pod = &demand.pod().uid;
        let mut transaction = MemoryTransaction::new(state);
        if let Some(blocks) = state.blocks(pod, &container.name) {
            self.remember(&mut transaction, state, demand, container, blocks);
            own.add(demand, container, blocks);
            return Ok(MemoryGrant {
                placed: None,
                edits: transaction.into_edits(),
            });
        }
        let requested = demand.container_memory(container)?;
        let nothing = requested.is_empty() && !self.fidelity.places_empty_memory_demands();
        let whole = state.pods.contains_key(pod) && self.keeps_assignment(demand);
        if nothing || whole || self.has_finished(own, demand, container) {
            return Ok(MemoryGrant::default());
        }
        let search = MemoryHintSearch {
            state,
            requested: &requested,
            reusable: ReusableMemory::of_container(state, pod, own, self.fidelity),
        };
        let placed = self.place(&search, affinity)?;
        let nodes = placed.mask.unwrap_or_default();
        for (resource, &size) in &requested {
            let left = search.reusable.amount(nodes, resource);
            transaction.allocate(nodes, resource, size.saturating_sub(left));
        }
        let blocks = blocks_on(nodes, &requested);
        self.remember(&mut transaction, state, demand, container, &blocks);
        own.subtract_reused(&mut transaction, pod, &blocks);
        own.add(demand, container, &blocks);
        transaction.set_blocks(pod, &container.name, Some(blocks));
        Ok(MemoryGrant {
            placed: Some(placed),
            edits: transaction.into_edits(),
        })
    }

    fn remember(
        &self,
        transaction: &mut MemoryTransaction<'_>,
        state: &MemoryState,
        demand: &PodDemand<'_>,
        container: &Container,
        blocks: &[MemoryBlock],
    ) {
        if self.fidelity.remembers_memory_beside_the_table() {
            transaction.set_reusable(reuse::remember(state, demand, container, blocks));
        }
    }

    /// The NUMA nodes for a request with the given affinity. The mask of the result is always `Some`.
    pub(super) fn place(
        &self,
        search: &MemoryHintSearch<'_>,
        affinity: Hint,
    ) -> Result<Hint, MemoryError> {
        let requested = || search.requested.clone();
        let (mut chosen, mut preferred) = match affinity.mask {
            Some(mask) => (mask, affinity.preferred),
            None => {
                let best = search.best_hint(NodeSet::EMPTY);
                let best = best.ok_or_else(|| MemoryError::NoNodes {
                    requested: requested(),
                })?;
                let mask = best.mask.unwrap_or_default();
                if affinity.preferred && !best.preferred {
                    return Err(MemoryError::DefaultNotPreferred { best: mask });
                }
                (mask, best.preferred)
            }
        };
        let unknown = chosen - search.state.node_ids();
        if !unknown.is_empty() {
            return Err(MemoryError::UnknownNodes { unknown });
        }
        let alone_in_group =
            !self.fidelity.assigns_one_node_of_a_group() && is_inside_group(search.state, chosen);
        if alone_in_group || !search.is_satisfied_by(chosen) {
            let requested = requested();
            let extended = search.best_hint(chosen);
            let extended = extended.ok_or(MemoryError::CannotExtend { chosen, requested })?;
            let best = extended.mask.unwrap_or_default();
            if preferred && !extended.preferred {
                return Err(MemoryError::ExtendedNotPreferred { chosen, best });
            }
            (chosen, preferred) = (best, extended.preferred);
        }
        if self.fidelity.rejects_mixed_groups() && breaks_group(search.state, chosen) {
            return Err(MemoryError::BreaksGroup { chosen });
        }
        Ok(Hint::on(chosen, preferred))
    }
}

/// One block per type, all on the same nodes.
pub(super) fn blocks_on(nodes: NodeSet, amounts: &MemoryDemand) -> Vec<MemoryBlock> {
    let block = |(resource, &size): (&crate::name::ResourceName, &u64)| MemoryBlock {
        resource: resource.clone(),
        size,
        nodes,
    };
    amounts.iter().map(block).collect()
}
