//! Masks that are not preferred: the smallest or closest one that is reachable within one choice of parts.

use smallvec::SmallVec;

use super::packing::Bins;
use crate::cover::{Budget, NodeChoice};
use crate::node_set::{NodeId, NodeSet};

/// The smallest reachable mask of `width` nodes. `None` if there is none, or if the budget ran out before one was
/// found.
///
/// From the highest node down, each node that can be dropped is dropped: dropping the higher node always makes the
/// smaller mask. A set of nodes that can be dropped together with all decisions so far is kept along; it answers many
/// questions without a search, and is a valid answer when the budget runs out.
pub(super) fn smallest(bins: &Bins<'_>, width: usize, budget: &mut Budget) -> Option<NodeSet> {
    let within = bins.within;
    let surplus = within.len().checked_sub(width)?;
    let mut droppable = first_droppable(bins, surplus, budget)?;
    let mut dropped = NodeSet::EMPTY;
    let mut below = within;
    let mut places = width;
    for node in within.iter().rev() {
        below.remove(node);
        if places == 0 || below.len() + 1 == places {
            break;
        }
        if droppable.contains(node) {
            dropped.insert(node);
            continue;
        }
        let must = dropped | NodeSet::single(node);
        match bins.can_drop(must, below, below.len() - places, budget) {
            Some(set) => {
                droppable = trim(set, must, surplus);
                dropped = must;
            }
            None => places -= 1,
        }
    }
    Some(within - droppable)
}

/// `surplus` nodes that can be dropped together.
fn first_droppable(bins: &Bins<'_>, surplus: usize, budget: &mut Budget) -> Option<NodeSet> {
    let dropped = bins.known.iter().map(|&mask| bins.within - mask);
    let known = dropped.max_by_key(|dropped| (dropped.len() >= surplus, *dropped));
    let set = match known.filter(|dropped| dropped.len() >= surplus) {
        Some(set) => set,
        None => bins.can_drop(NodeSet::EMPTY, bins.within, surplus, budget)?,
    };
    Some(trim(set, NodeSet::EMPTY, surplus))
}

/// `size` nodes of `set`: `must`, then the highest ones.
fn trim(set: NodeSet, must: NodeSet, size: usize) -> NodeSet {
    let more = size.saturating_sub(must.len());
    let highest: NodeSet = (set - must).iter().rev().take(more).collect();
    must | highest
}

/// The choice of nodes to keep, for the search by distance.
pub(super) struct Keep<'b, 's> {
    bins: &'b Bins<'s>,
    /// Nodes that cannot be dropped.
    taken: NodeSet,
    /// Nodes that can be kept or dropped, descending.
    nodes: SmallVec<[NodeId; 64]>,
    rest: SmallVec<[NodeSet; 65]>,
    places: usize,
    budget: &'b mut Budget,
}

impl<'b, 's> Keep<'b, 's> {
    /// The choice of `width` nodes of W. A mask of that width must be reachable.
    pub(super) fn new(bins: &'b Bins<'s>, width: usize, budget: &'b mut Budget) -> Self {
        let mut keep = Self {
            bins,
            taken: NodeSet::EMPTY,
            nodes: SmallVec::new(),
            rest: SmallVec::new(),
            places: width,
            budget,
        };
        keep.filter(width);
        keep
    }

    /// Fixes the nodes that cannot be dropped and those that cannot be kept.
    fn filter(&mut self, width: usize) {
        let within = self.bins.within;
        let surplus = within.len() - width;
        let mut open = NodeSet::EMPTY;
        for node in within {
            let alone = NodeSet::single(node);
            let others = within - alone;
            let budget = &mut *self.budget;
            let can_go = surplus > 0
                && (self
                    .bins
                    .can_drop(alone, others, surplus - 1, budget)
                    .is_some()
                    || budget.ran_out());
            let can_stay = self
                .bins
                .can_drop(NodeSet::EMPTY, others, surplus, budget)
                .is_some()
                || budget.ran_out();
            match (can_go, can_stay) {
                (true, true) => open.insert(node),
                (false, true) => self.taken.insert(node),
                (_, false) => {}
            }
        }
        self.places = width - self.taken.len().min(width);
        self.nodes = open.iter().rev().collect();
        self.rest = SmallVec::from_elem(NodeSet::EMPTY, self.nodes.len() + 1);
        for (at, &node) in self.nodes.iter().enumerate().rev() {
            self.rest[at] = self.rest[at + 1] | NodeSet::single(node);
        }
    }
}

impl NodeChoice for Keep<'_, '_> {
    fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    fn taken(&self) -> NodeSet {
        self.taken
    }

    fn places(&self) -> usize {
        self.places
    }

    fn may_finish(&mut self, at: usize, taken: NodeSet, places: usize) -> bool {
        let rest = self.rest[at];
        let Some(surplus) = rest.len().checked_sub(places) else {
            return false;
        };
        let (must, optional) = match places {
            0 => (self.bins.within - taken, NodeSet::EMPTY),
            _ => (self.bins.within - taken - rest, rest),
        };
        let count = surplus.min(optional.len());
        self.bins
            .can_drop(must, optional, count, self.budget)
            .is_some()
    }

    fn ran_out(&self) -> bool {
        self.budget.ran_out()
    }
}
