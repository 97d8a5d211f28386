//! [`MemoryTransaction`]: the changed entries of a table while one decision is being made.

use std::collections::BTreeMap;

use super::edit::MemoryEdit;
use super::reuse::ReusableInitMemory;
use super::table::{MemoryBlock, MemoryState, NodeMemory};
use crate::fidelity::Fidelity;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::{NodeId, NodeSet};

/// Changed entries over an unchanged table. [`MemoryTransaction::into_edits`] returns one edit per entry that differs.
pub(super) struct MemoryTransaction<'a> {
    state: &'a MemoryState,
    nodes: BTreeMap<NodeId, NodeMemory>,
    containers: BTreeMap<(PodUid, ContainerName), Option<Vec<MemoryBlock>>>,
    pods: BTreeMap<PodUid, Option<Vec<MemoryBlock>>>,
    reusable_init: Option<Option<ReusableInitMemory>>,
}

impl<'a> MemoryTransaction<'a> {
    pub(super) fn new(state: &'a MemoryState) -> Self {
        Self {
            state,
            nodes: BTreeMap::new(),
            containers: BTreeMap::new(),
            pods: BTreeMap::new(),
            reusable_init: None,
        }
    }

    fn node_mut(&mut self, id: NodeId) -> Option<&mut NodeMemory> {
        let current = self.state.nodes.get(&id)?;
        Some(self.nodes.entry(id).or_insert_with(|| current.clone()))
    }

    /// Allocates `size` bytes on `nodes`, lowest node first, and makes them one group. Every node counts one more
    /// assignment even if it provides nothing. Mirrors `updateMachineState`.
    pub(super) fn allocate(&mut self, nodes: NodeSet, resource: &ResourceName, size: u64) {
        let mut left = size;
        for id in nodes {
            if let Some(node) = self.node_mut(id) {
                node.allocate(nodes, resource, &mut left);
            }
        }
    }

    /// Releases blocks. A node without assignments is removed from its group. Mirrors `releaseMemory`.
    pub(super) fn release(&mut self, blocks: &[MemoryBlock], fidelity: Fidelity) {
        for block in blocks {
            let mut left = block.size;
            let mut release = |id| {
                if let Some(node) = self.node_mut(id) {
                    node.release(id, &block.resource, &mut left);
                }
            };
            match fidelity.releases_lowest_node_first() {
                true => block.nodes.iter().for_each(&mut release),
                false => block.nodes.iter().rev().for_each(&mut release),
            }
        }
    }

    pub(super) fn blocks(&self, pod: &PodUid, container: &ContainerName) -> Option<&[MemoryBlock]> {
        match self.containers.get(&(pod.clone(), container.clone())) {
            Some(changed) => changed.as_deref(),
            None => self.state.blocks(pod, container),
        }
    }

    pub(super) fn set_blocks(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        blocks: Option<Vec<MemoryBlock>>,
    ) {
        let key = (pod.clone(), container.clone());
        self.containers.insert(key, blocks);
    }

    pub(super) fn set_pod_blocks(&mut self, pod: &PodUid, blocks: Option<Vec<MemoryBlock>>) {
        self.pods.insert(pod.clone(), blocks);
    }

    pub(super) fn set_reusable(&mut self, reusable_init: Option<ReusableInitMemory>) {
        self.reusable_init = Some(reusable_init);
    }

    /// One edit per entry that differs from the table.
    pub(super) fn into_edits(self) -> Vec<MemoryEdit> {
        let state = self.state;
        let mut edits = Vec::new();
        for (id, after) in self.nodes {
            let before = state.nodes.get(&id).cloned();
            let after = Some(after);
            if before != after {
                edits.push(MemoryEdit::Node { id, before, after });
            }
        }
        for (pod, after) in self.pods {
            let before = state.pods.get(&pod).cloned();
            if before != after {
                edits.push(MemoryEdit::Pod { pod, before, after });
            }
        }
        for ((pod, container), after) in self.containers {
            let before = state.blocks(&pod, &container).map(<[MemoryBlock]>::to_vec);
            if before != after {
                edits.push(MemoryEdit::Container {
                    pod,
                    container,
                    before,
                    after,
                });
            }
        }
        if let Some(after) = self.reusable_init
            && after != state.reusable_init
        {
            let before = state.reusable_init.clone();
            edits.push(MemoryEdit::ReusableInitMemory { before, after });
        }
        edits
    }
}

impl NodeMemory {
    /// Allocates as much of `left` as the node has free.
    pub(super) fn allocate(&mut self, group: NodeSet, resource: &ResourceName, left: &mut u64) {
        self.assignments = self.assignments.saturating_add(1);
        self.cells = group;
        if let Some(amounts) = self.memory.get_mut(resource) {
            let taken = amounts.free.min(*left);
            amounts.free -= taken;
            amounts.reserved = amounts.reserved.saturating_add(taken);
            *left -= taken;
        }
    }

    /// Releases as much of `left` as is allocated here, by any pod.
    fn release(&mut self, id: NodeId, resource: &ResourceName, left: &mut u64) {
        self.assignments = self.assignments.saturating_sub(1);
        if self.assignments == 0 {
            self.cells = NodeSet::single(id);
        }
        if let Some(amounts) = self.memory.get_mut(resource) {
            let given = amounts.reserved.min(*left);
            amounts.reserved -= given;
            amounts.free = amounts.free.saturating_add(given);
            *left -= given;
        }
    }
}
