//! [`NumaFree`]: what one NUMA node has left for a pod. Mirrors `getAvailableNUMANodeResources`.

use super::{AllocationNode, AllocationRequest};
use crate::koordinator::amounts::{Amounts, NodeAmounts, ResourceKey, left_of};
use crate::koordinator::ledger::NumaAllocated;
use crate::node_set::NodeId;

/// What one NUMA node has left, looked up by resource: a question is about few of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::koordinator) struct NumaFree<'a> {
    /// The NUMA node.
    pub(in crate::koordinator) node: NodeId,
    /// Its CPU, which may be less than the sums say.
    pub(super) cpu: Option<i64>,
    /// Its memory: every question is about it, so it is looked up once.
    memory: Option<i64>,
    sums: FreeSource<'a>,
}

#[derive(Clone, Copy, Debug)]
enum FreeSource<'a> {
    /// The caller knows.
    Offered(&'a Amounts),
    /// All there is without what is allocated, except for what the pod gets back.
    Free {
        all: &'a Amounts,
        allocated: Option<NumaAllocated<'a>>,
        reusable: Option<&'a Amounts>,
    },
}

impl<'a> NumaFree<'a> {
    /// What the pod was offered on a NUMA node.
    pub(super) fn offered(part: &'a NodeAmounts) -> Self {
        Self::of(part.node, FreeSource::Offered(&part.amounts))
    }

    /// What is free on a NUMA node.
    pub(super) fn on(
        zone: &'a NodeAmounts,
        view: &AllocationNode<'a>,
        ask: &AllocationRequest<'a>,
    ) -> Self {
        let reusable = ask.reusable.iter().find(|part| part.node == zone.node);
        let sums = FreeSource::Free {
            all: &zone.amounts,
            allocated: view.ledger.allocated(zone.node, view.cpu_ratio),
            reusable: reusable.map(|part| &part.amounts),
        };
        Self::of(zone.node, sums)
    }

    fn of(node: NodeId, sums: FreeSource<'a>) -> Self {
        Self {
            node,
            cpu: sums.entry(ResourceKey::Cpu),
            memory: sums.entry(ResourceKey::Memory),
            sums,
        }
    }

    /// What is left of `resource`, if the NUMA node knows it.
    #[inline]
    pub(in crate::koordinator) fn entry<'k>(
        &self,
        resource: impl Into<ResourceKey<'k>>,
    ) -> Option<i64> {
        match resource.into() {
            ResourceKey::Cpu => self.cpu,
            ResourceKey::Memory => self.memory,
            other => self.sums.entry(other),
        }
    }

    /// What is left of `resource`.
    pub(in crate::koordinator) fn get<'k>(&self, resource: impl Into<ResourceKey<'k>>) -> i64 {
        self.entry(resource).unwrap_or(0)
    }
}

impl FreeSource<'_> {
    #[inline]
    fn entry(&self, resource: ResourceKey<'_>) -> Option<i64> {
        match self {
            FreeSource::Offered(amounts) => amounts.entry(resource),
            FreeSource::Free {
                all,
                allocated,
                reusable,
            } => {
                let allocated = allocated.and_then(|allocated| {
                    let amount = allocated.entry(resource);
                    match reusable {
                        Some(reusable) => left_of(amount, reusable.entry(resource)),
                        None => amount,
                    }
                });
                left_of(all.entry(resource), allocated)
            }
        }
    }
}
