//! The merge over families: the same answer as over lists, without listing masks.
//!
//! 1. A mask that all resources prefer, if there is one ([`preferred`](super::preferred)).
//! 2. Else the best width B: the largest of the resources' narrowest widths ([`crate::cover`]).
//! 3. Else the [choices](super::part_product) of one part per resource, each with the nodes W that the parts have in
//!    common, and what is [reachable](super::packing) in each. Reachable sets are up-closed in W, and W itself is
//!    reachable, so the best width needs no search: it is B if a choice with |W| >= B reaches that; else the largest |W|
//!    below B, as a choice that does not reach width B reaches nothing narrower either; else the least width above B.

use super::MergeResource;
use super::budget::{Budgets, MergeSearch};
use super::closest::Closest;
use super::distances::{Distances, Rank, keep_best};
use super::facts::{MergeFacts, MergeRule, WidthRange};
use super::packing::Bins;
use super::part_product::{self, PartChoice};
use super::preferred;
use super::problem::{MergeProblem, ProblemResource};
use super::smallest_and::{self, Keep};
use crate::cover::Budget;
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
            settle_widths(&mut problem, budgets, &mut facts);
            let best = best_reachable(&problem, closest, budgets, &mut facts);
            Hint::on(best.map_or(all, |best| best.mask), false)
        }
    };
    facts.best_width = problem.best_width();
    let summaries = problem.resources.iter().map(ProblemResource::summary);
    facts.resources = resources
        .iter()
        .zip(summaries)
        .map(|(resource, summary)| resource.facts(summary))
        .collect();
    (hint, facts)
}

/// Determines the widths of all resources that the best width may depend on.
fn settle_widths(problem: &mut MergeProblem<'_>, budgets: &Budgets, facts: &mut MergeFacts) {
    for index in 0..problem.resources.len() {
        // A resource that is certainly narrower than another one does not matter.
        let widths = problem
            .resources
            .iter()
            .filter_map(|resource| resource.width);
        let known = widths.map(|width| width.at_least).max().unwrap_or(0);
        let resource = &problem.resources[index];
        let needed = |width: &WidthRange| !width.is_settled() && width.at_most > known;
        let Some(width) = resource.width.filter(needed) else {
            continue;
        };
        let settled = match resource.copy_of {
            Some(original) => problem.resources[original].width.unwrap_or(width),
            None => settle_resource(problem, index, width, &mut Budget::new(budgets.width)),
        };
        if !settled.is_settled() {
            facts.unfinished.insert(MergeSearch::Width);
        }
        problem.resources[index].width = Some(settled);
    }
}

fn settle_resource(
    problem: &mut MergeProblem<'_>,
    index: usize,
    known: WidthRange,
    budget: &mut Budget,
) -> WidthRange {
    let mut all = WidthRange::exactly(known.at_most);
    for id in problem.resources[index].open.clone() {
        let part = problem.part(id);
        let mut narrow = part.narrow;
        narrow.settle(
            part.universe,
            part.forced,
            problem.thresholds(part),
            all.at_most,
            budget,
        );
        let width = WidthRange::of(narrow);
        all.at_most = all.at_most.min(width.at_most);
        all.at_least = all.at_least.min(width.at_least);
        problem.part_mut(id).narrow = narrow;
    }
    all
}

fn best_reachable(
    problem: &MergeProblem<'_>,
    closest: Option<&Distances>,
    budgets: &Budgets,
    facts: &mut MergeFacts,
) -> Option<Rank> {
    let choices = part_product::of(problem, budgets.choices, &mut facts.unfinished);
    let best_width = problem.best_width();
    let mut class = WidthClassSearch {
        problem,
        choices: &choices,
        closest: closest.map(|distances| Closest::new(distances, budgets.closest)),
        visits: Budget::new((budgets.reach / 8).max(MIN_VISITS)),
        budget: Budget::new(budgets.reach),
        keeping: Budget::new(budgets.reach),
        best: None,
    };
    facts.decided_by = class.search(best_width);
    let WidthClassSearch {
        closest,
        visits,
        budget,
        best,
        ..
    } = class;
    if budget.ran_out() || visits.ran_out() {
        facts.unfinished.insert(MergeSearch::Reach);
    }
    if let (Some(closest), Some(best)) = (closest, best) {
        facts.distance = Some(closest.facts(best.distance, &mut facts.unfinished));
    }
    best
}

/// At least this many choices of many nodes are searched on any budget.
const MIN_VISITS: u32 = 200;

/// The search through the width classes.
struct WidthClassSearch<'s, 'a> {
    problem: &'s MergeProblem<'a>,
    /// Widest first.
    choices: &'s [PartChoice],
    closest: Option<Closest<'s>>,
    /// How many choices may be searched.
    visits: Budget,
    /// For deciding which nodes can be dropped.
    budget: Budget,
    /// The same, in the search for the closest nodes.
    keeping: Budget,
    best: Option<Rank>,
}

impl WidthClassSearch<'_, '_> {
    fn search(&mut self, best_width: usize) -> MergeRule {
        let Some(widest) = self.choices.first() else {
            return MergeRule::NoCommonNode;
        };
        let widest = widest.within.len();
        if best_width > 0 && self.of_width(best_width) {
            return MergeRule::BestWidth;
        }
        let narrower = self
            .choices
            .iter()
            .find(|choice| choice.within.len() < best_width);
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

    /// Searches for masks of one width. True if there are any.
    fn of_width(&mut self, width: usize) -> bool {
        self.whole(width);
        for choice in self
            .choices
            .iter()
            .take_while(|choice| choice.within.len() > width)
        {
            self.inside(choice, width);
        }
        self.best.is_some()
    }

    /// Adds the choices with exactly `width` common nodes.
    fn whole(&mut self, width: usize) {
        let fitting = self
            .choices
            .iter()
            .filter(|choice| choice.within.len() == width);
        let distances = self.closest.as_ref().map(|closest| closest.distances);
        for choice in fitting {
            keep_best(&mut self.best, Rank::of(choice.within, distances));
        }
    }

    /// Adds the best mask inside a choice with more common nodes.
    fn inside(&mut self, choice: &PartChoice, width: usize) {
        if choice.parts.is_empty() {
            return;
        }
        // Without distances a choice is skipped if even its lowest nodes cannot win.
        let lowest: NodeSet = choice.within.iter().take(width).collect();
        if self.closest.is_none() && self.best.is_some_and(|best| best.mask <= lowest) {
            return;
        }
        if !self.visits.step(choice.within.len() * choice.parts.len()) {
            return;
        }
        let bins = Bins::new(self.problem, choice.within, &choice.parts);
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
