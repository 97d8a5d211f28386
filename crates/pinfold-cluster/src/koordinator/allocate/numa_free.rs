//! [`NumaFree`]: the free amounts of one NUMA node for a pod. Mirrors `getAvailableNUMANodeResources`.

use super::{AllocationNode, AllocationRequest};
use crate::koordinator::amounts::{Amounts, NodeAmounts, ResourceKey, subtract};
use crate::koordinator::ledger::NumaAllocated;
use pinfold_core::node_set::NodeId;

/// The free amounts of one NUMA node, computed per resource on demand because only few resources are read.
#[derive(Clone, Copy, Debug)]
pub(in crate::koordinator) struct NumaFree<'a> {
    /// The NUMA node.
    pub(in crate::koordinator) node: NodeId,
    /// Its free CPU, which the allocator may lower below the total.
    pub(super) cpu: Option<i64>,
    /// Its free memory, computed once because every decision reads it.
    memory: Option<i64>,
    source: FreeSource<'a>,
}

#[derive(Clone, Copy, Debug)]
enum FreeSource<'a> {
    /// Given by the caller.
    Offered(&'a Amounts),
    /// The allocatable amounts minus the allocated ones, of which `reusable` counts as free.
    Free {
        all: &'a Amounts,
        allocated: Option<NumaAllocated<'a>>,
        reusable: Option<&'a Amounts>,
    },
}

impl<'a> NumaFree<'a> {
    /// The amounts that the caller offers on a NUMA node.
    pub(super) fn offered(part: &'a NodeAmounts) -> Self {
        Self::of(part.node, FreeSource::Offered(&part.amounts))
    }

    /// The free amounts of a NUMA node.
    pub(super) fn on(
        zone: &'a NodeAmounts,
        node: &AllocationNode<'a>,
        request: &AllocationRequest<'a>,
    ) -> Self {
        let reusable = request.reusable.iter().find(|part| part.node == zone.node);
        let source = FreeSource::Free {
            all: &zone.amounts,
            allocated: node.ledger.allocated(zone.node, node.cpu_ratio),
            reusable: reusable.map(|part| &part.amounts),
        };
        Self::of(zone.node, source)
    }

    fn of(node: NodeId, source: FreeSource<'a>) -> Self {
        Self {
            node,
            cpu: source.entry(ResourceKey::Cpu),
            memory: source.entry(ResourceKey::Memory),
            source,
        }
    }

    /// The free amount of `resource`, if the NUMA node reports it.
    #[inline]
    pub(in crate::koordinator) fn entry<'k>(
        &self,
        resource: impl Into<ResourceKey<'k>>,
    ) -> Option<i64> {
        match resource.into() {
            ResourceKey::Cpu => self.cpu,
            ResourceKey::Memory => self.memory,
            other => self.source.entry(other),
        }
    }

    /// The free amount of `resource`; 0 if the NUMA node does not report it.
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
                        Some(reusable) => subtract(amount, reusable.entry(resource)),
                        None => amount,
                    }
                });
                subtract(all.entry(resource), allocated)
            }
        }
    }
}
