//! [`Headroom`]: whether a node will admit one more pod in whatever order its kubelet admits pods and other pods are
//! deleted.
//!
//! A kubelet admits pods one by one, and where it places a pod depends on the pods that are there at that moment. If a
//! pod is deleted before the kubelet has admitted the pods that are bound to the node but not reported yet, they are
//! placed elsewhere than predicted, and the last of them may find its place taken. The order cannot be predicted. So
//! while a node has unreported pods, a further pod is reserved there only if a single NUMA node has room for all of
//! them together: wherever the others are placed, and whichever pods are deleted, that NUMA node has room for it.
//! Otherwise the node is rejected until its next report.
//!
//! A pod of several containers can be rejected for the same reason without any unreported pod, because the kubelet
//! admits its containers one by one: a deletion can move the first container to where the second one had room. Deletions
//! come in bursts, so such a pod needs headroom as well for [`SETTLE_TIME`] after each. A deletion that no other one
//! announces can still reject it: no scheduler in front of a kubelet can rule that out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pinfold_cluster::node_topology::NodeTopology;
use pinfold_cluster::node_topology::attributes::MEMORY_GROUP;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{NodeName, ResourceName};

use super::Cache;
use super::node::NodeEntry;
use super::pod_info::PodInfo;
use crate::config::Fallback;

/// How long after a deletion on a node further deletions are expected there.
pub(super) const SETTLE_TIME: Duration = Duration::from_secs(2);

/// An upper bound of what a pod can take.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaxDemand {
    /// The sum over all its containers, init containers included.
    sum: BTreeMap<ResourceName, i64>,
    /// Whether it has several containers, which a kubelet admits one by one.
    has_several_containers: bool,
}

impl MaxDemand {
    /// The demand of a pod, with the CPUs of each container rounded up.
    pub(crate) fn of(info: &PodInfo) -> Self {
        let mut all: BTreeMap<ResourceName, i64> = BTreeMap::new();
        let has_several_containers = info.request.pod().all_containers().nth(1).is_some();
        for container in info.request.pod().all_containers() {
            for (name, amount) in &container.requests {
                let sum = all.entry(name.clone()).or_default();
                *sum = sum.saturating_add(amount.value());
            }
        }
        // Pod-level requests and overhead can exceed the sum of the containers.
        for (name, amount) in info.requests.iter() {
            let whole = match name.as_str() {
                "cpu" => amount.saturating_add(999) / 1000,
                _ => amount,
            };
            let sum = all.entry(name.clone()).or_default();
            *sum = whole.max(*sum);
        }
        Self {
            sum: all,
            has_several_containers,
        }
    }
}

/// What each NUMA node has left if all unreported pods are placed on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headroom {
    /// Resources that any NUMA node has.
    numa_resources: BTreeSet<ResourceName>,
    /// What is left of them on each NUMA node whose memory is not grouped with another one's.
    left: Vec<BTreeMap<ResourceName, i64>>,
}

impl Headroom {
    /// The headroom of a node without unreported pods.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let has_memory = !ledger.state().memory().nodes().is_empty();
        // Without the memory manager, memory and hugepages are not assigned per NUMA node.
        let is_assigned = |name: &ResourceName| {
            let name = name.as_str();
            has_memory || !(name == "memory" || name.starts_with("hugepages-"))
        };
        let mut headroom = Self::default();
        for zone in NodeTopology::of(ledger).zones {
            let rows = zone.resources.into_iter();
            let rows = rows.filter(|row| is_assigned(&row.name));
            let left: BTreeMap<ResourceName, i64> =
                rows.map(|row| (row.name, row.available.value())).collect();
            headroom.numa_resources.extend(left.keys().cloned());
            let group = zone.attributes.iter().find(|own| own.name == MEMORY_GROUP);
            if group.is_none_or(|group| !group.value.contains(',')) {
                headroom.left.push(left);
            }
        }
        headroom
    }

    /// Subtracts the demand of an unreported pod from every NUMA node: it may be placed on any of them.
    pub(super) fn take(&mut self, demand: &MaxDemand) {
        for node in &mut self.left {
            for (name, left) in node {
                let requested = demand.sum.get(name).copied().unwrap_or(0);
                *left = left.saturating_sub(requested);
            }
        }
    }

    /// Whether a single NUMA node has room for the demand. Resources that no NUMA node has are ignored.
    fn has_room_for(&self, demand: &MaxDemand) -> bool {
        let mut nodes = self.left.iter();
        nodes.any(|node| {
            let requested = demand.sum.iter();
            let mut requested = requested.filter(|(name, _)| self.numa_resources.contains(*name));
            requested.all(|(name, amount)| node.get(name).is_some_and(|left| left >= amount))
        })
    }
}

impl NodeEntry {
    /// Whether the node has headroom for a pod. True without unreported pods and recent deletions, and for reports that do
    /// not list pods, of which the headroom is unknown.
    pub(crate) fn has_headroom_for(&self, demand: &MaxDemand) -> bool {
        let is_needed =
            self.has_unreported || (demand.has_several_containers && self.last_deletion.is_some());
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
