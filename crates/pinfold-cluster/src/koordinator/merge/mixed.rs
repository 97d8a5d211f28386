//! Finds the best combination of hints if none is preferred.

use std::collections::BTreeMap;

use super::{MergeContext, ScoredHint, replaces};
use pinfold_core::node_set::NodeSet;

/// The most hints that one merge tries.
pub const MAX_STEPS: usize = 1 << 21;

/// The AND of the hints chosen so far.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct CombinationMask {
    mask: NodeSet,
    /// The sum of the scores of the chosen hints whose mask equals the AND. A hint with more nodes never becomes equal
    /// to it, because the AND only shrinks.
    score: i64,
    /// Whether some chosen hint has a mask.
    has_mask: bool,
    /// Whether some chosen hint is unsatisfied, or has more nodes than the AND.
    unsatisfied: bool,
}

impl CombinationMask {
    fn with(self, hint: &ScoredHint) -> Self {
        let Some(mask) = hint.mask else {
            return CombinationMask {
                unsatisfied: self.unsatisfied || hint.unsatisfied,
                ..self
            };
        };
        let common = self.mask & mask;
        let shrunk = common != self.mask;
        let kept = if shrunk { 0 } else { self.score };
        let exact = common == mask;
        CombinationMask {
            mask: common,
            score: if exact {
                kept.saturating_add(hint.score)
            } else {
                kept
            },
            has_mask: true,
            unsatisfied: self.unsatisfied || hint.unsatisfied || !exact || shrunk && self.has_mask,
        }
    }
}

/// Mask, score and `unsatisfied` of the best combination so far.
type BestSoFar = (NodeSet, i64, bool);

/// Searches all combinations in Koordinator's order, each state once.
struct MixedSearch<'a> {
    lists: &'a [&'a [ScoredHint]],
    /// The width of the narrowest combination.
    width: usize,
    /// The most that the lists from each position on can add to a score.
    tails: Vec<i64>,
    seen: BTreeMap<(usize, CombinationMask, BestSoFar), BestSoFar>,
    steps: usize,
}

/// The combination that Koordinator chooses; `None` if there is none or the budget is exhausted.
pub(super) fn best(context: &MergeContext, lists: &[&[ScoredHint]]) -> Option<ScoredHint> {
    let mut steps = MAX_STEPS;
    let width = narrowest(context.nodes, lists, &mut steps)?;
    let mut tails = vec![0_i64; lists.len() + 1];
    for (at, list) in lists.iter().enumerate().rev() {
        let most = list.iter().map(|hint| hint.score).max().unwrap_or(0);
        tails[at] = tails[at + 1].saturating_add(most.max(0));
    }
    let mut search = MixedSearch {
        lists,
        width,
        tails,
        seen: BTreeMap::new(),
        steps,
    };
    let start = CombinationMask {
        mask: context.nodes,
        score: 0,
        has_mask: false,
        unsatisfied: false,
    };
    let (mask, score, unsatisfied) = search.from(0, start, (context.nodes, 0, false))?;
    Some(ScoredHint {
        mask: Some(mask),
        preferred: false,
        unsatisfied,
        score,
    })
}

/// The width of the narrowest non-empty combination.
fn narrowest(nodes: NodeSet, lists: &[&[ScoredHint]], steps: &mut usize) -> Option<usize> {
    let mut reached = vec![nodes];
    for list in lists {
        let mut masks: Vec<NodeSet> = list
            .iter()
            .map(|hint| hint.mask.unwrap_or(NodeSet::FULL))
            .collect();
        masks.sort_unstable();
        masks.dedup();
        *steps = steps.checked_sub(reached.len().saturating_mul(masks.len()))?;
        let mut next: Vec<NodeSet> = reached
            .iter()
            .flat_map(|&common| masks.iter().map(move |&mask| common & mask))
            .filter(|common| !common.is_empty())
            .collect();
        next.sort_unstable();
        next.dedup();
        reached = next;
    }
    reached.iter().map(|mask| mask.len()).min()
}

impl MixedSearch<'_> {
    /// The best combination after all combinations of the lists from `at` on are tried. `None` if the budget is
    /// exhausted.
    fn from(&mut self, at: usize, common: CombinationMask, best: BestSoFar) -> Option<BestSoFar> {
        if common.mask.len() < self.width || self.cannot_replace(at, common, best) {
            return Some(best);
        }
        let Some(list) = self.lists.get(at) else {
            return Some(candidate(common, best));
        };
        let key = (at, common, best);
        if let Some(&known) = self.seen.get(&key) {
            return Some(known);
        }
        self.steps = self.steps.checked_sub(list.len())?;
        let mut now = best;
        for hint in *list {
            now = self.from(at + 1, common.with(hint), now)?;
        }
        self.seen.insert(key, now);
        Some(now)
    }

    /// Whether no subset of the AND could replace `best`: its lowest nodes make no smaller number, and the sum of all
    /// scores is no higher.
    fn cannot_replace(&self, at: usize, common: CombinationMask, best: BestSoFar) -> bool {
        let lowest: NodeSet = common.mask.iter().take(self.width).collect();
        let most = common.score.max(0).saturating_add(self.tails[at]);
        best.0.len() == self.width && lowest >= best.0 && most <= best.1
    }
}

fn candidate(common: CombinationMask, best: BestSoFar) -> BestSoFar {
    let hint = |(mask, score, unsatisfied): BestSoFar| ScoredHint {
        mask: Some(mask),
        preferred: false,
        unsatisfied,
        score,
    };
    let new = (common.mask, common.score, common.unsatisfied);
    match replaces(&hint(new), &hint(best)) {
        true => new,
        false => best,
    }
}
