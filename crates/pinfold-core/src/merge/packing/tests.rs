//! Compares the packing search with trying every distribution of nodes.

use super::*;
use crate::hint::{
    Component, Family, Preference, ProviderHints, ResourceHints, Threshold, WideGroup,
};
use crate::merge::resources_of;

const NODES: u64 = 7;

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

    fn component(&mut self) -> Component {
        let universe = NodeSet::from_bits((1 << NODES) - 1);
        let largest = [2, 4, 30][usize::try_from(self.below(3)).unwrap()];
        let thresholds = (0..1 + self.below(2)).map(|_| {
            let mut threshold =
                Threshold::new(0, universe.iter().map(|node| (node, self.below(largest))));
            for _ in 0..self.below(4) {
                let (nodes, count) = (self.nodes(), 1 + self.below(largest));
                threshold.groups.push(WideGroup { nodes, count });
            }
            let value = threshold.value(universe);
            threshold.need = value - self.below(value / 2 + 1);
            threshold
        });
        Component {
            thresholds: thresholds.collect(),
            universe,
            forced: self.nodes() & self.nodes() & self.nodes(),
        }
    }
}

/// The sets of nodes that can be dropped, found by distributing one node after the other.
fn droppable(parts: &[Component]) -> Vec<bool> {
    let mut states = vec![vec![NodeSet::EMPTY; parts.len()]];
    let mut droppable = vec![false; 1 << NODES];
    for node in NodeSet::from_bits((1 << NODES) - 1) {
        let mut more = Vec::new();
        for state in &states {
            for (index, part) in parts.iter().enumerate() {
                let mut next = state.clone();
                next[index].insert(node);
                // An empty rest is valid here: what the other parts keep is never empty in a merge.
                let kept = part.universe - next[index];
                let met = part
                    .thresholds
                    .iter()
                    .all(|threshold| threshold.is_met(kept));
                if met && part.forced.is_subset(kept) {
                    more.push(next);
                }
            }
        }
        states.extend(more);
    }
    for state in states {
        let all = state.iter().fold(0, |all, set| all | set.bits());
        droppable[usize::try_from(all).unwrap()] = true;
    }
    droppable
}

#[test]
fn nodes_can_be_dropped_exactly_if_there_is_a_way_to_hand_them_out() {
    let mut random = Random(5);
    let (mut yes, mut no) = (0, 0);
    for round in 0..400 {
        let mut parts: Vec<Component> = (0..1 + random.below(3))
            .map(|_| random.component())
            .collect();
        if random.below(3) == 0 {
            // A second resource with the same family.
            parts.push(parts[0].clone());
        }
        let providers: Vec<ProviderHints> = parts
            .iter()
            .map(|part| {
                let family = Family {
                    components: [part.clone()].into_iter().collect(),
                    preference: Preference::Width(1),
                };
                ProviderHints::one("resource".into(), ResourceHints::Family(family))
            })
            .collect();
        let all = NodeSet::from_bits((1 << NODES) - 1);
        let resources = resources_of(&providers);
        let problem = MergeProblem::new(all, &resources);
        let ids: Vec<PartId> = problem
            .resources
            .iter()
            .flat_map(|member| member.open.clone())
            .collect();
        if ids.len() < parts.len() {
            continue;
        }
        let bins = Bins::new(&problem, all, &ids);
        let droppable = droppable(&parts);
        for _ in 0..40 {
            let must = random.nodes() & random.nodes();
            let optional = random.nodes() - must;
            let count = usize::try_from(random.below(optional.len() as u64 + 1)).unwrap();
            let fits = |set: NodeSet| {
                must.is_subset(set)
                    && set.is_subset(must | optional)
                    && (set - must).len() >= count
                    && droppable[usize::try_from(set.bits()).unwrap()]
            };
            let expected = (0..1 << NODES).map(NodeSet::from_bits).any(fits);
            let mut budget = Budget::new(u32::MAX);
            match bins.can_drop(must, optional, count, &mut budget) {
                Some(set) => {
                    assert!(fits(set), "round {round}: {set}");
                    yes += 1;
                }
                None => {
                    assert!(!expected, "round {round}: {must} and {count} of {optional}");
                    no += 1;
                }
            }
        }
    }
    assert!(yes > 1_000 && no > 1_000, "{yes} yes, {no} no");
}
