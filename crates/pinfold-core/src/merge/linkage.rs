//! [`Linkage`]: a lower bound for the sum of distances of any choice of nodes.
//!
//! Join the nearest two clusters of nodes again and again until one is left (single linkage). The height at which
//! two nodes meet in this tree is at most their distance, so the best choice measured on the tree costs at most the
//! best choice. On hierarchical machines (core complex < socket < board) heights *are* the distances, and the bound
//! is exact. On the tree the best choice of c nodes below an inner node is a small sum over both sides:
//!
//! ```text
//! best(a + b) = min of left(a) + right(b) + a b height
//! ```
//!
//! A node that is taken or left out changes only the tables on its way to the root.

use smallvec::SmallVec;

use super::distances::Distances;
use crate::node_set::{NodeId, NodeSet};

/// Whether a node is taken, left out, or still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Open,
    Taken,
    Out,
}

/// Larger than any sum of distances, small enough to add a few.
const NEVER: u64 = 1 << 60;

/// The tree and its tables for one number of nodes.
pub(super) struct Linkage {
    /// The tree node of each NUMA node.
    leaf_of: [usize; 64],
    tree: Vec<TreeNode>,
    /// The tables of all tree nodes, one after the other.
    cells: Vec<u64>,
    /// The number of nodes to choose.
    most: usize,
}

struct TreeNode {
    parent: Option<usize>,
    children: Option<(usize, usize)>,
    /// For a leaf: the distance of the node to itself.
    height: u64,
    /// The start of its table in `cells`.
    cells: usize,
    /// The smallest and the largest number of nodes below it that can be chosen now.
    fewest: usize,
    most: usize,
}

impl Linkage {
    /// For choosing `most` of `nodes`, all of them open. There must be at least one node.
    pub(super) fn new(nodes: NodeSet, most: usize, distances: &Distances) -> Self {
        let mut linkage = Self {
            leaf_of: [0; 64],
            tree: Vec::with_capacity(2 * nodes.len()),
            cells: Vec::new(),
            most,
        };
        let members: SmallVec<[NodeId; 64]> = nodes.iter().collect();
        for (position, &node) in members.iter().enumerate() {
            linkage.leaf_of[node.index()] = position;
            linkage.add(None, distances.own(node), 1);
            linkage.settle_leaf(position, Leaf::Open);
        }
        // The tree node that each member is in so far.
        let mut cluster: SmallVec<[usize; 64]> = (0..members.len()).collect();
        let mut size: SmallVec<[usize; 128]> = SmallVec::from_elem(1, members.len());
        for link in links(&members, distances) {
            let (left, right) = (cluster[link.from], cluster[link.to]);
            size.push(size[left] + size[right]);
            let joined = linkage.add(Some((left, right)), link.height, size[left] + size[right]);
            for own in cluster
                .iter_mut()
                .filter(|own| **own == left || **own == right)
            {
                *own = joined;
            }
            linkage.join(joined);
        }
        linkage
    }

    fn add(&mut self, children: Option<(usize, usize)>, height: u64, size: usize) -> usize {
        let index = self.tree.len();
        let most = size.min(self.most);
        self.tree.push(TreeNode {
            parent: None,
            children,
            height,
            cells: self.cells.len(),
            fewest: 0,
            most,
        });
        self.cells.resize(self.cells.len() + most.max(1) + 1, NEVER);
        if let Some((left, right)) = children {
            self.tree[left].parent = Some(index);
            self.tree[right].parent = Some(index);
        }
        index
    }

    /// Records whether `node` is taken, left out, or open.
    pub(super) fn settle(&mut self, node: NodeId, leaf: Leaf) {
        let mut index = self.leaf_of[node.index()];
        self.settle_leaf(index, leaf);
        while let Some(parent) = self.tree[index].parent {
            self.join(parent);
            index = parent;
        }
    }

    /// A lower bound for the sum of distances of all choices that agree with the recorded nodes.
    pub(super) fn least(&self) -> u64 {
        let Some(root) = self.tree.last() else {
            return 0;
        };
        match (root.fewest..=root.most).contains(&self.most) {
            true => self.cells[root.cells + self.most],
            false => NEVER,
        }
    }

    fn settle_leaf(&mut self, index: usize, leaf: Leaf) {
        let node = &mut self.tree[index];
        node.fewest = usize::from(leaf == Leaf::Taken);
        node.most = usize::from(leaf != Leaf::Out);
        self.cells[node.cells] = 0;
        self.cells[node.cells + 1] = node.height;
    }

