//! [`Explanation`]: the facts behind a decision, as data. `pinfold-render` makes text of them.

use serde::Serialize;
use smallvec::SmallVec;

use crate::cpu::CpuError;
use crate::decision::ResourceManager;
use crate::device::DeviceError;
use crate::hint::{Hint, ProviderHints, ResourceHints};
use crate::memory::MemoryError;
use crate::merge::{HintSummary, MergeFacts};
use crate::name::{ContainerName, ResourceName};
use crate::node_set::{NodeId, NodeSet};
use crate::pod::Container;
use crate::policy::TopologyPolicy;
use crate::settings::TopologyScope;

/// Why a pod was admitted or rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The topology policy.
    pub policy: TopologyPolicy,
    /// The topology scope.
    pub scope: TopologyScope,
    /// All alignments in the order they were made: one per container, or one for the pod. The last one is the rejected
    /// one if the topology policy rejected the pod. Empty under the policy `none`.
    pub alignments: Vec<Alignment>,
    /// The resources of the manager whose allocation failed after the alignment.
    pub shortage: Vec<ResourceFacts>,
    /// The error of the manager whose allocation failed; `None` if each manager could allocate and only the alignment
    /// failed.
    pub cause: Option<Cause>,
}

/// The error of a manager whose allocation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The device manager.
    #[error(transparent)]
    Device(DeviceError),
    /// The CPU manager.
    #[error(transparent)]
    Cpu(CpuError),
    /// The memory manager.
    #[error(transparent)]
    Memory(MemoryError),
}

/// The alignment of one container or pod: its resources, and the merged hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alignment {
    /// The container; `None` for the pod as a whole.
    pub container: Option<ContainerName>,
    /// What was requested and free of every resource.
    pub resources: Vec<ResourceFacts>,
    /// The merged hint.
    pub hint: Hint,
    /// Whether the topology policy admits it.
    pub admitted: bool,
    /// How the hints were merged.
    pub merge: MergeFacts,
}

/// The hints of all resources in one alignment, written out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlignmentHints {
    /// The container; `None` for the pod as a whole.
    pub container: Option<ContainerName>,
    /// The resources in the order of the merge.
    pub resources: Vec<ListedHints>,
}

/// The hints of one resource, written out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedHints {
    /// The resource name.
    pub resource: ResourceName,
    /// The hints in the kubelet's order, by width; `None` if the resource has no preference.
    pub hints: Option<Vec<Hint>>,
    /// Whether there are more hints than listed.
    pub more: bool,
}

impl AlignmentHints {
    /// The hints of all managers, at most this many of each resource.
    pub(crate) fn of(container: Option<&Container>, hints: &[ProviderHints], most: usize) -> Self {
        let rows = hints.iter().flat_map(|provider| &provider.rows);
        let resources = rows.map(|(resource, hints)| {
            let mut listed = match hints {
                ResourceHints::DontCare => None,
                ResourceHints::Unsatisfiable => Some(Vec::new()),
                ResourceHints::Family(family) => Some(family.first(most.saturating_add(1))),
                ResourceHints::List(hints) => Some(hints.clone()),
            };
            let all = listed.as_ref().map_or(0, Vec::len);
            listed.iter_mut().for_each(|listed| listed.truncate(most));
            ListedHints {
                resource: resource.clone(),
                hints: listed,
                more: all > most,
            }
        });
        Self {
            container: container.map(|container| container.name.clone()),
            resources: resources.collect(),
        }
    }
}

/// The request for one resource, and what the machine has of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceFacts {
    /// The resource name.
    pub resource: ResourceName,
    /// The manager that allocates it.
    pub manager: ResourceManager,
    /// The requested amount: CPUs, bytes or devices.
    pub requested: u64,
    /// The allocatable amount of the machine. A device near several NUMA nodes counts once.
    pub total: u64,
    /// The free amount of the machine. A device near several NUMA nodes counts once.
    pub free: u64,
    /// The amounts by NUMA node. A device near several NUMA nodes counts on each of them.
    pub nodes: SmallVec<[NodeFacts; 8]>,
    /// Devices that report no NUMA node.
    pub without_topology: WithoutTopology,
    /// A summary of its hints; `None` without a merge.
    pub hints: Option<HintSummary>,
    /// Its index in [`MergeFacts::resources`]; `None` without a merge.
    pub merge_index: Option<usize>,
}

/// Amounts of one resource that belong to no NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WithoutTopology {
    /// The allocatable amount.
    pub total: u64,
    /// The free amount.
    pub free: u64,
}

/// Amounts of one resource on one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NodeFacts {
    /// The node.
    pub node: NodeId,
    /// The allocatable amount.
    pub total: u64,
    /// The free amount; with `full-pcpus-only` without the threads of partly used cores.
    pub free: u64,
    /// How the memory manager's groups restrict the use of the node.
    pub grouping: MemoryGrouping,
}

/// How allocated memory restricts the use of a NUMA node. The memory manager never changes a group that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryGrouping {
    /// The node can be used alone or in a group.
    Unrestricted,
    /// A single-node assignment is in use: the node can only be used alone.
    SingleNodeOnly,
    /// The node can only be used in this group, itself included.
    Group(NodeSet),
}
