//! [`PodOnNode`]: one pod on one node, with amplified amounts.

use std::borrow::Cow;

use super::{EffectivePolicy, KoordinatorNode, PreFilterState, constrained_burst};
use crate::koordinator::allocate::{AllocationNode, AllocationRequest, Allocator};
use crate::koordinator::amounts::{Amounts, ByNode, CPU, NodeAmounts};
use crate::koordinator::amplify::{Ratios, amplify};
use crate::koordinator::ledger::Allocation;
use crate::koordinator::rejection::KoordinatorReason;
use pinfold_core::cpu_set::CpuSet;

/// One pod and one node with the amplified zones and requests. Mirrors `getResourceOptions`.
pub(super) struct PodOnNode<'a> {
    pod: &'a PreFilterState,
    node: &'a KoordinatorNode,
    terms: &'a EffectivePolicy,
    zones: Cow<'a, [NodeAmounts]>,
    ratios: Cow<'a, Ratios>,
    /// The requests of the pod, amplified if it binds CPUs.
    pub(super) requests: Cow<'a, Amounts>,
    none: CpuSet,
}

impl<'a> PodOnNode<'a> {
    pub(super) fn new(
        pod: &'a PreFilterState,
        node: &'a KoordinatorNode,
        terms: &'a EffectivePolicy,
    ) -> Result<Self, KoordinatorReason> {
        let (zones, ratios) = node.amplified_zones()?;
        let mut requests = Cow::Borrowed(&pod.requests);
        if terms.bind && ratios.cpu() > 1.0 && pod.cpu_milli() != 0 {
            requests
                .to_mut()
                .set_cpu(amplify(pod.cpu_milli(), ratios.cpu()));
        }
        Ok(Self {
            pod,
            node,
            terms,
            zones,
            ratios,
            requests,
            none: CpuSet::new(),
        })
    }

    /// Calls `act` with an allocator for the pod on the node.
    pub(super) fn run<T>(&self, act: impl FnOnce(&Allocator<'_>) -> T) -> T {
        let report = self.node.report.as_ref();
        let view = AllocationNode {
            topology: report.map(|report| &*report.topology),
            reserved: report.map_or(&self.none, |report| report.reserved()),
            max_refs: report.map_or(1, |report| report.max_refs),
            // Without a NUMA policy the amounts of NUMA nodes are not read.
            zones: if self.terms.numa_policy.is_some() {
                &self.zones
            } else {
                &[]
            },
            cpu_ratio: self.ratios.cpu(),
            strategy: self.terms.strategy,
            ledger: &self.node.ledger,
        };
        let ask = AllocationRequest {
            cpus: self.pod.cpus,
            bind: self.terms.bind,
            requests: &self.requests,
            plain_requests: &self.pod.requests,
            binding: self.terms.binding,
            required: self.terms.required,
            exclusive: self.terms.exclusive,
            preferred: &self.none,
            preemptible: &self.none,
            reusable: &[],
            offered: &[],
        };
        let allocator = Allocator::new(view, ask);
        act(&match self.pod.burst_milli {
            Some(milli) => {
                let mut sizes = ByNode::default();
                for (id, size) in constrained_burst::shared_pools(self.node) {
                    sizes.set(id, size);
                }
                allocator.needing_pools(sizes, milli)
            }
            None => allocator,
        })
    }

    /// The requests of the node's pods, with bound CPUs amplified. Mirrors `scoreWithAmplifiedCPUs`.
    pub(super) fn node_requested(&self) -> Option<Amounts> {
        let mut used = self.node.requested.clone();
        if self.pod.cpu_milli() == 0 || self.ratios.cpu().is_nan() || self.ratios.cpu() <= 1.0 {
            return Some(used);
        }
        if self.node.report.is_some() && self.node.valid_topology().is_none() {
            return None;
        }
        let bound = self.node.ledger.bound_milli();
        let more = amplify(bound, self.ratios.cpu()).saturating_sub(bound);
        used.set_cpu(used.get(CPU).saturating_add(more));
        Some(used)
    }

    /// The used and total amounts of a resource on the NUMA nodes of the allocation. Mirrors
    /// `calculateAllocatableAndRequested`.
    pub(super) fn used_and_total(&self, allocation: &Allocation, resource: &str) -> (i64, i64) {
        let (mut used, mut total) = (0_i64, 0_i64);
        for part in &allocation.numa {
            if let Some(allocated) = self.node.ledger.allocated(part.node, self.ratios.cpu()) {
                used = used.saturating_add(allocated.get(resource).max(0));
            }
            if let Some(zone) = self.zones.iter().find(|zone| zone.node == part.node) {
                total = total.saturating_add(zone.amounts.get(resource));
            }
        }
        if allocation.numa.is_empty() {
            used = self.node.requested.get(resource);
            total = self.node.allocatable.get(resource);
        }
        if resource == CPU && !allocation.cpus.is_empty() {
            used = amplify(self.node.ledger.bound_milli(), self.ratios.cpu());
        }
        (used, total)
    }
}
