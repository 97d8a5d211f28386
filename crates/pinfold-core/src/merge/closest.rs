//! Prefer-closest: of all solutions of a [`NodeChoice`] the one whose nodes are nearest to each other.
//!
//! Branch and bound over the same walk as everywhere, from the highest node down, leaving out before taking. Masks
//! appear in ascending order, so a later hit with an equal sum is never better: a state is cut when its lower bound
//! is not below the best hit of the walk, or above a solution that was known before.

use super::budget::{Budget, MergeSearch, UnfinishedSearches};
use super::choice::{Classes, NodeChoice};
use super::distances::Distances;
use super::facts::DistanceFacts;
use super::linkage::{Leaf, Linkage};
use super::neighbours::Neighbours;
use super::rank::Rank;
use crate::node_set::NodeSet;

/// The search for the closest nodes of one class of candidates, and what is left of its budget.
pub(super) struct Closest<'d> {
    pub(super) distances: &'d Distances,
    pub(super) budget: Budget,
    /// No solution of the choices searched so far has a smaller sum.
    at_least: u64,
    /// Whether some choice was not searched to the end.
    gave_up: bool,
}

impl<'d> Closest<'d> {
    pub(super) fn new(distances: &'d Distances, steps: u32) -> Self {
        Self {
            distances,
            budget: Budget::new(steps),
            at_least: u64::MAX,
            gave_up: false,
        }
    }

    /// How good an answer with this sum is, given what else was given up.
    pub(super) fn facts(&self, sum: u64, unfinished: &mut UnfinishedSearches) -> DistanceFacts {
        let all_searched = unfinished.is_empty();
        if self.gave_up {
            unfinished.insert(MergeSearch::Closest);
        }
        DistanceFacts {
            sum,
            at_least: if all_searched {
                self.at_least.min(sum)
            } else {
                0
            },
        }
    }

    /// The nearest solution; `known` is a solution, so there is one. If the budget runs dry: the best found.
    pub(super) fn nearest<C: NodeChoice>(&mut self, mut choice: C, known: NodeSet) -> NodeSet {
        let known = self.rank(known);
        let (nearest, bound) = match choice.places() {
            0 => (known, known.distance),
            1 => self.nearest_single(&mut choice, known),
            // The preparations take as long as one step for each node.
            _ if !self.budget.step(16 * choice.nodes().len()) => (known, 0),
            _ => self.walk(&mut choice, known),
        };
        let gave_up = self.budget.ran_dry() || choice.gave_up();
        self.gave_up |= gave_up;
        self.at_least = self
            .at_least
            .min(if gave_up { bound } else { nearest.distance });
        nearest.mask
    }

    fn rank(&self, set: NodeSet) -> Rank {
        Rank::of(set, Some(self.distances))
    }

    /// One place left: try every node. Also the sum that no solution is below.
    fn nearest_single<C: NodeChoice>(&self, choice: &mut C, known: Rank) -> (Rank, u64) {
        let mut best = known;
        let mut least = known.distance;
        for at in 0..choice.nodes().len() {
            let set = choice.taken() | NodeSet::single(choice.nodes()[at]);
            let rank = self.rank(set);
            least = least.min(rank.distance);
            if rank < best && choice.is_solution(set) {
                best = rank;
            }
        }
        (best, least)
    }

    /// Branch and bound. Also the sum that no solution is below.
    fn walk<C: NodeChoice>(&mut self, choice: &mut C, known: Rank) -> (Rank, u64) {
        let known = self.grow(choice, known);
        let taken = choice.taken();
        let nodes: NodeSet = choice.nodes().iter().copied().collect();
        let mut linkage =
            Linkage::new(nodes | taken, taken.len() + choice.places(), self.distances);
        for node in taken {
            linkage.settle(node, Leaf::Taken);
        }
        let bound = linkage.least();
        let swappable = |x, y| self.distances.cannot_tell(x, y, nodes | taken);
        let mut walk = ClosestSearch {
            classes: Classes::new(choice, swappable),
            distances: self.distances,
            linkage,
            neighbours: None,
            steps: 0,
            known,
            best: None,
            budget: &mut self.budget,
        };
        walk.descend(choice, 0, taken, choice.places());
        let best = walk.best.map_or(known, |best| best.min(known));
        (best, bound)
    }

    /// A good solution to start with: from every node, keep adding the nearest one.
    fn grow<C: NodeChoice>(&self, choice: &mut C, known: Rank) -> Rank {
        let nodes: NodeSet = choice.nodes().iter().copied().collect();
        let mut best = known;
        for seed in nodes {
            let mut set = choice.taken() | NodeSet::single(seed);
            let mut left = nodes - set;
            let mut cost = [0; 64];
            for node in left {
                cost[node.index()] = self.distances.own(node) + self.distances.sum_to(node, set);
            }
            for _ in 1..choice.places() {
                let Some(next) = left.iter().min_by_key(|node| cost[node.index()]) else {
                    break;
                };
                set.insert(next);
                left.remove(next);
                for node in left {
                    cost[node.index()] += self.distances.pair(node, next);
                }
            }
            let rank = self.rank(set);
            if rank < best && choice.is_solution(set) {
                best = rank;
            }
        }
        best
    }
}

/// After so many steps per node the bound by linkage is not exact, and the one by neighbours is asked too.
const PATIENCE: usize = 2;

/// The branch and bound.
struct ClosestSearch<'w> {
    classes: Classes,
    distances: &'w Distances,
    linkage: Linkage,
    /// PreparedWithRounding when the first bound has not ended the walk soon.
    neighbours: Option<Neighbours<'w>>,
    steps: usize,
    /// Known before: not necessarily the smallest mask of its sum.
    known: Rank,
    /// The best hit of this walk: the smallest mask of its sum.
    best: Option<Rank>,
    budget: &'w mut Budget,
}

impl ClosestSearch<'_> {
    fn descend<C: NodeChoice>(&mut self, choice: &mut C, at: usize, taken: NodeSet, places: usize) {
        if !self.budget.step(choice.nodes().len()) {
            return;
        }
        if self.is_cut(self.linkage.least()) {
            return;
        }
        let least = self.neighbours_say(choice, at, taken, places);
        if self.is_cut(least) || !choice.may_finish(at, taken, places) {
            return;
        }
        let node = match choice.nodes().get(at) {
            Some(&node) if places > 0 => node,
            _ => {
                let hit = Rank::of(taken, Some(self.distances));
                if self.best.is_none_or(|best| hit < best) {
                    self.best = Some(hit);
                }
                return;
            }
        };
        if !self.classes.must_take(at, taken) {
            self.linkage.settle(node, Leaf::Out);
            self.descend(choice, at + 1, taken, places);
        }
        self.linkage.settle(node, Leaf::Taken);
        self.descend(choice, at + 1, taken | NodeSet::single(node), places - 1);
        self.linkage.settle(node, Leaf::Open);
    }

    fn is_cut(&self, least: u64) -> bool {
        self.best.is_some_and(|best| least >= best.distance) || least > self.known.distance
    }

    fn neighbours_say<C: NodeChoice>(
        &mut self,
        choice: &C,
        at: usize,
        taken: NodeSet,
        places: usize,
    ) -> u64 {
        self.steps += 1;
        if self.steps < PATIENCE * choice.nodes().len() {
            return 0;
        }
        let nodes = || choice.nodes().iter().copied().collect();
        let distances = self.distances;
        let neighbours = self
            .neighbours
            .get_or_insert_with(|| Neighbours::new(nodes(), distances));
        let rest = choice.nodes().iter().skip(at).copied().collect();
        neighbours.least(taken, rest, places)
    }
}