    fn join(&mut self, index: usize) {
        let Some((left, right)) = self.tree[index].children else {
            return;
        };
        let (left, right) = (&self.tree[left], &self.tree[right]);
        let (fewest, most) = (left.fewest + right.fewest, left.most + right.most);
        let most = most.min(self.most);
        let (height, start) = (self.tree[index].height, self.tree[index].cells);
        // Tables of children lie before those of their parents.
        let (below, own) = self.cells.split_at_mut(start);
        let lefts = &below[left.cells..];
        let rights = &below[right.cells..];
        if let Some(own) = own.get_mut(fewest..=most) {
            own.fill(NEVER);
        }
        // More nodes are taken than wanted: there is no choice.
        let lefts = lefts.get(left.fewest..).unwrap_or(&[]);
        for (a, from_left) in (left.fewest..=left.most).zip(lefts) {
            let across = a as u64 * height;
            let up_to = right.most.min(self.most.saturating_sub(a));
            let mut cost = from_left + across * right.fewest as u64;
            let pairs = own[a..].iter_mut().zip(rights).take(up_to + 1);
            for (best, from_right) in pairs.skip(right.fewest) {
                *best = (*best).min(cost + from_right);
                cost += across;
            }
        }
        self.tree[index].fewest = fewest;
        self.tree[index].most = most;
    }
}

/// The join of two clusters at the distance of their nearest members, given by position.
struct LinkageStep {
    height: u64,
    from: usize,
    to: usize,
}

/// The links of a shortest spanning tree, shortest first.
fn links(members: &[NodeId], distances: &Distances) -> SmallVec<[LinkageStep; 64]> {
    let mut links: SmallVec<[LinkageStep; 64]> = SmallVec::new();
    // The nearest member of the tree so far, for each member outside it.
    let mut outside: SmallVec<[LinkageStep; 64]> = SmallVec::new();
    for (to, &node) in members.iter().enumerate().skip(1) {
        let height = distances.pair(members[0], node);
        outside.push(LinkageStep {
            height,
            from: 0,
            to,
        });
    }
    while let Some(nearest) = (0..outside.len()).min_by_key(|&index| outside[index].height) {
        let link = outside.swap_remove(nearest);
        for other in &mut outside {
            let height = distances.pair(members[link.to], members[other.to]);
            if height < other.height {
                (other.height, other.from) = (height, link.to);
            }
        }
        links.push(link);
    }
    links.sort_by_key(|link| link.height);
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances generated from a seed; hierarchical ones have 10 / 12 in pairs / 20 in fours / 32.
    fn distances(nodes: usize, hierarchical: bool, seed: &mut u64) -> Distances {
        let mut rows = vec![[0_u32; 64]; nodes];
        for (x, row) in rows.iter_mut().enumerate() {
            for (y, cell) in row.iter_mut().enumerate().take(nodes) {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *cell = match hierarchical {
                    true if x == y => 10,
                    true if x / 2 == y / 2 => 12,
                    true if x / 4 == y / 4 => 20,
                    true => 32,
                    false => 10 + u32::try_from((*seed >> 40) % 9).unwrap(),
                };
            }
        }
        let ids = (0..64).map(|id| NodeId::new(id).unwrap());
        Distances::from_rows(ids.zip(rows.iter().map(<[u32; 64]>::as_slice)))
    }

    fn least_by_trying(
        distances: &Distances,
        taken: NodeSet,
        open: NodeSet,
        most: usize,
    ) -> Option<u64> {
        let subsets = (0..1_u64 << 8).map(NodeSet::from_bits);
        let fitting = subsets.filter(|set| set.is_subset(open) && set.len() + taken.len() == most);
        fitting.map(|set| distances.sum(set | taken)).min()
    }

    #[test]
    fn the_bound_is_never_above_the_truth_and_is_the_truth_on_hierarchies() {
        let mut seed = 7;
        for round in 0..600 {
            let hierarchical = round % 2 == 0;
            let distances = distances(8, hierarchical, &mut seed);
            let most = 1 + round % 7;
            let mut linkage = Linkage::new(NodeSet::from_bits(0xff), most, &distances);
            let (mut taken, mut open) = (NodeSet::EMPTY, NodeSet::from_bits(0xff));
            for node in NodeSet::from_bits(0xff) {
                match least_by_trying(&distances, taken, open, most) {
                    Some(least) if hierarchical => assert_eq!(linkage.least(), least),
                    Some(least) => assert!(linkage.least() <= least),
                    None => assert!(linkage.least() >= NEVER),
                }
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let leaf = [Leaf::Open, Leaf::Taken, Leaf::Out][(seed >> 33) as usize % 3];
                linkage.settle(node, leaf);
                match leaf {
                    Leaf::Open => {}
                    Leaf::Taken => {
                        taken.insert(node);
                        open.remove(node);
                    }
                    Leaf::Out => open.remove(node),
                }
            }
        }
    }
}
