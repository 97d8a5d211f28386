//! [`NodeSetWalk`]: the sets of NUMA nodes in the order in which they are tried.

use smallvec::SmallVec;

use super::{MOST_NODES_LISTED, MOST_SETS};
use crate::node_set::NodeSet;

/// How far a walk over the sets has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSetWalk {
    pub(super) nodes: NodeSet,
    pub(super) width: usize,
    tried: usize,
}

impl NodeSetWalk {
    pub(super) fn over(nodes: NodeSet) -> Self {
        Self {
            nodes,
            width: 0,
            tried: 0,
        }
    }

    /// Visits all sets of the next width; tells whether there was one.
    pub(super) fn widen(&mut self, mut visit: impl FnMut(NodeSet)) -> bool {
        let count = self.nodes.len();
        if self.width >= count {
            return false;
        }
        self.width += 1;
        if count > MOST_NODES_LISTED
            && self.tried.saturating_add(choose(count, self.width)) > MOST_SETS
        {
            self.width = count;
            visit(self.nodes);
            return true;
        }
        let members: SmallVec<[_; 16]> = self.nodes.iter().collect();
        let mut chosen: SmallVec<[usize; 16]> = (0..self.width).collect();
        loop {
            self.tried += 1;
            visit(chosen.iter().map(|&at| members[at]).collect());
            let Some(turn) = (0..self.width)
                .rev()
                .find(|&at| chosen[at] < count - self.width + at)
            else {
                return true;
            };
            chosen[turn] += 1;
            for later in turn + 1..self.width {
                chosen[later] = chosen[later - 1] + 1;
            }
        }
    }
}

/// How many sets of `width` among `count`, saturating.
fn choose(count: usize, width: usize) -> usize {
    (0..width).fold(1_usize, |product, at| {
        product.saturating_mul(count - at) / (at + 1)
    })
}
