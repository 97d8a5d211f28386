//! Compares the covering search with trying every subset.

use super::*;
use crate::hint::{Threshold, WideGroup};
use crate::merge::distances::Distances;
use crate::merge::rank::Rank;

const NODES: u64 = 10;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn nodes(&mut self) -> NodeSet {
        NodeSet::from_bits(self.below(1 << NODES))
    }

    fn prepared(&mut self, universe: NodeSet) -> Option<PreparedThreshold> {
        let largest = [2, 5, 60][usize::try_from(self.below(3)).unwrap()];
        let mut threshold =
            Threshold::new(0, universe.iter().map(|node| (node, self.below(largest))));
        for _ in 0..self.below(6) {
            let nodes = self.nodes() & self.nodes();
            let count = 1 + self.below(largest);
            threshold.groups.push(WideGroup { nodes, count });
        }
        threshold.need = self.below(threshold.value(universe) * 4 / 5 + 1);
        PreparedThreshold::of(&threshold, universe).map(|made| made.prepared)
    }
}

fn subsets(within: NodeSet, forced: NodeSet, size: usize) -> impl Iterator<Item = NodeSet> {
    let all = (0..1 << NODES).map(NodeSet::from_bits);
    all.filter(move |set| set.is_subset(within) && forced.is_subset(*set) && set.len() == size)
}

#[test]
fn the_smallest_and_the_closest_solution_are_found_if_there_is_one() {
    let mut random = Random(11);
    let (mut solved, mut hopeless) = (0, 0);
    for round in 0..3_000 {
        let within = random.nodes() | random.nodes();
        let forced = random.nodes() & random.nodes() & random.nodes() & within;
        let size = usize::try_from(random.below(NODES)).unwrap();
        let thresholds: Vec<PreparedThreshold> =
            (0..3).filter_map(|_| random.prepared(within)).collect();
        let rule = SocketRule {
            sockets: usize::try_from(random.below(3)).unwrap(),
            nodes_of_socket: vec![
                NodeSet::from_bits(0b11),
                NodeSet::from_bits(0b1100),
                NodeSet::from_bits(0x3f0),
            ],
        };
        let with_rule = random.below(3) == 0;
        let rows: Vec<Vec<u32>> = (0..NODES)
            .map(|_| {
                (0..NODES)
                    .map(|_| 10 + u32::try_from(random.below(4)).unwrap())
                    .collect()
            })
            .collect();
        let ids = NodeSet::from_bits((1 << NODES) - 1);
        let distances = Distances::from_rows(ids.iter().zip(rows.iter().map(Vec::as_slice)));

        let cover = || {
            let cover = Cover::new(within, forced, size)?.with_thresholds(&thresholds);
            Some(if with_rule {
                cover.with_sockets(&rule)
            } else {
                cover
            })
        };
        let solutions: Vec<NodeSet> = subsets(within, forced, size)
            .filter(|set| thresholds.iter().all(|prepared| prepared.is_met(*set)))
            .filter(|set| !with_rule || rule.holds(*set))
            .collect();
        let solve = |goal: Goal<'_, '_>| {
            let mut budget = Budget::new(u32::MAX);
            cover().and_then(|cover| cover.solve(goal, &mut budget))
        };
        assert_eq!(
            solve(Goal::Smallest),
            solutions.iter().min().copied(),
            "round {round}"
        );
        match solve(Goal::Any) {
            Some(any) => assert!(solutions.contains(&any), "round {round}"),
            None => assert!(solutions.is_empty(), "round {round}"),
        }
        let mut closest = Closest::new(&distances, u32::MAX);
        let nearest = solutions
            .iter()
            .min_by_key(|set| Rank::of(**set, Some(&distances)));
        assert_eq!(
            solve(Goal::Closest(&mut closest)),
            nearest.copied(),
            "round {round}"
        );
        match solutions.is_empty() {
            true => hopeless += 1,
            false => solved += 1,
        }
    }
    assert!(
        solved > 500 && hopeless > 500,
        "{solved} solved, {hopeless} hopeless"
    );
}
