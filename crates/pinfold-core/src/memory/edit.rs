//! [`MemoryEdit`]: one change of the memory table as a value that can be applied, journaled and reverted.

use serde::{Deserialize, Serialize};

use super::reuse::ReusableInitMemory;
use super::table::{MemoryBlock, MemoryState, NodeMemory};
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

/// An edit whose entry before differs from the table. The table is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory table is not the one this change was made for: {entry}")]
pub struct StaleMemoryEdit {
    /// The entry that differs.
    pub entry: String,
}

impl MemoryEdit {
    /// The edit that reverts this one.
    pub(crate) fn inverse(&self) -> Self {
        match self.clone() {
            MemoryEdit::Node { id, before, after } => MemoryEdit::Node {
                id,
                before: after,
                after: before,
            },
            MemoryEdit::Container {
                pod,
                container,
                before,
                after,
            } => MemoryEdit::Container {
                pod,
                container,
                before: after,
                after: before,
            },
            MemoryEdit::Pod { pod, before, after } => MemoryEdit::Pod {
                pod,
                before: after,
                after: before,
            },
            MemoryEdit::ReusableInitMemory { before, after } => MemoryEdit::ReusableInitMemory {
                before: after,
                after: before,
            },
        }
    }

    fn entry(&self) -> String {
        match self {
            MemoryEdit::Node { id, .. } => format!("NUMA node {id}"),
            MemoryEdit::Container { pod, container, .. } => {
                format!("container {container} of pod {pod}")
            }
            MemoryEdit::Pod { pod, .. } => format!("pod {pod}"),
            MemoryEdit::ReusableInitMemory { .. } => {
                "reusable memory of init containers".to_owned()
            }
        }
    }

    /// Whether the table has the entry before the edit.
    fn matches_before(&self, state: &MemoryState) -> bool {
        match self {
            MemoryEdit::Node { id, before, .. } => state.nodes.get(id) == before.as_ref(),
            MemoryEdit::Container {
                pod,
                container,
                before,
                ..
            } => state.blocks(pod, container) == before.as_deref(),
            MemoryEdit::Pod { pod, before, .. } => state.pod_blocks(pod) == before.as_deref(),
            MemoryEdit::ReusableInitMemory { before, .. } => state.reusable_init == *before,
        }
    }
}

impl MemoryState {
    /// Applies the edits in order: all of them, or none.
    ///
    /// # Errors
    /// If an entry differs from the one before the edit; the table is unchanged then.
    pub fn apply(&mut self, edits: &[MemoryEdit]) -> Result<(), StaleMemoryEdit> {
        for (done, edit) in edits.iter().enumerate() {
            if !edit.matches_before(self) {
                for undone in edits.iter().take(done).rev() {
                    self.write(undone.inverse());
                }
                let entry = edit.entry();
                return Err(StaleMemoryEdit { entry });
            }
            self.write(edit.clone());
        }
        Ok(())
    }

    /// Reverts the edits, last one first: all of them, or none.
    ///
    /// # Errors
    /// If an entry differs from the one after the edit; the table is unchanged then.
    pub fn revert(&mut self, edits: &[MemoryEdit]) -> Result<(), StaleMemoryEdit> {
        let backwards: Vec<MemoryEdit> = edits.iter().rev().map(MemoryEdit::inverse).collect();
        self.apply(&backwards)
    }

    fn write(&mut self, edit: MemoryEdit) {
        match edit {
            MemoryEdit::Node { id, after, .. } => match after {
                Some(node) => drop(self.nodes.insert(id, node)),
                None => drop(self.nodes.remove(&id)),
            },
            MemoryEdit::Container {
                pod,
                container,
                after,
                ..
            } => match after {
                Some(blocks) => {
                    let held = self.containers.entry(pod).or_default();
                    held.insert(container, blocks);
                }
                None => {
                    let held = self.containers.entry(pod.clone()).or_default();
                    held.remove(&container);
                    if held.is_empty() {
                        self.containers.remove(&pod);
                    }
                }
            },
            MemoryEdit::Pod { pod, after, .. } => match after {
                Some(blocks) => drop(self.pods.insert(pod, blocks)),
                None => drop(self.pods.remove(&pod)),
            },
            MemoryEdit::ReusableInitMemory { after, .. } => self.reusable_init = after,
        }
    }
}
