//! [`NodeChoice`]: the interface of the depth-first searches that choose nodes from the highest one down.

use smallvec::SmallVec;

use crate::node_set::{NodeId, NodeSet};

/// Choosing `places` of the `nodes`. A state of the search is a position `at` in `nodes`, the nodes `taken` before it,
/// and the number of `places` left to fill from there on.
pub(super) trait NodeChoice {
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
pub(super) struct Classes {
    /// For each position the higher nodes of the same class.
    higher: SmallVec<[NodeSet; 64]>,
}

impl Classes {
    /// Classes by [`NodeChoice::alike`] and one more equivalence.
    pub(super) fn new<C: NodeChoice>(choice: &C, also: impl Fn(NodeId, NodeId) -> bool) -> Self {
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
    pub(super) fn must_take(&self, at: usize, taken: NodeSet) -> bool {
        self.higher
            .get(at)
            .is_some_and(|higher| higher.intersects(taken))
    }
}
