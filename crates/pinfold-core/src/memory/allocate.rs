//! Booking a container's memory on the nodes the topology manager chose.
//!
//! Mirrors `Allocate`. Without a choice, the memory manager's own best hint is taken. A choice that has too little free
//! (it may be narrower than any hint: the topology manager intersects what several managers said) is widened to the
//! best hint that contains it. A choice marked as preferred must stay preferred.

use serde::Serialize;

use super::allocate_pod::EmptySharedPool;
use super::edit::MemoryEdit;
use super::hints::{MemoryHintSearch, breaks_group, is_inside_group};
use super::reuse::{self, ReusableMemory};
use super::static_policy::StaticMemory;
use super::table::{MemoryBlock, MemoryState};
use super::transaction::MemoryTransaction;
use crate::demand::{MemoryDemand, NotWholeBytes, container_memory};
use crate::hint::Hint;
use crate::node_set::NodeSet;
use crate::pod::{Container, Pod};

/// What a request for memory got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryGrant {
    /// The nodes, and whether they are preferred; `None` if there was nothing to place.
    pub placed: Option<Hint>,
    /// The changes of the table.
    pub edits: Vec<MemoryEdit>,
}

/// Why memory could not be placed. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryError {
    /// An amount that is no whole number of bytes.
    #[error(transparent)]
    NotWholeBytes(#[from] NotWholeBytes),
    /// The topology manager left the choice free, and no set of nodes has enough.
    #[error(
        "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
    )]
    NoNodes {
        /// Bytes by type.
        requested: MemoryDemand,
    },
    /// The topology manager left the choice free but wants a preferred one; there is only another.
    #[error("[memorymanager] failed to find the default preferred hint")]
    DefaultNotPreferred {
        /// What there is.
        best: NodeSet,
    },
    /// The chosen nodes have too little, and no wider set that fits contains them.
    #[error("[memorymanager] failed to find NUMA nodes to extend the current topology hint")]
    CannotExtend {
        /// The chosen nodes.
        chosen: NodeSet,
        /// Bytes by type.
        requested: MemoryDemand,
    },
    /// The chosen nodes are preferred but have too little, and the wider set is not preferred.
    #[error("[memorymanager] failed to find the extended preferred hint")]
    ExtendedNotPreferred {
        /// The chosen nodes.
        chosen: NodeSet,
        /// The wider set.
        best: NodeSet,
    },
    /// A node cannot hold both memory of its own and memory of a group, nor be in two groups.
    #[error("[memorymanager] preferred hint violates NUMA node allocation")]
    BreaksGroup {
        /// The chosen nodes.
        chosen: NodeSet,
    },
    /// The containers with memory of their own leave nothing for the others.
    #[error(transparent)]
    EmptySharedPool(#[from] EmptySharedPool),
    /// The chosen nodes are not all nodes of this machine.
    #[error("NUMA nodes {unknown} were chosen for memory, but this machine does not have them")]
    UnknownNodes {
        /// Those it lacks.
        unknown: NodeSet,
    },
}

impl StaticMemory {
    /// Books the memory of one container on `affinity`, or on more nodes if it must. A container that holds
    /// memory already keeps it.
    ///
    /// # Errors
    /// If no set of nodes that contains `affinity` fits; nothing is booked then.
    pub fn allocate(
        &self,
        state: &MemoryState,
        affinity: Hint,
        pod: &Pod,
        container: &Container,
    ) -> Result<MemoryGrant, MemoryError> {
        if !self.manages(pod) {
            return Ok(MemoryGrant::default());
        }
        let mut transaction = MemoryTransaction::new(state);
        if let Some(blocks) = state.blocks(&pod.uid, &container.name) {
            self.remember(&mut transaction, state, pod, container, blocks);
            return Ok(MemoryGrant {
                placed: None,
                edits: transaction.into_edits(),
            });
        }
        let requested = container_memory(pod, container, self.pod_level)?;
        let nothing = requested.is_empty() && !self.fidelity.places_empty_memory_demands();
        let whole = state.pods.contains_key(&pod.uid) && self.keeps_booking(pod);
        if nothing || whole || self.has_ended(state, pod, container) {
            return Ok(MemoryGrant::default());
        }
        let search = MemoryHintSearch {
            state,
            requested: &requested,
            reusable: ReusableMemory::of_container(state, pod, container, self.fidelity),
        };
        let placed = self.place(&search, affinity)?;
        let nodes = placed.mask.unwrap_or_default();
        for (resource, &size) in &requested {
            let left = search.reusable.amount(nodes, resource);
            transaction.book(nodes, resource, size.saturating_sub(left));
        }
        let blocks = blocks_on(nodes, &requested);
        self.remember(&mut transaction, state, pod, container, &blocks);
        reuse::take_over(&mut transaction, pod, container, &blocks);
        transaction.set_blocks(&pod.uid, &container.name, Some(blocks));
        Ok(MemoryGrant {
            placed: Some(placed),
            edits: transaction.into_edits(),
        })
    }

    fn remember(
        &self,
        transaction: &mut MemoryTransaction<'_>,
        state: &MemoryState,
        pod: &Pod,
        container: &Container,
        blocks: &[MemoryBlock],
    ) {
        if self.fidelity.remembers_memory_beside_the_table() {
            transaction.set_leftover(reuse::remember(state, pod, container, blocks));
        }
    }

    /// The nodes a request gets when the topology manager chose `affinity`. The mask is always there.
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
            !self.fidelity.grants_one_node_of_a_group() && is_inside_group(search.state, chosen);
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
        if breaks_group(search.state, chosen) {
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
