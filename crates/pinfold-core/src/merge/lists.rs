//! The merge over written-out lists: for hints that are given as lists, for small machines on which a search ran out of
//! steps, and as the reference that the searches are tested against.
//!
//! Only two sets of the product of all lists matter:
//!
//! * **Preferred answers.** A combination is preferred only if all its hints are and all its masks are equal.
//!   So S is one iff every resource prefers S or has a preferred hint without a mask, and at least one prefers S;
//!   all nodes are one if every resource has a preferred hint without a mask.
//! * **Reachable masks.** If there is no preferred answer, every non-empty AND of one mask per list is an answer that
//!   is not preferred, and only its [width](WidthClass) and its [rank](Rank) matter.

use std::borrow::Cow;

use super::and_closure::{MAX_NODES, Positions, Reachable};
use super::distances::{Distances, Rank, keep_best};
use super::facts::{DistanceFacts, HintSummary, MergeFacts, MergeRule, NoPreferred, WidthRange};
use super::{Hints, MergeResource};
use crate::hint::{Component, Family, Hint};
use crate::node_set::NodeSet;

/// The merged hint, or `None` if there are too many nodes to list.
pub(super) fn merge(
    all: NodeSet,
    closest: Option<&Distances>,
    resources: &[MergeResource<'_>],
) -> Option<(Hint, MergeFacts)> {
    if all.len() > MAX_NODES {
        return None;
    }
    let lists: Vec<List<'_>> = resources
        .iter()
        .map(|resource| List::of(resource.hints))
        .collect::<Option<_>>()?;

    let mut facts = MergeFacts::new(MergeRule::Preferred);
    facts.best_width = lists
        .iter()
        .filter_map(|list| list.narrowest)
        .max()
        .unwrap_or(0);
    let rows = resources.iter().zip(&lists);
    facts.resources = rows
        .map(|(resource, list)| resource.facts(list.summary()))
        .collect();

    let preferred = best_preferred(all, closest, &lists, &mut facts);
    let best = match preferred {
        Some(_) => preferred,
        None => {
            facts.no_preferred = Some(why_nothing_is_preferred(&lists));
            best_reachable(all, closest, &lists, &mut facts)
        }
    };
    if let (Some(best), Some(_)) = (best, closest) {
        facts.distance = Some(DistanceFacts {
            sum: best.distance,
            at_least: best.distance,
        });
    }
    let mask = best.map_or(all, |best| best.mask);
    Some((Hint::on(mask, preferred.is_some()), facts))
}

fn best_preferred(
    all: NodeSet,
    closest: Option<&Distances>,
    lists: &[List<'_>],
    facts: &mut MergeFacts,
) -> Option<Rank> {
    let bound = lists.iter().filter(|list| !list.any_preferred);
    let shortest = bound.clone().min_by_key(|list| list.preferred.len());
    let mut best = None;
    let mut candidates = 0;
    let mut offer = |mask: NodeSet| {
        if !mask.is_empty() {
            candidates += 1;
            keep_best(&mut best, Rank::of(mask, closest));
        }
    };
    match shortest {
        Some(shortest) => {
            for &mask in &shortest.preferred {
                if bound.clone().all(|list| list.prefers(mask)) {
                    offer(mask & all);
                }
            }
        }
        None => {
            offer(all);
            for &mask in lists.iter().flat_map(|list| &list.preferred) {
                offer(mask & all);
            }
        }
    }
    facts.candidates = Some(candidates);
    best
}

fn best_reachable(
    all: NodeSet,
    closest: Option<&Distances>,
    lists: &[List<'_>],
    facts: &mut MergeFacts,
) -> Option<Rank> {
    let positions = Positions::of(all);
    let mut reachable = Reachable::all(all.len());
    let mut packed = Vec::new();
    for list in lists.iter().filter(|list| list.has_masks()) {
        let masks = list.hints.iter().map(|hint| hint.mask.unwrap_or(all));
        packed.clear();
        packed.extend(masks.map(|mask| positions.pack(mask)));
        packed.sort_unstable();
        packed.dedup();
        reachable.and(&packed);
    }
    let class = |mask: &u32| WidthClass::of(mask.count_ones() as usize, facts.best_width);
    let Some(best_class) = reachable.members().iter().map(class).min() else {
        facts.decided_by = MergeRule::NoCommonNode;
        facts.candidates = Some(0);
        return None;
    };
    facts.decided_by = match best_class {
        WidthClass::Best => MergeRule::BestWidth,
        WidthClass::Narrower(_) => MergeRule::Narrower,
        WidthClass::Wider(_) => MergeRule::Wider,
    };
    let members = reachable.members().iter();
    let mut best = None;
    let mut candidates = 0;
    for &mask in members.filter(|mask| class(mask) == best_class) {
        candidates += 1;
        // Members are ascending, so without distances the first one is the best.
        if closest.is_some() || best.is_none() {
            keep_best(&mut best, Rank::of(positions.unpack(mask), closest));
        }
    }
    facts.candidates = Some(candidates);
    best
}

fn why_nothing_is_preferred(lists: &[List<'_>]) -> NoPreferred {
    let bound = || {
        lists
            .iter()
            .enumerate()
            .filter(|(_, list)| !list.any_preferred)
    };
    for (resource, list) in bound() {
        if list.preferred.is_empty() {
            return match list.has_masks() {
                true => NoPreferred::PrefersNothing { resource },
                false => NoPreferred::Unsatisfiable { resource },
            };
        }
    }
    let mut widths = bound().filter_map(|(resource, list)| Some((resource, list.one_width()?)));
    let Some((resource, width)) = widths.next() else {
        return NoPreferred::NoCommonMask;
    };
    match widths.find(|&(_, other)| other != width) {
        Some((other, _)) => NoPreferred::DifferentWidths { resource, other },
        None => NoPreferred::NoCommonMask,
    }
}

/// One list with the values that are needed repeatedly.
struct List<'a> {
    hints: Cow<'a, [Hint]>,
    /// Whether "any node" is among the preferred hints.
    any_preferred: bool,
    /// The preferred masks, ascending.
    preferred: Vec<NodeSet>,
    /// The width of the narrowest mask; masks may name nodes that the machine does not have.
    narrowest: Option<usize>,
}

impl<'a> List<'a> {
    fn of(hints: Hints<'a>) -> Option<Self> {
        let hints = match hints {
            Hints::DontCare => Cow::Borrowed([Hint::ANY].as_slice()),
            Hints::Unsatisfiable => Cow::Borrowed([Hint::NONE].as_slice()),
            Hints::List(list) => Cow::Borrowed(list),
            Hints::Family(family) => Cow::Owned(members(family)?),
        };
        let chosen = hints.iter().filter(|hint| hint.preferred);
        let mut preferred: Vec<NodeSet> = chosen.clone().filter_map(|hint| hint.mask).collect();
        preferred.sort_unstable();
        preferred.dedup();
        Some(Self {
            any_preferred: chosen.clone().any(|hint| hint.mask.is_none()),
            preferred,
            narrowest: hints
                .iter()
                .filter_map(|hint| hint.mask)
                .map(NodeSet::len)
                .min(),
            hints,
        })
    }

    fn has_masks(&self) -> bool {
        self.narrowest.is_some()
    }

    fn prefers(&self, mask: NodeSet) -> bool {
        self.preferred.binary_search(&mask).is_ok()
    }

    /// The width of all preferred masks, if they have the same.
    fn one_width(&self) -> Option<usize> {
        let mut widths = self.preferred.iter().map(|mask| mask.len());
        let first = widths.next()?;
        widths.all(|width| width == first).then_some(first)
    }

    fn summary(&self) -> HintSummary {
        match (self.narrowest, self.any_preferred) {
            (Some(narrowest), _) => HintSummary::Masks {
                narrowest: WidthRange::exactly(narrowest),
                preferred_width: self.preferred.iter().map(|mask| mask.len()).min(),
            },
            (None, true) => HintSummary::DontCare,
            (None, false) => HintSummary::Unsatisfiable,
        }
    }
}

/// All hints of a family, in no particular order; `None` if its universe is too large to list.
fn members(family: &Family) -> Option<Vec<Hint>> {
    let mut hints = Vec::new();
    for (index, part) in family.components.iter().enumerate() {
        if part.universe.len() > MAX_NODES {
            return None;
        }
        let earlier = &family.components[..index];
        let free = part.universe - part.forced;
        let mut chosen = NodeSet::EMPTY;
        // All subsets of `free` in ascending order, from none to all.
        loop {
            let mask = chosen | part.forced;
            if part.contains(mask) && !contained(earlier, mask) {
                hints.push(Hint::on(mask, family.preference.holds(mask)));
            }
            chosen = NodeSet::from_bits(chosen.bits().wrapping_sub(free.bits())) & free;
            if chosen.is_empty() {
                break;
            }
        }
    }
    Some(hints)
}

fn contained(parts: &[Component], mask: NodeSet) -> bool {
    parts.iter().any(|part| part.contains(mask))
}

/// The class of a width among masks that are not preferred (rule 2 of the order). Smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WidthClass {
    /// The best width.
    Best,
    /// Narrower by this many nodes.
    Narrower(usize),
    /// Wider by this many nodes.
    Wider(usize),
}

impl WidthClass {
    fn of(width: usize, best_width: usize) -> Self {
        match width.cmp(&best_width) {
            std::cmp::Ordering::Equal => WidthClass::Best,
            std::cmp::Ordering::Less => WidthClass::Narrower(best_width - width),
            std::cmp::Ordering::Greater => WidthClass::Wider(width - best_width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_rank_by_their_place_against_the_best_width() {
        let mut widths: Vec<usize> = (1..=6).collect();
        widths.sort_by_key(|&width| WidthClass::of(width, 3));
        assert_eq!(widths, [3, 2, 1, 4, 5, 6]);
    }
}
