//! The best preferred combination.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::{MergeContext, ScoredHint, replaces};
use crate::node_set::NodeSet;

/// What a list has to offer for one set of nodes.
#[derive(Clone, Copy)]
struct IndexedHint {
    score: i64,
    unsatisfied: bool,
    /// Where in the list it is.
    place: usize,
}

/// The preferred hints of one list, by nodes; of several for the same nodes the first with the best score.
struct HintIndex {
    by_mask: SmallVec<[(NodeSet, IndexedHint); 8]>,
    any: Option<IndexedHint>,
}

impl HintIndex {
    fn of(list: &[ScoredHint]) -> Self {
        let mut index = HintIndex {
            by_mask: SmallVec::new(),
            any: None,
        };
        for (place, hint) in list.iter().enumerate().filter(|(_, hint)| hint.preferred) {
            let offer = IndexedHint {
                score: hint.score,
                unsatisfied: hint.unsatisfied,
                place,
            };
            match hint.mask {
                Some(mask) => index.by_mask.push((mask, offer)),
                None => {
                    index.any.get_or_insert(IndexedHint { score: 0, ..offer });
                }
            }
        }
        // Stable: among equal masks the best score comes first, and the first of those.
        index
            .by_mask
            .sort_by_key(|(mask, offer)| (*mask, Reverse(offer.score)));
        index.by_mask.dedup_by_key(|(mask, _)| *mask);
        index
    }

    /// The best there is for `mask`, and the first of those.
    fn offer(&self, mask: NodeSet) -> Option<IndexedHint> {
        let found = self.by_mask.binary_search_by_key(&mask, |(mask, _)| *mask);
        let named = found.ok().map(|at| self.by_mask[at].1);
        let rank = |offer: &IndexedHint| (Reverse(offer.score), offer.place);
        named.into_iter().chain(self.any).min_by_key(rank)
    }
}

/// A walk over the preferred combinations, in the original's order.
struct PreferredSearch<'a> {
    ground: &'a MergeContext,
    lists: &'a [&'a [ScoredHint]],
    /// For each list but the first: nothing comes before that.
    indexes: SmallVec<[HintIndex; 2]>,
    best: Option<ScoredHint>,
    /// Lists that may still be walked again for a further "any node" hint of an earlier list.
    walks: usize,
}

/// The most lists walked. Only lists with several "any node" hints each ever get there.
const MOST_WALKS: usize = 1 << 12;

/// The preferred combination that the original ends with.
pub(super) fn best(ground: &MergeContext, lists: &[&[ScoredHint]]) -> Option<ScoredHint> {
    if lists
        .iter()
        .any(|list| !list.iter().any(|hint| hint.preferred))
    {
        return None;
    }
    let mut walk = PreferredSearch {
        ground,
        lists,
        indexes: (lists.iter().skip(1))
            .map(|list| HintIndex::of(list))
            .collect(),
        best: None,
        walks: MOST_WALKS,
    };
    walk.from(0, false);
    walk.best
}

impl PreferredSearch<'_> {
    /// Walks the lists from `at` on; the earlier ones gave "any node".
    fn from(&mut self, at: usize, unsatisfied: bool) {
        let Some(list) = self.lists.get(at) else {
            self.offer(self.ground.nodes, 0, unsatisfied);
            return;
        };
        if self.walks == 0 {
            return;
        }
        self.walks -= 1;
        for hint in list.iter().filter(|hint| hint.preferred) {
            let unsatisfied = unsatisfied || hint.unsatisfied;
            match hint.mask {
                None => self.from(at + 1, unsatisfied),
                Some(mask) => self.named(at, mask, hint.score, unsatisfied),
            }
        }
    }

    /// All later lists must offer the same nodes.
    fn named(&mut self, at: usize, mask: NodeSet, mut score: i64, mut unsatisfied: bool) {
        let too_wide = self
            .best
            .and_then(|best| best.mask)
            .is_some_and(|best| (mask & self.ground.nodes).len() > best.len());
        if too_wide {
            return;
        }
        for index in &self.indexes[at..] {
            let Some(offer) = index.offer(mask) else {
                return;
            };
            score = score.saturating_add(offer.score);
            unsatisfied |= offer.unsatisfied;
        }
        // Nodes that do not exist: no hint names exactly the nodes that are left.
        let exists = mask.is_subset(self.ground.nodes);
        let score = if exists { score } else { 0 };
        self.offer(mask & self.ground.nodes, score, unsatisfied || !exists);
    }

    fn offer(&mut self, mask: NodeSet, score: i64, unsatisfied: bool) {
        if mask.is_empty() || self.ground.mixes(mask) {
            return;
        }
        let new = ScoredHint {
            mask: Some(mask),
            preferred: true,
            unsatisfied,
            score,
        };
        if self.best.is_none_or(|best| replaces(&new, &best)) {
            self.best = Some(new);
        }
    }
}
