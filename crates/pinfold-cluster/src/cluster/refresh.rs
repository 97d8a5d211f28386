//! Evaluates a pod on the nodes whose cached evaluation is stale.
//!
//! Nodes of one machine type under equal rules are often in equal states: all empty ones, and those with equal pods. The
//! pod is evaluated on one node of each state, and the others get a copy ([`Twins`]). Which pods hold what does not
//! matter for a pod that none of the nodes has.
//!
//! A call can be bounded by a [`DecisionBudget`]: nodes that it does not suffice for are postponed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::prefilter_cache::PrefilterCache;
use super::{Cluster, ClusterNode, Dialect, NodeSlot, PODS, PodQuery, PodRequest, parallel};
use crate::koordinator::amounts::{CPU, MEMORY};

/// How many nodes one thread evaluates at a time.
const CHUNK: usize = 256;

/// The most decisions about containers that evaluations may take together. A pod of many containers uses it up sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionBudget(usize);

impl DecisionBudget {
    /// As many decisions as it takes.
    pub const UNLIMITED: Self = Self(usize::MAX);

    /// So many decisions.
    #[must_use]
    pub fn new(decisions: usize) -> Self {
        Self(decisions)
    }

    /// Whether no further node can be evaluated.
    #[must_use]
    pub fn is_spent(self) -> bool {
        self.0 == 0
    }

    /// Takes the decisions about a pod on one node. The last one may take more than is left.
    fn take(&mut self, request: &PodRequest) -> bool {
        let had_some = !self.is_spent();
        let containers = request.pod().all_containers().count().max(1);
        if self.0 != usize::MAX {
            self.0 = self.0.saturating_sub(containers);
        }
        had_some
    }
}

/// What a stale node gets its evaluation from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// It is evaluated.
    Itself,
    /// It is in the same state as the node in this slot, which is evaluated.
    Twin(usize),
}

impl Cluster {
    /// Evaluates the pod on the nodes in these slots whose cached evaluation is stale, on several threads if there are
    /// many. Makes the pod's shape the latest in the cache. Returns the slots that the budget did not suffice for,
    /// ascending.
    pub(super) fn refresh(
        &mut self,
        request: &PodRequest,
        slots: impl Iterator<Item = usize>,
        budget: &mut DecisionBudget,
    ) -> Vec<usize> {
        let query = PodQuery {
            request,
            is_placed: self.pods.contains_key(request.uid()),
        };
        let entries = self.cache.entries(request, self.slots.len());
        let is_stale = |at: &usize| match (self.slots.get(*at), entries.get(*at)) {
            (Some(Some(slot)), Some(entry)) => slot.is_stale(query, entry),
            _ => false,
        };
        let mut stale: Vec<usize> = slots.filter(is_stale).collect();
        stale.sort_unstable();
        stale.dedup();
        // With a budget that does not suffice, each call starts with other nodes.
        let start = self.next_start.checked_rem(stale.len()).unwrap_or(0);
        stale.rotate_left(start);
        let mut twins = Twins::default();
        let mut sources = Vec::with_capacity(stale.len());
        let mut postponed = Vec::new();
        for at in stale {
            let Some(Some(slot)) = self.slots.get(at) else {
                continue;
            };
            let digest = match slot.depends_on_uid(query) {
                true => None,
                false => digest(&slot.node),
            };
            match twins.find(digest, &slot.node, &self.slots) {
                Some(twin) => sources.push((at, Source::Twin(twin))),
                None if budget.take(request) => {
                    twins.add(digest, at);
                    sources.push((at, Source::Itself));
                }
                None => postponed.push(at),
            }
        }
        if !postponed.is_empty() {
            self.next_start = self.next_start.wrapping_add(sources.len());
            postponed.sort_unstable();
        }
        self.evaluate_stale(query, &sources);
        postponed
    }

