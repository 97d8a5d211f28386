//! Hints: the sets of NUMA nodes that a pod fits.
//!
//! Mirrors `generateResourceHints`: every non-empty set of NUMA nodes, by width and then lexicographically, is tried;
//! if the whole pod fits there, each requested resource that is not exhausted on any NUMA node of the set gets a hint
//! with the score of the set. Hints of a resource are preferred at its narrowest width (all of them under `Restricted`,
//! in exact mode). Sound mode prefers the width that an empty node would need.
//!
//! There are 2^n - 1 sets. All of them are tried up to [`MAX_NODES_LISTED`] NUMA nodes; beyond that, whole widths as
//! long as no more than [`MAX_SETS`] sets are tried, and then the set of all NUMA nodes. [`HintLists`] generates hints
//! width by width, so that the merge can stop at the first width that decides it.

use crate::koordinator::KoordinatorDefects;
use smallvec::SmallVec;

use super::allocate::Allocator;
use super::amounts::{ByNode, NodeAmounts, ResourceKey};
use super::merge::ScoredHint;
use super::policy_values::NumaPolicy;
use super::score::{Scorer, WeightedRequest};
use pinfold_core::cover::fewest;
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;

mod lazy_hints;
mod node_set_walk;

pub use lazy_hints::{LazyHints, LazyResource, NumaNeed};
use node_set_walk::NodeSetWalk;

/// The largest number of NUMA nodes for which every set of them is tried.
pub const MAX_NODES_LISTED: usize = 12;
/// The most sets that are tried on machines with more NUMA nodes, besides the set of all of them.
pub const MAX_SETS: usize = 1 << MAX_NODES_LISTED;

/// The hints of one resource, up to the width generated so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorHints {
    /// The resource.
    pub name: ResourceName,
    /// Its hints in the order in which they were generated.
    pub hints: SmallVec<[ScoredHint; 8]>,
    /// NUMA nodes that have none of it free.
    lacking: NodeSet,
    /// The preferred width, if it is known already.
    preferred_width: Option<usize>,
}

/// The free and total amounts on each NUMA node of one resource that the scorer counts.
#[derive(Debug)]
struct ScoredResource {
    request: WeightedRequest,
    free: ByNode,
    total: ByNode,
}

impl ScoredResource {
    fn of(allocator: &Allocator<'_>, name: &str, request: WeightedRequest) -> Self {
        let (mut free, mut total) = (ByNode::default(), ByNode::default());
        let key = ResourceKey::from(name);
        for part in allocator.free() {
            free.set(part.node, part.get(key));
        }
        for zone in allocator.zones() {
            total.set(zone.node, zone.amounts.get(key));
        }
        Self {
            request,
            free,
            total,
        }
    }

    /// The used and total amounts on a set of NUMA nodes.
    fn on(&self, mask: NodeSet) -> (i64, i64) {
        let total = self.total.sum(mask);
        (total.saturating_sub(self.free.sum(mask)).max(0), total)
    }
}

/// The hints of one pod on one node, generated up to some width.
#[derive(Debug)]
pub struct HintLists<'a, 'n> {
    allocator: &'a Allocator<'n>,
    scorer: Option<&'a Scorer>,
    /// Whether all hints are preferred.
    all_preferred: bool,
    /// Whether only preferred hints get a score.
    scores_only_preferred: bool,
    /// The resources that the scorer counts.
    scored: SmallVec<[ScoredResource; 2]>,
    /// One list per requested resource that any NUMA node reports, ascending by name.
    pub lists: SmallVec<[KoordinatorHints; 2]>,
    walk: NodeSetWalk,
}

