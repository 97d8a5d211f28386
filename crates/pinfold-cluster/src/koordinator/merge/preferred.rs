//! Finds the best preferred combination of hints.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::{MergeContext, ScoredHint, replaces};
use pinfold_core::node_set::NodeSet;

/// The best hint of a list for one mask.
#[derive(Clone, Copy)]
struct IndexedHint {
    score: i64,
    unsatisfied: bool,
    /// Its position in the list.
    position: usize,
}

/// The preferred hints of one list by mask; of several with the same mask the first with the best score.
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
        for (position, hint) in list.iter().enumerate().filter(|(_, hint)| hint.preferred) {
            let hint_score = IndexedHint {
                score: hint.score,
                unsatisfied: hint.unsatisfied,
                position,
            };
            match hint.mask {
                Some(mask) => index.by_mask.push((mask, hint_score)),
                None => {
                    index.any.get_or_insert(IndexedHint {
                        score: 0,
                        ..hint_score
                    });
                }
            }
        }
        // Stable: among equal masks the best score comes first, and the first of those.
        index
            .by_mask
            .sort_by_key(|(mask, hint_score)| (*mask, Reverse(hint_score.score)));
        index.by_mask.dedup_by_key(|(mask, _)| *mask);
        index
    }

    /// The best hint for `mask`, and the first of those.
    fn find(&self, mask: NodeSet) -> Option<IndexedHint> {
        let found = self.by_mask.binary_search_by_key(&mask, |(mask, _)| *mask);
        let named = found.ok().map(|at| self.by_mask[at].1);
        let rank = |hint_score: &IndexedHint| (Reverse(hint_score.score), hint_score.position);
        named.into_iter().chain(self.any).min_by_key(rank)
    }
}

/// Searches the preferred combinations in Koordinator's order.
struct PreferredCombinations<'a> {
    context: &'a MergeContext,
    lists: &'a [&'a [ScoredHint]],
    /// The indexes of all lists but the first.
    indexes: SmallVec<[HintIndex; 2]>,
    best: Option<ScoredHint>,
    /// How many more times a list may be searched again for a further hint without mask of an earlier list.
    visits: usize,
}

/// The most lists that are searched. Only lists with several hints without mask reach it.
const MAX_VISITS: usize = 1 << 12;

/// The preferred combination that Koordinator chooses.
pub(super) fn best(context: &MergeContext, lists: &[&[ScoredHint]]) -> Option<ScoredHint> {
    if lists
        .iter()
        .any(|list| !list.iter().any(|hint| hint.preferred))
    {
        return None;
    }
    let mut search = PreferredCombinations {
        context,
        lists,
        indexes: (lists.iter().skip(1))
            .map(|list| HintIndex::of(list))
            .collect(),
        best: None,
        visits: MAX_VISITS,
    };
    search.from(0, false);
    search.best
}

impl PreferredCombinations<'_> {
    /// Searches the lists from `at` on; the hints chosen from earlier lists have no mask.
    fn from(&mut self, at: usize, unsatisfied: bool) {
        let Some(list) = self.lists.get(at) else {
            self.consider(self.context.nodes, 0, unsatisfied);
            return;
        };
        if self.visits == 0 {
            return;
        }
        self.visits -= 1;
        for hint in list.iter().filter(|hint| hint.preferred) {
            let unsatisfied = unsatisfied || hint.unsatisfied;
            match hint.mask {
                None => self.from(at + 1, unsatisfied),
                Some(mask) => self.try_mask(at, mask, hint.score, unsatisfied),
            }
        }
    }

    /// Tries a mask for which all later lists must have a hint too.
    fn try_mask(&mut self, at: usize, mask: NodeSet, mut score: i64, mut unsatisfied: bool) {
        let too_wide = self
            .best
            .and_then(|best| best.mask)
            .is_some_and(|best| (mask & self.context.nodes).len() > best.len());
        if too_wide {
            return;
        }
        for index in &self.indexes[at..] {
            let Some(hint_score) = index.find(mask) else {
                return;
            };
            score = score.saturating_add(hint_score.score);
            unsatisfied |= hint_score.unsatisfied;
        }
        // If the mask has NUMA nodes that do not exist, no hint equals the AND with the existing ones.
        let exists = mask.is_subset(self.context.nodes);
        let score = if exists { score } else { 0 };
        self.consider(mask & self.context.nodes, score, unsatisfied || !exists);
    }

    fn consider(&mut self, mask: NodeSet, score: i64, unsatisfied: bool) {
        if mask.is_empty() || self.context.conflicts(mask) {
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
