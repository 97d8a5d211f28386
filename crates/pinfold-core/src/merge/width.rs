//! The width of the narrowest mask of a part.

use super::budget::{Budget, Budgets, MergeSearch};
use super::cover::{Cover, Goal};
use super::facts::{MergeFacts, WidthRange};
use super::prepared_threshold::PreparedThreshold;
use super::problem::MergeProblem;
use crate::hint::Component;
use crate::node_set::{NodeId, NodeSet};

/// A mask of a part with few nodes, and a lower bound for the width of its masks. They agree for a part with one
/// laminar threshold, and nearly always otherwise.
#[derive(Clone, Copy)]
pub(super) struct Narrow {
    pub(super) mask: NodeSet,
    pub(super) at_least: usize,
}

impl Narrow {
    /// The values that are known without a search.
    pub(super) fn of(universe: NodeSet, forced: NodeSet, thresholds: &[PreparedThreshold]) -> Self {
        let open = universe - forced;
        let mut at_least = forced.len().max(1);
        let mut mask = forced;
        for prepared in thresholds {
            let added = prepared.fewest_to_add(forced, open).unwrap_or(open);
            at_least = at_least.max(forced.len() + added.len());
            mask = mask | added;
        }
        let exact = match thresholds {
            [] => true,
            [prepared] => prepared.is_laminar(),
            _ => false,
        };
        if !exact {
            mask = some_mask(universe, forced, thresholds);
        }
        if mask.is_empty() {
            mask = universe.iter().take(1).collect();
        }
        Self { mask, at_least }
    }

    /// Searches until both agree, or until no mask can be narrower than `enough`.
    fn settle(
        &mut self,
        universe: NodeSet,
        forced: NodeSet,
        thresholds: &[PreparedThreshold],
        enough: usize,
        budget: &mut Budget,
    ) {
        while self.at_least < self.mask.len().min(enough) {
            let cover = Cover::new(universe, forced, self.at_least);
            let found =
                cover.and_then(|cover| cover.with_thresholds(thresholds).solve(Goal::Any, budget));
            match found {
                Some(mask) => self.mask = mask,
                None if budget.ran_out() => break,
                None => self.at_least += 1,
            }
        }
    }

    pub(super) fn width(self) -> WidthRange {
        WidthRange {
            at_least: self.at_least,
            at_most: self.mask.len(),
        }
    }
}

/// A mask of the part with few nodes: nodes are added by the largest share of what is missing, then unnecessary ones
/// are removed.
fn some_mask(universe: NodeSet, forced: NodeSet, thresholds: &[PreparedThreshold]) -> NodeSet {
    let mut mask = forced;
    while let Some(node) = most_useful(mask, universe - mask, thresholds) {
        mask.insert(node);
    }
    for node in mask - forced {
        let mut less = mask;
        less.remove(node);
        if thresholds.iter().all(|prepared| prepared.is_met(less)) {
            mask = less;
        }
    }
    mask
}

/// The node that covers the most of what is still missing; `None` if nothing is.
fn most_useful(mask: NodeSet, open: NodeSet, thresholds: &[PreparedThreshold]) -> Option<NodeId> {
    let mut uses = [0.0; 64];
    let mut missing = false;
    for prepared in thresholds {
        let short = prepared.need.saturating_sub(prepared.value(mask));
        if short > 0 {
            missing = true;
            for (gain, node) in prepared.gains(mask, open) {
                uses[node.index()] += share(gain.min(short), prepared.need);
            }
        }
    }
    let by_use = |x: &NodeId, y: &NodeId| f64::total_cmp(&uses[x.index()], &uses[y.index()]);
    open.iter().max_by(by_use).filter(|_| missing)
}

/// A quotient for heuristics, never for a decision.
#[expect(
    clippy::cast_precision_loss,
    reason = "an order of magnitude is enough"
)]
pub(super) fn share(amount: u64, whole: u64) -> f64 {
    amount as f64 / whole.max(1) as f64
}

/// Determines the widths of all resources that the best width may depend on.
pub(super) fn settle(problem: &mut MergeProblem<'_>, budgets: &Budgets, facts: &mut MergeFacts) {
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
        let width = narrow.width();
        all.at_most = all.at_most.min(width.at_most);
        all.at_least = all.at_least.min(width.at_least);
        problem.part_mut(id).narrow = narrow;
    }
    all
}

/// The width of the narrowest mask of a component, or bounds of it if `steps` do not suffice; `None` if it has no mask.
#[must_use]
pub fn narrowest_width(component: &Component, steps: u32) -> Option<WidthRange> {
    if component.is_empty() {
        return None;
    }
    let (universe, forced) = (component.universe, component.forced);
    let made = component
        .thresholds
        .iter()
        .filter_map(|threshold| PreparedThreshold::of(threshold, universe));
    let thresholds: Vec<PreparedThreshold> = made.map(|made| made.prepared).collect();
    let mut narrow = Narrow::of(universe, forced, &thresholds);
    narrow.settle(
        universe,
        forced,
        &thresholds,
        universe.len(),
        &mut Budget::new(steps),
    );
    Some(narrow.width())
}
