//! [`MemoryState`]: the memory of every NUMA node, and the blocks assigned to pods and containers.
//!
//! Mirrors the memory manager's `state` package, the content of `memory_manager_state`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::reuse::ReusableInitMemory;
use crate::name::{ContainerName, PodUid, ResourceName};
use crate::node_set::{NodeId, NodeSet};

/// One type of memory on one NUMA node, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAmounts {
    /// The memory of the hardware.
    pub total: u64,
    /// Reserved for the system.
    pub system_reserved: u64,
    /// The part that can be assigned to pods.
    pub allocatable: u64,
    /// The part that is assigned to pods.
    pub reserved: u64,
    /// The part that is free.
    pub free: u64,
}

/// The memory of one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMemory {
    /// The number of blocks on this node, one per container and type.
    pub assignments: u64,
    /// The group: the nodes of its assignments; only itself if unused.
    pub cells: NodeSet,
    /// The amounts by type: `memory` and one `hugepages-<size>` per page size of the node.
    pub memory: BTreeMap<ResourceName, MemoryAmounts>,
}

impl NodeMemory {
    /// The amounts of one type; all zero if the node does not have it.
    #[must_use]
    pub fn amounts(&self, resource: &ResourceName) -> MemoryAmounts {
        self.memory.get(resource).copied().unwrap_or_default()
    }
}

/// An amount of one type of memory on a set of NUMA nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBlock {
    /// `memory` or `hugepages-<size>`.
    pub resource: ResourceName,
    /// Bytes.
    pub size: u64,
    /// The nodes it is allocated from.
    pub nodes: NodeSet,
}

/// Blocks by pod and container.
pub type MemoryAssignments = BTreeMap<PodUid, BTreeMap<ContainerName, Vec<MemoryBlock>>>;

/// The memory table of one machine. Only [`super::MemoryEdit`]s change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    pub(super) nodes: BTreeMap<NodeId, NodeMemory>,
    pub(super) containers: MemoryAssignments,
    pub(super) pods: BTreeMap<PodUid, Vec<MemoryBlock>>,
    pub(super) reusable_init: Option<ReusableInitMemory>,
}

impl MemoryState {
    /// A table from its nodes, the blocks of containers and the blocks of pods.
    #[must_use]
    pub fn new(
        nodes: BTreeMap<NodeId, NodeMemory>,
        containers: MemoryAssignments,
        pods: BTreeMap<PodUid, Vec<MemoryBlock>>,
    ) -> Self {
        Self {
            nodes,
            containers,
            pods,
            reusable_init: None,
        }
    }

    /// The NUMA nodes, ascending.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<NodeId, NodeMemory> {
        &self.nodes
    }

    /// The IDs of all nodes.
    #[must_use]
    pub fn node_ids(&self) -> NodeSet {
        self.nodes.keys().copied().collect()
    }

    /// The blocks of all containers.
    #[must_use]
    pub fn assignments(&self) -> &MemoryAssignments {
        &self.containers
    }

    /// The blocks of all pods whose memory was allocated as a whole.
    pub(crate) fn pod_assignments(&self) -> &BTreeMap<PodUid, Vec<MemoryBlock>> {
        &self.pods
    }

    /// The blocks of a container; `None` if none were ever allocated.
    #[must_use]
    pub fn blocks(&self, pod: &PodUid, container: &ContainerName) -> Option<&[MemoryBlock]> {
        let blocks = self.containers.get(pod)?.get(container)?;
        Some(blocks)
    }

    /// The blocks that are counted in the table for a pod: those of the pod as a whole if it has some, else those of
    /// its containers.
    pub(crate) fn blocks_charged_to(&self, pod: &PodUid) -> impl Iterator<Item = &MemoryBlock> {
        let whole = self.pods.get(pod);
        let apart = self.containers.get(pod).filter(|_| whole.is_none());
        whole
            .into_iter()
            .chain(apart.into_iter().flat_map(BTreeMap::values))
            .flatten()
    }

    /// The blocks of a pod as a whole.
    pub(crate) fn pod_blocks(&self, pod: &PodUid) -> Option<&[MemoryBlock]> {
        self.pods.get(pod).map(Vec::as_slice)
    }

    /// The nodes of a container's memory. Mirrors `GetMemoryNUMANodes`.
    #[must_use]
    pub fn nodes_of(&self, pod: &PodUid, container: &ContainerName) -> NodeSet {
        let blocks = self.blocks(pod, container).unwrap_or_default();
        blocks
            .iter()
            .fold(NodeSet::EMPTY, |all, block| all | block.nodes)
    }

    /// The sum of free memory on `nodes`.
    #[must_use]
    pub fn free(&self, nodes: NodeSet, resource: &ResourceName) -> u64 {
        self.sum(nodes, resource, |amounts| amounts.free)
    }

    /// The sum of allocatable memory on `nodes`.
    #[must_use]
    pub fn allocatable(&self, nodes: NodeSet, resource: &ResourceName) -> u64 {
        self.sum(nodes, resource, |amounts| amounts.allocatable)
    }

    pub(super) fn sum(
        &self,
        nodes: NodeSet,
        resource: &ResourceName,
        field: impl Fn(MemoryAmounts) -> u64,
    ) -> u64 {
        let on_node = |id: NodeId| {
            let node = self.nodes.get(&id);
            node.map_or(0, |node| field(node.amounts(resource)))
        };
        nodes
            .iter()
            .fold(0_u64, |sum, id| sum.saturating_add(on_node(id)))
    }
}
