//! Hints: on which sets of NUMA nodes a pod would fit.
//!
//! Mirrors `generateResourceHints`: every non-empty set of NUMA nodes, by width and then lexicographically, is
//! tried; if the whole pod fits there, each requested resource that all nodes of the set still have gets a hint
//! with the score of the set. Hints of a resource are preferred at its narrowest width (all of them under
//! `Restricted`, in exact mode). Sound mode prefers the width that an empty node would need.
//!
//! There are 2^n - 1 sets. All of them are tried up to [`MOST_NODES_LISTED`] NUMA nodes; beyond that, whole widths
//! as long as no more than [`MOST_SETS`] sets are tried, and then the set of all nodes. [`HintLists`] grows width by
//! width, so that a decision can stop at the first width that settles it.

use smallvec::SmallVec;

use super::allocate::Allocator;
use super::amounts::{Amounts, NodeAmounts};
use super::merge::ScoredHint;
use super::score::Scorer;
use super::values::NumaPolicy;
use crate::name::ResourceName;
use crate::node_set::NodeSet;

/// Up to so many NUMA nodes every set of them is tried.
pub const MOST_NODES_LISTED: usize = 12;
/// Beyond, so many sets at most, and the set of all nodes.
pub const MOST_SETS: usize = 1 << MOST_NODES_LISTED;

/// The hints of one resource so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceHints {
    /// The resource.
    pub name: ResourceName,
    /// Its hints in the order they were found.
    pub hints: Vec<ScoredHint>,
    /// NUMA nodes that have none of it left.
    lacking: NodeSet,
    /// The width that is preferred, if it is known.
    preferred_width: Option<usize>,
}

/// The hints of one pod on one node, complete up to some width.
#[derive(Debug)]
pub struct HintLists<'a, 'n> {
    allocator: &'a Allocator<'n>,
    scorer: Option<&'a Scorer>,
    nodes: NodeSet,
    /// All hints are preferred.
    all_preferred: bool,
    /// One list per requested resource that some NUMA node reports, ascending by name.
    pub lists: SmallVec<[ResourceHints; 4]>,
    width: usize,
    tried: usize,
}

impl<'a, 'n> HintLists<'a, 'n> {
    /// No hint yet.
    #[must_use]
    pub fn new(
        allocator: &'a Allocator<'n>,
        policy: Option<&NumaPolicy>,
        scorer: Option<&'a Scorer>,
    ) -> Self {
        let fidelity = allocator.fidelity();
        let zones = allocator.zones();
        let mut lists = SmallVec::new();
        for (name, asked) in allocator.ask().requests.iter() {
            if !zones
                .iter()
                .any(|zone| zone.amounts.contains(name.as_str()))
            {
                continue;
            }
            let lacks = |zone: &&NodeAmounts| zone.amounts.get(name.as_str()) == 0;
            lists.push(ResourceHints {
                name: name.clone(),
                hints: Vec::new(),
                lacking: allocator
                    .free()
                    .iter()
                    .filter(lacks)
                    .map(|zone| zone.node)
                    .collect(),
                preferred_width: match fidelity.prefers_what_fits_now() {
                    true => None,
                    false => Some(width_when_empty(zones, name, asked)),
                },
            });
        }
        Self {
            allocator,
            scorer,
            nodes: zones.iter().map(|zone| zone.node).collect(),
            all_preferred: policy == Some(&NumaPolicy::Restricted)
                && fidelity.restricted_prefers_all(),
            lists,
            width: 0,
            tried: 0,
        }
    }

    /// All hints of a pod.
    #[must_use]
    pub fn complete(
        allocator: &'a Allocator<'n>,
        policy: Option<&NumaPolicy>,
        scorer: Option<&'a Scorer>,
    ) -> Self {
        let mut lists = Self::new(allocator, policy, scorer);
        while lists.widen() {}
        lists
    }

    /// The NUMA nodes of the node.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        self.nodes
    }

    /// Tries all sets of the next width; tells whether there was one.
    pub fn widen(&mut self) -> bool {
        let count = self.nodes.len();
        if self.width >= count {
            return false;
        }
        self.width += 1;
        if count > MOST_NODES_LISTED
            && self.tried.saturating_add(choose(count, self.width)) > MOST_SETS
        {
            self.width = count;
            self.attempt(self.nodes);
            return true;
        }
        let members: SmallVec<[_; 16]> = self.nodes.iter().collect();
        let mut chosen: SmallVec<[usize; 16]> = (0..self.width).collect();
        loop {
            self.attempt(chosen.iter().map(|&at| members[at]).collect());
            let Some(turn) = (0..self.width)
                .rev()
                .find(|&at| chosen[at] < count - self.width + at)
            else {
                return true;
            };
            chosen[turn] += 1;
            for later in turn + 1..self.width {
                chosen[later] = chosen[later - 1] + 1;
            }
        }
    }

    fn attempt(&mut self, mask: NodeSet) {
        self.tried += 1;
        if self.lists.iter().all(|list| list.lacking.intersects(mask)) || !self.allocator.fits(mask)
        {
            return;
        }
        let score = self.scorer.map_or(0, |scorer| self.score(scorer, mask));
        let width = mask.len();
        for list in &mut self.lists {
            if list.lacking.intersects(mask) {
                continue;
            }
            let preferred_width = *list.preferred_width.get_or_insert(width);
            list.hints.push(ScoredHint {
                mask: Some(mask),
                preferred: self.all_preferred || width == preferred_width,
                unsatisfied: false,
                score,
            });
        }
    }

    fn score(&self, scorer: &Scorer, mask: NodeSet) -> i64 {
        let sum = |parts: &[NodeAmounts], name: &str| {
            let inside = parts.iter().filter(|part| mask.contains(part.node));
            inside.fold(0_i64, |sum, part| {
                sum.saturating_add(part.amounts.get(name))
            })
        };
        let amounts = |name: &str| {
            let total = sum(self.allocator.zones(), name);
            let used = total.saturating_sub(sum(self.allocator.free(), name));
            (used.max(0), total)
        };
        scorer.score_by(amounts, self.allocator.ask().requests)
    }
}

/// How many NUMA nodes an empty node would need for `asked`; all if they do not suffice.
fn width_when_empty(zones: &[NodeAmounts], name: &ResourceName, asked: i64) -> usize {
    let mut totals: SmallVec<[i64; 8]> = zones
        .iter()
        .map(|zone| Amounts::get(&zone.amounts, name.as_str()))
        .collect();
    totals.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_i64;
    let enough = totals.iter().position(|total| {
        sum = sum.saturating_add(*total);
        sum >= asked
    });
    enough.map_or(zones.len(), |at| at + 1)
}

/// How many sets of `width` among `count`, saturating.
fn choose(count: usize, width: usize) -> usize {
    (0..width).fold(1_usize, |product, at| {
        product.saturating_mul(count - at) / (at + 1)
    })
}

#[cfg(test)]
mod tests;
