//! Memory of finished init containers that later containers of the same pod reuse.
//!
//! An init container that finishes before the next container starts does not keep its memory: a later container of the
//! same pod that is placed on **exactly the same nodes** reuses it, and only the difference is allocated. Reused memory
//! is subtracted from the init container's blocks, so that the blocks of a pod always add up to its allocation. A
//! sidecar reuses memory, but its own memory is not reusable.
//!
//! The kubelet keeps the amounts in `initContainersReusableMemory`, for one pod at a time; that equals the blocks its
//! init containers still have, except after a container was removed or the kubelet restarted.

use serde::{Deserialize, Serialize};

use super::table::{MemoryBlock, MemoryState};
use super::transaction::MemoryTransaction;
use crate::fidelity::Fidelity;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::NodeSet;
use crate::pod::{Container, Pod};

/// The kubelet's `initContainersReusableMemory` of one pod: an amount per mask and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReusableInitMemory {
    /// The pod whose memory was allocated last.
    pub pod: PodUid,
    /// One block per mask and type.
    pub blocks: Vec<MemoryBlock>,
}

/// The memory that a container may reuse.
#[derive(Clone, Debug, Default)]
pub(super) struct ReusableMemory {
    blocks: Vec<MemoryBlock>,
}

impl ReusableMemory {
    /// The memory that `container` may reuse from the init containers of its pod.
    pub(super) fn of_container(
        state: &MemoryState,
        pod: &Pod,
        container: &Container,
        fidelity: Fidelity,
    ) -> Self {
        if fidelity.remembers_memory_beside_the_table() {
            return Self::remembered(state, pod);
        }
        let blocks = earlier_init_containers(pod, &container.name)
            .filter_map(|init| state.blocks(&pod.uid, &init.name))
            .flatten();
        let blocks = blocks.filter(|block| block.size > 0).cloned().collect();
        Self { blocks }
    }

    /// The memory that a pod as a whole may reuse: none, except with the kubelet's defects.
    pub(super) fn of_pod(state: &MemoryState, pod: &Pod, fidelity: Fidelity) -> Self {
        match fidelity.remembers_memory_beside_the_table() {
            true => Self::remembered(state, pod),
            false => Self::default(),
        }
    }

    fn remembered(state: &MemoryState, pod: &Pod) -> Self {
        let reusable_init = state.reusable_init.as_ref();
        let own = reusable_init.filter(|reusable_init| reusable_init.pod == pod.uid);
        Self {
            blocks: own.map_or_else(Vec::new, |reusable_init| reusable_init.blocks.clone()),
        }
    }

    /// The reusable amount on exactly `nodes`.
    pub(super) fn amount(&self, nodes: NodeSet, resource: &ResourceName) -> u64 {
        let matching = self
            .blocks
            .iter()
            .filter(|block| block.nodes == nodes && block.resource == *resource);
        matching.fold(0, |sum, block| sum.saturating_add(block.size))
    }

    /// The masks with reusable memory; may contain duplicates.
    pub(super) fn masks(&self) -> impl Iterator<Item = NodeSet> {
        self.blocks.iter().map(|block| block.nodes)
    }
}

/// The init containers before `name` that finish before it starts; all of them if `name` is an app container.
fn earlier_init_containers<'a>(
    pod: &'a Pod,
    name: &'a ContainerName,
) -> impl Iterator<Item = &'a Container> {
    pod.init_containers
        .iter()
        .take_while(move |init| init.name != *name)
        .filter(|init| !init.restartable)
}

/// Subtracts what `container` reuses from the blocks of earlier init containers. Mirrors
/// `updateInitContainersMemoryBlocks`.
pub(super) fn subtract_reused(
    transaction: &mut MemoryTransaction<'_>,
    pod: &Pod,
    container: &Container,
    given: &[MemoryBlock],
) {
    for block in given {
        let mut left = block.size;
        for init in earlier_init_containers(pod, &container.name) {
            let Some(held) = transaction.blocks(&pod.uid, &init.name) else {
                continue;
            };
            let mut held = held.to_vec();
            for old in &mut held {
                if old.resource == block.resource && old.nodes == block.nodes {
                    let taken = old.size.min(left);
                    old.size -= taken;
                    left -= taken;
                }
            }
            transaction.set_blocks(&pod.uid, &init.name, Some(held));
        }
    }
}

/// The reusable memory after `container` was assigned `given`. Mirrors `updatePodReusableMemory`.
pub(super) fn remember(
    state: &MemoryState,
    pod: &Pod,
    container: &Container,
    given: &[MemoryBlock],
) -> Option<ReusableInitMemory> {
    let mut blocks = ReusableMemory::remembered(state, pod).blocks;
    let is_reusable = pod.is_finishing_init(&container.name);
    for block in given {
        let same =
            |old: &&mut MemoryBlock| old.resource == block.resource && old.nodes == block.nodes;
        match blocks.iter_mut().find(same) {
            Some(old) if is_reusable => old.size = old.size.max(block.size),
            Some(old) => old.size = old.size.saturating_sub(block.size),
            None if is_reusable => blocks.push(block.clone()),
            None => {}
        }
    }
    blocks.retain(|block| block.size > 0);
    let pod = pod.uid.clone();
    (!blocks.is_empty()).then_some(ReusableInitMemory { pod, blocks })
}
