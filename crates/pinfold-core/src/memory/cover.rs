//! The narrowest set of NUMA nodes that fits a request: the lowest-numbered one of the least width.
//!
//! The kubelet finds it by visiting all 2^n masks. Here one width after the other is tried from a proven lower bound
//! up; inside one width, nodes are decided from the highest ID down, leaving a node out before taking it, so that the
//! first solution has the lowest number. A branch is cut as soon as the best remaining nodes cannot reach a threshold
//! any more, which for a single threshold is exact.
//!
//! Up to [`ALWAYS_EXACT`] nodes the search always finishes. Beyond, several thresholds at once are a knapsack problem:
//! after [`STEPS`] steps inside one width it returns [`Narrowest::Unproven`].

use smallvec::{SmallVec, smallvec};

use crate::hint::Threshold;
use crate::node_set::{NodeId, NodeSet};

/// Machines of up to this size are searched to the end.
const ALWAYS_EXACT: usize = 16;
/// The maximum number of steps for one width of a larger machine.
const STEPS: u32 = 20_000;

/// The result of a search for the narrowest mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Narrowest {
    /// Even the whole universe is not enough.
    Nothing,
    /// The narrowest mask.
    Mask(NodeSet),
    /// A mask that is enough and of which no node can be removed. A narrower one may exist.
    Unproven(NodeSet),
}

impl Narrowest {
    /// The mask, proven or not.
    pub(super) fn mask(self) -> Option<NodeSet> {
        match self {
            Narrowest::Nothing => None,
            Narrowest::Mask(mask) | Narrowest::Unproven(mask) => Some(mask),
        }
    }
}

/// The narrowest non-empty mask inside `universe` that contains `forced` and meets all `thresholds`
/// (sums only, no wide groups).
pub(super) fn narrowest(universe: NodeSet, forced: NodeSet, thresholds: &[Threshold]) -> Narrowest {
    let enough = |mask| thresholds.iter().all(|threshold| threshold.is_met(mask));
    if universe.is_empty() || !forced.is_subset(universe) || !enough(universe) {
        return Narrowest::Nothing;
    }
    if !forced.is_empty() && enough(forced) {
        return Narrowest::Mask(forced);
    }
    let mut search = MemoryCoverSearch::new(universe - forced, forced, thresholds);
    let open = search.nodes.len();
    for width in 1..=open {
        match (search.of_width(width), search.steps_left) {
            (None, 1..) => {}
            (Some(chosen), 1..) => return Narrowest::Mask(forced | chosen),
            (Some(chosen), 0) => return Narrowest::Unproven(forced | chosen),
            (None, 0) => {
                return Narrowest::Unproven(without_removable_nodes(universe, forced, enough));
            }
        }
    }
    Narrowest::Mask(universe)
}

/// The width of the [`narrowest`] mask; `None` if it could not be proven, the whole universe if that is not enough.
///
/// Nearly always the best nodes for one threshold, or for all of them together, meet every threshold with as few nodes
/// as the hardest threshold needs by itself; only otherwise a search is needed.
pub(super) fn least_width(universe: NodeSet, thresholds: &[Threshold]) -> Option<usize> {
    let enough = |mask| thresholds.iter().all(|threshold| threshold.is_met(mask));
    if universe.is_empty() || !enough(universe) {
        return Some(universe.len());
    }
    let share = |node: NodeId| -> u64 {
        let shares = thresholds.iter().filter(|threshold| threshold.need > 0);
        shares
            .map(|threshold| share_of(threshold.weight(node), threshold.need))
            .sum()
    };
    let mut orders: SmallVec<[SmallVec<[NodeId; 8]>; 3]> = SmallVec::new();
    let mut least = 1;
    for threshold in thresholds {
        let order = best_first(universe, |node| threshold.weight(node));
        let mut sum = 0_u64;
        let short = order.iter().take_while(|&&node| {
            let missing = sum < threshold.need;
            sum = sum.saturating_add(threshold.weight(node));
            missing
        });
        least = least.max(short.count());
        orders.push(order);
    }
    orders.push(best_first(universe, share));
    let is_proof =
        |order: &SmallVec<[NodeId; 8]>| enough(order.iter().take(least).copied().collect());
    if orders.iter().any(is_proof) {
        return Some(least);
    }
    match narrowest(universe, NodeSet::EMPTY, thresholds) {
        Narrowest::Mask(mask) => Some(mask.len()),
        Narrowest::Nothing => Some(universe.len()),
        Narrowest::Unproven(_) => None,
    }
}

