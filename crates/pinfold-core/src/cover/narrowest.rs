//! [`narrowest`]: a set with the fewest NUMA nodes that meets all thresholds.
//!
//! The kubelet finds it by visiting all 2^n masks. Here bounds from both sides nearly always agree without a search: no
//! set is narrower than the hardest threshold needs by itself, and a greedy choice meets them all. Otherwise one width
//! after the other is searched from the lower bound up. Up to [`ALWAYS_EXACT`] nodes the search always finishes.

use smallvec::SmallVec;

use super::{Budget, Cover, PreparedThreshold, share};
use crate::hint::Threshold;
use crate::node_set::{NodeId, NodeSet};

/// Machines of up to this size are searched to the end.
const ALWAYS_EXACT: usize = 16;
/// The maximum number of steps on a larger machine: some milliseconds.
const STEPS: u32 = 20_000;

/// A set of few nodes that meets some thresholds, and a lower bound for the width of all such sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    /// The set. If it is not proven to be the narrowest, then no single node of it can be left out.
    pub mask: NodeSet,
    /// No set of fewer nodes meets the thresholds.
    pub at_least: usize,
}

impl Narrow {
    /// Whether no set is narrower.
    pub(crate) fn is_proven(self) -> bool {
        self.mask.len() <= self.at_least
    }

    /// The values that are known without a search. The universe must meet all thresholds.
    pub(crate) fn of(universe: NodeSet, forced: NodeSet, thresholds: &[PreparedThreshold]) -> Self {
        let open = universe - forced;
        let mut narrow = Self {
            mask: forced,
            at_least: forced.len().max(1),
        };
        let mut hardest = forced;
        for prepared in thresholds {
            let added = prepared.fewest_to_add(forced, open).unwrap_or(open);
            if added.len() + forced.len() > hardest.len() {
                hardest = forced | added;
            }
        }
        narrow.at_least = narrow.at_least.max(hardest.len());
        narrow.mask = match all_met(hardest, thresholds) {
            true => hardest,
            false => some_mask(universe, forced, thresholds),
        };
        if narrow.mask.is_empty() {
            narrow.mask = universe.iter().take(1).collect();
        }
        narrow
    }

    /// Searches until the mask is proven, or until no mask can be narrower than `enough`.
    pub(crate) fn settle(
        &mut self,
        universe: NodeSet,
        forced: NodeSet,
        thresholds: &[PreparedThreshold],
        enough: usize,
        budget: &mut Budget,
    ) {
        while self.at_least < self.mask.len().min(enough) {
            let cover = Cover::new(universe, forced, self.at_least);
            let found =
                cover.and_then(|cover| cover.with_thresholds(thresholds).lowest(&mut *budget));
            match found {
                Some(mask) => self.mask = mask,
                None if budget.ran_out() => break,
                None => self.at_least += 1,
            }
        }
    }
}

/// A non-empty set inside `universe` that contains `forced`, meets all `thresholds` and has the fewest nodes. `None` if
/// the universe does not meet them.
#[must_use]
pub fn narrowest(universe: NodeSet, forced: NodeSet, thresholds: &[Threshold]) -> Option<Narrow> {
    let one = one_node(universe, forced, thresholds).map(|mask| Narrow { mask, at_least: 1 });
    one.or_else(|| Problem::new(universe, forced, thresholds).map(|problem| problem.narrowest()))
}

/// The lowest node that meets all thresholds alone: the usual answer, without preparing anything.
fn one_node(universe: NodeSet, forced: NodeSet, thresholds: &[Threshold]) -> Option<NodeSet> {
    let candidates = match forced.len() {
        0 => universe,
        1 => universe & forced,
        _ => NodeSet::EMPTY,
    };
    let mut alone = candidates.iter().map(NodeSet::single);
    alone.find(|&mask| thresholds.iter().all(|threshold| threshold.is_met(mask)))
}

/// The lowest-numbered of the sets with the fewest nodes; see [`narrowest`]. On a large machine it may be another one
/// if that could not be proven.
#[must_use]
pub fn lowest_of_narrowest(
    universe: NodeSet,
    forced: NodeSet,
    thresholds: &[Threshold],
) -> Option<NodeSet> {
    if let Some(mask) = one_node(universe, forced, thresholds) {
        return Some(mask);
    }
    let problem = Problem::new(universe, forced, thresholds)?;
    let narrow = problem.narrowest();
    if !narrow.is_proven() {
        return Some(narrow.mask);
    }
    let cover = Cover::new(universe, forced, narrow.mask.len())?;
    let lowest = cover
        .with_thresholds(&problem.prepared)
        .lowest(&mut problem.budget());
    Some(lowest.unwrap_or(narrow.mask))
}

