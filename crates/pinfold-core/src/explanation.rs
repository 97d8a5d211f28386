//! [`Explanation`]: the facts behind a decision, as data. Text is made of them elsewhere.

use serde::Serialize;
use smallvec::SmallVec;

use crate::decision::Manager;
use crate::hint::Hint;
use crate::merge::{MergeFacts, Wish};
use crate::name::{ContainerName, ResourceName};
use crate::node_set::NodeId;
use crate::policy::TopologyPolicy;
use crate::settings::TopologyScope;

/// Why a decision came out as it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// How strictly the pod was to be aligned.
    pub policy: TopologyPolicy,
    /// What was aligned as one.
    pub scope: TopologyScope,
    /// Every alignment in the order it was tried: one per container, or one for the pod. The last one
    /// failed if the managers could not agree. Empty under the policy `none`.
    pub alignments: Vec<Alignment>,
    /// What there was of everything a manager could not hand out after the managers had agreed.
    pub shortage: Vec<ResourceFacts>,
}

/// One attempt to find NUMA nodes that suit all resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alignment {
    /// The container; `None` for the pod as a whole.
    pub container: Option<ContainerName>,
    /// What every resource needed and found.
    pub resources: Vec<ResourceFacts>,
    /// Where it was to go.
    pub hint: Hint,
    /// Whether the policy allows that.
    pub admitted: bool,
    /// How the hint came about.
    pub merge: MergeFacts,
}

/// One resource of one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceFacts {
    /// Its name.
    pub resource: ResourceName,
    /// Who hands it out.
    pub manager: Manager,
    /// How much was asked for: CPUs, bytes or devices.
    pub asked: u64,
    /// What every NUMA node has of it.
    pub nodes: SmallVec<[NodeFacts; 8]>,
    /// How much of it lies near no NUMA node: devices without topology.
    pub elsewhere: u64,
    /// What it wanted of the merge; `None` where there was none.
    pub wish: Option<Wish>,
}

impl ResourceFacts {
    /// What is free in all.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.nodes
            .iter()
            .fold(self.elsewhere, |sum, node| sum.saturating_add(node.free))
    }
}

/// One resource on one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeFacts {
    /// The node.
    pub node: NodeId,
    /// What pods could get there on an empty machine.
    pub total: u64,
    /// What nobody holds.
    pub free: u64,
    /// Whether it can only be used together with other nodes now, because memory of a running pod spans them.
    pub grouped: bool,
}
