//! The hints of the memory manager: the sets of NUMA nodes that fit a request.
//!
//! Mirrors `calculateHints`. A mask is a hint if
//! 1. every requested type fits on it on an empty machine;
//! 2. it respects the groups: a single node must not be in a wider group, and every node of a wider mask that
//!    is in use must be in a group equal to the mask;
//! 3. what is free on it, plus the reusable memory of this pod's init containers on exactly this mask, is enough for
//!    every requested type.
//!
//! Hints as wide as the narrowest mask that passes rule 1 are preferred. Every requested type has the same hints.
//!
//! Rule 2 splits the masks into two kinds, which are the components of the [`Family`]: any subset of the unused nodes,
//! where the sum of what is free decides; and a few single masks: nodes in use, existing groups, and masks with
//! reusable memory of init containers.
//!
//! A request that fits nowhere gives no hints at all, which the topology manager reads as *no preference*: the shortage
//! is reported when memory is allocated.

use smallvec::SmallVec;

use super::allocate_pod::{EmptySharedPool, check_shared_pool, pod_total};
use super::reuse::{PodMemory, ReusableMemory};
use super::static_policy::StaticMemory;
use super::table::{MemoryAmounts, MemoryBlock, MemoryState, NodeMemory};
use crate::cover::{lowest_of_narrowest, narrowest};
use crate::demand::{MemoryDemand, PodDemand};
use crate::hint::{Component, Family, Hint, Preference, ProviderHints, ResourceHints, Threshold};
use crate::name::ResourceName;
use crate::node_set::NodeSet;
use crate::pod::Container;

/// The memory manager's hints and how they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryHints {
    /// The hints by type of memory.
    pub hints: ProviderHints,
    /// How they were made.
    pub basis: MemoryBasis,
}

/// How memory hints were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryBasis {
    /// Memory of this pod or container is not managed: the pod is not Guaranteed, or requests no memory.
    Unmanaged,
    /// It already holds exactly the requested memory: the hints are its nodes.
    Held,
    /// It already holds memory, but not the requested amounts: no preference.
    HeldDiffers,
    /// Containers with their own memory leave none for the shared pool: the request is unsatisfiable.
    EmptySharedPool(EmptySharedPool),
    /// A search for hints. No hints mean that the request fits nowhere.
    Searched {
        /// The requested bytes by type.
        requested: MemoryDemand,
    },
}

impl MemoryHints {
    pub(super) fn unmanaged() -> Self {
        Self::without_preference(MemoryBasis::Unmanaged)
    }

    fn without_preference(basis: MemoryBasis) -> Self {
        Self {
            hints: ProviderHints::none(),
            basis,
        }
    }
}

impl StaticMemory {
    /// The hints for one container. Mirrors `GetTopologyHints`.
    #[must_use]
    pub fn container_hints(
        &self,
        state: &MemoryState,
        own: &PodMemory<'_>,
        demand: &PodDemand<'_>,
        container: &Container,
    ) -> MemoryHints {
        if !is_managed(demand) {
            return MemoryHints::unmanaged();
        }
        let Ok(requested) = demand.container_memory(container) else {
            return MemoryHints::unmanaged();
        };
        let pod = &demand.pod().uid;
        if let Some(blocks) = state.blocks(pod, &container.name) {
            return held(state, blocks, &requested);
        }
        if self.has_finished(own, demand, container) {
            return MemoryHints::unmanaged();
        }
        let reusable = ReusableMemory::of_container(state, pod, own, self.fidelity);
        searched(state, requested, reusable)
    }

    /// The hints for a pod as a whole. Mirrors `GetPodTopologyHints`.
    #[must_use]
    pub fn pod_hints(&self, state: &MemoryState, demand: &PodDemand<'_>) -> MemoryHints {
        if !is_managed(demand) {
            return MemoryHints::unmanaged();
        }
        let Ok(mut requested) = demand.pod_memory() else {
            return MemoryHints::unmanaged();
        };
        if demand.is_managed_as_whole() {
            if let Err(problem) = check_shared_pool(demand, &requested) {
                let cannot =
                    |resource: &ResourceName| (resource.clone(), ResourceHints::Unsatisfiable);
                let rows = requested.keys().map(cannot).collect();
                return MemoryHints {
                    hints: ProviderHints { rows },
                    basis: MemoryBasis::EmptySharedPool(problem),
                };
            }
            match pod_total(demand, &requested, self.fidelity) {
                Ok(total) => requested = total,
                Err(_) => return MemoryHints::unmanaged(),
            }
        }
        if requested.is_empty() {
            return MemoryHints::unmanaged();
        }
        let pod = demand.pod();
        let held_first = pod
            .all_containers()
            .find_map(|container| state.blocks(&pod.uid, &container.name));
        if let Some(blocks) = held_first {
            return held(state, blocks, &requested);
        }
        let reusable = ReusableMemory::of_pod(state, &pod.uid, self.fidelity);
        searched(state, requested, reusable)
    }
}

