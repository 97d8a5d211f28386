//! [`MemoryFacts`]: the requested memory and what every NUMA node has, for explanations.

use serde::{Deserialize, Serialize};

use super::table::MemoryState;
use crate::demand::MemoryDemand;
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};

/// The requested memory and what every NUMA node has, by type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// One entry per requested type.
    pub resources: Vec<MemoryResourceFacts>,
}

/// One requested type of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryResourceFacts {
    /// `memory` or `hugepages-<size>`.
    pub resource: ResourceName,
    /// The requested bytes.
    pub requested: u64,
    /// The amounts by NUMA node.
    pub nodes: Vec<MemoryNodeFacts>,
}

/// One type of memory on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNodeFacts {
    /// The node.
    pub node: NodeId,
    /// Free bytes.
    pub free: u64,
    /// Allocatable bytes.
    pub allocatable: u64,
    /// The group of the node, itself included.
    pub group: NodeSet,
    /// Whether memory of the node is assigned.
    pub in_use: bool,
}

impl MemoryFacts {
    /// The amounts in `state` of every requested type.
    #[must_use]
    pub fn new(state: &MemoryState, requested: &MemoryDemand) -> Self {
        let resource = |(resource, &requested): (&ResourceName, &u64)| {
            let nodes = state.nodes().iter().map(|(&node, memory)| {
                let amounts = memory.amounts(resource);
                MemoryNodeFacts {
                    node,
                    free: amounts.free,
                    allocatable: amounts.allocatable,
                    group: memory.cells,
                    in_use: memory.assignments > 0,
                }
            });
            MemoryResourceFacts {
                resource: resource.clone(),
                requested,
                nodes: nodes.collect(),
            }
        };
        Self {
            resources: requested.iter().map(resource).collect(),
        }
    }
}
