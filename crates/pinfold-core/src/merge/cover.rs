//! [`Cover`]: find a given number of nodes that meet all thresholds at once.
//!
//! Used for the preferred mask: it has the common width of all resources, contains the forced nodes of all and meets
//! the thresholds of all. Used for the width of one resource, too.
//!
//! First a filter at the root, which is cheap and nearly always decides: nodes in no solution are removed, nodes in
//! every solution are taken, thresholds that any choice meets are dropped. The rest is searched depth first from the
//! highest node down, leaving a node out before taking it: masks appear in ascending order, so the first solution is
//! the smallest ([`search`]).

mod search;
mod surrogate;
#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use self::search::CoverSearch;
use self::surrogate::Tuned;
use super::budget::Budget;
use super::closest::Closest;
use super::prepared_threshold::PreparedThreshold;
use crate::hint::SocketRule;
use crate::node_set::{NodeId, NodeSet};

/// No surrogate is made for more groups than this.
const MAX_GROUPS: usize = 512;
/// The cost of making a surrogate in steps per node.
const STEPS_PER_NODE: usize = 16;

/// Choosing `taken`, and `places` more nodes of `open`.
pub(super) struct Cover<'g> {
    taken: NodeSet,
    open: NodeSet,
    places: usize,
    /// The thresholds that not every choice meets.
    thresholds: SmallVec<[&'g PreparedThreshold; 8]>,
    /// Rules that a solution must touch an exact number of sockets.
    sockets: SmallVec<[&'g SocketRule; 1]>,
}

/// The wanted solution of a cover.
pub(super) enum Goal<'w, 'd> {
    /// Any solution.
    Any,
    /// The smallest as a number.
    Smallest,
    /// The one whose nodes are closest to each other.
    Closest(&'w mut Closest<'d>),
}

/// The effect of a threshold on a cover.
enum Effect {
    /// No choice meets it.
    Impossible,
    /// Every choice meets it.
    Settled,
    /// Some choices meet it.
    Open,
}

impl<'g> Cover<'g> {
    /// A choice of `size` nodes inside `within`, `forced` among them. `None` if there are no such sets.
    pub(super) fn new(within: NodeSet, forced: NodeSet, size: usize) -> Option<Self> {
        let possible = forced.is_subset(within) && within.len() >= size;
        let places = size.checked_sub(forced.len())?;
        possible.then(|| Self {
            taken: forced,
            open: within - forced,
            places,
            thresholds: SmallVec::new(),
            sockets: SmallVec::new(),
        })
    }

    pub(super) fn with_thresholds(mut self, thresholds: &'g [PreparedThreshold]) -> Self {
        self.thresholds.extend(thresholds);
        self
    }

    pub(super) fn with_sockets(mut self, rule: &'g SocketRule) -> Self {
        self.sockets.push(rule);
        self
    }

    /// The solution for `goal`. `None` if there is none, or if the budget ran out before one was found.
    pub(super) fn solve(mut self, goal: Goal<'_, '_>, budget: &mut Budget) -> Option<NodeSet> {
        if !self.tighten() {
            return None;
        }
        if self.is_free() && !matches!(goal, Goal::Closest(_)) {
            return Some(self.lowest());
        }
        // Tuning costs as much as a few steps per node.
        if !self.wants_surrogate() || !budget.step(self.open.len() * STEPS_PER_NODE) {
            return self.search(goal, None, budget);
        }
        let any = matches!(goal, Goal::Any);
        let Tuned { solution, bound } = surrogate::tune(&self, any);
        if any && solution.is_some() {
            return solution;
        }
        let Some(bound) = bound else {
            return self.search(goal, solution, budget);
        };
        let mut bounded = self.with_bound(&bound);
        match bounded.tighten() {
            true => bounded.search(goal, solution, budget),
            false => None,
        }
    }

    /// Searches the rest after the filter. If the budget runs out, an already known solution is returned.
    fn search(
        &self,
        goal: Goal<'_, '_>,
        solution: Option<NodeSet>,
        budget: &mut Budget,
    ) -> Option<NodeSet> {
        let mut search = CoverSearch::new(self);
        let found = match self.is_free() {
            true => self.lowest(),
            false => match search.smallest(budget) {
                None if budget.ran_out() => solution?,
                found => found?,
            },
        };
        Some(match goal {
            Goal::Closest(walk) => walk.nearest(search.into_outlook(), found),
            Goal::Any | Goal::Smallest => found,
        })
    }

    /// The same with one more threshold that every solution meets.
    fn with_bound<'b>(&self, bound: &'b PreparedThreshold) -> Cover<'b>
    where
        'g: 'b,
    {
        Cover {
            taken: self.taken,
            open: self.open,
            places: self.places,
            thresholds: self.thresholds.iter().copied().chain([bound]).collect(),
            sockets: self.sockets.iter().copied().collect(),
        }
    }

    /// Whether any choice of the open nodes is a solution.
    fn is_free(&self) -> bool {
        self.thresholds.is_empty() && self.sockets.is_empty()
    }

    /// The smallest choice if every choice is a solution.
    fn lowest(&self) -> NodeSet {
        let lowest: NodeSet = self.open.iter().take(self.places).collect();
        self.taken | lowest
    }

    /// One inequality over all thresholds is stronger than each alone if there are several or if groups overlap. With
    /// very many groups making it would take longer than it saves.
    fn wants_surrogate(&self) -> bool {
        let groups = self
            .thresholds
            .iter()
            .map(|prepared| prepared.groups().len());
        match self.thresholds.as_slice() {
            [] => false,
            [prepared] if prepared.is_laminar() => false,
            _ => groups.sum::<usize>() <= MAX_GROUPS,
        }
    }

    /// Whether `set`, of the right size, is a solution.
    fn is_solution(&self, set: NodeSet) -> bool {
        self.thresholds.iter().all(|prepared| prepared.is_met(set))
            && self.sockets.iter().all(|rule| rule.holds(set))
    }

    /// Filters to a fixed point. False if there is no solution.
    fn tighten(&mut self) -> bool {
        loop {
            let before = (self.taken, self.open);
            let mut index = 0;
            while let Some(&prepared) = self.thresholds.get(index) {
                match self.filter_by(prepared) {
                    Effect::Impossible => return false,
                    Effect::Settled => {
                        self.thresholds.swap_remove(index);
                    }
                    Effect::Open => index += 1,
                }
            }
            if before == (self.taken, self.open) {
                return self.open.len() >= self.places;
            }
        }
    }

    /// Removes nodes in no solution of one threshold and takes nodes in every solution.
    fn filter_by(&mut self, prepared: &PreparedThreshold) -> Effect {
        let base = prepared.value(self.taken);
        if base >= prepared.need {
            return Effect::Settled;
        }
        let short = prepared.need - base;
        let gains: SmallVec<[(u64, NodeId); 64]> = {
            let open = self.open.iter();
            open.map(|node| (prepared.gain(self.taken, node), node))
                .collect()
        };
        if self.places == 0 || gains.len() < self.places {
            return Effect::Impossible;
        }
        let mut sorted: SmallVec<[u64; 64]> = gains.iter().map(|&(gain, _)| gain).collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let (best, rest) = sorted.split_at(self.places);
        // With groups the sum of single gains is an upper bound, which is what is needed here.
        let top: u64 = best.iter().sum();
        if top < short {
            return Effect::Impossible;
        }
        let last = best.last().copied().unwrap_or(0);
        let next = rest.first().copied();
        for (gain, node) in gains {
            let best_with_it = if gain < last { top - last + gain } else { top };
            let best_without_it = match next {
                Some(next) if gain >= last => top - gain + next,
                Some(_) => top,
                None => 0,
            };
            if best_with_it < short {
                self.open.remove(node);
            } else if best_without_it < short {
                let Some(places) = self.places.checked_sub(1) else {
                    return Effect::Impossible;
                };
                self.places = places;
                self.open.remove(node);
                self.taken.insert(node);
            }
        }
        let worst: u64 = sorted.iter().rev().take(best.len()).sum();
        match worst >= short && !prepared.has_groups() {
            true => Effect::Settled,
            false => Effect::Open,
        }
    }
}