    /// Evaluates the nodes that are evaluated themselves, then copies the evaluations for all others.
    fn evaluate_stale(&mut self, query: PodQuery<'_>, sources: &[(usize, Source)]) {
        let entries = self.cache.latest_mut();
        let own = sources.iter().filter(|(_, own)| *own == Source::Itself);
        let own = own.map(|(at, _)| *at);
        if own.clone().count() < 2 * CHUNK {
            let mut prefilter = PrefilterCache::new(query.request);
            for at in own {
                if let (Some(Some(slot)), Some(entry)) =
                    (self.slots.get_mut(at), entries.get_mut(at))
                {
                    slot.update(query, &mut prefilter, entry);
                }
            }
        } else {
            let mut wanted = vec![false; self.slots.len()];
            for at in own {
                wanted[at] = true;
            }
            let chunks = self.slots.chunks_mut(CHUNK).zip(entries.chunks_mut(CHUNK));
            let chunks = chunks.zip(wanted.chunks(CHUNK)).collect();
            parallel::for_each(
                chunks,
                || PrefilterCache::new(query.request),
                |prefilter, ((slots, entries), wanted)| {
                    for ((slot, entry), wanted) in slots.iter_mut().zip(entries).zip(wanted) {
                        if let (Some(slot), true) = (slot, wanted) {
                            slot.update(query, prefilter, entry);
                        }
                    }
                },
            );
        }
        for (at, source) in sources {
            let Source::Twin(twin) = source else {
                continue;
            };
            let evaluation = entries.get(*twin).map(|entry| entry.evaluation.clone());
            if let (Some(evaluation), Some(Some(slot)), Some(entry)) =
                (evaluation, self.slots.get(*at), entries.get_mut(*at))
            {
                slot.store(query, evaluation, entry);
            }
        }
    }
}

/// Nodes that are evaluated, by the state that decides about a pod which none of them has.
#[derive(Default)]
struct Twins {
    by_digest: HashMap<u64, Vec<usize>>,
}

impl Twins {
    /// A node in the same state as this one.
    fn find(
        &self,
        digest: Option<u64>,
        node: &ClusterNode,
        slots: &[Option<NodeSlot>],
    ) -> Option<usize> {
        let mut known = self.by_digest.get(&digest?)?.iter().copied();
        known.find(|other| {
            let other = slots.get(*other).and_then(Option::as_ref);
            other.is_some_and(|other| have_same_state(node, &other.node))
        })
    }

    fn add(&mut self, digest: Option<u64>, at: usize) {
        if let Some(digest) = digest {
            self.by_digest.entry(digest).or_default().push(at);
        }
    }
}

/// A number that nodes in equal states share; `None` for nodes whose state is not compared.
fn digest(node: &ClusterNode) -> Option<u64> {
    let Dialect::Kubelet(ledger) = node.dialect() else {
        return None;
    };
    let mut hasher = DefaultHasher::new();
    (Arc::as_ptr(ledger.rules()) as usize).hash(&mut hasher);
    ledger.state().cpus().shared().hash(&mut hasher);
    for amounts in [node.used(), node.allocatable()] {
        [CPU, MEMORY, PODS]
            .map(|name| amounts.get(name))
            .hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Whether every pod that neither of two kubelets' nodes has is decided about the same way on both.
fn have_same_state(one: &ClusterNode, other: &ClusterNode) -> bool {
    let (Dialect::Kubelet(mine), Dialect::Kubelet(theirs)) = (one.dialect(), other.dialect())
    else {
        return false;
    };
    Arc::ptr_eq(mine.rules(), theirs.rules())
        && one.used() == other.used()
        && one.allocatable() == other.allocatable()
        && one.has_same_gaps(other)
        && mine.state().has_same_free_resources(theirs.state())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_decision_may_take_more_than_is_left() {
        use pinfold_core::pod::{Container, Pod};
        let none: [(&str, pinfold_core::quantity::Quantity); 0] = [];
        let three = ["a", "b", "c"].map(|name| Container::guaranteed(name, none));
        let request = PodRequest::new(Arc::new(Pod::new("p", three)));
        let mut budget = DecisionBudget::new(4);
        assert!(budget.take(&request) && budget.take(&request));
        assert!(!budget.take(&request));
        assert!(budget.is_spent());
        let mut unlimited = DecisionBudget::UNLIMITED;
        assert!(unlimited.take(&request));
        assert_eq!(unlimited, DecisionBudget::UNLIMITED);
    }
}
