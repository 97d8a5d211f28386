//! The set of all ANDs of one mask per list, folded list by list.
//!
//! With n nodes there are at most 2^n of them, whatever the number of lists. With f and g the 0/1 indicators of the
//! members so far and of a list, and f^(S) the number of members that contain S, the product f^·g^ counts the pairs
//! whose AND contains S, and its inverse the pairs whose AND *is* S. That count is at most (2^16 - 1)^2 < 2^32 for up
//! to 16 nodes, so it is exact modulo 2^32. Counts are reduced to 0/1 after each list: over all lists at once they
//! would overflow, and could vanish.

use crate::node_set::NodeSet;

/// Machines with more nodes than this are not merged by lists.
pub(super) const MAX_NODES: usize = 16;

/// All ANDs so far, except the empty mask: an AND with it stays empty.
pub(super) struct Reachable {
    nodes: usize,
    members: Vec<u32>,
}

impl Reachable {
    /// The neutral start: only the mask of all nodes. `nodes` is at most [`MAX_NODES`].
    pub(super) fn all(nodes: usize) -> Self {
        debug_assert!(nodes <= MAX_NODES);
        let all = (1_u32 << nodes) - 1;
        Self {
            nodes,
            members: if all == 0 { Vec::new() } else { vec![all] },
        }
    }

    /// Folds in one more list.
    pub(super) fn and(&mut self, list: &[u32]) {
        let mut found = self.by_transform(list);
        if let Some(empty) = found.first_mut() {
            *empty = 0;
        }
        self.members.clear();
        let hits = (0..).zip(&found).filter(|&(_, &count)| count != 0);
        self.members.extend(hits.map(|(mask, _)| mask));
    }

    /// The masks, ascending.
    pub(super) fn members(&self) -> &[u32] {
        &self.members
    }

    fn size(&self) -> usize {
        1 << self.nodes
    }

    fn by_transform(&self, list: &[u32]) -> Vec<u32> {
        let mut pairs = vec![0; self.size()];
        let mut others = vec![0; self.size()];
        for &a in &self.members {
            pairs[a as usize] = 1;
        }
        for &b in list.iter().filter(|&&b| b != 0) {
            others[b as usize] = 1;
        }
        count_supersets(&mut pairs);
        count_supersets(&mut others);
        for (pair, other) in pairs.iter_mut().zip(&others) {
            *pair = pair.wrapping_mul(*other);
        }
        undo_count_supersets(&mut pairs);
        pairs
    }
}

/// Replaces each cell by the sum over all cells whose index contains its index.
fn count_supersets(cells: &mut [u32]) {
    for_each_bit(cells, |without, with| {
        *without = without.wrapping_add(*with);
    });
}

/// The inverse of [`count_supersets`].
fn undo_count_supersets(cells: &mut [u32]) {
    for_each_bit(cells, |without, with| {
        *without = without.wrapping_sub(*with);
    });
}

fn for_each_bit(cells: &mut [u32], step: impl Fn(&mut u32, &u32)) {
    let mut bit = 1;
    while bit < cells.len() {
        for block in cells.chunks_exact_mut(2 * bit) {
            let (without, with) = block.split_at_mut(bit);
            for (without, with) in without.iter_mut().zip(with.iter()) {
                step(without, with);
            }
        }
        bit *= 2;
    }
}

/// Node ids as positions: the k-th lowest node of the machine is bit k. Keeps the order of masks.
pub(super) struct Positions {
    nodes: NodeSet,
}

impl Positions {
    pub(super) fn of(nodes: NodeSet) -> Self {
        Self { nodes }
    }

    /// The part of `mask` on the machine, as positions.
    pub(super) fn pack(&self, mask: NodeSet) -> u32 {
        let mut packed = 0;
        for (position, node) in self.nodes.iter().enumerate().take(MAX_NODES) {
            packed |= u32::from(mask.contains(node)) << position;
        }
        packed
    }

    /// The inverse of [`Positions::pack`].
    pub(super) fn unpack(&self, packed: u32) -> NodeSet {
        let nodes = self.nodes.iter().enumerate().take(MAX_NODES);
        nodes
            .filter(|&(position, _)| packed >> position & 1 == 1)
            .map(|(_, node)| node)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_transform_finds_every_and_of_two_masks() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..400 {
            let nodes = 1 + round % 7;
            let mut list = |percent: u64| -> Vec<u32> {
                let masks = 0..1_u32 << nodes;
                masks
                    .filter(|_| {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (seed >> 33) % 100 < percent
                    })
                    .collect()
            };
            let members: Vec<u32> = list(40).into_iter().filter(|&mask| mask != 0).collect();
            let list = list(30);
            let pairs = members.iter().flat_map(|a| list.iter().map(move |b| a & b));
            let expected: BTreeSet<u32> = pairs.filter(|&mask| mask != 0).collect();
            let mut reachable = Reachable { nodes, members };
            reachable.and(&list);
            assert!(reachable.members().iter().eq(&expected), "round {round}");
        }
    }

    #[test]
    fn the_largest_possible_count_fits() {
        let all: Vec<u32> = (1..1 << MAX_NODES).collect();
        let mut reachable = Reachable::all(MAX_NODES);
        reachable.and(&all);
        reachable.and(&all);
        reachable.and(&all);
        assert_eq!(reachable.members().len(), all.len());
    }

    #[test]
    fn positions_keep_the_order_of_masks() {
        let nodes = NodeSet::from_ids([2, 5, 63]).unwrap();
        let positions = Positions::of(nodes);
        for packed in 0..8 {
            assert_eq!(positions.pack(positions.unpack(packed)), packed);
        }
        assert_eq!(positions.pack(NodeSet::FULL), 7);
        assert!(positions.unpack(4) > positions.unpack(3));
    }
}
