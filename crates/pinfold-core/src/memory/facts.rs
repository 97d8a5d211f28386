//! The facts behind a memory decision: what was asked, and what every NUMA node had.

use serde::{Deserialize, Serialize};

use super::table::MemoryState;
use crate::demand::MemoryDemand;
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};

/// What was asked and what there was, type by type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// One row per requested type.
    pub resources: Vec<ResourceFacts>,
}

/// One requested type of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceFacts {
    /// `memory` or `hugepages-<size>`.
    pub resource: ResourceName,
    /// Bytes asked for.
    pub asked: u64,
    /// What every NUMA node had.
    pub nodes: Vec<NodeFacts>,
}

/// One type of memory on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
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
    /// What `state` has of everything that is `asked`.
    #[must_use]
    pub fn new(state: &MemoryState, asked: &MemoryDemand) -> Self {
        let resource = |(resource, &asked): (&ResourceName, &u64)| {
            let nodes = state.nodes().iter().map(|(&node, memory)| {
                let amounts = memory.amounts(resource);
                NodeFacts {
                    node,
                    free: amounts.free,
                    allocatable: amounts.allocatable,
                    group: memory.cells,
                    in_use: memory.assignments > 0,
                }
            });
            ResourceFacts {
                resource: resource.clone(),
                asked,
                nodes: nodes.collect(),
            }
        };
        Self {
            resources: asked.iter().map(resource).collect(),
        }
    }
}
