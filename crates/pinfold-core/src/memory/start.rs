//! Validates a restored table against the machine and its own assignments.
//!
//! Mirrors `Start` and `validateState`: all blocks are allocated again on an empty table, and the result must equal the
//! restored one: total, system-reserved and allocatable amounts node by node, free and reserved amounts group by group
//! (which node of a group was filled first depends on the history).

use std::collections::BTreeMap;

use super::edit::MemoryEdit;
use super::static_policy::StaticMemory;
use super::table::{MemoryAmounts, MemoryBlock, MemoryState, NodeMemory};
use super::transaction::MemoryTransaction;
use crate::demand::PodLevel;
use crate::fidelity::Fidelity;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::NodeId;

/// Why a restored table is invalid. The messages are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryStartError {
    /// There are blocks but no NUMA nodes.
    #[error("[memorymanager] machine state can not be empty when it has memory assignments")]
    NoTable,
    /// A block on a NUMA node that the machine does not have.
    #[error(
        "[memorymanager] (pod: {pod}, container: {}) the memory assignment uses the NUMA that does not exist",
        name(.container)
    )]
    NoSuchNode {
        /// The pod of the block.
        pod: PodUid,
        /// `None` for a block of the pod as a whole.
        container: Option<ContainerName>,
        /// The node.
        node: NodeId,
    },
    /// A block of a type that the NUMA node does not have.
    #[error(
        "[memorymanager] (pod: {pod}, container: {}) the memory assignment uses memory resource that does not exist",
        name(.container)
    )]
    NoSuchResource {
        /// The pod of the block.
        pod: PodUid,
        /// `None` for a block of the pod as a whole.
        container: Option<ContainerName>,
        /// The node.
        node: NodeId,
        /// The type.
        resource: ResourceName,
    },
    /// The restored table differs from the one that results from the machine and the blocks.
    #[error("[memorymanager] the expected machine state is different from the real one")]
    Differs(TableDifference),
}

fn name(container: &Option<ContainerName>) -> &str {
    container.as_ref().map_or("", ContainerName::as_str)
}

/// The first difference between a restored table and the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableDifference {
    /// The set of NUMA nodes.
    Nodes,
    /// The number of blocks on the node.
    Assignments(NodeId),
    /// The node's group.
    Group(NodeId),
    /// The types of memory of the node.
    Types(NodeId),
    /// Total, system-reserved or allocatable amount of one type.
    Size(NodeId, ResourceName),
    /// Free or reserved amount of one type in the node's group.
    Use(NodeId, ResourceName),
}

impl StaticMemory {
    /// Checks a restored table. For an empty one, returns the edits that make it the table of the empty machine.
    ///
    /// # Errors
    /// If the table contradicts the machine or its own assignments.
    pub fn start(&self, restored: &MemoryState) -> Result<Vec<MemoryEdit>, MemoryStartError> {
        let mut transaction = MemoryTransaction::new(restored);
        transaction.set_reusable(None);
        let mut edits = transaction.into_edits();
        if restored.nodes.is_empty() {
            if !restored.containers.is_empty() {
                return Err(MemoryStartError::NoTable);
            }
            edits.extend(self.initial.iter().map(|(&id, node)| MemoryEdit::Node {
                id,
                before: None,
                after: Some(node.clone()),
            }));
            return Ok(edits);
        }
        let expected = MemoryState {
            nodes: self.expected_nodes(restored)?,
            ..MemoryState::default()
        };
        match difference(restored, &expected, self.fidelity) {
            Some(difference) => Err(MemoryStartError::Differs(difference)),
            None => Ok(edits),
        }
    }

    /// The table of this machine on which the containers and pods of another table hold the same blocks.
    ///
    /// # Errors
    /// If the machine does not have a NUMA node or a type of memory that a block is on.
    pub(crate) fn table_with_blocks_of(
        &self,
        held: &MemoryState,
    ) -> Result<MemoryState, MemoryStartError> {
        let nodes = self.expected_nodes(held)?;
        let (containers, pods) = (held.containers.clone(), held.pods.clone());
        Ok(MemoryState::new(nodes, containers, pods))
    }