/// The lowest-numbered set of `width` nodes inside `universe` that meets all `thresholds`; see [`narrowest`].
#[must_use]
pub fn lowest_of_width(
    universe: NodeSet,
    width: usize,
    thresholds: &[Threshold],
) -> Option<NodeSet> {
    let problem = Problem::new(universe, NodeSet::EMPTY, thresholds)?;
    let cover = Cover::new(universe, NodeSet::EMPTY, width)?;
    cover
        .with_thresholds(&problem.prepared)
        .lowest(&mut problem.budget())
}

struct Problem<'t> {
    universe: NodeSet,
    forced: NodeSet,
    thresholds: &'t [Threshold],
    prepared: SmallVec<[PreparedThreshold; 2]>,
    /// Whether amounts were rounded.
    rounded: bool,
}

impl<'t> Problem<'t> {
    fn new(universe: NodeSet, forced: NodeSet, thresholds: &'t [Threshold]) -> Option<Self> {
        let enough = thresholds
            .iter()
            .all(|threshold| threshold.is_met(universe));
        if universe.is_empty() || !forced.is_subset(universe) || !enough {
            return None;
        }
        let mut problem = Self {
            universe,
            forced,
            thresholds,
            prepared: SmallVec::new(),
            rounded: false,
        };
        for threshold in thresholds {
            if let Some(made) = PreparedThreshold::of(threshold, universe) {
                problem.rounded |= made.rounded;
                problem.prepared.push(made.prepared);
            }
        }
        Some(problem)
    }

    fn budget(&self) -> Budget {
        Budget::new(match self.universe.len() <= ALWAYS_EXACT {
            true => u32::MAX,
            false => STEPS,
        })
    }

    fn narrowest(&self) -> Narrow {
        let (universe, forced, prepared) = (self.universe, self.forced, &self.prepared);
        let mut narrow = Narrow::of(universe, forced, prepared);
        narrow.settle(
            universe,
            forced,
            prepared,
            universe.len(),
            &mut self.budget(),
        );
        let fits = |threshold: &Threshold| threshold.is_met(narrow.mask);
        // Amounts beyond those of any machine are rounded, and prove nothing.
        match self.rounded && !self.thresholds.iter().all(fits) {
            true => Narrow {
                mask: universe,
                at_least: 1,
            },
            false => narrow,
        }
    }
}

fn all_met(mask: NodeSet, thresholds: &[PreparedThreshold]) -> bool {
    thresholds.iter().all(|prepared| prepared.is_met(mask))
}

/// A mask with few nodes: nodes are added by the largest share of what is missing, then unnecessary ones are removed.
fn some_mask(universe: NodeSet, forced: NodeSet, thresholds: &[PreparedThreshold]) -> NodeSet {
    let mut mask = forced;
    while let Some(node) = most_useful(mask, universe - mask, thresholds) {
        mask.insert(node);
    }
    for node in mask - forced {
        let less = mask - NodeSet::single(node);
        if all_met(less, thresholds) {
            mask = less;
        }
    }
    mask
}

