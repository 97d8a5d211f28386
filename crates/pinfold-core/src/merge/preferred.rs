//! The search for a mask that every resource prefers.
//!
//! No product is needed: a combination is preferred only if all its hints are and all its masks are equal. So one mask
//! is searched. It is a fixed mask of some resource, or it lies in an open part of every resource that has only masks
//! as preferred hints: then it has their common width, contains the forced nodes and meets the thresholds of all of
//! them. Several resources with the same family (the types of memory) count once.

use smallvec::SmallVec;

use super::budget::{Budgets, MergeSearch, UnfinishedSearches};
use super::closest::Closest;
use super::distances::{Distances, Rank, keep_best};
use super::facts::{MergeFacts, NoPreferred};
use super::problem::{MergeProblem, PartId, ProblemResource};
use crate::cover::{Budget, Cover};
use crate::hint::{Preference, SocketRule};
use crate::node_set::NodeSet;

/// The best mask that all resources prefer, or why there is none.
pub(super) fn search(
    problem: &MergeProblem<'_>,
    closest: Option<&Distances>,
    budgets: &Budgets,
    facts: &mut MergeFacts,
) -> Result<Rank, NoPreferred> {
    if let Some(reason) = immediate_reason(problem) {
        return Err(reason);
    }
    let mut search = PreferredMaskSearch {
        best: None,
        closest: closest.map(|distances| Closest::new(distances, budgets.closest)),
        budget: Budget::new(budgets.preferred),
        unfinished: facts.unfinished,
    };
    search.single_masks(problem);
    search.open_parts(problem, budgets);
    if search.budget.ran_out() {
        search.unfinished.insert(MergeSearch::Preferred);
    }
    let PreferredMaskSearch {
        best,
        closest,
        unfinished,
        ..
    } = search;
    facts.unfinished = unfinished;
    // With rounded amounts a mask may have been accepted that falls short by very little.
    let rounded = facts.unfinished.contains(MergeSearch::Amounts);
    let accepted = |best: &Rank| !rounded || all_accept(problem, best.mask);
    let Some(best) = best.filter(accepted) else {
        return Err(match facts.unfinished.contains(MergeSearch::Preferred) {
            true => NoPreferred::BudgetExhausted,
            false => NoPreferred::NoCommonMask,
        });
    };
    if let Some(closest) = closest {
        facts.distance = Some(closest.facts(best.distance, &mut facts.unfinished));
    }
    Ok(best)
}

fn all_accept(problem: &MergeProblem<'_>, mask: NodeSet) -> bool {
    problem
        .resources
        .iter()
        .all(|resource| resource.accepts(mask))
}

/// The resources that prefer only masks, not "any node", with their indexes.
fn requiring_masks<'s, 'a>(
    problem: &'s MergeProblem<'a>,
) -> impl Iterator<Item = (usize, &'s ProblemResource<'a>)> {
    problem
        .originals()
        .filter(|(_, resource)| !resource.any_preferred)
}

/// A reason that can be found without searching masks.
fn immediate_reason(problem: &MergeProblem<'_>) -> Option<NoPreferred> {
    for (resource, hints) in requiring_masks(problem) {
        if hints.width.is_none() {
            return Some(NoPreferred::Unsatisfiable { resource });
        }
        if hints.prefers_nothing() {
            return Some(NoPreferred::PrefersNothing { resource });
        }
    }
    for (resource, hints) in requiring_masks(problem) {
        if let (Some(wanted), Some(width)) = (hints.one_preferred_width(), hints.width)
            && wanted < width.at_least
        {
            return Some(NoPreferred::TooNarrow { resource });
        }
    }
    let wanted = |(index, resource): (usize, &ProblemResource<'_>)| {
        Some((index, resource.one_preferred_width()?))
    };
    let mut widths = requiring_masks(problem).filter_map(wanted);
    let (resource, width) = widths.next()?;
    let (other, _) = widths.find(|&(_, other)| other != width)?;
    Some(NoPreferred::DifferentWidths { resource, other })
}

/// A choice of open parts costs as much as this many choices of parts that are not searched.
const VISITS_PER_COMMON: u32 = 64;

struct PreferredMaskSearch<'d> {
    best: Option<Rank>,
    closest: Option<Closest<'d>>,
    budget: Budget,
    unfinished: UnfinishedSearches,
}

