//! The depth-first search behind a [`Cover`], and [`NodeChoice`], the interface that it shares with the searches of the
//! merge.
//!
//! A state is cut if it cannot meet a threshold any more, if it leaves out a node while a higher one of its
//! [class](Classes) is taken, or if a remembered failure dominates it.

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

    /// Whether two nodes can be swapped in any solution.
    fn alike(&self, x: NodeId, y: NodeId) -> bool;

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

/// Classes of interchangeable nodes. The smallest solution contains the lowest nodes of a class, so once a node is
/// taken, all lower ones of its class must be taken.
pub(crate) struct Classes {
    /// For each position the higher nodes of the same class.
    higher: SmallVec<[NodeSet; 64]>,
}

impl Classes {
    /// Classes by [`NodeChoice::alike`] and one more equivalence.
    pub(crate) fn new<C: NodeChoice>(choice: &C, also: impl Fn(NodeId, NodeId) -> bool) -> Self {
        let nodes = choice.nodes();
        let mut higher: SmallVec<[NodeSet; 64]> = SmallVec::with_capacity(nodes.len());
        for (at, &node) in nodes.iter().enumerate() {
            let alike = |&earlier: &usize| {
                let other = nodes[earlier];
                choice.alike(node, other) && also(node, other)
            };
            // The nearest node of the class has all higher ones in its set.
            higher.push(match (0..at).rev().find(alike) {
                Some(earlier) => higher[earlier] | NodeSet::single(nodes[earlier]),
                None => NodeSet::EMPTY,
            });
        }
        Self { higher }
    }

    /// Whether the node at a position must be taken.
    pub(crate) fn must_take(&self, at: usize, taken: NodeSet) -> bool {
        self.higher
            .get(at)
            .is_some_and(|higher| higher.intersects(taken))
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

    fn alike(&self, x: NodeId, y: NodeId) -> bool {
        self.cover
            .thresholds
            .iter()
            .all(|prepared| prepared.treats_alike(x, y))
            && self
                .cover
                .sockets
                .iter()
                .all(|rule| rule.treats_alike(x, y))
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

/// A depth-first search that remembers its failures.
pub(super) struct CoverSearch<'c, 'g> {
    outlook: Outlook<'c, 'g>,
    classes: Classes,
    /// The number of nodes and groups, for the cost of a step.
    size: usize,
    /// Failed states by position and places left. Allocated when the first state fails.
    failed: Vec<SmallVec<[Failed; 1]>>,
}

/// A state without a solution below it.
struct Failed {
    /// The values reached, by threshold.
    values: SmallVec<[u64; 4]>,
    taken: NodeSet,
}

/// The maximum number of failures remembered for one position and number of places.
const MAX_FAILURES: usize = 24;

impl<'c, 'g> CoverSearch<'c, 'g> {
    pub(super) fn new(cover: &'c Cover<'g>) -> Self {
        let outlook = Outlook::new(cover);
        let groups = cover
            .thresholds
            .iter()
            .map(|prepared| prepared.groups().len());
        Self {
            size: outlook.nodes.len() + groups.sum::<usize>(),
            classes: Classes::new(&outlook, |_, _| true),
            outlook,
            failed: Vec::new(),
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
        if self.has_failed(at, taken, places) {
            return None;
        }
        if !self.classes.must_take(at, taken) {
            let found = self.descend(at + 1, taken, places, budget);
            if found.is_some() || budget.ran_out() {
                return found;
            }
        }
        let found = self.descend(at + 1, taken | NodeSet::single(node), places - 1, budget);
        if found.is_none() && !budget.ran_out() {
            self.remember(at, taken, places);
        }
        found
    }

    /// Whether a state failed that had at least the same values and had not hit more groups.
    fn has_failed(&self, at: usize, taken: NodeSet, places: usize) -> bool {
        let Some(failed) = self.failed.get(self.slot(at, places)) else {
            return false;
        };
        if failed.is_empty() {
            return false;
        }
        let values = self.values(taken);
        let rest = self.outlook.rest[at];
        failed.iter().any(|failed| {
            let had_more = failed
                .values
                .iter()
                .zip(&values)
                .all(|(had, have)| had >= have);
            had_more && self.keeps_groups(failed.taken, taken, rest)
        })
    }

    /// Whether every group that `failed` had hit and that the rest still touches is hit by `taken` as well.
    fn keeps_groups(&self, failed: NodeSet, taken: NodeSet, rest: NodeSet) -> bool {
        let thresholds = self.outlook.cover.thresholds.iter();
        let mut groups = thresholds.flat_map(|prepared| prepared.groups());
        groups.all(|group| {
            !group.nodes.intersects(rest)
                || !group.nodes.intersects(failed)
                || group.nodes.intersects(taken)
        })
    }

    fn remember(&mut self, at: usize, taken: NodeSet, places: usize) {
        let cover = self.outlook.cover;
        // Touched sockets are not amounts: no state dominates another one there.
        if !cover.sockets.is_empty() {
            return;
        }
        if self.failed.is_empty() {
            let slots = (self.outlook.nodes.len() + 1) * (cover.places + 1);
            self.failed.resize_with(slots, SmallVec::new);
        }
        let values = self.values(taken);
        let slot = self.slot(at, places);
        if let Some(failed) = self.failed.get_mut(slot)
            && failed.len() < MAX_FAILURES
        {
            failed.push(Failed { values, taken });
        }
    }

    fn slot(&self, at: usize, places: usize) -> usize {
        at * (self.outlook.cover.places + 1) + places
    }

    /// The values reached, clipped to the need.
    fn values(&self, taken: NodeSet) -> SmallVec<[u64; 4]> {
        let thresholds = self.outlook.cover.thresholds.iter();
        thresholds
            .map(|prepared| prepared.value(taken).min(prepared.need))
            .collect()
    }
}
