//! [`Left`]: what one NUMA node has left for a pod. Mirrors `getAvailableNUMANodeResources`.

use super::{Ask, View};
use crate::koordinator::amounts::{Amounts, Key, NodeAmounts, left_of};
use crate::koordinator::ledger::Allocated;
use crate::node_set::NodeId;

/// What one NUMA node has left, looked up by resource: a question is about few of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::koordinator) struct Left<'a> {
    /// The NUMA node.
    pub(in crate::koordinator) node: NodeId,
    /// Its CPU, which may be less than the sums say.
    pub(super) cpu: Option<i64>,
    /// Its memory: every question is about it, so it is looked up once.
    memory: Option<i64>,
    sums: Sums<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Sums<'a> {
    /// The caller knows.
    Offered(&'a Amounts),
    /// All there is without what is allocated, except for what the pod gets back.
    Free {
        all: &'a Amounts,
        allocated: Option<Allocated<'a>>,
        reusable: Option<&'a Amounts>,
    },
}

impl<'a> Left<'a> {
    /// What the pod was offered on a NUMA node.
    pub(super) fn offered(part: &'a NodeAmounts) -> Self {
        Self::of(part.node, Sums::Offered(&part.amounts))
    }

    /// What is free on a NUMA node.
    pub(super) fn on(zone: &'a NodeAmounts, view: &View<'a>, ask: &Ask<'a>) -> Self {
        let reusable = ask.reusable.iter().find(|part| part.node == zone.node);
        let sums = Sums::Free {
            all: &zone.amounts,
            allocated: view.ledger.allocated(zone.node, view.cpu_ratio),
            reusable: reusable.map(|part| &part.amounts),
        };
        Self::of(zone.node, sums)
    }

    fn of(node: NodeId, sums: Sums<'a>) -> Self {
        Self {
            node,
            cpu: sums.entry(Key::Cpu),
            memory: sums.entry(Key::Memory),
            sums,
        }
    }

    /// What is left of `resource`, if the NUMA node knows it.
    #[inline]
    pub(in crate::koordinator) fn entry<'k>(&self, resource: impl Into<Key<'k>>) -> Option<i64> {
        match resource.into() {
            Key::Cpu => self.cpu,
            Key::Memory => self.memory,
            other => self.sums.entry(other),
        }
    }

    /// What is left of `resource`.
    pub(in crate::koordinator) fn get<'k>(&self, resource: impl Into<Key<'k>>) -> i64 {
        self.entry(resource).unwrap_or(0)
    }
}

impl Sums<'_> {
    #[inline]
    fn entry(&self, resource: Key<'_>) -> Option<i64> {
        match self {
            Sums::Offered(amounts) => amounts.entry(resource),
            Sums::Free {
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
