//! What init containers leave for the containers of their pod that come after them.
//!
//! An init container that ends before the next container starts need not keep its memory: a later
//! container of the same pod that is placed on **exactly the same nodes** takes it over, and only what is missing is
//! booked. What was taken over is subtracted from the init container's blocks, so that the blocks of a
//! pod always add up to what is booked for it. A sidecar takes over, but leaves nothing.
//!
//! The kubelet keeps the amounts in `initContainersReusableMemory`, for one pod at a time; that equals the blocks
//! its init containers still have, except after a container was removed or the kubelet restarted.

use serde::{Deserialize, Serialize};

use super::table::{MemoryBlock, MemoryState};
use super::transaction::MemoryTransaction;
use crate::fidelity::Fidelity;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::NodeSet;
use crate::pod::{Container, Pod};

/// What the kubelet remembers of one pod's init containers: an amount per mask and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The pod that was given memory last.
    pub pod: PodUid,
    /// One block per mask and type.
    pub blocks: Vec<MemoryBlock>,
}

/// What a container about to be placed may take over.
#[derive(Clone, Debug, Default)]
pub(super) struct ReusableMemory {
    blocks: Vec<MemoryBlock>,
}

impl ReusableMemory {
    /// What `container` may take over from the init containers of its pod.
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

    /// What a pod as a whole may take over: nothing, unless something was remembered wrongly.
    pub(super) fn of_pod(state: &MemoryState, pod: &Pod, fidelity: Fidelity) -> Self {
        match fidelity.remembers_memory_beside_the_table() {
            true => Self::remembered(state, pod),
            false => Self::default(),
        }
    }

    fn remembered(state: &MemoryState, pod: &Pod) -> Self {
        let leftover = state.leftover.as_ref();
        let own = leftover.filter(|leftover| leftover.pod == pod.uid);
        Self {
            blocks: own.map_or_else(Vec::new, |leftover| leftover.blocks.clone()),
        }
    }

    /// The amount on exactly `nodes`.
    pub(super) fn amount(&self, nodes: NodeSet, resource: &ResourceName) -> u64 {
        let matching = self
            .blocks
            .iter()
            .filter(|block| block.nodes == nodes && block.resource == *resource);
        matching.fold(0, |sum, block| sum.saturating_add(block.size))
    }

    /// The masks on which there is something, repeated or not.
    pub(super) fn masks(&self) -> impl Iterator<Item = NodeSet> {
        self.blocks.iter().map(|block| block.nodes)
    }
}

/// The init containers before `name` that end before it starts; all of them if `name` is an app container.
fn earlier_init_containers<'a>(
    pod: &'a Pod,
    name: &'a ContainerName,
) -> impl Iterator<Item = &'a Container> {
    pod.init_containers
        .iter()
        .take_while(move |init| init.name != *name)
        .filter(|init| !init.restartable)
}

/// Subtracts what `container` took over from the blocks of earlier init containers. Mirrors
/// `updateInitContainersMemoryBlocks`.
pub(super) fn take_over(
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

/// What is remembered once `container` holds `given`. Mirrors `updatePodReusableMemory`.
pub(super) fn remember(
    state: &MemoryState,
    pod: &Pod,
    container: &Container,
    given: &[MemoryBlock],
) -> Option<Leftover> {
    let mut blocks = ReusableMemory::remembered(state, pod).blocks;
    let leaves = pod.is_finishing_init(&container.name);
    for block in given {
        let same =
            |old: &&mut MemoryBlock| old.resource == block.resource && old.nodes == block.nodes;
        match blocks.iter_mut().find(same) {
            Some(old) if leaves => old.size = old.size.max(block.size),
            Some(old) => old.size = old.size.saturating_sub(block.size),
            None if leaves => blocks.push(block.clone()),
            None => {}
        }
    }
    blocks.retain(|block| block.size > 0);
    let pod = pod.uid.clone();
    (!blocks.is_empty()).then_some(Leftover { pod, blocks })
}
