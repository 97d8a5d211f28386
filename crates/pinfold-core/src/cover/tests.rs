//! Compares the covering search with trying every subset.

use super::*;
use crate::hint::{Threshold, WideGroup};

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
fn the_lowest_solution_is_found_if_there_is_one() {
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
        let lowest = cover().and_then(|mut cover| cover.lowest(&mut Budget::new(u32::MAX)));
        assert_eq!(lowest, solutions.iter().min().copied(), "round {round}");
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

#[test]
fn a_budget_runs_out_on_the_first_step_too_many() {
    let mut budget = Budget::new(2);
    assert!(budget.step(1) && budget.step(15));
    assert!(!budget.ran_out());
    assert!(!budget.step(1));
    assert!(budget.ran_out());
}

#[test]
fn visiting_a_state_of_many_nodes_costs_more() {
    let mut budget = Budget::new(5);
    assert!(budget.step(64));
    assert!(!budget.step(1));
}
