//! Merging: one set of NUMA nodes out of the hints of all resources.
//!
//! Mirrors `mergeFilteredHints` and the four policies. The original walks every combination of one hint per
//! resource in order. A combination stands for the nodes common to its hints; it is preferred if all hints are
//! preferred and name the same nodes, it is unsatisfied if some hint is or if its hints differ, and its score is
//! the sum of the scores of the hints that name exactly the common nodes. A later combination replaces the best so far if it
//! is preferred and the best is not; among equals if it is narrower (fewer nodes, then the smaller
//! number), or as wide with a higher score. That rule is not an order: of two sets of one width, one
//! with the smaller number and one with the higher score, the later one wins. So the sequence matters, and the
//! result here is the one of the original's sequence with the resources of a provider in ascending order.
//!
//! It is found without the product:
//!
//! 1. Whatever is wider than the narrowest candidate never matters, and once there is a preferred combination
//!    only preferred ones matter.
//! 2. Preferred combinations name one set of nodes throughout, so the sequence of candidates is the first
//!    list's, each with the best scores the other lists have for it: linear in the number of hints.
//! 3. Only if nothing is preferred do mixed combinations count. What the rest of a walk can do to the best so far
//!    depends only on the common nodes so far, their score and the best: each such state is walked once.
//!    That walk has a budget of [`MOST_STEPS`]; a case that exceeds it (which takes hostile hint lists) yields all
//!    nodes, not preferred, which is what the original starts with. No policy that demands alignment admits
//!    either.

use smallvec::SmallVec;

use super::hints::LazyHints;
use super::ledger::NumaOccupancy;
use super::rejection::{KoordinatorReason, ResourcePreference, ResourcePreferences};
use crate::name::ResourceName;
use crate::node_set::NodeSet;

mod mixed;
mod preferred;

pub use mixed::MOST_STEPS;

/// A set of NUMA nodes that could serve a request, how well, and how full it would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoredHint {
    /// The nodes; `None` means "no preference at all".
    pub mask: Option<NodeSet>,
    /// Whether it is a good one.
    pub preferred: bool,
    /// Whether it does not really serve the request.
    pub unsatisfied: bool,
    /// The higher the better.
    pub score: i64,
}

/// "Any node will do."
const ANY: [ScoredHint; 1] = [ScoredHint {
    mask: None,
    preferred: true,
    unsatisfied: false,
    score: 0,
}];

/// "No node will do."
const NONE: [ScoredHint; 1] = [ScoredHint {
    mask: None,
    preferred: false,
    unsatisfied: true,
    score: 0,
}];

/// What a provider says about one resource.
#[derive(Clone, Copy, Debug)]
pub enum HintList<'a> {
    /// It does not mind.
    Any,
    /// One of these. An empty list: impossible.
    Hints(&'a [ScoredHint]),
}

/// What one provider says, by resource, ascending by name. Nothing at all: it does not mind.
pub type ProviderHintLists<'a> = SmallVec<[(&'a ResourceName, HintList<'a>); 4]>;

/// The policy that judges the merged hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePolicy {
    /// Hints are not looked at.
    None,
    /// Any result will do.
    BestEffort,
    /// Only a preferred result.
    Restricted,
    /// Only a preferred result on one node.
    SingleNumaNode,
}

/// What the merge has to know about the node.
#[derive(Clone, Copy, Debug)]
pub struct MergeContext {
    /// All NUMA nodes.
    pub nodes: NodeSet,
    /// Whether pods on one node and pods on several are kept apart.
    pub keeps_apart: bool,
    /// Where which of them are.
    pub occupancy: NumaOccupancy,
}

/// The outcome of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorMerge {
    /// The placement.
    pub hint: ScoredHint,
    /// Whether the policy accepts it.
    pub admit: bool,
    /// Why not.
    pub reasons: SmallVec<[KoordinatorReason; 1]>,
}

impl MergeContext {
    /// Whether a pod on these nodes would mix with pods of the other kind. Mirrors
    /// `checkExclusivePolicy`, by NUMA id: the original takes ids for positions and crashes where ids have gaps.
    #[must_use]
    pub fn mixes(&self, mask: NodeSet) -> bool {
        let NumaOccupancy { single, shared } = self.occupancy;
        let in_way = if mask.len() > 1 {
            single - shared
        } else {
            shared
        };
        self.keeps_apart && mask.intersects(in_way)
    }

