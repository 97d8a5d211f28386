//! The facts behind a memory decision: what was requested, and what every NUMA node had.

use serde::{Deserialize, Serialize};

use super::table::MemoryState;
use crate::demand::MemoryDemand;
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};

/// What was requested and what there was, type by type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// One row per requested type.
    pub resources: Vec<MemoryResourceFacts>,
}

/// One requested type of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryResourceFacts {
    /// `memory` or `hugepages-<size>`.
    pub resource: ResourceName,
    /// Bytes requested for.
    pub requested: u64,
    /// What every NUMA node had.
    pub nodes: Vec<MemoryNodeFacts>,
}

/// One type of memory on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNodeFacts {
    /// The node.
    pub node: NodeId,
    /// Bytes nobody holds.
    pub free: u64,
    /// Bytes that may be handed out.
    pub allocatable: u64,
    /// The nodes it can only be used together with, itself included.
    pub group: NodeSet,
    /// Whether somebody holds memory there.
    pub in_use: bool,
}

impl MemoryFacts {
    /// What `state` has of everything that is `requested`.
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
