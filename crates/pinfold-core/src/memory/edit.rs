//! [`MemoryEdit`]: one change of the memory table as a value that can be applied, journaled and reverted.

use serde::{Deserialize, Serialize};

use super::reuse::ReusableInitMemory;
use super::table::{MemoryBlock, MemoryState, NodeMemory};
use crate::edit::{
    Direction, StaleEdit, all_or_none, replace, replace_entry, replace_entry_of_pod,
};
use crate::name::{ContainerName, PodUid};
use crate::node_set::NodeId;

/// One entry of the table before and after. `None` stands for "no entry".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryEdit {
    /// The memory of a NUMA node.
    Node {
        /// The node.
        id: NodeId,
        /// The entry before.
        before: Option<NodeMemory>,
        /// The entry after.
        after: Option<NodeMemory>,
    },
    /// The blocks of a container.
    Container {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// The entry before.
        before: Option<Vec<MemoryBlock>>,
        /// The entry after.
        after: Option<Vec<MemoryBlock>>,
    },
    /// The blocks of a pod with pod-level resources.
    Pod {
        /// The pod.
        pod: PodUid,
        /// The entry before.
        before: Option<Vec<MemoryBlock>>,
        /// The entry after.
        after: Option<Vec<MemoryBlock>>,
    },
    /// The reusable memory of init containers.
    ReusableInitMemory {
        /// The entry before.
        before: Option<ReusableInitMemory>,
        /// The entry after.
        after: Option<ReusableInitMemory>,
    },
}

impl MemoryState {
    /// Applies the edits in order: all of them, or none.
    ///
    /// # Errors
    /// If an entry differs from the one before the edit; the table is unchanged then.
    pub fn apply(&mut self, edits: &[MemoryEdit]) -> Result<(), StaleEdit> {
        all_or_none(edits, Direction::Apply, |edit, way| self.edit(edit, way))
    }

    /// Reverts the edits, last one first: all of them, or none.
    ///
    /// # Errors
    /// If an entry differs from the one after the edit; the table is unchanged then.
    pub fn revert(&mut self, edits: &[MemoryEdit]) -> Result<(), StaleEdit> {
        all_or_none(edits, Direction::Revert, |edit, way| self.edit(edit, way))
    }

    pub(crate) fn edit(
        &mut self,
        edit: &MemoryEdit,
        direction: Direction,
    ) -> Result<(), StaleEdit> {
        match edit {
            MemoryEdit::Node { id, before, after } => {
                let change = direction.order(before.as_ref(), after.as_ref());
                replace_entry(&mut self.nodes, id, change, || format!("NUMA node {id}"))
            }
            MemoryEdit::Container {
                pod,
                container,
                before,
                after,
            } => {
                let change = direction.order(before.as_ref(), after.as_ref());
                replace_entry_of_pod(&mut self.containers, pod, container, change, || {
                    format!("memory of container {container} of pod {pod}")
                })
            }
            MemoryEdit::Pod { pod, before, after } => {
                let change = direction.order(before.as_ref(), after.as_ref());
                replace_entry(&mut self.pods, pod, change, || {
                    format!("memory of pod {pod}")
                })
            }
            MemoryEdit::ReusableInitMemory { before, after } => {
                let change = direction.order(before, after);
                replace(&mut self.reusable_init, change, || {
                    "reusable memory of init containers".to_owned()
                })
            }
        }
    }
}