    /// The table that results from allocating all blocks in ascending order of pods and containers.
    fn expected_nodes(
        &self,
        restored: &MemoryState,
    ) -> Result<BTreeMap<NodeId, NodeMemory>, MemoryStartError> {
        let mut nodes = self.initial.clone();
        for (pod, containers) in &restored.containers {
            let whole = match self.pod_level {
                PodLevel::Managed => restored.pod_blocks(pod).unwrap_or_default(),
                PodLevel::Unknown | PodLevel::Ignored => &[],
            };
            for block in whole {
                self.allocate_block(&mut nodes, block, pod, None)?;
            }
            if whole.is_empty() {
                for (container, blocks) in containers {
                    for block in blocks {
                        self.allocate_block(&mut nodes, block, pod, Some(container))?;
                    }
                }
            }
        }
        Ok(nodes)
    }

    /// Allocates one restored block. Mirrors `updateExpectedMachineState`.
    fn allocate_block(
        &self,
        nodes: &mut BTreeMap<NodeId, NodeMemory>,
        block: &MemoryBlock,
        pod: &PodUid,
        container: Option<&ContainerName>,
    ) -> Result<(), MemoryStartError> {
        let has_type = |node: &NodeMemory| node.memory.contains_key(&block.resource);
        let mut types = block.nodes.iter().filter_map(|id| nodes.get(&id));
        let lenient = !self.fidelity.expects_every_memory_type_on_every_node()
            && (block.size == 0 || types.any(has_type));
        let mut left = block.size;
        for id in block.nodes {
            let whose = || (pod.clone(), container.cloned());
            let Some(node) = nodes.get_mut(&id) else {
                let ((pod, container), node) = (whose(), id);
                return Err(MemoryStartError::NoSuchNode {
                    pod,
                    container,
                    node,
                });
            };
            if !has_type(node) && !lenient {
                let ((pod, container), node) = (whose(), id);
                let resource = block.resource.clone();
                return Err(MemoryStartError::NoSuchResource {
                    pod,
                    container,
                    node,
                    resource,
                });
            }
            node.allocate(block.nodes, &block.resource, &mut left);
        }
        Ok(())
    }
}

/// The first difference that matters. Mirrors `areMachineStatesEqual`.
fn difference(
    found: &MemoryState,
    expected: &MemoryState,
    fidelity: Fidelity,
) -> Option<TableDifference> {
    if found.node_ids() != expected.node_ids() {
        return Some(TableDifference::Nodes);
    }
    for ((&id, a), b) in found.nodes.iter().zip(expected.nodes.values()) {
        if a.assignments != b.assignments {
            return Some(TableDifference::Assignments(id));
        }
        if a.cells != b.cells {
            return Some(TableDifference::Group(id));
        }
        if !a.memory.keys().eq(b.memory.keys()) {
            return Some(TableDifference::Types(id));
        }
        let size =
            |amounts: MemoryAmounts| (amounts.total, amounts.system_reserved, amounts.allocatable);
        for resource in a.memory.keys() {
            let same = a.amounts(resource) == b.amounts(resource);
            if !same && !fidelity.compares_groups_by_sum() {
                return Some(TableDifference::Use(id, resource.clone()));
            }
            if size(a.amounts(resource)) != size(b.amounts(resource)) {
                return Some(TableDifference::Size(id, resource.clone()));
            }
            let used = |state: &MemoryState| {
                let free = state.free(a.cells, resource);
                (
                    free,
                    state.sum(a.cells, resource, |amounts| amounts.reserved),
                )
            };
            if used(found) != used(expected) {
                return Some(TableDifference::Use(id, resource.clone()));
            }
        }
    }
    None
}
