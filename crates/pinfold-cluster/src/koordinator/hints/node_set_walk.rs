//! [`NodeSetWalk`]: enumerates sets of NUMA nodes in the order in which they are tried.

use super::{MAX_NODES_LISTED, MAX_SETS};
use pinfold_core::node_set::{NodeSet, SubsetsByWidth};

/// The position in the enumeration: all sets up to `width` were visited.
#[derive(Clone, Debug)]
pub(super) struct NodeSetWalk {
    pub(super) nodes: NodeSet,
    pub(super) width: usize,
    tried: usize,
    /// The sets that were not visited.
    rest: SubsetsByWidth,
}

impl Default for NodeSetWalk {
    fn default() -> Self {
        Self::over(NodeSet::EMPTY)
    }
}

impl NodeSetWalk {
    pub(super) fn over(nodes: NodeSet) -> Self {
        Self {
            nodes,
            width: 0,
            tried: 0,
            rest: nodes.subsets_by_width(),
        }
    }

    /// Visits all sets of the next width; `false` if there is no further width.
    pub(super) fn widen(&mut self, visit: impl FnMut(NodeSet)) -> bool {
        let count = self.nodes.len();
        if self.width >= count {
            return false;
        }
        self.width += 1;
        let sets = choose(count, self.width);
        self.tried = self.tried.saturating_add(sets);
        if count > MAX_NODES_LISTED && self.tried > MAX_SETS {
            self.width = count;
            std::iter::once(self.nodes).for_each(visit);
        } else {
            self.rest.by_ref().take(sets).for_each(visit);
        }
        true
    }
}

/// The number of sets of `width` out of `count`, saturating.
fn choose(count: usize, width: usize) -> usize {
    (0..width).fold(1_usize, |product, at| {
        product.saturating_mul(count - at) / (at + 1)
    })
}
