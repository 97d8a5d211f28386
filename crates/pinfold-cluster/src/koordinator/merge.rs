//! Merges the hints of all resources into one set of NUMA nodes.
//!
//! Mirrors `mergeFilteredHints` and the four policies. Koordinator tries every combination of one hint per resource in
//! order. The mask of a combination is the AND of its hints; it is preferred if all hints are preferred and have the
//! same mask, it is unsatisfied if some hint is or if its hints differ, and its score is the sum of the scores of the
//! hints whose mask equals the AND. A later combination replaces the best so far if it is preferred and the best is
//! not; among equals if it is narrower (fewer nodes, then the smaller number), or as wide with a higher score. That
//! rule is not an order: of two sets of one width, one with the smaller number and one with the higher score, the later
//! one wins. So the sequence matters, and the result here is the one of Koordinator's sequence with the resources of a
//! provider in ascending order.
//!
//! It is found without the product:
//!
//! 1. Combinations wider than the narrowest candidate never matter, and once there is a preferred combination only
//!    preferred ones matter.
//! 2. All hints of a preferred combination have one mask, so the sequence of candidates is that of the first list, each
//!    with the best scores that the other lists have for it: linear in the number of hints.
//! 3. Mixed combinations count only if none is preferred. How the remaining lists can change the best so far depends
//!    only on the AND so far, its score and the best: each such state is searched once. That search has a budget of
//!    [`MAX_STEPS`]; a case that exceeds it (only adversarial hint lists do) returns all NUMA nodes, not preferred,
//!    which is what Koordinator starts with. No policy that demands alignment admits either.

use smallvec::SmallVec;

use super::hints::LazyHints;
use super::ledger::NumaOccupancy;
use super::rejection::{KoordinatorReason, ResourcePreference, ResourcePreferences};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;

mod mixed;
mod preferred;

pub use mixed::MAX_STEPS;

/// A hint with a score: a set of NUMA nodes with enough of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoredHint {
    /// The NUMA nodes; `None` means no preference.
    pub mask: Option<NodeSet>,
    /// Whether it is preferred.
    pub preferred: bool,
    /// Whether it does not satisfy the request.
    pub unsatisfied: bool,
    /// The higher the better.
    pub score: i64,
}

/// The hints of a resource without preference.
const ANY: [ScoredHint; 1] = [ScoredHint {
    mask: None,
    preferred: true,
    unsatisfied: false,
    score: 0,
}];

/// The hints of a resource that no NUMA node can provide.
const NONE: [ScoredHint; 1] = [ScoredHint {
    mask: None,
    preferred: false,
    unsatisfied: true,
    score: 0,
}];

/// The hints of a provider for one resource.
#[derive(Clone, Copy, Debug)]
pub enum HintList<'a> {
    /// No preference.
    Any,
    /// These hints. An empty list: no NUMA nodes can provide the resource.
    Hints(&'a [ScoredHint]),
}

/// The hint lists of one provider by resource, ascending by name. Empty: no preference.
pub type ProviderHintLists<'a> = SmallVec<[(&'a ResourceName, HintList<'a>); 4]>;

/// The policy that judges the merged hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergePolicy {
    /// Hints are ignored.
    None,
    /// Accepts every result.
    BestEffort,
    /// Accepts only a preferred result.
    Restricted,
    /// Accepts only a preferred result on one NUMA node.
    SingleNumaNode,
}

/// What the merge reads from the node.
#[derive(Clone, Copy, Debug)]
pub struct MergeContext {
    /// All NUMA nodes.
    pub nodes: NodeSet,
    /// Whether pods on one NUMA node and pods that span several are kept on different NUMA nodes.
    pub numa_exclusive: bool,
    /// The NUMA nodes with pods of either kind.
    pub occupancy: NumaOccupancy,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorMerge {
    /// The merged hint.
    pub hint: ScoredHint,
    /// Whether the policy accepts it.
    pub admit: bool,
    /// Why the policy rejects it; empty if it accepts.
    pub reasons: SmallVec<[KoordinatorReason; 1]>,
}

impl MergeContext {
    /// Whether a pod on these NUMA nodes would share one with a pod of the other kind. Mirrors `checkExclusivePolicy`,
    /// by NUMA id: Koordinator uses ids as positions and panics if ids have gaps.
    #[must_use]
    pub fn conflicts(&self, mask: NodeSet) -> bool {
        let NumaOccupancy { single, spanning } = self.occupancy;
        let conflicting = if mask.len() > 1 {
            single - spanning
        } else {
            spanning
        };
        self.numa_exclusive && mask.intersects(conflicting)
    }

