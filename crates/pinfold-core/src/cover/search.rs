//! The depth-first search behind a [`Cover`], and [`NodeChoice`], the interface that it shares with the searches of the
//! merge.
//!
//! A state is cut if it cannot meet a threshold any more.

use smallvec::SmallVec;

use super::{Budget, Cover, PreparedThreshold};
use crate::node_set::{NodeId, NodeSet};

/// Choosing `places` of the `nodes`. A state of the search is a position `at` in `nodes`, the nodes `taken` before it,
/// and the number of `places` left to fill from there on.
pub(crate) trait NodeChoice {
    /// The nodes to choose from, descending.
    fn nodes(&self) -> &[NodeId];

    /// The nodes that every solution contains.
    fn taken(&self) -> NodeSet;

    /// The number of nodes to choose.
    fn places(&self) -> usize;

    /// Whether a solution may be reachable from this state. Exact if no places are left.
    fn may_finish(&mut self, at: usize, taken: NodeSet, places: usize) -> bool;

    /// Whether some answer was "no" only because the steps ran out.
    fn ran_out(&self) -> bool {
        false
    }

    /// Whether `set`, of the right size, is a solution.
    fn is_solution(&mut self, set: NodeSet) -> bool {
        let end = self.nodes().len();
        self.may_finish(end, set, 0)
    }
}

/// The states of a search over the open nodes of a cover, and whether they may lead to a solution.
pub(super) struct Outlook<'c, 'g> {
    cover: &'c Cover<'g>,
    /// The open nodes, descending.
    nodes: SmallVec<[NodeId; 64]>,
    /// The open nodes from each position on.
    rest: SmallVec<[NodeSet; 65]>,
    /// For each threshold without groups: the largest sums of j nodes out of the rest, by position and j.
    tops: SmallVec<[Vec<u64>; 8]>,
}

impl<'c, 'g> Outlook<'c, 'g> {
    pub(super) fn new(cover: &'c Cover<'g>) -> Self {
        let nodes: SmallVec<[NodeId; 64]> = cover.open.iter().rev().collect();
        let mut rest: SmallVec<[NodeSet; 65]> =
            SmallVec::from_elem(NodeSet::EMPTY, nodes.len() + 1);
        for (at, &node) in nodes.iter().enumerate().rev() {
            rest[at] = rest[at + 1];
            rest[at].insert(node);
        }
        let tops = cover
            .thresholds
            .iter()
            .map(|prepared| match prepared.has_groups() {
                true => Vec::new(),
                false => best_sums(prepared, &nodes, cover.places),
            });
        Self {
            tops: tops.collect(),
            cover,
            nodes,
            rest,
        }
    }
}

impl NodeChoice for Outlook<'_, '_> {
    fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    fn taken(&self) -> NodeSet {
        self.cover.taken
    }

    fn places(&self) -> usize {
        self.cover.places
    }

    fn may_finish(&mut self, at: usize, taken: NodeSet, places: usize) -> bool {
        let rest = self.rest[at];
        if rest.len() < places {
            return false;
        }
        let row = at * (self.cover.places + 1);
        for (prepared, tops) in self.cover.thresholds.iter().zip(&self.tops) {
            let best = match tops.get(row + places) {
                Some(top) => prepared.value(taken) + top,
                None => prepared.best_value(taken, rest, places),
            };
            if best < prepared.need {
                return false;
            }
        }
        self.cover.sockets.iter().all(|rule| match places {
            0 => rule.holds(taken),
            _ => rule.touched(taken) <= rule.sockets && rule.touched(taken | rest) >= rule.sockets,
        })
    }
}

/// Row `at`, column j: the largest sum of j weights of `nodes[at..]`.
fn best_sums(prepared: &PreparedThreshold, nodes: &[NodeId], places: usize) -> Vec<u64> {
    let mut sums = vec![0; (nodes.len() + 1) * (places + 1)];
    let mut best: SmallVec<[u64; 64]> = SmallVec::new();
    for (at, &node) in nodes.iter().enumerate().rev() {
        let weight = prepared.weight(node);
        let place = best.partition_point(|&other| other > weight);
        if place < places {
            best.truncate(places - 1);
            best.insert(place, weight);
        }
        let mut sum = 0;
        let row = &mut sums[at * (places + 1) + 1..][..places];
        for (cell, weight) in row.iter_mut().zip(best.iter().chain(std::iter::repeat(&0))) {
            sum += weight;
            *cell = sum;
        }
    }
    sums
}

/// A depth-first search.
pub(super) struct CoverSearch<'c, 'g> {
    outlook: Outlook<'c, 'g>,
    /// The number of nodes and groups, for the cost of a step.
    size: usize,
}

impl<'c, 'g> CoverSearch<'c, 'g> {
    pub(super) fn new(cover: &'c Cover<'g>) -> Self {
        let outlook = Outlook::new(cover);
        let groups = cover
            .thresholds
            .iter()
            .map(|prepared| prepared.groups().len());
        Self {
            size: outlook.nodes.len() + groups.sum::<usize>(),
            outlook,
        }
    }

    /// The lowest solution. `None` if there is none, or if the budget ran out.
    pub(super) fn lowest(&mut self, budget: &mut Budget) -> Option<NodeSet> {
        let cover = self.outlook.cover;
        self.descend(0, cover.taken, cover.places, budget)
    }

    fn descend(
        &mut self,
        at: usize,
        taken: NodeSet,
        places: usize,
        budget: &mut Budget,
    ) -> Option<NodeSet> {
        if !budget.step(self.size) || !self.outlook.may_finish(at, taken, places) {
            return None;
        }
        let node = match self.outlook.nodes.get(at) {
            Some(&node) if places > 0 => node,
            _ => return Some(taken),
        };
        let found = self.descend(at + 1, taken, places, budget);
        if found.is_some() || budget.ran_out() {
            return found;
        }
        self.descend(at + 1, taken | NodeSet::single(node), places - 1, budget)
    }
}
