//! [`Distances`]: how far apart are the NUMA nodes of a mask? And [`Rank`]: which of two masks of one class is better?
//!
//! The kubelet compares masks of equal width by the average over all ordered pairs of their nodes, each
//! node with itself included (`CalculateAverageFor`). The number of pairs is the same on both
//! sides, so integer sums say the same without rounding.

use crate::fidelity::Fidelity;
use crate::machine::Machine;
use crate::node_set::{NodeId, NodeSet};

const IDS: usize = 64;

/// A table of distances by node ID, built once per machine. Pairs that are not given have distance 0.
#[derive(Clone, PartialEq, Eq)]
pub struct Distances {
    /// Row and column are node ids.
    table: Box<[u32; IDS * IDS]>,
    /// `table[x][y] + table[y][x]`: the contribution of a pair to a sum.
    pairs: Box<[u64; IDS * IDS]>,
}

impl Distances {
    /// From one row per node, **columns indexed by node id**.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = (NodeId, &'a [u32])>) -> Self {
        let mut table = Box::new([0; IDS * IDS]);
        for (node, row) in rows {
            for (cell, &distance) in table[node.index() * IDS..][..IDS].iter_mut().zip(row) {
                *cell = distance;
            }
        }
        Self::from_table(table)
    }

    /// The distances of a machine, whose rows are in machine order.
    ///
    /// The kubelet visits up column *id* in a row that is in machine order, which is another node's
    /// distance when ids have gaps, and crashes beyond the end of the row. *Exact* repeats the first and
    /// answers correctly for the second.
    pub(crate) fn of(machine: &Machine, fidelity: Fidelity) -> Self {
        let mut table = Box::new([0; IDS * IDS]);
        for from in machine.nodes() {
            for (position, to) in machine.nodes().iter().enumerate() {
                let at_id = from.distances.get(to.id.index());
                let at_position = from.distances.get(position);
                let found = match fidelity.looks_up_distances_by_node_id() {
                    true => at_id.or(at_position),
                    false => at_position,
                };
                table[cell(from.id, to.id)] = found.copied().unwrap_or(0);
            }
        }
        Self::from_table(table)
    }

    fn from_table(table: Box<[u32; IDS * IDS]>) -> Self {
        let mut pairs = Box::new([0; IDS * IDS]);
        for x in 0..IDS {
            for y in 0..IDS {
                pairs[x * IDS + y] = u64::from(table[x * IDS + y]) + u64::from(table[y * IDS + x]);
            }
        }
        Self { table, pairs }
    }

    /// The distance from `x` to `y`; firmware may report another one from `y` to `x`.
    #[must_use]
    pub fn between(&self, x: NodeId, y: NodeId) -> u32 {
        self.table[cell(x, y)]
    }

    /// The sum of both directions: the contribution of the pair to the sum of a set. At most 2^33.
    pub(super) fn pair(&self, x: NodeId, y: NodeId) -> u64 {
        self.pairs[cell(x, y)]
    }

    /// The distance of a node to itself.
    pub(super) fn own(&self, x: NodeId) -> u64 {
        u64::from(self.between(x, x))
    }

    /// The sum over all ordered pairs of `set`; below 2^45.
    #[must_use]
    pub fn sum(&self, set: NodeSet) -> u64 {
        let mut sum = 0;
        let mut others = set;
        for x in set {
            others.remove(x);
            sum += self.own(x) + self.sum_to(x, others);
        }
        sum
    }

    /// The increase of the sum of `set` by adding `x`, without the distance of `x` to itself.
    pub(super) fn sum_to(&self, x: NodeId, set: NodeSet) -> u64 {
        set.iter().map(|y| self.pair(x, y)).sum()
    }
}

fn cell(x: NodeId, y: NodeId) -> usize {
    x.index() * IDS + y.index()
}

impl std::fmt::Debug for Distances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Distances")
    }
}

/// The position of one mask among masks of its class (rule 3). Smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    width: usize,
    pub(super) distance: u64,
    pub(super) mask: NodeSet,
}

