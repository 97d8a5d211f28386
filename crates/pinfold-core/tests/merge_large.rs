//! The merge on machines with up to 64 nodes, where no list and no product can serve as reference. Checked there: the
//! answer does not depend on the order of resources or on gaps between node IDs, it is a member, and no similar mask
//! would have been better. Cases and seeds as in `merge_random.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests on small numbers"
)]

use std::cell::Cell;
use std::collections::HashSet;

use crate::merge_cases::{
    Load, MergeCase, Random, Recipe, SHAPES, adversarial, case, check, distances, machine_case,
    node,
};
use pinfold_core::hint::{Component, Hint, ResourceHints};
use pinfold_core::merge::{Budgets, MergeRule, merge, merge_by_families, merge_by_lists};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;

/// The percentage of large cases, adversarial ones among them, of which a search may run out of steps: 12 with the
/// default seeds.
const UNFINISHED_LARGE: usize = 15;
/// The same for cases of up to nine nodes.
const UNFINISHED_SMALL: usize = 1;

/// Counts the cases that a check compared and those it could not, because a search ran out of steps.
#[derive(Default)]
struct Compared {
    all: Cell<usize>,
    unfinished: Cell<usize>,
}

impl Compared {
    /// Counts one case; `exact` is whether every search of it finished, and the result.
    fn count(&self, exact: bool) -> bool {
        self.all.set(self.all.get() + 1);
        if !exact {
            self.unfinished.set(self.unfinished.get() + 1);
        }
        exact
    }

    /// Fails if more than `percent` of the cases were not compared.
    fn expect_most(&self, percent: usize) {
        let (all, unfinished) = (self.all.get(), self.unfinished.get());
        assert!(
            unfinished * 100 <= all * percent,
            "{unfinished} of {all} cases were not compared: more than {percent}%"
        );
    }
}

fn large(random: &mut Random) -> MergeCase {
    let recipe = Recipe {
        nodes: (17, 64),
        most_resources: 6,
        sparse: random.chance(20),
        largest: 8,
        lists: random.chance(10),
    };
    match random.below(4) {
        0 => {
            let count = random.between(17, 64);
            let shape = random.chance(30).then(|| SHAPES[random.below(5) as usize]);
            adversarial(random, count, shape)
        }
        1 => {
            let resources = random.between(2, 10);
            let closest = random.chance(30);
            machine_case(random, 64, resources, Load::Crowded, closest)
        }
        _ => case(random, recipe),
    }
}

#[test]
fn the_order_of_resources_does_not_matter() {
    let compared = Compared::default();
    check(600, large, |case| {
        let merged = merge(&case.request());
        let mut other = case.clone();
        other.providers.reverse();
        let reversed = merge(&other.request());
        other.providers.rotate_left(case.providers.len() / 2);
        let rotated = merge(&other.request());
        for other in [reversed, rotated] {
            if compared.count(merged.facts.exact() && other.facts.exact()) {
                assert_eq!(merged.hint, other.hint);
                assert_eq!(merged.facts.decided_by, other.facts.decided_by);
            }
        }
    });
    compared.expect_most(UNFINISHED_LARGE);
}

#[test]
fn the_answer_is_reachable_and_no_similar_smaller_mask_is() {
    let compared = Compared::default();
    check(400, large, |case| {
        let merged = merge(&case.request());
        let exact = compared.count(merged.facts.exact());
        let (Some(mask), true) = (merged.hint.mask, exact) else {
            return;
        };
        if case.policy == TopologyPolicy::SingleNumaNode
            || merged.facts.decided_by == MergeRule::NoCommonNode
        {
            return;
        }
        let is_member = |mask| match merged.hint.preferred {
            true => Some(is_preferred(case, mask)),
            false => is_reachable(case, mask),
        };
        assert_ne!(is_member(mask), Some(false), "{mask} is no member");
        if case.distances.is_some() {
            return;
        }
        let mut random = Random(mask.bits());
        for _ in 0..4 {
            let out = random.one(mask);
            let into = random.one((case.nodes - mask) | out);
            let neighbour = (mask - out) | into;
            if neighbour < mask {
                assert_ne!(
                    is_member(neighbour),
                    Some(true),
                    "{neighbour} would be better"
                );
            }
        }
    });
    compared.expect_most(UNFINISHED_LARGE);
}

