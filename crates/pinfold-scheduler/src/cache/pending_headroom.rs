//! [`Headroom`]: whether a node will admit one more pod in whatever order its kubelet admits pods and other pods are
//! deleted.
//!
//! A kubelet admits pods one by one, and where it places a pod depends on the pods that are there at that moment. If a
//! pod is deleted before the kubelet has admitted the pods that are bound to the node but not reported yet, they are
//! placed elsewhere than predicted, and the last of them may find its place taken. The order cannot be predicted. So
//! while a node has unreported pods, a further pod is reserved there only if there is room for it wherever they are:
//!
//! - Let *d* be the largest demand of them all, resource by resource, and a *slot* room for *d* on one NUMA node. A
//!   container takes at most one slot, wherever it is placed, and deletions only add slots. So if there are at least as
//!   many slots as containers, unreported ones and those of the new pod, there is one left for each.
//! - A pod that is wider than a NUMA node takes several slots. While one is unreported, a single NUMA node must have
//!   room for all unreported pods and the new one together.
//!
//! Otherwise the node is rejected until its next report. Kubelets with the policies `none` and `best-effort` and without
//! the memory manager reject a pod only if the node has not enough in sum: there every order ends the same way.
//!
//! A pod of several containers can be rejected for the same reason without any unreported pod, because the kubelet
//! admits its containers one by one: a deletion can move the first container to where the second one had room. Deletions
//! come in bursts, so such a pod needs headroom as well for [`SETTLE_TIME`] after each. A deletion that no other one
//! announces can still reject it: no scheduler in front of a kubelet can rule that out.

use std::time::{Duration, Instant};

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::node_topology::NodeTopology;
use pinfold_cluster::node_topology::attributes::MEMORY_GROUP;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{NodeName, ResourceName};
use pinfold_core::policy::TopologyPolicy;

use super::Cache;
use super::node::NodeEntry;
use super::pod_info::PodInfo;
use crate::config::Fallback;

/// How long after a deletion on a node further deletions are expected there.
pub(super) const SETTLE_TIME: Duration = Duration::from_secs(2);

/// An upper bound of what a pod can take.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaxDemand {
    /// The sum over all its containers, init containers included, in whole CPUs, bytes and devices.
    sum: Amounts,
    /// The number of its containers, which a kubelet admits one by one.
    containers: u64,
}

impl MaxDemand {
    /// The demand of a pod, with the CPUs of each container rounded up.
    pub(crate) fn of(info: &PodInfo) -> Self {
        let mut sum = Amounts::new();
        let mut containers = 0;
        for container in info.request.pod().all_containers() {
            containers += 1;
            for (name, amount) in &container.requests {
                let before = sum.get(name.as_str());
                sum.set(name, before.saturating_add(amount.value()));
            }
        }
        // Pod-level requests and overhead can exceed the sum of the containers.
        for (name, amount) in info.requests.iter() {
            let whole = match name.as_str() {
                "cpu" => amount.saturating_add(999) / 1000,
                _ => amount,
            };
            sum.set(name, whole.max(sum.get(name.as_str())));
        }
        Self { sum, containers }
    }
}

/// The room that a node has for further pods, wherever its unreported pods are placed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headroom {
    /// The NUMA nodes whose memory is not grouped with another one's.
    nodes: Vec<NumaRoom>,
    /// The largest demand of the unreported pods, resource by resource.
    largest: Amounts,
    /// The number of their containers.
    containers: u64,
    /// Whether one of them is wider than a NUMA node.
    has_wide: bool,
}

/// The amounts of one NUMA node, in the units of [`MaxDemand`]. Resources that any NUMA node has are in all of them.
#[derive(Clone, Debug, Default)]
struct NumaRoom {
    /// What it has in all.
    total: Amounts,
    /// What is free without the unreported pods.
    free: Amounts,
    /// What is left if all unreported pods are placed here.
    left: Amounts,
}