/// Whether the memory of this pod is managed: it is Guaranteed, and if it has pod-level resources these are managed.
pub(super) fn is_managed(demand: &PodDemand<'_>) -> bool {
    demand.is_guaranteed() && !demand.is_ignored()
}

/// The nodes of existing blocks, if they hold exactly what is requested. Mirrors `regenerateHints`.
fn held(state: &MemoryState, blocks: &[MemoryBlock], requested: &MemoryDemand) -> MemoryHints {
    let matches = |block: &MemoryBlock| requested.get(&block.resource) == Some(&block.size);
    if blocks.len() != requested.len() || !blocks.iter().all(matches) {
        return MemoryHints::without_preference(MemoryBasis::HeldDiffers);
    }
    let machine = state.node_ids();
    let row = |resource: &ResourceName| {
        let own = blocks.iter().filter(|block| block.resource == *resource);
        let masks: SmallVec<[NodeSet; 1]> = own.map(|block| block.nodes).collect();
        let hints = match masks.as_slice() {
            [] => ResourceHints::Unsatisfiable,
            [mask] if !mask.is_empty() && mask.is_subset(machine) => {
                ResourceHints::Family(Family {
                    components: SmallVec::from_iter([Component::fixed(*mask)]),
                    preference: Preference::Width(mask.len()),
                })
            }
            masks => ResourceHints::List(masks.iter().map(|&mask| Hint::on(mask, true)).collect()),
        };
        (resource.clone(), hints)
    };
    MemoryHints {
        hints: ProviderHints {
            rows: requested.keys().map(row).collect(),
        },
        basis: MemoryBasis::Held,
    }
}

fn searched(state: &MemoryState, requested: MemoryDemand, reusable: ReusableMemory) -> MemoryHints {
    let search = MemoryHintSearch {
        state,
        requested: &requested,
        reusable,
    };
    let rows = match search.family() {
        None => SmallVec::new(),
        Some(family) => {
            let mut rows = SmallVec::with_capacity(requested.len());
            let copies = requested.len().saturating_sub(1);
            for resource in requested.keys().take(copies) {
                rows.push((resource.clone(), ResourceHints::Family(family.clone())));
            }
            if let Some(last) = requested.keys().next_back() {
                rows.push((last.clone(), ResourceHints::Family(family)));
            }
            rows
        }
    };
    MemoryHints {
        hints: ProviderHints { rows },
        basis: MemoryBasis::Searched { requested },
    }
}

/// One request and one table.
pub(super) struct MemoryHintSearch<'a> {
    pub(super) state: &'a MemoryState,
    pub(super) requested: &'a MemoryDemand,
    pub(super) reusable: ReusableMemory,
}