#[test]
fn gaps_between_node_ids_change_nothing() {
    let recipe = Recipe {
        nodes: (1, 9),
        most_resources: 6,
        sparse: false,
        largest: 20,
        lists: false,
    };
    let make = |random: &mut Random| {
        let mut case = case(random, recipe);
        case.distances = None;
        case
    };
    let compared = Compared::default();
    check(4_000, make, |case| {
        // IDs 0, 1, 2... become 1, 8, 15...
        let spread = |set: NodeSet| -> NodeSet {
            let far = |id: NodeId| node((1 + 7 * id.index()).min(63));
            set.iter().map(far).collect()
        };
        let mut wide = case.clone();
        wide.nodes = spread(case.nodes);
        for (_, hints) in wide
            .providers
            .iter_mut()
            .flat_map(|provider| &mut provider.rows)
        {
            if !spread_hints(hints, &spread) {
                return;
            }
        }
        let (near, far) = (
            merge_by_families(&case.request()),
            merge_by_families(&wide.request()),
        );
        if compared.count(near.facts.exact() && far.facts.exact()) {
            assert_eq!(near.hint.mask.map(spread), far.hint.mask);
            assert_eq!(near.hint.preferred, far.hint.preferred);
        }
    });
    compared.expect_most(UNFINISHED_SMALL);
}

/// False if some node ID is too large to be spread.
fn spread_hints(hints: &mut ResourceHints, spread: &impl Fn(NodeSet) -> NodeSet) -> bool {
    let ResourceHints::Family(family) = hints else {
        return true;
    };
    for part in &mut family.components {
        if part.universe.iter().any(|node| node.index() > 8) {
            return false;
        }
        let universe = part.universe;
        for threshold in &mut part.thresholds {
            let rows: Vec<(NodeId, u64)> = universe
                .iter()
                .flat_map(|node| {
                    let far = spread(NodeSet::single(node)).first();
                    far.map(|far| (far, threshold.weight(node)))
                })
                .collect();
            let mut far = pinfold_core::hint::Threshold::new(threshold.need, rows);
            far.groups = threshold.groups.clone();
            far.groups
                .iter_mut()
                .for_each(|group| group.nodes = spread(group.nodes & universe));
            *threshold = far;
        }
        part.universe = spread(part.universe);
        part.forced = spread(part.forced);
    }
    if let pinfold_core::hint::Preference::WidthOrSockets(_, rule) = &mut family.preference {
        rule.nodes_of_socket
            .iter_mut()
            .for_each(|nodes| *nodes = spread(*nodes));
    }
    true
}

#[test]
fn nodes_that_no_resource_is_on_do_not_matter() {
    let recipe = Recipe {
        nodes: (1, 7),
        most_resources: 6,
        sparse: false,
        largest: 20,
        lists: false,
    };
    let compared = Compared::default();
    check(
        1_000,
        |random| case(random, recipe),
        |case| {
            let far = |part: &Component| part.universe.iter().any(|node| node.index() > 7);
            let names_far_nodes = resources(case).any(|hints| match hints {
                ResourceHints::Family(family) => family.components.iter().any(far),
                _ => false,
            });
            if names_far_nodes {
                return;
            }
            let mut few = case.clone();
            few.nodes = (0..14).map(node).collect();
            few.distances = few
                .distances
                .map(|_| distances(&mut Random(1), few.nodes, SHAPES[0]));
            let mut many = few.clone();
            many.nodes = (0..64).map(node).collect();
            let lists = merge_by_lists(&few.request()).expect("few nodes");
            let families = merge_by_families(&many.request());
            if compared.count(families.facts.exact()) {
                let mask = match lists.hint.mask {
                    Some(mask) if mask == few.nodes => Some(many.nodes),
                    mask => mask,
                };
                assert_eq!(families.hint, Hint { mask, ..lists.hint });
            }
        },
    );
    compared.expect_most(UNFINISHED_SMALL);
}