impl<'a, 'n> HintLists<'a, 'n> {
    /// Lists without hints; [`HintLists::widen`] generates them.
    #[must_use]
    pub fn new(
        allocator: &'a Allocator<'n>,
        policy: Option<&NumaPolicy>,
        scorer: Option<&'a Scorer>,
    ) -> Self {
        let fidelity = allocator.fidelity();
        let zones = allocator.zones();
        let mut lists = SmallVec::new();
        for (name, requested) in allocator.request().requests.iter() {
            let key = ResourceKey::from(name.as_str());
            if !zones.iter().any(|zone| zone.amounts.contains(key)) {
                continue;
            }
            lists.push(KoordinatorHints {
                name: name.clone(),
                hints: SmallVec::new(),
                lacking: (allocator.free().iter())
                    .filter(|part| part.get(key) == 0)
                    .map(|part| part.node)
                    .collect(),
                preferred_width: match fidelity.prefers_what_fits_now() {
                    true => None,
                    false => Some(width_when_empty(zones, key, requested)),
                },
            });
        }
        Self {
            allocator,
            scorer,
            all_preferred: policy == Some(&NumaPolicy::Restricted)
                && fidelity.restricted_prefers_all(),
            scores_only_preferred: false,
            scored: scorer.map_or_else(SmallVec::new, |scorer| {
                let counted = scorer.counted(allocator.request().requests);
                counted
                    .map(|(name, request)| ScoredResource::of(allocator, name, request))
                    .collect()
            }),
            lists,
            walk: NodeSetWalk::over(zones.iter().map(|zone| zone.node).collect()),
        }
    }

    /// Leaves the scores of hints that are not preferred at 0, for a policy that accepts only preferred hints.
    pub(crate) fn score_only_preferred(&mut self) {
        self.scores_only_preferred = true;
    }

    /// The hints of all widths.
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

    /// The width up to which hints are generated.
    #[must_use]
    pub fn width(&self) -> usize {
        self.walk.width
    }

    /// The NUMA nodes of the node.
    #[must_use]
    pub fn nodes(&self) -> NodeSet {
        self.walk.nodes
    }

    /// Tries all sets of the next width; `false` if there is no further width.
    pub fn widen(&mut self) -> bool {
        let mut walk = std::mem::take(&mut self.walk);
        let more = walk.widen(|mask| self.try_set(mask));
        self.walk = walk;
        more
    }

    /// The width beyond which no hint is preferred, if it is known already.
    #[must_use]
    pub(crate) fn last_preferred_width(&self) -> Option<usize> {
        let widths = self.lists.iter().map(|list| list.preferred_width);
        let known = widths.collect::<Option<SmallVec<[usize; 4]>>>()?;
        known.into_iter().max().filter(|_| !self.all_preferred)
    }

    /// Whether the hints follow from a rule, so that they need not be generated ([`HintLists::lazy`]).
    #[must_use]
    pub(crate) fn can_be_lazy(&self) -> bool {
        let known = |list: &KoordinatorHints| list.preferred_width.is_some() && !self.all_preferred;
        self.walk.nodes.len() <= MAX_NODES_LISTED
            && self.allocator.only_totals_decide()
            && self.lists.iter().all(known)
    }

    /// The rule behind the hints of all widths; `None` if they do not follow from a rule.
    #[must_use]
    pub fn lazy(&self) -> Option<LazyHints> {
        if !self.can_be_lazy() {
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

    fn try_set(&mut self, mask: NodeSet) {
        if self.lists.iter().all(|list| list.lacking.intersects(mask)) || !self.allocator.fits(mask)
        {
            return;
        }
        let width = mask.len();
        let prefers = |list: &KoordinatorHints| list.preferred_width.is_none_or(|own| own == width);
        let needs_score =
            !self.scores_only_preferred || self.all_preferred || self.lists.iter().any(prefers);
        let score = match self.scorer.filter(|_| needs_score) {
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
        scorer.mean(self.scored.iter().map(|resource| {
            let (used, total) = resource.on(mask);
            (resource.request, used, total)
        }))
    }
}

/// The number of NUMA nodes that an empty node would need for `requested`; all if they do not suffice.
fn width_when_empty(zones: &[NodeAmounts], key: ResourceKey<'_>, requested: i64) -> usize {
    let whole = |amount: i64| u64::try_from(amount).unwrap_or(0);
    let totals = zones.iter().map(|zone| whole(zone.amounts.get(key)));
    fewest(totals, whole(requested))
}

#[cfg(test)]
mod tests;