fn best_first(nodes: NodeSet, value: impl Fn(NodeId) -> u64) -> SmallVec<[NodeId; 8]> {
    let mut order: SmallVec<[NodeId; 8]> = nodes.iter().collect();
    order.sort_unstable_by_key(|&node| std::cmp::Reverse(value(node)));
    order
}

/// `universe` without every node that can be removed, highest first.
fn without_removable_nodes(
    universe: NodeSet,
    forced: NodeSet,
    enough: impl Fn(NodeSet) -> bool,
) -> NodeSet {
    let mut kept = universe;
    for node in (universe - forced).iter().rev() {
        let without = kept - NodeSet::single(node);
        if !without.is_empty() && enough(without) {
            kept = without;
        }
    }
    kept
}

/// One threshold over the open nodes: the weight of each, and the largest sums of some of them.
struct MemoryCoverRow {
    need: u64,
    weights: SmallVec<[u64; 8]>,
    /// At `[places * (n + 1) + count]` the sum of the `count` largest weights among the first `places`.
    best: SmallVec<[u64; 81]>,
}

impl MemoryCoverRow {
    fn new(need: u64, weights: SmallVec<[u64; 8]>) -> Self {
        let n = weights.len();
        let mut best: SmallVec<[u64; 81]> = smallvec![0; (n + 1) * (n + 1)];
        let mut largest: SmallVec<[u64; 8]> = SmallVec::new();
        for (place, &weight) in weights.iter().enumerate() {
            let at = largest.partition_point(|&other| other >= weight);
            largest.insert(at, weight);
            let row = (place + 1) * (n + 1);
            for count in 1..=n {
                let next = largest.get(count - 1).copied().unwrap_or(0);
                best[row + count] = best[row + count - 1].saturating_add(next);
            }
        }
        Self {
            need,
            weights,
            best,
        }
    }

    fn best(&self, places: usize, count: usize) -> u64 {
        self.best[places * (self.weights.len() + 1) + count]
    }
}

struct MemoryCoverSearch {
    /// The nodes to choose from, ascending.
    nodes: SmallVec<[NodeId; 8]>,
    rows: SmallVec<[MemoryCoverRow; 3]>,
    /// For each node the set of positions with the same weights: interchangeable nodes.
    alike: SmallVec<[u64; 8]>,
    steps_left: u32,
    limit: u32,
}

impl MemoryCoverSearch {
    fn new(open: NodeSet, forced: NodeSet, thresholds: &[Threshold]) -> Self {
        let nodes: SmallVec<[NodeId; 8]> = open.iter().collect();
        let mut rows: SmallVec<[MemoryCoverRow; 3]> = SmallVec::new();
        for threshold in thresholds {
            let need = threshold.need.saturating_sub(threshold.value(forced));
            if need > 0 {
                let weight = |&node: &NodeId| threshold.weight(node).min(need);
                rows.push(MemoryCoverRow::new(
                    need,
                    nodes.iter().map(weight).collect(),
                ));
            }
        }
        if rows.len() > 1 {
            rows.push(shares(&rows, nodes.len()));
        }
        let same = |a: usize, b: usize| rows.iter().all(|row| row.weights[a] == row.weights[b]);
        let alike = (0..nodes.len())
            .map(|a| (0..nodes.len()).fold(0, |set, b| set | u64::from(same(a, b)) << b))
            .collect();
        let limit = match nodes.len() <= ALWAYS_EXACT {
            true => u32::MAX,
            false => STEPS,
        };
        Self {
            nodes,
            rows,
            alike,
            steps_left: limit,
            limit,
        }
    }

    /// The lowest-numbered choice of exactly `width` nodes.
    fn of_width(&mut self, width: usize) -> Option<NodeSet> {
        self.steps_left = self.limit;
        let have: SmallVec<[u64; 4]> = smallvec![0; self.rows.len()];
        let places = self.choose(self.nodes.len(), width, &have, 0)?;
        let chosen = self.nodes.iter().enumerate();
        Some(
            chosen
                .filter(|(place, _)| places >> place & 1 == 1)
                .map(|(_, &node)| node)
                .collect(),
        )
    }