    /// The placement to fall back on: all nodes, not preferred.
    fn all_nodes(&self) -> ScoredHint {
        ScoredHint {
            mask: Some(self.nodes),
            ..ScoredHint::default()
        }
    }
}

/// Merges the hints of all providers under a policy.
#[must_use]
pub fn merge(
    policy: MergePolicy,
    ground: &MergeContext,
    providers: &[ProviderHintLists<'_>],
) -> KoordinatorMerge {
    if policy == MergePolicy::None {
        return admitted(ScoredHint::default());
    }
    let lists = lists_of(providers);
    match policy {
        MergePolicy::None | MergePolicy::BestEffort => {
            let best = merge_lists(ground, &lists);
            admitted(if best.unsatisfied {
                ground.all_nodes()
            } else {
                best
            })
        }
        MergePolicy::Restricted if is_unsatisfied(providers) => {
            reject(policy, providers, ground.all_nodes())
        }
        MergePolicy::SingleNumaNode if is_unsatisfied(providers) => {
            reject(policy, providers, ScoredHint::default())
        }
        MergePolicy::Restricted => judge(policy, providers, merge_lists(ground, &lists)),
        MergePolicy::SingleNumaNode => judge(policy, providers, merge_single(ground, &lists)),
    }
}

/// The preferred placement, if there is one: all a policy that demands alignment needs to know.
#[must_use]
pub fn merge_preferred(
    policy: MergePolicy,
    ground: &MergeContext,
    providers: &[ProviderHintLists<'_>],
) -> Option<ScoredHint> {
    let lists = lists_of(providers);
    match policy {
        MergePolicy::BestEffort | MergePolicy::Restricted if lists.len() <= MOST_LISTS => {
            preferred::best(ground, &lists)
        }
        MergePolicy::None | MergePolicy::BestEffort | MergePolicy::Restricted => None,
        MergePolicy::SingleNumaNode => {
            let best = merge_single(ground, &lists);
            best.preferred.then_some(best)
        }
    }
}

/// Why a policy that demands alignment rejects, given that nothing preferred was found.
#[must_use]
pub fn reasons_against(
    policy: MergePolicy,
    providers: &[ProviderHintLists<'_>],
) -> SmallVec<[KoordinatorReason; 1]> {
    let reasons = unsatisfied(providers);
    if !reasons.is_empty() {
        return reasons;
    }
    SmallVec::from_iter([unaligned(providers, separator(policy))])
}

/// The same for hints that were not listed.
#[must_use]
pub fn unlisted_reasons_against(
    policy: MergePolicy,
    hints: LazyHints,
) -> SmallVec<[KoordinatorReason; 1]> {
    let impossible = hints.impossible().cloned();
    let reasons: SmallVec<[KoordinatorReason; 1]> =
        impossible.map(KoordinatorReason::UnsatisfiedNuma).collect();
    if !reasons.is_empty() {
        return reasons;
    }
    SmallVec::from_iter([KoordinatorReason::Unaligned {
        wishes: ResourcePreferences::Lazy(Box::new(hints)),
        separator: separator(policy),
    }])
}

fn separator(policy: MergePolicy) -> &'static str {
    match policy {
        MergePolicy::SingleNumaNode => ",",
        MergePolicy::None | MergePolicy::BestEffort | MergePolicy::Restricted => " & ",
    }
}

fn admitted(hint: ScoredHint) -> KoordinatorMerge {
    KoordinatorMerge {
        hint,
        admit: true,
        reasons: SmallVec::new(),
    }
}

fn judge(
    policy: MergePolicy,
    providers: &[ProviderHintLists<'_>],
    hint: ScoredHint,
) -> KoordinatorMerge {
    match hint.preferred {
        true => admitted(hint),
        false => reject(policy, providers, hint),
    }
}

fn reject(
    policy: MergePolicy,
    providers: &[ProviderHintLists<'_>],
    hint: ScoredHint,
) -> KoordinatorMerge {
    KoordinatorMerge {
        hint,
        admit: false,
        reasons: reasons_against(policy, providers),
    }
}

/// One list per resource, as the original sees it after `filterProvidersHints`.
fn lists_of<'a>(providers: &[ProviderHintLists<'a>]) -> SmallVec<[&'a [ScoredHint]; 4]> {
    let mut lists: SmallVec<[&[ScoredHint]; 4]> = SmallVec::new();
    for provider in providers {
        if provider.is_empty() {
            lists.push(&ANY);
        }
        lists.extend(provider.iter().map(|(_, opinion)| match opinion {
            HintList::Any => &ANY[..],
            HintList::Hints([]) => &NONE[..],
            HintList::Hints(hints) => hints,
        }));
    }
    lists
}

/// More resources than any pod asks for; beyond, nothing is aligned.
const MOST_LISTS: usize = 1024;

fn merge_lists(ground: &MergeContext, lists: &[&[ScoredHint]]) -> ScoredHint {
    if lists.len() > MOST_LISTS {
        return ground.all_nodes();
    }
    preferred::best(ground, lists)
        .or_else(|| mixed::best(ground, lists))
        .unwrap_or(ground.all_nodes())
}

/// Only preferred hints on one node, or on none in particular, take part.
fn merge_single(ground: &MergeContext, lists: &[&[ScoredHint]]) -> ScoredHint {
    let takes_part =
        |hint: &&ScoredHint| hint.preferred && hint.mask.is_none_or(|mask| mask.len() == 1);
    let all_do = lists
        .iter()
        .flat_map(|list| list.iter())
        .all(|hint| takes_part(&hint));
    let best = if all_do {
        merge_lists(ground, lists)
    } else {
        let single: SmallVec<[Vec<ScoredHint>; 4]> = lists
            .iter()
            .map(|list| list.iter().filter(takes_part).copied().collect())
            .collect();
        let lists: SmallVec<[&[ScoredHint]; 4]> = single.iter().map(Vec::as_slice).collect();
        merge_lists(ground, &lists)
    };
    match best.mask == Some(ground.nodes) {
        true => ScoredHint {
            preferred: best.preferred,
            ..ScoredHint::default()
        },
        false => best,
    }
}

fn is_unsatisfied(providers: &[ProviderHintLists<'_>]) -> bool {
    let mut rows = providers.iter().flatten();
    rows.any(|(_, opinion)| matches!(opinion, HintList::Hints([])))
}

fn unsatisfied(providers: &[ProviderHintLists<'_>]) -> SmallVec<[KoordinatorReason; 1]> {
    let rows = providers.iter().flatten();
    rows.filter(|(_, opinion)| matches!(opinion, HintList::Hints([])))
        .map(|(name, _)| KoordinatorReason::UnsatisfiedNuma((*name).clone()))
        .collect()
}

/// What each resource would have liked.
fn unaligned(providers: &[ProviderHintLists<'_>], separator: &'static str) -> KoordinatorReason {
    let mut wishes = Vec::new();
    for (name, opinion) in providers.iter().flatten() {
        if let HintList::Hints(hints @ [_, ..]) = opinion {
            wishes.push(wish(name, hints));
        }
    }
    KoordinatorReason::Unaligned {
        wishes: ResourcePreferences::Listed(wishes),
        separator,
    }
}

fn wish(name: &ResourceName, hints: &[ScoredHint]) -> ResourcePreference {
    let possible = hints.iter().filter(|hint| !hint.unsatisfied);
    let preferred = possible.clone().filter(|hint| hint.preferred);
    ResourcePreference {
        name: name.clone(),
        preferred: preferred.map(|hint| hint.mask).collect(),
        possible: possible.map(|hint| hint.mask).collect(),
    }
}

/// Whether a candidate replaces the best so far of the same preference.
fn replaces(new: &ScoredHint, best: &ScoredHint) -> bool {
    let (Some(new_mask), Some(best_mask)) = (new.mask, best.mask) else {
        return false;
    };
    new_mask.is_narrower_than(best_mask)
        || new_mask.len() == best_mask.len() && new.score > best.score
}

#[cfg(test)]
mod tests;