/// The node that covers the most of what is still missing; `None` if nothing is.
fn most_useful(mask: NodeSet, open: NodeSet, thresholds: &[PreparedThreshold]) -> Option<NodeId> {
    let mut uses = [0.0; 64];
    let mut missing = false;
    for prepared in thresholds {
        let short = prepared.need.saturating_sub(prepared.value(mask));
        if short > 0 {
            missing = true;
            for (gain, node) in prepared.gains(mask, open) {
                uses[node.index()] += share(gain.min(short), prepared.need);
            }
        }
    }
    let by_use = |x: &NodeId, y: &NodeId| f64::total_cmp(&uses[x.index()], &uses[y.index()]);
    open.iter().max_by(by_use).filter(|_| missing)
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

    fn by_visiting_all(
        universe: NodeSet,
        forced: NodeSet,
        thresholds: &[Threshold],
    ) -> Option<NodeSet> {
        let fits = |mask: &NodeSet| {
            forced.is_subset(*mask) && thresholds.iter().all(|threshold| threshold.is_met(*mask))
        };
        let members = universe.subsets_by_width().filter(fits);
        members.reduce(|best, mask| match mask.is_narrower_than(best) {
            true => mask,
            false => best,
        })
    }

    fn check(universe: NodeSet, forced: NodeSet, thresholds: &[Threshold]) {
        let expected = by_visiting_all(universe, forced, thresholds);
        assert_eq!(lowest_of_narrowest(universe, forced, thresholds), expected);
        let narrow = narrowest(universe, forced, thresholds);
        assert!(narrow.is_none_or(Narrow::is_proven));
        assert_eq!(
            narrow.map(|narrow| narrow.at_least),
            expected.map(NodeSet::len)
        );
    }

    proptest! {
        #[test]
        fn several_sums_are_met_by_what_visiting_all_masks_finds(
            universe in 0_u64..1 << 9,
            forced in 0_u64..1 << 9,
            rows in prop::collection::vec((0_u64..12, prop::collection::vec(0_u64..5, 9)), 0..4),
            keep_forced in 0..3,
        ) {
            let universe = NodeSet::from_bits(universe);
            let forced = match keep_forced {
                0 => NodeSet::from_bits(forced),
                1 => NodeSet::from_bits(forced) & universe,
                _ => NodeSet::EMPTY,
            };
            let thresholds: Vec<Threshold> = rows
                .iter()
                .map(|(need, weights)| threshold(*need, weights, &[]))
                .collect();
            check(universe, forced, &thresholds);
        }

        #[test]
        fn groups_of_nodes_count_once(
            need in 0..20_u64,
            weights in prop::collection::vec(0..4_u64, 1..7),
            groups in prop::collection::vec((1..128_u64, 1..4_u64), 0..6),
        ) {
            let universe = NodeSet::from_bits((1 << weights.len()) - 1);
            check(universe, NodeSet::EMPTY, &[threshold(need, &weights, &groups)]);
        }
    }

    #[test]
    fn where_groups_overlap_the_greedy_choice_is_not_the_narrowest() {
        // Node 0 adds the most by itself, but nodes 1 and 2 have everything that is needed.
        let threshold = threshold(8, &[1, 2, 2], &[(0b011, 2), (0b101, 2)]);
        let universe = NodeSet::from_bits(0b111);
        let narrow = narrowest(universe, NodeSet::EMPTY, &[threshold]).unwrap();
        assert_eq!(narrow.mask, NodeSet::from_bits(0b110));
    }

    #[test]
    fn the_search_is_bounded_for_sixty_four_nodes_with_scattered_groups() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            1 << ((seed >> 20) % 64)
        };
        let groups: Vec<(u64, u64)> = (0..200)
            .map(|_| (random() | random() | random(), 1))
            .collect();
        let threshold = threshold(150, &[0; 64], &groups);
        let narrow = narrowest(
            NodeSet::FULL,
            NodeSet::EMPTY,
            std::slice::from_ref(&threshold),
        )
        .unwrap();
        assert!(threshold.is_met(narrow.mask));
    }

    #[test]
    fn an_unfinished_search_returns_a_mask_of_which_no_node_can_be_removed() {
        // A node that has more of one type has less of the other, always by an even amount, so no 20 nodes meet two
        // needs that leave an odd difference; only trying all of them would prove that.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let mut seed = 1_u64;
        for _ in 0..64 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let difference = seed >> 44 & !1;
            left.push((1 << 30) + difference);
            right.push((1 << 30) - difference);
        }
        let odd = 20 * (1 << 19) + 1;
        let thresholds = [
            threshold(20 * (1 << 30) + odd, &left, &[]),
            threshold(20 * (1 << 30) - odd, &right, &[]),
        ];
        let enough = |mask| thresholds.iter().all(|threshold| threshold.is_met(mask));
        let narrow = narrowest(NodeSet::FULL, NodeSet::EMPTY, &thresholds).unwrap();
        assert!(!narrow.is_proven() && enough(narrow.mask));
        for node in narrow.mask {
            let less = narrow.mask - NodeSet::single(node);
            assert!(!enough(less), "node {node} could be removed");
        }
    }

    #[test]
    fn sixty_four_equal_nodes_give_the_lowest_ones() {
        let thresholds = [
            threshold(200, &[10; 64], &[]),
            threshold(100, &[5; 64], &[]),
        ];
        let found = lowest_of_narrowest(NodeSet::FULL, NodeSet::EMPTY, &thresholds);
        assert_eq!(found, Some(NodeSet::from_bits((1 << 20) - 1)));
    }

    #[test]
    fn an_empty_request_takes_one_node() {
        let found = lowest_of_narrowest(NodeSet::from_bits(0b1100), NodeSet::EMPTY, &[]);
        assert_eq!(found, Some(NodeSet::from_bits(0b100)));
    }
}
