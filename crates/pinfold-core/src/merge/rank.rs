//! The order of candidates: which of two merged masks is better.
//!
//! Mirrors `HintMerger.compare`, whose pairwise rules amount to one total order:
//!
//! 1. preferred before not preferred;
//! 2. among those not preferred, by width against *best width*: exactly that wide, then narrower ones from
//!    wide to narrow, then wider ones from narrow to wide;
//! 3. fewer nodes, then (with prefer-closest) the smaller sum of distances, then the smaller number.

use super::distances::Distances;
use crate::node_set::NodeSet;

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

/// The class of a width among masks that are not preferred (rule 2). Smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WidthClass {
    /// The best width.
    Best,
    /// Narrower by this many nodes.
    Narrower(usize),
    /// Wider by this many nodes.
    Wider(usize),
}

impl WidthClass {
    pub(super) fn of(width: usize, best_width: usize) -> Self {
        match width.cmp(&best_width) {
            std::cmp::Ordering::Equal => WidthClass::Best,
            std::cmp::Ordering::Less => WidthClass::Narrower(best_width - width),
            std::cmp::Ordering::Greater => WidthClass::Wider(width - best_width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_rank_by_their_place_against_the_best_width() {
        let mut widths: Vec<usize> = (1..=6).collect();
        widths.sort_by_key(|&width| WidthClass::of(width, 3));
        assert_eq!(widths, [3, 2, 1, 4, 5, 6]);
    }

    #[test]
    fn fewer_nodes_come_before_a_smaller_distance_and_that_before_a_smaller_number() {
        let rows: [&[u32]; 3] = [&[10, 30, 20], &[30, 10, 20], &[20, 20, 10]];
        let ids = (0..3).map(|id| crate::node_set::NodeId::new(id).unwrap());
        let distances = Distances::from_rows(ids.zip(rows));
        let mut masks: Vec<NodeSet> = (1..8).map(NodeSet::from_bits).collect();
        masks.sort_by_key(|&mask| Rank::of(mask, Some(&distances)));
        let bits: Vec<u64> = masks.iter().map(|mask| mask.bits()).collect();
        assert_eq!(bits, [1, 2, 4, 0b101, 0b110, 0b011, 0b111]);
    }
}
