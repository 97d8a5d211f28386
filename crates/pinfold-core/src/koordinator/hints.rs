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
use super::amounts::{ByNode, NodeAmounts, ResourceKey};
use super::merge::ScoredHint;
use super::policy_values::NumaPolicy;
use super::score::{Scorer, WeightedRequest};
use crate::name::ResourceName;
use crate::node_set::NodeSet;

mod lazy_hints;
mod node_set_walk;

pub use lazy_hints::{LazyHints, LazyResource, NumaNeed};
use node_set_walk::NodeSetWalk;

/// Up to so many NUMA nodes every set of them is tried.
pub const MOST_NODES_LISTED: usize = 12;
/// Beyond, so many sets at most, and the set of all nodes.
pub const MOST_SETS: usize = 1 << MOST_NODES_LISTED;

/// The hints of one resource so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorHints {
    /// The resource.
    pub name: ResourceName,
    /// Its hints in the order they were found.
    pub hints: SmallVec<[ScoredHint; 8]>,
    /// NUMA nodes that have none of it left.
    lacking: NodeSet,
    /// The width that is preferred, if it is known.
    preferred_width: Option<usize>,
}

/// What the NUMA nodes have of one resource that counts, by NUMA id.
#[derive(Debug)]
struct ScoredResource {
    share: WeightedRequest,
    free: ByNode,
    total: ByNode,
}

impl ScoredResource {
    fn of(allocator: &Allocator<'_>, name: &str, share: WeightedRequest) -> Self {
        let (mut free, mut total) = (ByNode::default(), ByNode::default());
        let key = ResourceKey::from(name);
        for part in allocator.left() {
            free.set(part.node, part.get(key));
        }
        for zone in allocator.zones() {
            total.set(zone.node, zone.amounts.get(key));
        }
        Self { share, free, total }
    }

    /// What is used and what there is on some NUMA nodes.
    fn on(&self, mask: NodeSet) -> (i64, i64) {
        let total = self.total.sum(mask);
        (total.saturating_sub(self.free.sum(mask)).max(0), total)
    }
}

/// The hints of one pod on one node, complete up to some width.
#[derive(Debug)]
pub struct HintLists<'a, 'n> {
    allocator: &'a Allocator<'n>,
    scorer: Option<&'a Scorer>,
    /// All hints are preferred.
    all_preferred: bool,
    /// Only preferred hints are weighed.
    spares_others: bool,
    /// Used and total of the resources that the scorer counts, on each NUMA node.
    columns: SmallVec<[ScoredResource; 2]>,
    /// One list per requested resource that some NUMA node reports, ascending by name.
    pub lists: SmallVec<[KoordinatorHints; 2]>,
    walk: NodeSetWalk,
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
            let key = ResourceKey::from(name.as_str());
            if !zones.iter().any(|zone| zone.amounts.contains(key)) {
                continue;
            }
            lists.push(KoordinatorHints {
                name: name.clone(),
                hints: SmallVec::new(),
                lacking: (allocator.left().iter())
                    .filter(|part| part.get(key) == 0)
                    .map(|part| part.node)
                    .collect(),
                preferred_width: match fidelity.prefers_what_fits_now() {
                    true => None,
                    false => Some(width_when_empty(zones, key, asked)),
                },
            });
        }
        Self {
            allocator,
            scorer,
            all_preferred: policy == Some(&NumaPolicy::Restricted)
                && fidelity.restricted_prefers_all(),
            spares_others: false,
            columns: scorer.map_or_else(SmallVec::new, |scorer| {
                let counted = scorer.counted(allocator.ask().requests);
                counted
                    .map(|(name, share)| ScoredResource::of(allocator, name, share))
                    .collect()
            }),
            lists,
            walk: NodeSetWalk::over(zones.iter().map(|zone| zone.node).collect()),
        }
    }

    /// For a policy that takes a preferred hint or none: the scores of the others stay 0.
    pub fn weigh_only_preferred(&mut self) {
        self.spares_others = true;
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

    /// Up to which width the hints are complete.
    #[must_use]
    pub fn width(&self) -> usize {
        self.walk.width
    }

    /// The NUMA nodes of the node.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        self.walk.nodes
    }

    /// Tries all sets of the next width; tells whether there was one.
    pub fn widen(&mut self) -> bool {
        let mut walk = self.walk;
        let more = walk.widen(|mask| self.attempt(mask));
        self.walk = walk;
        more
    }

    /// The width beyond which no hint is preferred, if that is known already.
    #[must_use]
    pub fn last_preferred_width(&self) -> Option<usize> {
        let widths = self.lists.iter().map(|list| list.preferred_width);
        let known = widths.collect::<Option<SmallVec<[usize; 4]>>>()?;
        known.into_iter().max().filter(|_| !self.all_preferred)
    }

    /// Whether all hints can be told without listing them ([`HintLists::unlisted`]).
    #[must_use]
    pub fn need_no_listing(&self) -> bool {
        let known = |list: &KoordinatorHints| list.preferred_width.is_some() && !self.all_preferred;
        self.walk.nodes.len() <= MOST_NODES_LISTED
            && self.allocator.only_sums_decide()
            && self.lists.iter().all(known)
    }

    /// All hints, those of widths that were not tried among them, without listing them. `None` if that takes listing.
    #[must_use]
    pub fn unlisted(&self) -> Option<LazyHints> {
        if !self.need_no_listing() {
            return None;
        }
        let resources = self.lists.iter().map(|list| {
            Some(LazyResource {
                name: list.name.clone(),
                lacking: list.lacking,
                preferred_width: list.preferred_width.filter(|_| !self.all_preferred)?,
            })
        });
        Some(LazyHints {
            nodes: self.walk.nodes,
            resources: resources.collect::<Option<_>>()?,
            needs: self.allocator.needs()?,
        })
    }

    fn attempt(&mut self, mask: NodeSet) {
        if self.lists.iter().all(|list| list.lacking.intersects(mask)) || !self.allocator.fits(mask)
        {
            return;
        }
        let width = mask.len();
        let prefers = |list: &KoordinatorHints| list.preferred_width.is_none_or(|own| own == width);
        let weighs = !self.spares_others || self.all_preferred || self.lists.iter().any(prefers);
        let score = match self.scorer.filter(|_| weighs) {
            Some(scorer) => self.score(scorer, mask),
            None => 0,
        };
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
        scorer.mean(self.columns.iter().map(|column| {
            let (used, total) = column.on(mask);
            (column.share, used, total)
        }))
    }
}

/// How many NUMA nodes an empty node would need for `asked`; all if they do not suffice.
fn width_when_empty(zones: &[NodeAmounts], key: ResourceKey<'_>, asked: i64) -> usize {
    let mut totals: SmallVec<[i64; 8]> = zones.iter().map(|zone| zone.amounts.get(key)).collect();
    totals.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_i64;
    let enough = totals.iter().position(|total| {
        sum = sum.saturating_add(*total);
        sum >= asked
    });
    enough.map_or(zones.len(), |at| at + 1)
}

#[cfg(test)]
mod tests;
