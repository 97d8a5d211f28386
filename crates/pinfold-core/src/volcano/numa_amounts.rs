//! [`NumaAmounts`]: memory and devices per NUMA node, beside the CPUs.
//!
//! The original aligns CPUs only, and its object lists nothing else. Where a node also publishes counts per NUMA
//! node, the sound way aligns memory, hugepages and devices together with the CPUs: a set of nodes will do if it
//! has enough together, and it is preferred if it is as narrow as an empty machine would allow.

use std::collections::BTreeMap;

use smallvec::smallvec;

use crate::hint::{Component, Family, Preference, ProviderHints, ResourceHints, Threshold};
use crate::name::ResourceName;
use crate::node_set::{NodeId, NodeSet};
use crate::node_topology::NodeTopology;
use crate::node_topology::numa_zones::numa_id;
use crate::pod::ResourceList;
use crate::quantity::Quantity;

/// One resource on one NUMA node, in bytes or devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaAmount {
    /// What pods may have.
    pub total: u64,
    /// What no pod holds.
    pub free: u64,
}

/// What every NUMA node of a node has, resource by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaAmounts {
    resources: BTreeMap<ResourceName, BTreeMap<NodeId, NumaAmount>>,
}

/// What a task takes from every NUMA node, resource by resource.
pub type TakenAmounts = BTreeMap<ResourceName, BTreeMap<NodeId, u64>>;

/// Not enough of a resource on all NUMA nodes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceShortage {
    pub(super) resource: ResourceName,
    pub(super) needed: u64,
    pub(super) available: u64,
}

impl NumaAmounts {
    /// Amounts by resource and NUMA node. CPUs are not among them.
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

    /// What a node's topology object counts.
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

    /// The NUMA nodes that have something.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        let nodes = self.resources.values().flat_map(BTreeMap::keys);
        nodes.copied().collect()
    }

    /// What one NUMA node has of a resource.
    #[must_use]
    pub fn on(&self, resource: &ResourceName, node: NodeId) -> NumaAmount {
        let nodes = self.resources.get(resource);
        nodes
            .and_then(|nodes| nodes.get(&node))
            .copied()
            .unwrap_or_default()
    }

    /// Where the requests could go. A resource that is not counted per NUMA node goes anywhere.
    #[must_use]
    pub fn hints(&self, requests: &ResourceList) -> ProviderHints {
        let asked = requests.iter().filter(|(_, amount)| amount.is_positive());
        let rows = asked.filter_map(|(resource, amount)| {
            let nodes = self.resources.get(resource)?;
            Some((resource.clone(), hints(nodes, units(amount))))
        });
        ProviderHints {
            rows: rows.collect(),
        }
    }

    /// Takes the requests, from the nodes of `mask` as far as they go.
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

    /// Whether all of it is free.
    pub(super) fn has(&self, taken: &TakenAmounts) -> bool {
        taken.iter().all(|(resource, nodes)| {
            let mut nodes = nodes.iter();
            nodes.all(|(&node, &amount)| self.on(resource, node).free >= amount)
        })
    }

    /// Takes exactly this.
    pub(crate) fn subtract(&mut self, taken: &TakenAmounts) {
        self.change(taken, u64::saturating_sub);
    }

    /// Puts back what was taken.
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

/// Adds what a container takes to what the pod takes.
pub(super) fn add_taken(sum: &mut TakenAmounts, more: &TakenAmounts) {
    for (resource, nodes) in more {
        let own = sum.entry(resource.clone()).or_default();
        for (&node, &amount) in nodes {
            let all = own.entry(node).or_default();
            *all = all.saturating_add(amount);
        }
    }
}

/// Node by node the larger of the two.
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

fn hints(nodes: &BTreeMap<NodeId, NumaAmount>, need: u64) -> ResourceHints {
    let component = Component {
        universe: nodes.keys().copied().collect(),
        forced: NodeSet::EMPTY,
        thresholds: smallvec![Threshold::new(
            need,
            nodes.iter().map(|(&node, amount)| (node, amount.free)),
        )],
    };
    match component.is_empty() {
        true => ResourceHints::Unsatisfiable,
        false => ResourceHints::Family(Family {
            components: smallvec![component],
            preference: Preference::Width(least_width(
                nodes.values().map(|amount| amount.total),
                need,
            )),
        }),
    }
}

/// How many of these nodes are needed if all is free; all of them if even they are too few.
pub(super) fn least_width(totals: impl Iterator<Item = u64>, need: u64) -> usize {
    let mut totals: smallvec::SmallVec<[u64; 8]> = totals.collect();
    totals.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_u64;
    let reached = totals.iter().position(|&total| {
        sum = sum.saturating_add(total);
        sum >= need
    });
    reached.map_or(totals.len(), |at| at + 1)
}
