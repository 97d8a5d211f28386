//! Merge cases that are hard on purpose.

use pinfold_core::hint::{Component, Preference, ResourceHints, Threshold, WideGroup};
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

use super::{MergeCase, Random, Shape, distances, family, node, nodes, provider};

/// Every node different, requests at 20 to 95 % of the total, overlapping groups, kinds of memory of which nodes have
/// much of one and little of the other.
pub fn adversarial(random: &mut Random, count: usize, shape: Option<Shape>) -> MergeCase {
    let all = nodes(random, count, false);
    let mut hints = Vec::new();
    let part_of = |random: &mut Random, sum: u64| (sum * (20 + random.below(76)) / 100).max(1);
    let fixed_width = random.between(1, count);
    let width = |random: &mut Random| match random.chance(70) {
        true => fixed_width,
        false => random.between(1, count),
    };
    let one = |threshold: Threshold| Component {
        universe: all,
        forced: NodeSet::EMPTY,
        thresholds: [threshold].into_iter().collect(),
    };
    for _ in 0..random.between(1, 4) {
        let mut threshold =
            Threshold::new(0, all.iter().map(|node| (node, 1 + random.below(1 << 20))));
        threshold.need = part_of(random, threshold.value(all));
        let width = Preference::Width(width(random));
        hints.push(family(
            [one(threshold)].into_iter(),
            width,
            ResourceHints::Unsatisfiable,
        ));
    }
    for _ in 0..random.below(3) {
        let mut threshold = Threshold::new(0, all.iter().map(|node| (node, random.below(3))));
        for first in 0..count {
            let nodes: NodeSet = match random.chance(50) {
                true => (0..4).map(|hop| node((first + hop) % count)).collect(),
                false => (0..4)
                    .map(|_| node(random.below(count as u64) as usize))
                    .collect(),
            };
            if nodes.len() > 1 {
                threshold.groups.push(WideGroup {
                    nodes,
                    count: 1 + random.below(4),
                });
            }
        }
        threshold.need = part_of(random, threshold.value(all));
        let width = Preference::Width(width(random));
        hints.push(family(
            [one(threshold)].into_iter(),
            width,
            ResourceHints::Unsatisfiable,
        ));
    }
    if random.chance(60) {
        let kinds = random.between(2, 3);
        let middle = 1_u64 << 33;
        let offsets: Vec<u64> = all.iter().map(|_| random.below(1 << 32)).collect();
        let mut thresholds: smallvec::SmallVec<[Threshold; 1]> = smallvec::SmallVec::new();
        let take = random.between(1, count.max(2) - 1);
        for kind in 0..kinds {
            let rows = all.iter().zip(&offsets).map(|(node, &offset)| match kind {
                0 => (node, middle + offset),
                1 => (node, middle - offset),
                _ => (node, random.below(1 << 33)),
            });
            let mut threshold = Threshold::new(0, rows);
            let chosen: NodeSet = all
                .iter()
                .filter(|_| random.chance(50))
                .take(take)
                .collect();
            threshold.need = threshold.value(chosen).max(1);
            thresholds.push(threshold);
        }
        let open = Component {
            universe: all,
            forced: NodeSet::EMPTY,
            thresholds,
        };
        let width = Preference::Width(width(random));
        let memory = family([open].into_iter(), width, ResourceHints::DontCare);
        hints.extend(vec![memory; kinds]);
    }
    MergeCase {
        nodes: all,
        policy: TopologyPolicy::BestEffort,
        distances: shape.map(|shape| distances(random, all, shape)),
        providers: hints.into_iter().map(provider).collect(),
    }
}
