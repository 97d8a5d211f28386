//! What the searches have in common: a choice of nodes, walked from the highest node down.

use smallvec::SmallVec;

use crate::node_set::{NodeId, NodeSet};

/// The task to take some of the `nodes`, and the states a walk over them passes through: it has come to position
/// `at`, has `taken` some nodes before it, and has so many `places` left to fill from there on.
pub(super) trait NodeChoice {
    /// The nodes to choose from, descending.
    fn nodes(&self) -> &[NodeId];

    /// What is taken from the start.
    fn taken(&self) -> NodeSet;

    /// How many nodes to take.
    fn places(&self) -> usize;

    /// False if no solution comes after this state. With no places left the answer is exact.
    fn may_finish(&mut self, at: usize, taken: NodeSet, places: usize) -> bool;

    /// Whether two nodes can be swapped in any solution.
    fn alike(&self, x: NodeId, y: NodeId) -> bool;

    /// Whether some answer was "no" for want of steps.
    fn gave_up(&self) -> bool {
        false
    }

    /// Whether `set`, of the right size, is a solution.
    fn is_solution(&mut self, set: NodeSet) -> bool {
        let end = self.nodes().len();
        self.may_finish(end, set, 0)
    }
}

/// Classes of nodes that can be swapped. The smallest solution takes the lowest nodes of a class, so once
/// a node is taken, all lower ones of its class must be.
pub(super) struct Classes {
    /// For each position the higher nodes of the same class.
    higher: SmallVec<[NodeSet; 64]>,
}

impl Classes {
    /// Classes by the choice's own measure and one more; both must be equivalences.
    pub(super) fn new<C: NodeChoice>(choice: &C, also: impl Fn(NodeId, NodeId) -> bool) -> Self {
        let nodes = choice.nodes();
        let mut higher: SmallVec<[NodeSet; 64]> = SmallVec::with_capacity(nodes.len());
        for (at, &node) in nodes.iter().enumerate() {
            let alike = |&earlier: &usize| {
                let other = nodes[earlier];
                choice.alike(node, other) && also(node, other)
            };
            // The nearest node of the class knows all higher ones.
            higher.push(match (0..at).rev().find(alike) {
                Some(earlier) => higher[earlier] | NodeSet::single(nodes[earlier]),
                None => NodeSet::EMPTY,
            });
        }
        Self { higher }
    }

    /// Whether the node at a position must not be left out.
    pub(super) fn must_take(&self, at: usize, taken: NodeSet) -> bool {
        self.higher
            .get(at)
            .is_some_and(|higher| higher.intersects(taken))
    }
}