impl PreferredMaskSearch<'_> {
    fn offer(&mut self, mask: NodeSet) {
        if !mask.is_empty() {
            let distances = self.closest.as_ref().map(|closest| closest.distances);
            keep_best(&mut self.best, Rank::of(mask, distances));
        }
    }

    /// Tries the masks that some resource has as a fixed mask.
    fn single_masks(&mut self, problem: &MergeProblem<'_>) {
        // A resource that prefers only fixed masks limits the candidates to them.
        let bound = requiring_masks(problem).find(|(_, resource)| resource.open.is_empty());
        let followed = bound.map(|(index, _)| index);
        for (index, resource) in problem.originals() {
            if followed.is_some_and(|followed| followed != index) {
                continue;
            }
            for &mask in &resource.fixed {
                if resource.prefers(mask) && all_accept(problem, mask) {
                    self.offer(mask & problem.all);
                }
            }
        }
        if requiring_masks(problem).next().is_none() {
            self.offer(problem.all);
        }
    }

    /// Tries masks in the open parts of all resources that prefer only masks.
    fn open_parts(&mut self, problem: &MergeProblem<'_>, budgets: &Budgets) {
        let mut commons = vec![CommonParts::everything()];
        let visits = usize::try_from(budgets.choices / VISITS_PER_COMMON).unwrap_or(usize::MAX);
        let mut insists = false;
        for (_, resource) in requiring_masks(problem) {
            insists = true;
            let pairs = commons
                .iter()
                .flat_map(|common| resource.open.iter().map(move |id| (common, *id)));
            let mut pairs = pairs.fuse();
            let looked_at = pairs.by_ref().take(visits.max(1));
            let next = looked_at
                .filter_map(|(common, id)| common.and(problem, id))
                .collect();
            if pairs.next().is_some() {
                self.unfinished.insert(MergeSearch::Preferred);
            }
            commons = next;
        }
        if !insists {
            return;
        }
        for common in &mut commons {
            if !common.within.is_subset(problem.all) {
                self.unfinished.insert(MergeSearch::UnknownNodes);
                common.within = common.within & problem.all;
            }
        }
        for size in sizes(problem) {
            if self.best.is_some_and(|best| best.mask.len() < size) {
                break;
            }
            for common in &commons {
                self.common_mask(problem, common, size);
            }
        }
    }

    fn common_mask(&mut self, problem: &MergeProblem<'_>, common: &CommonParts, size: usize) {
        let Some(mut cover) = Cover::new(common.within, common.forced, size) else {
            return;
        };
        if !self.budget.step(common.within.len()) {
            return;
        }
        for &part in &common.parts {
            cover = cover.with_thresholds(problem.thresholds(problem.part(part)));
        }
        for (width, rule) in
            requiring_masks(problem).filter_map(|(_, resource)| socket_rule(resource))
        {
            // A resource prefers every mask of its own width, whatever the sockets.
            if width != size {
                cover = cover.with_sockets(rule);
            }
        }
        let Some(lowest) = cover.lowest(&mut self.budget) else {
            return;
        };
        let best = match &mut self.closest {
            Some(closest) => closest.nearest(cover.choice(), lowest),
            None => lowest,
        };
        self.offer(best);
    }
}

/// The sizes that a common mask may have, ascending: the one width that some resource requires, or, if all resources
/// accept other widths on the right sockets, every size from the narrowest on.
fn sizes(problem: &MergeProblem<'_>) -> std::ops::RangeInclusive<usize> {
    let fixed = requiring_masks(problem).find_map(|(_, resource)| resource.one_preferred_width());
    let narrowest = requiring_masks(problem).filter_map(|(_, resource)| resource.width);
    match fixed {
        Some(width) => width..=width,
        None => narrowest.map(|width| width.at_least).max().unwrap_or(1)..=problem.all.len(),
    }
}

fn socket_rule<'a>(resource: &ProblemResource<'a>) -> Option<(usize, &'a SocketRule)> {
    match resource.preference()? {
        Preference::Width(_) => None,
        Preference::WidthOrSockets(width, rule) => Some((*width, rule)),
    }
}

/// One open part per resource that prefers only masks, and the nodes that a mask of all of them must lie in and
/// contain.
struct CommonParts {
    within: NodeSet,
    forced: NodeSet,
    parts: SmallVec<[PartId; 6]>,
}

impl CommonParts {
    fn everything() -> Self {
        Self {
            within: NodeSet::FULL,
            forced: NodeSet::EMPTY,
            parts: SmallVec::new(),
        }
    }

    /// The same with one more part; `None` if no mask is left.
    fn and(&self, problem: &MergeProblem<'_>, id: PartId) -> Option<Self> {
        let part = problem.part(id);
        let within = self.within & part.universe;
        let forced = self.forced | part.forced;
        let mut parts = self.parts.clone();
        parts.push(id);
        (!within.is_empty() && forced.is_subset(within)).then_some(Self {
            within,
            forced,
            parts,
        })
    }
}
