//! Converts between the file's types and the core's.

use pinfold_core::memory::MemoryBlock;
use pinfold_core::node_set::{NodeId, NodeSet};

use super::format::{
    ContainerEntries, FileBlock, MemoryCheckpoint, MemoryKind, MemoryPodEntries, MemoryPodEntry,
    NodeMap, NumaNodeState,
};
use super::{MemoryManagerState, NumaNodeMemory};
use crate::go::value::{Pointer, Slice};
use crate::state::Fault;
use crate::state::checkpoint::ChecksumField;

impl TryFrom<&MemoryCheckpoint> for MemoryManagerState {
    type Error = Fault;

    fn try_from(content: &MemoryCheckpoint) -> Result<Self, Fault> {
        let mut state = Self {
            policy: content.policy_name.clone(),
            ..Self::default()
        };
        for (&id, node) in content.nodes.0.iter() {
            let node = node.0.as_deref().ok_or(Fault::NullNode(id))?;
            let memory = node_memory(id, node)?;
            state.nodes.insert(node_id(id)?, memory);
        }
        for (pod, containers) in content.entries.0.iter() {
            let of_pod = state.containers.entry(pod.as_str().into()).or_default();
            for (container, blocks) in containers.iter() {
                of_pod.insert(container.as_str().into(), memory_blocks(blocks)?);
            }
        }
        for (pod, entry) in content.pod_entries.iter().flat_map(|pods| pods.0.iter()) {
            let blocks = memory_blocks(&entry.blocks)?;
            state.pods.insert(pod.as_str().into(), blocks);
        }
        Ok(state)
    }
}

fn node_id(id: i64) -> Result<NodeId, Fault> {
    NodeId::new(id).map_err(Fault::NoSuchNode)
}

fn node_set(ids: &Slice<i64>) -> Result<NodeSet, Fault> {
    ids.as_slice().iter().map(|&id| node_id(id)).collect()
}

fn node_memory(id: i64, node: &NumaNodeState) -> Result<NumaNodeMemory, Fault> {
    let mut memory = NumaNodeMemory {
        assignments: node.assignments,
        cells: node_set(&node.cells)?,
        ..NumaNodeMemory::default()
    };
    for (kind, table) in node.memory.iter() {
        let table = table.0.as_deref().ok_or(Fault::NullNode(id))?;
        memory.memory.insert(kind.0.as_str().into(), *table);
    }
    Ok(memory)
}

fn memory_blocks(blocks: &Slice<FileBlock>) -> Result<Vec<MemoryBlock>, Fault> {
    let block = |block: &FileBlock| {
        Ok(MemoryBlock {
            nodes: node_set(&block.nodes)?,
            resource: block.kind.0.as_str().into(),
            size: block.size,
        })
    };
    blocks.as_slice().iter().map(block).collect()
}

impl From<&MemoryManagerState> for MemoryCheckpoint {
    fn from(state: &MemoryManagerState) -> Self {
        let nodes = state.nodes.iter();
        let containers = state.containers.iter();
        let pods = state.pods.iter();
        Self {
            policy_name: state.policy.clone(),
            nodes: NodeMap(
                nodes
                    .map(|(id, node)| (i64::from(id.get()), Pointer::from(node_state(node))))
                    .collect(),
            ),
            entries: ContainerEntries(
                containers
                    .map(|(pod, containers)| {
                        let of_pod = containers
                            .iter()
                            .map(|(container, list)| (container.to_string(), blocks(list)));
                        (pod.to_string(), of_pod.collect())
                    })
                    .collect(),
            ),
            pod_entries: Some(MemoryPodEntries(
                pods.map(|(pod, list)| {
                    let blocks = blocks(list);
                    (pod.to_string(), MemoryPodEntry { blocks })
                })
                .collect(),
            )),
            checksum: Some(ChecksumField(0)),
            ..Self::default()
        }
    }
}

fn node_state(node: &NumaNodeMemory) -> NumaNodeState {
    NumaNodeState {
        assignments: node.assignments,
        memory: node
            .memory
            .iter()
            .map(|(kind, memory)| (MemoryKind(kind.to_string()), Pointer::from(*memory)))
            .collect(),
        cells: ids(node.cells),
    }
}

fn blocks(blocks: &[MemoryBlock]) -> Slice<FileBlock> {
    blocks
        .iter()
        .map(|block| FileBlock {
            nodes: ids(block.nodes),
            kind: MemoryKind(block.resource.to_string()),
            size: block.size,
        })
        .collect()
}

fn ids(nodes: NodeSet) -> Slice<i64> {
    nodes.iter().map(|node| i64::from(node.get())).collect()
}
