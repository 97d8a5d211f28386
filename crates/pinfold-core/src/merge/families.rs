//! The merge over families: the same answer as over lists, without ever listing a mask.
//!
//! 1. A mask that all resources prefer, if there is one ([`preferred`](super::preferred)).
//! 2. Else the best width B: the largest of the resources' narrowest widths ([`width`](super::width)).
//! 3. Else the [combinations](super::combos) of one part per resource, each with the nodes W they share, and in each what is
//!    [reachable](super::packing). Reachable sets are up-closed in W, and W itself is reachable, so the best width needs
//!    no search: it is B if a combination with |W| >= B reaches that; else the largest |W| below B, as a
//!    combination that does not reach width B reaches nothing narrower either; else the least width above B.

use super::budget::{Budget, Budgets, MergeSearch};
use super::closest::Closest;
use super::distances::Distances;
use super::facts::{MergeFacts, MergeRule};
use super::packing::Bins;
use super::part_product::{self, PartChoice};
use super::problem::{MergeProblem, ProblemResource};
use super::rank::{Rank, keep_best};
use super::resources::MergeResource;
use super::smallest_and::{self, Keep};
use super::{preferred, width};
use crate::hint::Hint;
use crate::node_set::NodeSet;

pub(super) fn merge(
    all: NodeSet,
    closest: Option<&Distances>,
    resources: &[MergeResource<'_>],
    budgets: &Budgets,
) -> (Hint, MergeFacts) {
    let mut problem = MergeProblem::new(all, resources);
    let mut facts = MergeFacts::new(MergeRule::Preferred);
    facts.unfinished = problem.unfinished;
    let hint = match preferred::search(&problem, closest, budgets, &mut facts) {
        Ok(best) => Hint::on(best.mask, true),
        Err(reason) => {
            facts.no_preferred = Some(reason);
            width::settle(&mut problem, budgets, &mut facts);
            let best = best_reachable(&problem, closest, budgets, &mut facts);
            Hint::on(best.map_or(all, |best| best.mask), false)
        }
    };
    facts.best_width = problem.best_width();
    let summaries = problem.members.iter().map(ProblemResource::summary);
    facts.resources = resources
        .iter()
        .zip(summaries)
        .map(|(resource, summary)| resource.facts(summary))
        .collect();
    (hint, facts)
}

fn best_reachable(
    problem: &MergeProblem<'_>,
    closest: Option<&Distances>,
    budgets: &Budgets,
    facts: &mut MergeFacts,
) -> Option<Rank> {
    let combos = part_product::of(problem, budgets.choices, &mut facts.unfinished);
    let best_width = problem.best_width();
    let mut class = WidthClassSearch {
        problem,
        combos: &combos,
        closest: closest.map(|distances| Closest::new(distances, budgets.closest)),
        looks: Budget::new((budgets.reach / 8).max(MIN_LOOKS)),
        budget: Budget::new(budgets.reach),
        keeping: Budget::new(budgets.reach),
        best: None,
    };
    facts.decided_by = class.search(best_width);
    let WidthClassSearch {
        closest,
        looks,
        budget,
        best,
        ..
    } = class;
    if budget.ran_dry() || looks.ran_dry() {
        facts.unfinished.insert(MergeSearch::Reach);
    }
    if let (Some(closest), Some(best)) = (closest, best) {
        facts.distance = Some(closest.facts(best.distance, &mut facts.unfinished));
    }
    best
}

/// So many combinations of many nodes are looked into on any budget.
const MIN_LOOKS: u32 = 200;

/// The search through the width classes.
struct WidthClassSearch<'s, 'a> {
    problem: &'s MergeProblem<'a>,
    /// Widest first.
    combos: &'s [PartChoice],
    closest: Option<Closest<'s>>,
    /// How many combinations may be looked into.
    looks: Budget,
    /// For what can be done without.
    budget: Budget,
    /// The same, for the search for the closest nodes.
    keeping: Budget,
    best: Option<Rank>,
}

impl WidthClassSearch<'_, '_> {
    fn search(&mut self, best_width: usize) -> MergeRule {
        let Some(widest) = self.combos.first() else {
            return MergeRule::NoCommonNode;
        };
        let widest = widest.within.len();
        if best_width > 0 && self.of_width(best_width) {
            return MergeRule::BestWidth;
        }
        let narrower = self
            .combos
            .iter()
            .find(|combo| combo.within.len() < best_width);
        if let Some(narrower) = narrower {
            self.whole(narrower.within.len());
            return MergeRule::Narrower;
        }
        for width in best_width + 1..=widest {
            if self.of_width(width) {
                break;
            }
        }
        MergeRule::Wider
    }

    /// Looks for masks of one width. True if there are any.
    fn of_width(&mut self, width: usize) -> bool {
        self.whole(width);
        for combo in self
            .combos
            .iter()
            .take_while(|combo| combo.within.len() > width)
        {
            self.inside(combo, width);
        }
        self.best.is_some()
    }

    /// Combinations that share exactly so many nodes.
    fn whole(&mut self, width: usize) {
        let fitting = self
            .combos
            .iter()
            .filter(|combo| combo.within.len() == width);
        let distances = self.closest.as_ref().map(|closest| closest.distances);
        for combo in fitting {
            keep_best(&mut self.best, Rank::of(combo.within, distances));
        }
    }

    /// Masks inside a combination that shares more nodes.
    fn inside(&mut self, combo: &PartChoice, width: usize) {
        if combo.parts.is_empty() {
            return;
        }
        // Without distances: even its lowest nodes must be able to win.
        let lowest: NodeSet = combo.within.iter().take(width).collect();
        if self.closest.is_none() && self.best.is_some_and(|best| best.mask <= lowest) {
            return;
        }
        if !self.looks.step(combo.within.len() * combo.parts.len()) {
            return;
        }
        let bins = Bins::new(self.problem, combo.within, &combo.parts);
        if bins.is_empty() {
            return;
        }
        let Some(smallest) = smallest_and::smallest(&bins, width, &mut self.budget) else {
            return;
        };
        let rank = match &mut self.closest {
            None => Rank::of(smallest, None),
            Some(closest) => {
                let keep = Keep::new(&bins, width, &mut self.keeping);
                let nearest = closest.nearest(keep, smallest);
                Rank::of(nearest, Some(closest.distances))
            }
        };
        keep_best(&mut self.best, rank);
    }
}
