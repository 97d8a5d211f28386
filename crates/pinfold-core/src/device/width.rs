//! The smallest number of NUMA nodes that have enough devices.
//!
//! Choosing the node with the largest gain, again and again, is exact if any two groups of nodes are nested or disjoint
//! (one per socket, package or board). For groups that overlap otherwise it is only an upper bound, and the problem is
//! maximum coverage: then a search tries narrower widths, and stops after a fixed amount of work.

use smallvec::SmallVec;

use crate::hint::Threshold;
use crate::node_set::{NodeId, NodeSet};

/// The maximum number of additions of the search: a millisecond or two.
const MAX_WORK: usize = 1_000_000;

/// The smallest number of nodes of `universe` that meet `threshold`, or all of them if none do. At least one node, if
/// there is any.
pub(super) fn narrowest(threshold: &Threshold, universe: NodeSet) -> usize {
    if !threshold.is_met(universe) {
        return universe.len();
    }
    let upper = greedy_width(threshold, universe).max(1).min(universe.len());
    if is_laminar(threshold) {
        return upper;
    }
    let mut search = DeviceWidthSearch {
        threshold,
        work_left: MAX_WORK,
    };
    let found =
        (1..upper).find(|&width| search.reaches(NodeSet::EMPTY, universe, width) == Some(true));
    found.unwrap_or(upper)
}

/// The number of nodes until the threshold is met, if the one with the largest gain is always next.
fn greedy_width(threshold: &Threshold, universe: NodeSet) -> usize {
    let mut chosen = NodeSet::EMPTY;
    while !threshold.is_met(chosen) {
        let rest = universe - chosen;
        let Some(best) = rest
            .iter()
            .max_by_key(|&node| gain(threshold, chosen, node))
        else {
            break;
        };
        chosen.insert(best);
    }
    chosen.len()
}

/// The increase in value by adding `node` to `chosen`.
fn gain(threshold: &Threshold, chosen: NodeSet, node: NodeId) -> u64 {
    let groups = threshold.groups.iter();
    let new = groups.filter(|group| group.nodes.contains(node) && !group.nodes.intersects(chosen));
    new.fold(threshold.weight(node), |sum, group| {
        sum.saturating_add(group.count)
    })
}

/// Whether any two groups are nested or disjoint. There are fewer such groups than nodes.
fn is_laminar(threshold: &Threshold) -> bool {
    let groups = &threshold.groups;
    let few = groups.len() <= NodeId::MAX.index();
    few && groups.iter().enumerate().all(|(position, one)| {
        groups.iter().skip(position + 1).all(|other| {
            !one.nodes.intersects(other.nodes)
                || one.nodes.is_subset(other.nodes)
                || other.nodes.is_subset(one.nodes)
        })
    })
}

/// A search with a limit on its work.
struct DeviceWidthSearch<'a> {
    threshold: &'a Threshold,
    work_left: usize,
}

impl DeviceWidthSearch<'_> {
    /// Whether `chosen` and `more` nodes of `rest` meet the threshold. `None` if that is unknown because of too much
    /// work.
    fn reaches(&mut self, chosen: NodeSet, rest: NodeSet, more: usize) -> Option<bool> {
        let work = (rest.len() + 1) * (self.threshold.groups.len() + 1);
        self.work_left = self.work_left.checked_sub(work)?;
        let value = self.threshold.value(chosen);
        if value >= self.threshold.need {
            return Some(true);
        }
        let mut gains: SmallVec<[(u64, NodeId); 64]> = rest
            .iter()
            .map(|node| (gain(self.threshold, chosen, node), node))
            .collect();
        gains.sort_unstable_by(|a, b| b.cmp(a));
        // Gains only shrink when more nodes are chosen, so the sum of the largest ones is an upper bound.
        let most = gains.iter().take(more);
        let bound = most.fold(value, |sum, (gain, _)| sum.saturating_add(*gain));
        if bound < self.threshold.need || more == 0 {
            return Some(false);
        }
        let mut rest = rest;
        for &(_, node) in &gains {
            rest.remove(node);
            let with = chosen | NodeSet::single(node);
            if self.reaches(with, rest, more - 1)? {
                return Some(true);
            }
            if rest.len() < more {
                break;
            }
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hint::WideGroup;

    fn threshold(need: u64, weights: &[u64], groups: &[(u64, u64)]) -> Threshold {
        let rows = weights.iter().zip(0..);
        let rows = rows.map(|(&weight, id)| (NodeId::new(id).expect("small"), weight));
        let mut threshold = Threshold::new(need, rows);
        threshold.groups = groups
            .iter()
            .map(|&(bits, count)| WideGroup {
                nodes: NodeSet::from_bits(bits),
                count,
            })
            .collect();
        threshold
    }

    #[test]
    fn the_greedy_width_is_not_minimal_where_groups_overlap() {
        // Node 0 adds the most by itself, but nodes 1 and 2 have everything that is needed.
        let threshold = threshold(8, &[1, 2, 2], &[(0b011, 2), (0b101, 2)]);
        let universe = NodeSet::from_bits(0b111);
        assert_eq!(greedy_width(&threshold, universe), 3);
        assert_eq!(narrowest(&threshold, universe), 2);
    }

    #[test]
    fn the_search_is_bounded_for_sixty_four_nodes_with_scattered_groups() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed >> 20
        };
        let groups: Vec<(u64, u64)> = (0..200)
            .map(|_| {
                (
                    1 << (random() % 64) | 1 << (random() % 64) | 1 << (random() % 64),
                    1,
                )
            })
            .collect();
        let threshold = threshold(150, &[0; 64], &groups);
        let width = narrowest(&threshold, NodeSet::FULL);
        assert!(width <= greedy_width(&threshold, NodeSet::FULL));
    }

    proptest! {
        #[test]
        fn the_width_is_that_of_the_narrowest_mask(
            need in 0..20_u64,
            weights in prop::collection::vec(0..4_u64, 1..7),
            groups in prop::collection::vec((1..128_u64, 1..4_u64), 0..6),
        ) {
            let universe = NodeSet::from_bits((1 << weights.len()) - 1);
            let threshold = threshold(need, &weights, &groups);
            let mut masks = universe.subsets_by_width();
            let least = masks.find(|&mask| threshold.is_met(mask));
            let expected = least.unwrap_or(universe).len();
            prop_assert_eq!(narrowest(&threshold, universe), expected);
        }
    }
}