impl Headroom {
    /// The headroom of a node without unreported pods; `None` if the order of admissions does not matter there.
    pub(super) fn of(ledger: &Ledger) -> Option<Self> {
        let has_memory = !ledger.state().memory().nodes().is_empty();
        let policy = ledger.rules().settings().topology_policy;
        if !has_memory && matches!(policy, TopologyPolicy::None | TopologyPolicy::BestEffort) {
            return None;
        }
        // Without the memory manager, memory and hugepages are not assigned per NUMA node.
        let is_assigned = |name: &ResourceName| {
            let name = name.as_str();
            has_memory || !(name == "memory" || name.starts_with("hugepages-"))
        };
        let zones = NodeTopology::of(ledger).zones;
        let rows = zones.iter().flat_map(|zone| &zone.resources);
        let assigned = rows.filter(|row| is_assigned(&row.name));
        let none: Amounts = assigned.map(|row| (row.name.clone(), 0)).collect();
        let mut headroom = Self::default();
        for zone in zones {
            let mut room = NumaRoom {
                total: none.clone(),
                free: none.clone(),
                ..NumaRoom::default()
            };
            for row in zone.resources {
                if is_assigned(&row.name) {
                    room.total.set(&row.name, row.allocatable.value());
                    room.free.set(&row.name, row.available.value());
                }
            }
            room.left.clone_from(&room.free);
            let group = zone.attributes.iter().find(|own| own.name == MEMORY_GROUP);
            if group.is_none_or(|group| !group.value.contains(',')) {
                headroom.nodes.push(room);
            }
        }
        Some(headroom)
    }

    /// Counts an unreported pod.
    pub(super) fn take(&mut self, demand: &MaxDemand) {
        self.has_wide |= !self.nodes.iter().any(|node| fits(demand, &node.total));
        self.containers = self.containers.saturating_add(demand.containers);
        for (name, amount) in demand.sum.iter() {
            let largest = amount.max(self.largest.get(name.as_str()));
            self.largest.set(name, largest);
        }
        for node in &mut self.nodes {
            for (name, amount) in demand.sum.iter() {
                if let Some(left) = node.left.entry(name.as_str()) {
                    node.left.set(name, left.saturating_sub(amount));
                }
            }
        }
    }

    /// Whether there is room for the demand wherever the unreported pods are.
    fn has_room_for(&self, demand: &MaxDemand) -> bool {
        if self.nodes.iter().any(|node| fits(demand, &node.left)) {
            return true;
        }
        let is_wide = || !self.nodes.iter().any(|node| fits(demand, &node.total));
        if self.has_wide || is_wide() {
            return false;
        }
        let slots = self.nodes.iter().map(|node| self.slots(demand, node));
        let slots = slots.fold(0, u64::saturating_add);
        slots >= self.containers.saturating_add(demand.containers.max(1))
    }

    /// How often the largest demand, the new one included, fits on a NUMA node.
    fn slots(&self, demand: &MaxDemand, node: &NumaRoom) -> u64 {
        let slots = node.free.keyed().filter_map(|(key, free)| {
            let largest = self.largest.get(key).max(demand.sum.get(key));
            (largest > 0).then(|| u64::try_from(free.max(0) / largest).unwrap_or(0))
        });
        slots.min().unwrap_or(u64::MAX)
    }
}

/// Whether the amounts suffice for the demand. Resources that no NUMA node has are ignored.
fn fits(demand: &MaxDemand, amounts: &Amounts) -> bool {
    let mut requested = demand.sum.keyed();
    requested.all(|(key, amount)| amounts.entry(key).is_none_or(|own| own >= amount))
}

impl NodeEntry {
    /// Whether the node has headroom for a pod. True without unreported pods and recent deletions, and for reports that do
    /// not list pods, of which the headroom is unknown.
    pub(crate) fn has_headroom_for(&self, demand: &MaxDemand) -> bool {
        let is_needed =
            self.has_unreported || (demand.containers > 1 && self.last_deletion.is_some());
        let headroom = self.headroom.as_ref().filter(|_| is_needed);
        headroom.is_none_or(|headroom| headroom.has_room_for(demand))
    }
}

impl Cache {
    /// Whether nodes without headroom are rejected for a pod: only for pods with NUMA needs, and only where stale
    /// reports are rejected.
    pub(crate) fn requires_headroom(&self, info: &PodInfo) -> bool {
        info.needs_numa && self.policy.nodes.stale_report == Fallback::Reject
    }

    /// Takes headroom for an unreported pod with an assignment.
    pub(super) fn take_headroom(&mut self, info: &PodInfo, node: &NodeName) {
        let record = self.nodes.get_mut(node);
        if let Some(headroom) = record.and_then(|record| record.headroom.as_mut()) {
            headroom.take(&MaxDemand::of(info));
        }
    }

    /// Ends the settle time of nodes whose last deletion is long enough ago.
    pub(super) fn end_settle_times(&mut self, now: Instant) {
        for (name, record) in &mut self.nodes {
            let has_settled = |at: Instant| now.saturating_duration_since(at) >= SETTLE_TIME;
            if record.last_deletion.is_some_and(has_settled) {
                record.last_deletion = None;
                self.changed.insert(name.clone());
            }
        }
    }
}