    /// Chooses `count` of the first `places` nodes in addition to `taken`, whose values are `have`.
    fn choose(&mut self, places: usize, count: usize, have: &[u64], taken: u64) -> Option<u64> {
        let reachable = |row: &MemoryCoverRow, have: u64| {
            count <= places && have.saturating_add(row.best(places, count)) >= row.need
        };
        if count > places
            || !self
                .rows
                .iter()
                .zip(have)
                .all(|(row, &have)| reachable(row, have))
        {
            return None;
        }
        if count == 0 {
            return Some(taken);
        }
        self.steps_left = self.steps_left.checked_sub(1)?;
        let place = places - 1;
        // A choice that takes an equal higher node but not this one was tried with the two swapped.
        if self.alike[place] & taken == 0
            && let Some(found) = self.choose(place, count, have, taken)
        {
            return Some(found);
        }
        let with: SmallVec<[u64; 4]> = self
            .rows
            .iter()
            .zip(have)
            .map(|(row, &have)| have.saturating_add(row.weights[place]))
            .collect();
        self.choose(place, count - 1, &with, taken | 1 << place)
    }
}

/// All thresholds added up, each as a share of its need.
fn shares(rows: &[MemoryCoverRow], nodes: usize) -> MemoryCoverRow {
    let share = |row: &MemoryCoverRow, place: usize| share_of(row.weights[place], row.need);
    let sum = |place| rows.iter().map(|row| share(row, place)).sum();
    let need = rows.iter().map(|_| WHOLE).sum();
    MemoryCoverRow::new(need, (0..nodes).map(sum).collect())
}

/// A whole need as a share.
const WHOLE: u64 = 1 << 20;

/// `weight` as a share of `need`, at most the whole. Rounded up, so that whatever meets a need has shares of a whole.
fn share_of(weight: u64, need: u64) -> u64 {
    let exact = u128::from(weight.min(need)) * u128::from(WHOLE);
    u64::try_from(exact.div_ceil(u128::from(need.max(1)))).unwrap_or(WHOLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(id: usize) -> NodeId {
        NodeId::new(i64::try_from(id).expect("small")).expect("below 64")
    }

    fn threshold(need: u64, weights: &[u64]) -> Threshold {
        let rows = weights.iter().enumerate();
        Threshold::new(need, rows.map(|(id, &weight)| (node(id), weight)))
    }

    fn by_walking(universe: NodeSet, forced: NodeSet, thresholds: &[Threshold]) -> Narrowest {
        let fits = |mask: &NodeSet| {
            forced.is_subset(*mask) && thresholds.iter().all(|threshold| threshold.is_met(*mask))
        };
        let members = universe.subsets_by_width().filter(fits);
        let best = members.reduce(|best, mask| match mask.is_narrower_than(best) {
            true => mask,
            false => best,
        });
        best.map_or(Narrowest::Nothing, Narrowest::Mask)
    }

    proptest! {
        #[test]
        fn the_search_finds_what_visiting_all_masks_finds(
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
            let thresholds: Vec<Threshold> =
                rows.iter().map(|(need, weights)| threshold(*need, weights)).collect();
            prop_assert_eq!(
                narrowest(universe, forced, &thresholds),
                by_walking(universe, forced, &thresholds)
            );
            let least = by_walking(universe, NodeSet::EMPTY, &thresholds).mask();
            prop_assert_eq!(
                least_width(universe, &thresholds),
                Some(least.map_or(universe.len(), NodeSet::len))
            );
        }
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
            threshold(20 * (1 << 30) + odd, &left),
            threshold(20 * (1 << 30) - odd, &right),
        ];
        let enough = |mask| thresholds.iter().all(|threshold| threshold.is_met(mask));
        let Narrowest::Unproven(mask) = narrowest(NodeSet::FULL, NodeSet::EMPTY, &thresholds)
        else {
            panic!("20,000 steps are not enough for this");
        };
        assert!(enough(mask));
        for node in mask {
            assert!(
                !enough(mask - NodeSet::single(node)),
                "node {node} could be removed"
            );
        }
    }

    #[test]
    fn sixty_four_equal_nodes_give_the_lowest_ones() {
        let thresholds = [threshold(200, &[10; 64]), threshold(100, &[5; 64])];
        let found = narrowest(NodeSet::FULL, NodeSet::EMPTY, &thresholds);
        assert_eq!(found, Narrowest::Mask(NodeSet::from_bits((1 << 20) - 1)));
    }

    #[test]
    fn an_empty_request_takes_one_node() {
        let found = narrowest(NodeSet::from_bits(0b1100), NodeSet::EMPTY, &[]);
        assert_eq!(found, Narrowest::Mask(NodeSet::from_bits(0b100)));
    }
}