impl MemoryHintSearch<'_> {
    /// All hints; `None` if there are none.
    pub(super) fn family(&self) -> Option<Family> {
        if self.requested.is_empty() {
            return None;
        }
        let in_use: NodeSet = self
            .state
            .nodes
            .iter()
            .filter(|(_, node)| node.assignments > 0)
            .map(|(&id, _)| id)
            .collect();
        let unused = Component {
            universe: self.state.node_ids() - in_use,
            forced: NodeSet::EMPTY,
            thresholds: self.thresholds(|amounts| amounts.free),
        };
        let mut masks: SmallVec<[NodeSet; 16]> = SmallVec::new();
        masks.extend(in_use.iter().map(NodeSet::single));
        masks.extend(in_use.iter().filter_map(|id| {
            let node = self.state.nodes.get(&id)?;
            Some(node.cells)
        }));
        masks.extend(self.reusable.masks());
        masks.sort_unstable();
        masks.dedup();

        let single_masks = masks
            .into_iter()
            .filter(|&mask| self.is_hint(mask) && !unused.contains(mask))
            .map(Component::fixed);
        let mut components: SmallVec<[Component; 1]> = single_masks.collect();
        if !unused.is_empty() {
            components.insert(0, unused);
        }
        (!components.is_empty()).then(|| Family {
            components,
            preference: Preference::Width(self.narrowest_on_empty_machine()),
        })
    }

    /// The hint that the kubelet would choose on its own among those that contain `mask`: the narrowest one, of several
    /// the one with the lowest number. (Its preferred hints are its narrowest.) Mirrors `findBestHint`.
    pub(super) fn best_hint(&self, mask: NodeSet) -> Option<Hint> {
        let family = self.family()?;
        let best = family
            .components
            .iter()
            .filter_map(|part| {
                lowest_of_narrowest(part.universe, part.forced | mask, &part.thresholds)
            })
            .reduce(|best, other| match other.is_narrower_than(best) {
                true => other,
                false => best,
            })?;
        Some(Hint::on(best, family.preference.holds(best)))
    }

    /// Whether `mask` has enough free memory, without reusable memory of init containers. Mirrors
    /// `isAffinitySatisfyRequest`.
    pub(super) fn is_satisfied_by(&self, mask: NodeSet) -> bool {
        self.requested
            .iter()
            .all(|(resource, &amount)| self.state.free(mask, resource) >= amount)
    }

    /// The three rules for a single mask.
    fn is_hint(&self, mask: NodeSet) -> bool {
        let enough = |(resource, &amount): (&ResourceName, &u64)| {
            let left = self.reusable.amount(mask, resource);
            self.state.allocatable(mask, resource) >= amount
                && self.state.free(mask, resource).saturating_add(left) >= amount
        };
        !mask.is_empty()
            && mask.is_subset(self.state.node_ids())
            && respects_groups(self.state, mask)
            && self.requested.iter().all(enough)
    }

    /// The width of the narrowest mask that fits on an empty machine; 0, which no mask has, if that could not be
    /// proven, and that of all nodes if they do not suffice.
    fn narrowest_on_empty_machine(&self) -> usize {
        let alone = |node: &NodeMemory| {
            let enough = |(resource, &amount): (&ResourceName, &u64)| {
                amount == 0 || node.amounts(resource).allocatable >= amount
            };
            self.requested.iter().all(enough)
        };
        if self.state.nodes.values().any(alone) {
            return 1;
        }
        let thresholds = self.thresholds(|amounts| amounts.allocatable);
        let nodes = self.state.node_ids();
        match narrowest(nodes, NodeSet::EMPTY, &thresholds) {
            Some(narrow) if narrow.is_proven() => narrow.at_least,
            Some(_) => 0,
            None => nodes.len(),
        }
    }

    /// One threshold per requested type.
    fn thresholds(&self, field: impl Fn(MemoryAmounts) -> u64) -> SmallVec<[Threshold; 1]> {
        let requested = self.requested.iter().filter(|(_, amount)| **amount > 0);
        requested
            .map(|(resource, &amount)| {
                let nodes = self.state.nodes.iter();
                let rows = nodes.map(|(&id, node)| (id, field(node.amounts(resource))));
                Threshold::new(amount, rows)
            })
            .collect()
    }
}

/// Rule 2: a node has either single-node assignments or assignments of one group.
fn respects_groups(state: &MemoryState, mask: NodeSet) -> bool {
    let alone = mask.len() == 1;
    mask.iter()
        .filter_map(|id| state.nodes.get(&id))
        .all(|node| match alone {
            true => node.cells.len() <= 1,
            false => node.assignments == 0 || (node.cells.len() > 1 && node.cells == mask),
        })
}

/// Whether an allocation on `mask` would break a group. Mirrors `isAffinityViolatingNUMAAllocations`, which ignores
/// single nodes.
pub(super) fn breaks_group(state: &MemoryState, mask: NodeSet) -> bool {
    mask.len() != 1 && !respects_groups(state, mask)
}

/// Whether `mask` is one node of a wider group that is in use.
pub(super) fn is_inside_group(state: &MemoryState, mask: NodeSet) -> bool {
    mask.len() == 1 && !respects_groups(state, mask)
}