    /// The fallback: all NUMA nodes, not preferred.
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
    context: &MergeContext,
    providers: &[ProviderHintLists<'_>],
) -> KoordinatorMerge {
    if policy == MergePolicy::None {
        return admitted(ScoredHint::default());
    }
    let lists = lists_of(providers);
    match policy {
        MergePolicy::None | MergePolicy::BestEffort => {
            let best = merge_lists(context, &lists);
            admitted(if best.unsatisfied {
                context.all_nodes()
            } else {
                best
            })
        }
        MergePolicy::Restricted if is_unsatisfied(providers) => {
            reject(policy, providers, context.all_nodes())
        }
        MergePolicy::SingleNumaNode if is_unsatisfied(providers) => {
            reject(policy, providers, ScoredHint::default())
        }
        MergePolicy::Restricted => judge(policy, providers, merge_lists(context, &lists)),
        MergePolicy::SingleNumaNode => judge(policy, providers, merge_single(context, &lists)),
    }
}

/// The merged hint if it is preferred: all that a policy that demands alignment needs.
#[must_use]
pub(crate) fn merge_preferred(
    policy: MergePolicy,
    context: &MergeContext,
    providers: &[ProviderHintLists<'_>],
) -> Option<ScoredHint> {
    let lists = lists_of(providers);
    match policy {
        MergePolicy::BestEffort | MergePolicy::Restricted if lists.len() <= MAX_LISTS => {
            preferred::best(context, &lists)
        }
        MergePolicy::None | MergePolicy::BestEffort | MergePolicy::Restricted => None,
        MergePolicy::SingleNumaNode => {
            let best = merge_single(context, &lists);
            best.preferred.then_some(best)
        }
    }
}

/// The reasons of a policy that demands alignment, given that no preferred hint was found.
#[must_use]
pub(crate) fn reasons_against(
    policy: MergePolicy,
    providers: &[ProviderHintLists<'_>],
) -> SmallVec<[KoordinatorReason; 1]> {
    let reasons = unsatisfied(providers);
    if !reasons.is_empty() {
        return reasons;
    }
    SmallVec::from_iter([unaligned(providers, separator(policy))])
}

/// The same for hints that were not generated.
#[must_use]
pub(crate) fn lazy_reasons_against(
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
        preferences: ResourcePreferences::Lazy(Box::new(hints)),
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

/// One list per resource, as Koordinator has them after `filterProvidersHints`.
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

/// More resources than any pod requests; beyond, nothing is aligned.
const MAX_LISTS: usize = 1024;

fn merge_lists(context: &MergeContext, lists: &[&[ScoredHint]]) -> ScoredHint {
    if lists.len() > MAX_LISTS {
        return context.all_nodes();
    }
    preferred::best(context, lists)
        .or_else(|| mixed::best(context, lists))
        .unwrap_or(context.all_nodes())
}

/// Merges only the preferred hints on one NUMA node and those without preference.
fn merge_single(context: &MergeContext, lists: &[&[ScoredHint]]) -> ScoredHint {
    let is_merged =
        |hint: &&ScoredHint| hint.preferred && hint.mask.is_none_or(|mask| mask.len() == 1);
    let all_merged = lists
        .iter()
        .flat_map(|list| list.iter())
        .all(|hint| is_merged(&hint));
    let best = if all_merged {
        merge_lists(context, lists)
    } else {
        let single: SmallVec<[Vec<ScoredHint>; 4]> = lists
            .iter()
            .map(|list| list.iter().filter(is_merged).copied().collect())
            .collect();
        let lists: SmallVec<[&[ScoredHint]; 4]> = single.iter().map(Vec::as_slice).collect();
        merge_lists(context, &lists)
    };
    match best.mask == Some(context.nodes) {
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

/// The reason that lists the hints of each resource.
fn unaligned(providers: &[ProviderHintLists<'_>], separator: &'static str) -> KoordinatorReason {
    let mut preferences = Vec::new();
    for (name, opinion) in providers.iter().flatten() {
        if let HintList::Hints(hints @ [_, ..]) = opinion {
            preferences.push(preference(name, hints));
        }
    }
    KoordinatorReason::Unaligned {
        preferences: ResourcePreferences::Listed(preferences),
        separator,
    }
}

fn preference(name: &ResourceName, hints: &[ScoredHint]) -> ResourcePreference {
    let possible = hints.iter().filter(|hint| !hint.unsatisfied);
    let preferred = possible.clone().filter(|hint| hint.preferred);
    ResourcePreference {
        name: name.clone(),
        preferred: preferred.map(|hint| hint.mask).collect(),
        possible: possible.map(|hint| hint.mask).collect(),
    }
}

/// Whether a candidate replaces the best so far, both preferred or both not.
fn replaces(new: &ScoredHint, best: &ScoredHint) -> bool {
    let (Some(new_mask), Some(best_mask)) = (new.mask, best.mask) else {
        return false;
    };
    new_mask.is_narrower_than(best_mask)
        || new_mask.len() == best_mask.len() && new.score > best.score
}

#[cfg(test)]
mod tests;
