//! `prefer-closest-numa-nodes`: of all solutions of a [`NodeChoice`] the one whose nodes are closest to each other.
//!
//! Branch and bound in the order of the other searches, from the highest node down, leaving a node out before taking
//! it. Masks appear in ascending order, so a later solution with an equal sum is never better: a state is cut when its
//! lower bound is not below the best solution of this search, or is above a solution that was known before.

use smallvec::SmallVec;

use super::budget::{MergeSearch, UnfinishedSearches};
use super::distances::{Distances, Rank};
use super::facts::DistanceFacts;
use super::linkage::{Leaf, Linkage};
use crate::cover::{Budget, NodeChoice};
use crate::node_set::{NodeId, NodeSet};

/// The search for the closest nodes among all candidates of one width class, and its remaining budget.
pub(super) struct Closest<'d> {
    pub(super) distances: &'d Distances,
    pub(super) budget: Budget,
    /// A lower bound for the sums of all solutions searched so far.
    at_least: u64,
    /// Whether some choice was not searched to the end.
    ran_out: bool,
}

impl<'d> Closest<'d> {
    pub(super) fn new(distances: &'d Distances, steps: u32) -> Self {
        Self {
            distances,
            budget: Budget::new(steps),
            at_least: u64::MAX,
            ran_out: false,
        }
    }

    /// The distance facts of an answer with this sum.
    pub(super) fn facts(&self, sum: u64, unfinished: &mut UnfinishedSearches) -> DistanceFacts {
        let all_searched = unfinished.is_empty();
        if self.ran_out {
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

    /// The closest solution. `known` is some solution; if the budget runs out the best one found is returned.
    pub(super) fn nearest<C: NodeChoice>(&mut self, mut choice: C, known: NodeSet) -> NodeSet {
        let known = self.rank(known);
        let (nearest, bound) = match choice.places() {
            0 => (known, known.distance),
            1 => self.nearest_single(&mut choice, known),
            // Preparing costs as much as one step per node.
            _ if !self.budget.step(16 * choice.nodes().len()) => (known, 0),
            _ => self.walk(&mut choice, known),
        };
        let ran_out = self.budget.ran_out() || choice.ran_out();
        self.ran_out |= ran_out;
        self.at_least = self
            .at_least
            .min(if ran_out { bound } else { nearest.distance });
        nearest.mask
    }

    fn rank(&self, set: NodeSet) -> Rank {
        Rank::of(set, Some(self.distances))
    }

    /// With one place left every node is tried. Also returns a lower bound for the sums of all solutions.
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

    /// Branch and bound. Also returns a lower bound for the sums of all solutions.
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
        let mut walk = ClosestSearch {
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

    /// A good initial solution: from every node, keep adding the closest one.
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

/// After this many steps per node the neighbour bound is computed in addition to the linkage bound.
const STEPS_BEFORE_NEIGHBOURS: usize = 2;

/// The state of the branch and bound.
struct ClosestSearch<'w> {
    distances: &'w Distances,
    linkage: Linkage,
    /// Built only if the linkage bound has not ended the search soon.
    neighbours: Option<Neighbours<'w>>,
    steps: usize,
    /// Known before the search: not necessarily the smallest mask with its sum.
    known: Rank,
    /// The best solution of this search: the smallest mask with its sum.
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
        let least = self.neighbour_bound(choice, at, taken, places);
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
        self.linkage.settle(node, Leaf::Out);
        self.descend(choice, at + 1, taken, places);
        self.linkage.settle(node, Leaf::Taken);
        self.descend(choice, at + 1, taken | NodeSet::single(node), places - 1);
        self.linkage.settle(node, Leaf::Open);
    }

    fn is_cut(&self, least: u64) -> bool {
        self.best.is_some_and(|best| least >= best.distance) || least > self.known.distance
    }

    fn neighbour_bound<C: NodeChoice>(
        &mut self,
        choice: &C,
        at: usize,
        taken: NodeSet,
        places: usize,
    ) -> u64 {
        self.steps += 1;
        if self.steps < STEPS_BEFORE_NEIGHBOURS * choice.nodes().len() {
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

/// A second lower bound for the sum of distances of a choice, for machines without a hierarchy.
///
/// Whichever `places` open nodes are chosen, each of them adds its distance to itself and to the taken nodes, and half
/// of its distance to the other chosen ones: at least half the sum over its nearest open nodes. So the sum of the
/// `places` smallest of these contributions is a lower bound. Everything is doubled to stay in integers.
struct Neighbours<'d> {
    distances: &'d Distances,
    /// By node ID: the other nodes with the contribution of the pair, nearest first.
    nearest: Vec<SmallVec<[(u64, NodeId); 16]>>,
}

impl<'d> Neighbours<'d> {
    fn new(nodes: NodeSet, distances: &'d Distances) -> Self {
        let mut nearest = vec![SmallVec::new(); 64];
        for node in nodes {
            let others = (nodes - NodeSet::single(node)).iter();
            let row: &mut SmallVec<[(u64, NodeId); 16]> = &mut nearest[node.index()];
            row.extend(others.map(|other| (distances.pair(node, other), other)));
            row.sort_unstable();
        }
        Self { distances, nearest }
    }

    /// A lower bound for the sum of distances of `taken` and any `places` nodes of `open`.
    fn least(&self, taken: NodeSet, open: NodeSet, places: usize) -> u64 {
        let mut payments: SmallVec<[u64; 64]> = SmallVec::new();
        for node in open {
            let row = self.nearest[node.index()].iter();
            let others = row.filter(|(_, other)| open.contains(*other));
            let half: u64 = others
                .take(places.saturating_sub(1))
                .map(|&(pair, _)| pair)
                .sum();
            let full = self.distances.own(node) + self.distances.sum_to(node, taken);
            payments.push(2 * full + half);
        }
        if places < payments.len() {
            payments.select_nth_unstable(places);
        }
        let doubled: u64 = payments.iter().take(places).sum();
        self.distances.sum(taken) + doubled.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_never_above_the_truth() {
        let mut seed = 3_u64;
        let mut next = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % bound
        };
        let mut tight = 0;
        for round in 0..300 {
            let mut rows = [[0_u32; 8]; 8];
            for cell in rows.iter_mut().flatten() {
                *cell = 10 + u32::try_from(next(6)).unwrap();
            }
            let ids = (0..8).map(|id| NodeId::new(id).unwrap());
            let distances = Distances::from_rows(ids.zip(rows.iter().map(<[u32; 8]>::as_slice)));
            let taken = NodeSet::from_bits(next(256));
            let open = NodeSet::from_bits(next(256)) - taken;
            let neighbours = Neighbours::new(taken | open, &distances);
            for places in 0..=open.len() {
                let subsets = (0..256).map(NodeSet::from_bits);
                let fitting = subsets.filter(|set| set.is_subset(open) && set.len() == places);
                let truth = fitting.map(|set| distances.sum(set | taken)).min().unwrap();
                let bound = neighbours.least(taken, open, places);
                assert!(bound <= truth, "round {round}");
                tight += u32::from(bound == truth);
            }
        }
        assert!(tight > 300);
    }
}
