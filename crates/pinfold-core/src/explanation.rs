//! [`Explanation`]: the facts behind a decision, as data. Text is made of them without_topology.

use serde::Serialize;
use smallvec::SmallVec;

use crate::cpu::CpuError;
use crate::decision::ResourceManager;
use crate::device::DeviceError;
use crate::hint::Hint;
use crate::memory::MemoryError;
use crate::merge::{HintSummary, MergeFacts};
use crate::name::{ContainerName, ResourceName};
use crate::node_set::{NodeId, NodeSet};
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
    /// What the manager said that could not serve; `None` if the managers could not agree, each for itself able.
    pub cause: Option<Cause>,
}

/// What a manager said when it could not serve, as a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The device manager.
    Device(DeviceError),
    /// The CPU manager.
    Cpu(CpuError),
    /// The memory manager.
    Memory(MemoryError),
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
    pub manager: ResourceManager,
    /// How much was requested for: CPUs, bytes or devices.
    pub requested: u64,
    /// What pods could get of it on an empty machine, everything counted once.
    pub total: u64,
    /// What could be handed out now, everything counted once.
    pub free: u64,
    /// What every NUMA node has of it. A device near several nodes is on each of them.
    pub nodes: SmallVec<[NodeFacts; 8]>,
    /// What lies near no NUMA node: devices without topology.
    pub without_topology: WithoutTopology,
    /// What it wanted of the merge; `None` where there was none.
    pub hints: Option<HintSummary>,
    /// Its position in [`MergeFacts::resources`]; `None` where there was no merge.
    pub merge_index: Option<usize>,
}

/// One resource away from all NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WithoutTopology {
    /// What pods could get there on an empty machine.
    pub total: u64,
    /// What could be handed out now.
    pub free: u64,
}

/// One resource on one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeFacts {
    /// The node.
    pub node: NodeId,
    /// What pods could get there on an empty machine.
    pub total: u64,
    /// What could be handed out now: with `full-pcpus-only` no threads of split cores.
    pub free: u64,
    /// How memory of running pods binds the node.
    pub grouping: MemoryGrouping,
}

/// Whether memory of running pods says how a node can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryGrouping {
    /// It can be used alone or together with others.
    Unrestricted,
    /// Memory of its own is in use: it can only be used alone.
    SingleNodeOnly,
    /// It can only be used together with exactly these nodes, itself included.
    Group(NodeSet),
}
