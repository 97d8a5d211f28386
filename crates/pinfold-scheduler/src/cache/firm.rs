//! Firm promises: those that a node keeps whoever leaves it meanwhile.
//!
//! A kubelet lets pods in one by one, and where it puts one depends on who is there at that moment. A pod that leaves
//! before the kubelet has come to those that were promised a place makes it put them elsewhere than foreseen, and the
//! last of them may find its place taken. Nobody can foresee who leaves and when. So beside pods that a node has not
//! reported yet a further one is promised a place only if some NUMA node has room for all of them together: wherever
//! they go, and whoever leaves, there is room for it on that one. Else the node is asked again after its next report.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::ledger::Ledger;
use pinfold_core::name::{NodeName, ResourceName};
use pinfold_core::node_topology::NodeTopology;
use pinfold_core::node_topology::attributes::MEMORY_GROUP;

use super::Cache;
use super::node::NodeRecord;
use super::pod::Asked;
use crate::config::Doubt;

/// The most that a pod can take: all its containers at the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand(BTreeMap<ResourceName, i64>);

impl Demand {
    /// Of a pod, each container's CPUs rounded up.
    pub(crate) fn of(asked: &Asked) -> Self {
        let mut all: BTreeMap<ResourceName, i64> = BTreeMap::new();
        for container in asked.ask.pod().all_containers() {
            for (name, amount) in &container.requests {
                let sum = all.entry(name.clone()).or_default();
                *sum = sum.saturating_add(amount.value());
            }
        }
        // What is said of the pod as a whole may be more.
        for (name, amount) in asked.requests.iter() {
            let whole = match name.as_str() {
                "cpu" => amount.saturating_add(999) / 1000,
                _ => amount,
            };
            let sum = all.entry(name.clone()).or_default();
            *sum = whole.max(*sum);
        }
        Self(all)
    }
}

/// What every NUMA node that is used by itself has left if all pods that are coming come to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spare {
    /// What is near any NUMA node at all.
    near: BTreeSet<ResourceName>,
    /// What each of them has left.
    alone: Vec<BTreeMap<ResourceName, i64>>,
}

impl Spare {
    /// Of a node to which nobody is coming.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let books_memory = !ledger.state().memory().nodes().is_empty();
        let is_booked = |name: &ResourceName| {
            let name = name.as_str();
            books_memory || !(name == "memory" || name.starts_with("hugepages-"))
        };
        let mut spare = Self::default();
        for zone in NodeTopology::of(ledger).zones {
            let rows = zone.resources.into_iter();
            let rows = rows.filter(|row| is_booked(&row.name));
            let left: BTreeMap<ResourceName, i64> =
                rows.map(|row| (row.name, row.available.value())).collect();
            spare.near.extend(left.keys().cloned());
            let group = zone.attributes.iter().find(|own| own.name == MEMORY_GROUP);
            if group.is_none_or(|group| !group.value.contains(',')) {
                spare.alone.push(left);
            }
        }
        spare
    }

    /// A pod is coming: it may be on any of them.
    pub(super) fn take(&mut self, demand: &Demand) {
        for node in &mut self.alone {
            for (name, left) in node {
                let asked = demand.0.get(name).copied().unwrap_or(0);
                *left = left.saturating_sub(asked);
            }
        }
    }

    /// Whether one of them has so much. What is near no NUMA node is nobody's.
    fn has_room_for(&self, demand: &Demand) -> bool {
        let mut nodes = self.alone.iter();
        nodes.any(|node| {
            let asked = demand.0.iter();
            let mut asked = asked.filter(|(name, _)| self.near.contains(*name));
            asked.all(|(name, amount)| node.get(name).is_some_and(|left| left >= amount))
        })
    }
}

impl NodeRecord {
    /// Whether a promise to a pod would be kept whoever leaves. Of a node whose report does not list pods nobody knows.
    pub(crate) fn is_firm_for(&self, demand: &Demand) -> bool {
        let spare = self.spare.as_ref().filter(|_| self.open);
        spare.is_none_or(|spare| spare.has_room_for(demand))
    }
}

impl Cache {
    /// Whether it matters to a pod that promises are firm: it does where nodes in doubt are rejected.
    pub(crate) fn minds_doubts(&self, asked: &Asked) -> bool {
        asked.needs && self.policy.nodes.behind == Doubt::Reject
    }

    /// A pod is coming to a node, and will hold something there.
    pub(super) fn comes(&mut self, asked: &Asked, node: &NodeName) {
        let record = self.nodes.get_mut(node);
        if let Some(spare) = record.and_then(|record| record.spare.as_mut()) {
            spare.take(&Demand::of(asked));
        }
    }
}