impl Rank {
    /// `closest` are the distances if `prefer-closest-numa-nodes` is on.
    pub(super) fn of(mask: NodeSet, closest: Option<&Distances>) -> Self {
        Self {
            width: mask.len(),
            distance: closest.map_or(0, |distances| distances.sum(mask)),
            mask,
        }
    }
}

/// Keeps the better of two.
pub(super) fn keep_best(best: &mut Option<Rank>, candidate: Rank) {
    if best.is_none_or(|best| candidate < best) {
        *best = Some(candidate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Core, MachineParts, NumaNode};

    fn node(id: i64) -> NodeId {
        NodeId::new(id).unwrap()
    }

    fn machine(rows: &[(i64, &[u32])]) -> Machine {
        let nodes = rows.iter().map(|&(id, row)| NumaNode {
            id: node(id),
            memory: 0,
            hugepages: Vec::new(),
            distances: row.to_vec(),
            cores: Vec::<Core>::new(),
        });
        Machine::new(MachineParts {
            nodes: nodes.collect(),
            num_cpus: 1,
            num_sockets: 1,
            ..MachineParts::default()
        })
        .unwrap()
    }

    #[test]
    fn a_sum_counts_every_ordered_pair_and_every_node_with_itself() {
        let rows: [&[u32]; 3] = [&[10, 12, 32], &[13, 11, 30], &[32, 31, 10]];
        let distances = Distances::from_rows((0..3).map(node).zip(rows));
        let set = |ids: &[i64]| NodeSet::from_ids(ids.iter().copied()).unwrap();
        assert_eq!(distances.sum(set(&[])), 0);
        assert_eq!(distances.sum(set(&[1])), 11);
        assert_eq!(distances.sum(set(&[0, 1])), 10 + 12 + 13 + 11);
        assert_eq!(distances.sum(set(&[0, 1, 2])), 46 + 10 + 32 + 32 + 30 + 31);
        assert_eq!(distances.sum(set(&[0, 40])), 10);
    }

    #[test]
    fn gaps_in_the_ids_shift_the_kubelets_columns() {
        let machine = machine(&[(0, &[10, 12, 32]), (2, &[12, 11, 30]), (5, &[32, 30, 13])]);
        let exact = Distances::of(&machine, Fidelity::Exact);
        let sound = Distances::of(&machine, Fidelity::Sound);
        assert_eq!(sound.between(node(0), node(2)), 12);
        assert_eq!(exact.between(node(0), node(2)), 32);
        // Beyond the end of the row the kubelet crashes; both answer with the true distance.
        assert_eq!(exact.between(node(0), node(5)), 32);
        assert_eq!(exact.between(node(5), node(5)), 13);
        assert_eq!(
            exact.between(node(2), node(0)),
            sound.between(node(2), node(0))
        );
    }

    #[test]
    fn the_largest_distances_do_not_overflow() {
        let row = [u32::MAX; 64];
        let distances = Distances::from_rows((0..64).map(|id| (node(id), row.as_slice())));
        assert_eq!(distances.sum(NodeSet::FULL), 4096 * u64::from(u32::MAX));
    }

    #[test]
    fn fewer_nodes_come_before_a_smaller_distance_and_that_before_a_smaller_number() {
        let rows: [&[u32]; 3] = [&[10, 30, 20], &[30, 10, 20], &[20, 20, 10]];
        let ids = (0..3).map(|id| NodeId::new(id).unwrap());
        let distances = Distances::from_rows(ids.zip(rows));
        let mut masks: Vec<NodeSet> = (1..8).map(NodeSet::from_bits).collect();
        masks.sort_by_key(|&mask| Rank::of(mask, Some(&distances)));
        let bits: Vec<u64> = masks.iter().map(|mask| mask.bits()).collect();
        assert_eq!(bits, [1, 2, 4, 0b101, 0b110, 0b011, 0b111]);
    }
}