#[test]
fn realistic_machines_need_a_fraction_of_the_budgets() {
    let frugal = Budgets {
        width: 500,
        preferred: 1_000,
        choices: 200,
        reach: 2_000,
        closest: 3_000,
    };
    for nodes in [4, 8, 16, 34, 64] {
        for load in [Load::Idle, Load::Wide, Load::Crowded] {
            for closest in [false, true] {
                let make = |random: &mut Random| {
                    let resources = random.between(1, 10);
                    machine_case(random, nodes, resources, load, closest)
                };
                check(4, make, |case| {
                    let mut request = case.request();
                    request.budgets = frugal;
                    let merged = merge_by_families(&request);
                    assert!(merged.facts.exact(), "{:?}", merged.facts.unfinished);
                });
            }
        }
    }
}

fn resources(case: &MergeCase) -> impl Iterator<Item = &ResourceHints> {
    let rows = case.providers.iter().flat_map(|provider| &provider.rows);
    rows.map(|(_, hints)| hints)
}

fn is_preferred(case: &MergeCase, mask: NodeSet) -> bool {
    resources(case).all(|hints| match hints {
        ResourceHints::DontCare => true,
        ResourceHints::Unsatisfiable => false,
        ResourceHints::Family(family) => family.contains(mask) && family.preference.holds(mask),
        ResourceHints::List(list) => list
            .iter()
            .any(|hint| hint.preferred && hint.mask.is_none_or(|own| own & case.nodes == mask)),
    })
}

/// Whether `mask` is the AND of one mask per resource: distributes the nodes outside it to the parts in every way that
/// makes a difference. `None` if there are too many ways.
fn is_reachable(case: &MergeCase, mask: NodeSet) -> Option<bool> {
    let mut combos: Vec<(NodeSet, Vec<&Component>)> = vec![(case.nodes, Vec::new())];
    let single: Vec<Vec<Component>> = resources(case)
        .map(|hints| match hints {
            ResourceHints::List(list) if !list.is_empty() => {
                let masks = list.iter().map(|hint| hint.mask.unwrap_or(case.nodes));
                masks.map(Component::fixed).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    for (hints, single) in resources(case).zip(&single) {
        let parts: Vec<&Component> = match hints {
            ResourceHints::Family(family) => family.components.iter().collect(),
            ResourceHints::List(_) => single.iter().collect(),
            _ => continue,
        };
        if parts.is_empty() {
            continue;
        }
        let mut next = Vec::new();
        for (within, chosen) in &combos {
            for part in parts.iter().filter(|part| !part.is_empty()) {
                if mask.is_subset(*within & part.universe) {
                    let mut chosen = chosen.clone();
                    chosen.push(*part);
                    next.push((*within & part.universe, chosen));
                }
            }
        }
        if next.len() > 200 {
            return None;
        }
        combos = next;
    }
    let mut all_known = true;
    for (within, parts) in combos {
        match can_distribute(within - mask, &parts) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => all_known = false,
        }
    }
    all_known.then_some(false)
}

fn can_distribute(nodes: NodeSet, parts: &[&Component]) -> Option<bool> {
    // One part that drops all of them is the usual case.
    if parts
        .iter()
        .any(|part| part.contains(part.universe - nodes))
    {
        return Some(true);
    }
    let mut states: Vec<Vec<NodeSet>> = vec![vec![NodeSet::EMPTY; parts.len()]];
    for node in nodes {
        let mut seen = HashSet::new();
        let mut next = Vec::new();
        for state in &states {
            for (index, part) in parts.iter().enumerate() {
                let given = state[index] | NodeSet::single(node);
                if !part.contains(part.universe - given) {
                    continue;
                }
                let mut more = state.clone();
                more[index] = given;
                // States with the same room everywhere are equal, as long as no groups are involved.
                let room: Vec<u64> = parts
                    .iter()
                    .zip(&more)
                    .flat_map(|(part, given)| {
                        let kept = part.universe - *given;
                        let rooms = part.thresholds.iter().map(move |threshold| {
                            match threshold.groups.is_empty() {
                                true => threshold.value(kept),
                                false => kept.bits(),
                            }
                        });
                        rooms.collect::<Vec<u64>>()
                    })
                    .collect();
                if seen.insert(room) {
                    next.push(more);
                }
            }
        }
        if next.len() > 3_000 {
            return None;
        }
        states = next;
    }
    Some(!states.is_empty())
}
