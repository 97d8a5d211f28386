//! [`MemoryEdit`]: one change of the memory table as a value, to carry out, write down and take back.

use serde::{Deserialize, Serialize};

use super::reuse::Leftover;
use super::table::{MemoryBlock, MemoryState, NodeMemory};
use crate::name::{ContainerName, PodUid};
use crate::node_set::NodeId;

/// One entry of the table before and after. `None` stands for "there is no entry".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryEdit {
    /// The amounts of a NUMA node.
    Node {
        /// Which node.
        id: NodeId,
        /// The entry the edit was made for.
        before: Option<NodeMemory>,
        /// The entry it makes.
        after: Option<NodeMemory>,
    },
    /// What a container holds.
    Container {
        /// Its pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// The entry the edit was made for.
        before: Option<Vec<MemoryBlock>>,
        /// The entry it makes.
        after: Option<Vec<MemoryBlock>>,
    },
    /// What a pod holds as a whole.
    Pod {
        /// The pod.
        pod: PodUid,
        /// The entry the edit was made for.
        before: Option<Vec<MemoryBlock>>,
        /// The entry it makes.
        after: Option<Vec<MemoryBlock>>,
    },
    /// What is remembered of init containers.
    Leftover {
        /// The entry the edit was made for.
        before: Option<Leftover>,
        /// The entry it makes.
        after: Option<Leftover>,
    },
}

/// An edit that was made for another table than the one it met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory table is not the one this change was made for: {entry}")]
pub struct StaleMemoryEdit {
    /// The entry that differs.
    pub entry: String,
}

impl MemoryEdit {
    /// The same step backwards.
    #[must_use]
    pub fn inverse(&self) -> Self {
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
            MemoryEdit::Leftover { before, after } => MemoryEdit::Leftover {
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
            MemoryEdit::Leftover { .. } => "memory left by init containers".to_owned(),
        }
    }

    /// Whether the table has the entry this edit was made for.
    fn meets(&self, state: &MemoryState) -> bool {
        match self {
            MemoryEdit::Node { id, before, .. } => state.nodes.get(id) == before.as_ref(),
            MemoryEdit::Container {
                pod,
                container,
                before,
                ..
            } => state.blocks(pod, container) == before.as_deref(),
            MemoryEdit::Pod { pod, before, .. } => state.pod_blocks(pod) == before.as_deref(),
            MemoryEdit::Leftover { before, .. } => state.leftover == *before,
        }
    }
}

impl MemoryState {
    /// Carries out the edits in order: all of them, or none.
    ///
    /// # Errors
    /// If an entry is not the one an edit was made for; the table is then as it was.
    pub fn apply(&mut self, edits: &[MemoryEdit]) -> Result<(), StaleMemoryEdit> {
        for (done, edit) in edits.iter().enumerate() {
            if !edit.meets(self) {
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

    /// Takes the edits back, last one first: all of them, or none.
    ///
    /// # Errors
    /// If an entry is not the one an edit made; the table is then as it was.
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
            MemoryEdit::Leftover { after, .. } => self.leftover = after,
        }
    }
}
