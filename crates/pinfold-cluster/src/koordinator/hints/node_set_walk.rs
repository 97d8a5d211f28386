//! [`NodeSetWalk`]: enumerates sets of NUMA nodes in the order in which they are tried.

use smallvec::SmallVec;

use super::{MAX_NODES_LISTED, MAX_SETS};
use pinfold_core::node_set::NodeSet;

/// The position in the enumeration: all sets up to `width` were visited.
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

    /// Visits all sets of the next width; `false` if there is no further width.
    pub(super) fn widen(&mut self, mut visit: impl FnMut(NodeSet)) -> bool {
        let count = self.nodes.len();
        if self.width >= count {
            return false;
        }
        self.width += 1;
        if count > MAX_NODES_LISTED
            && self.tried.saturating_add(choose(count, self.width)) > MAX_SETS
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

/// The number of sets of `width` out of `count`, saturating.
fn choose(count: usize, width: usize) -> usize {
    (0..width).fold(1_usize, |product, at| {
        product.saturating_mul(count - at) / (at + 1)
    })
}
