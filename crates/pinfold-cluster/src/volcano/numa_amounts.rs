//! [`NumaAmounts`]: the memory and devices of each NUMA node.
//!
//! Volcano aligns CPUs only, and its object lists nothing else. If a node also publishes counts per NUMA node, sound
//! mode aligns memory, hugepages and devices together with the CPUs: a set of NUMA nodes is a hint if its sum suffices,
//! and it is preferred if it is as narrow as an empty machine would allow.

use std::collections::BTreeMap;

use smallvec::{SmallVec, smallvec};

use crate::node_topology::NodeTopology;
use crate::node_topology::numa_zones::numa_id;
use pinfold_core::cover::fewest;
use pinfold_core::hint::{Component, Family, Preference, ProviderHints, ResourceHints, Threshold};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

/// One resource on one NUMA node, in bytes or devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaAmount {
    /// The allocatable amount.
    pub total: u64,
    /// The amount that no pod holds.
    pub free: u64,
}

/// The total and free amounts of every NUMA node by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaAmounts {
    resources: BTreeMap<ResourceName, BTreeMap<NodeId, NumaAmount>>,
}

/// The amounts that a task holds on every NUMA node by resource.
pub type TakenAmounts = BTreeMap<ResourceName, BTreeMap<NodeId, u64>>;

/// All NUMA nodes together do not have enough of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceShortage {
    pub(super) resource: ResourceName,
    pub(super) needed: u64,
    pub(super) available: u64,
}

impl NumaAmounts {
    /// Amounts by resource and NUMA node. Rows for `cpu` are ignored.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = (ResourceName, NodeId, NumaAmount)>) -> Self {
        let mut resources: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (resource, node, amount) in rows {
            if resource.as_str() != "cpu" {
                let nodes = resources.entry(resource).or_default();
                nodes.insert(node, amount);
            }
        }
        Self { resources }
    }

    /// The amounts of a node's NodeResourceTopology object.
    #[must_use]
    pub fn of(topology: &NodeTopology) -> Self {
        let zones = topology.zones.iter().filter(|zone| zone.kind == "Node");
        let numbered = zones.filter_map(|zone| Some((numa_id(&zone.name)?, zone)));
        Self::new(numbered.flat_map(|(node, zone)| {
            zone.resources.iter().map(move |row| {
                let amount = NumaAmount {
                    total: units(&row.allocatable),
                    free: units(&row.available),
                };
                (row.name.clone(), node, amount)
            })
        }))
    }

    /// The NUMA nodes with any resource.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        let nodes = self.resources.values().flat_map(BTreeMap::keys);
        nodes.copied().collect()
    }

    /// The amounts of a resource on one NUMA node.
    #[must_use]
    pub fn on(&self, resource: &ResourceName, node: NodeId) -> NumaAmount {
        let nodes = self.resources.get(resource);
        nodes
            .and_then(|nodes| nodes.get(&node))
            .copied()
            .unwrap_or_default()
    }

    /// The hints for these requests. A resource that is not counted per NUMA node has none.
    #[must_use]
    pub fn hints(&self, requests: &ResourceList) -> ProviderHints {
        let asked = requests.iter().filter(|(_, amount)| amount.is_positive());
        let rows = asked.filter_map(|(resource, amount)| {
            let nodes = self.resources.get(resource)?;
            let nodes: SmallVec<[_; 8]> = nodes.iter().map(|(id, one)| (*id, *one)).collect();
            Some((resource.clone(), hints_for(units(amount), &nodes)))
        });
        ProviderHints {
            rows: rows.collect(),
        }
    }

    /// Takes the requested amounts, first from the NUMA nodes of `mask`.
    pub(super) fn take(
        &mut self,
        mask: Option<NodeSet>,
        requests: &ResourceList,
    ) -> Result<TakenAmounts, ResourceShortage> {
        let mut taken = TakenAmounts::new();
        for (resource, amount) in requests {
            let Some(nodes) = self.resources.get_mut(resource) else {
                continue;
            };
            let needed = units(amount);
            let mut missing = needed;
            let mut own = BTreeMap::new();
            for inside in [true, false] {
                for (&node, amount) in nodes.iter_mut() {
                    if mask.is_none_or(|mask| mask.contains(node)) == inside {
                        let part = missing.min(amount.free);
                        amount.free -= part;
                        missing -= part;
                        if part > 0 {
                            own.insert(node, part);
                        }
                    }
                }
            }
            let resource = resource.clone();
            if missing > 0 {
                let available = needed - missing;
                return Err(ResourceShortage {
                    resource,
                    needed,
                    available,
                });
            }
            taken.insert(resource, own);
        }
        Ok(taken)
    }

    /// Subtracts amounts from the free ones.
    pub(crate) fn subtract(&mut self, taken: &TakenAmounts) {
        self.change(taken, u64::saturating_sub);
    }

    /// Adds amounts to the free ones.
    pub(crate) fn add(&mut self, taken: &TakenAmounts) {
        self.change(taken, u64::saturating_add);
    }

    fn change(&mut self, taken: &TakenAmounts, to: impl Fn(u64, u64) -> u64) {
        for (resource, nodes) in taken {
            for (node, &amount) in nodes {
                let own = self.resources.get_mut(resource);
                if let Some(own) = own.and_then(|nodes| nodes.get_mut(node)) {
                    own.free = to(own.free, amount);
                }
            }
        }
    }
}

/// Adds the amounts of a container to those of its pod.
pub(super) fn add_taken(sum: &mut TakenAmounts, more: &TakenAmounts) {
    for (resource, nodes) in more {
        let own = sum.entry(resource.clone()).or_default();
        for (&node, &amount) in nodes {
            let all = own.entry(node).or_default();
            *all = all.saturating_add(amount);
        }
    }
}

/// Raises each amount to the larger of the two.
pub(super) fn raise_taken(most: &mut TakenAmounts, other: &TakenAmounts) {
    for (resource, nodes) in other {
        let own = most.entry(resource.clone()).or_default();
        for (&node, &amount) in nodes {
            let all = own.entry(node).or_default();
            *all = amount.max(*all);
        }
    }
}

fn units(amount: &Quantity) -> u64 {
    u64::try_from(amount.value()).unwrap_or(0)
}

/// The hints of a resource of which the NUMA nodes have these free and total amounts.
pub(super) fn hints_for(need: u64, nodes: &[(NodeId, NumaAmount)]) -> ResourceHints {
    let free = nodes.iter().map(|(node, amount)| (*node, amount.free));
    let component = Component {
        universe: nodes.iter().map(|(node, _)| *node).collect(),
        forced: NodeSet::EMPTY,
        thresholds: smallvec![Threshold::new(need, free)],
    };
    if component.is_empty() {
        return ResourceHints::Unsatisfiable;
    }
    let totals = nodes.iter().map(|(_, amount)| amount.total);
    ResourceHints::Family(Family {
        components: smallvec![component],
        preference: Preference::Width(fewest(totals, need)),
    })
}
