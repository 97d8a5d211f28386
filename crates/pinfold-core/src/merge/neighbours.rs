//! [`Neighbours`]: a second lower bound for the sum of distances of a choice, for machines without a hierarchy.
//!
//! Whichever `places` open nodes are chosen, each of them adds its distance to itself and to the taken nodes, and half
//! of its distance to the other chosen ones: at least half the sum over its nearest open nodes. So the sum of the
//! `places` smallest of these contributions is a lower bound. Everything is doubled to stay in integers.

use smallvec::SmallVec;

use super::distances::Distances;
use crate::node_set::{NodeId, NodeSet};

/// For each node all others, nearest first.
pub(super) struct Neighbours<'d> {
    distances: &'d Distances,
    /// By node ID: the other nodes with the contribution of the pair, nearest first.
    nearest: Vec<SmallVec<[(u64, NodeId); 16]>>,
}

impl<'d> Neighbours<'d> {
    pub(super) fn new(nodes: NodeSet, distances: &'d Distances) -> Self {
        let mut nearest = vec![SmallVec::new(); 64];
        for node in nodes {
            let others = (nodes - NodeSet::single(node)).iter();
            let row: &mut SmallVec<[(u64, NodeId); 16]> = &mut nearest[node.index()];
            row.extend(others.map(|other| (distances.pair(node, other), other)));
            row.sort_unstable();
        }
        Self { distances, nearest }
    }

    /// A lower bound for the sum of distances of `taken` and any `places` nodes of `open`.
    pub(super) fn least(&self, taken: NodeSet, open: NodeSet, places: usize) -> u64 {
        let mut payments: SmallVec<[u64; 64]> = SmallVec::new();
        for node in open {
            let row = self.nearest[node.index()].iter();
            let others = row.filter(|(_, other)| open.contains(*other));
            let half: u64 = others
                .take(places.saturating_sub(1))
                .map(|&(pair, _)| pair)
                .sum();
            let full = self.distances.own(node) + self.distances.sum_to(node, taken);
            payments.push(2 * full + half);
        }
        if places < payments.len() {
            payments.select_nth_unstable(places);
        }
        let doubled: u64 = payments.iter().take(places).sum();
        self.distances.sum(taken) + doubled.div_ceil(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_never_above_the_truth() {
        let mut seed = 3_u64;
        let mut next = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % bound
        };
        let mut tight = 0;
        for round in 0..300 {
            let mut rows = [[0_u32; 8]; 8];
            for cell in rows.iter_mut().flatten() {
                *cell = 10 + u32::try_from(next(6)).unwrap();
            }
            let ids = (0..8).map(|id| NodeId::new(id).unwrap());
            let distances = Distances::from_rows(ids.zip(rows.iter().map(<[u32; 8]>::as_slice)));
            let taken = NodeSet::from_bits(next(256));
            let open = NodeSet::from_bits(next(256)) - taken;
            let neighbours = Neighbours::new(taken | open, &distances);
            for places in 0..=open.len() {
                let subsets = (0..256).map(NodeSet::from_bits);
                let fitting = subsets.filter(|set| set.is_subset(open) && set.len() == places);
                let truth = fitting.map(|set| distances.sum(set | taken)).min().unwrap();
                let bound = neighbours.least(taken, open, places);
                assert!(bound <= truth, "round {round}");
                tight += u32::from(bound == truth);
            }
        }
        assert!(tight > 300);
    }
}
