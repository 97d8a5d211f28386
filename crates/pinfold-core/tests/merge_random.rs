//! Compares the merge with the kubelet's product of all hints, on random cases.
//!
//! * up to 6 nodes: the full product of all hints = the merge over lists = the merge over families;
//! * up to 14 nodes: lists = families;
//! * with tiny budgets: everything that still must hold.
//!
//! The default run is short. `PINFOLD_MERGE_CASES=50` runs fifty times as many cases, `PINFOLD_MERGE_SEED=7` other
//! ones. A failure prints the seed of its case.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests on small numbers"
)]

use crate::merge_cases::{MergeCase, Random, Recipe, SHAPES, adversarial, budgets, case, check};
use pinfold_core::hint::{Hint, ResourceHints};
use pinfold_core::merge::{
    Distances, HintSummary, MergeResult, MergeSearch, WidthRange, merge, merge_by_families,
    merge_by_lists,
};
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

/// The hints of each resource as the kubelet would list them.
fn written_out(case: &MergeCase) -> Vec<Vec<Hint>> {
    let rows = case.providers.iter().flat_map(|provider| &provider.rows);
    rows.map(|(_, hints)| match hints {
        ResourceHints::DontCare => vec![Hint::ANY],
        ResourceHints::Unsatisfiable => vec![Hint::NONE],
        ResourceHints::List(list) if list.is_empty() => vec![Hint::NONE],
        ResourceHints::List(list) => list.clone(),
        ResourceHints::Family(family) => family.list(),
    })
    .collect()
}

/// The kubelet's algorithm: every combination, compared pair by pair.
fn by_product(case: &MergeCase, lists: &[Vec<Hint>]) -> Hint {
    let single = case.policy == TopologyPolicy::SingleNumaNode;
    let lists: Vec<Vec<Hint>> = lists
        .iter()
        .map(|list| {
            let kept = |hint: &&Hint| {
                !single || hint.preferred && hint.mask.is_none_or(|mask| mask.len() == 1)
            };
            list.iter().filter(kept).copied().collect()
        })
        .collect();
    let best_width = best_width(&lists);
    let closest = case.distances.as_ref().filter(|_| !single);
    let mut best: Option<(NodeSet, bool)> = None;
    let mut choice = vec![0; lists.len()];
    if lists.iter().all(|list| !list.is_empty()) {
        loop {
            let hints = choice.iter().zip(&lists).map(|(&index, list)| list[index]);
            let masks: Vec<NodeSet> = hints.clone().filter_map(|hint| hint.mask).collect();
            let equal = masks.windows(2).all(|pair| pair[0] == pair[1]);
            let preferred = equal && hints.clone().all(|hint| hint.preferred);
            let mask = masks.iter().fold(case.nodes, |all, &mask| all & mask);
            if !mask.is_empty() {
                best = Some(match best {
                    None => (mask, preferred),
                    Some(best) => better(best, (mask, preferred), best_width, closest),
                });
            }
            let Some(turn) = (0..lists.len())
                .rev()
                .find(|&i| choice[i] + 1 < lists[i].len())
            else {
                break;
            };
            choice[turn] += 1;
            choice[turn + 1..].fill(0);
        }
    }
    let (mask, preferred) = best.unwrap_or((case.nodes, false));
    let mask = Some(mask).filter(|&mask| !single || mask != case.nodes);
    Hint { mask, preferred }
}

fn best_width(lists: &[Vec<Hint>]) -> usize {
    let narrowest = lists.iter().filter_map(|list| {
        let masks = list.iter().filter_map(|hint| hint.mask);
        masks.map(NodeSet::len).min()
    });
    narrowest.max().unwrap_or(0)
}

fn better(
    current: (NodeSet, bool),
    candidate: (NodeSet, bool),
    best_width: usize,
    closest: Option<&Distances>,
) -> (NodeSet, bool) {
    if current.1 != candidate.1 {
        return if candidate.1 { candidate } else { current };
    }
    let (old, new) = (current.0.len(), candidate.0.len());
    let by_mask = || {
        let key = |mask: NodeSet| (mask.len(), closest.map_or(0, |d| d.sum(mask)), mask);
        if key(candidate.0) < key(current.0) {
            candidate
        } else {
            current
        }
    };
    if current.1 || old > best_width {
        return by_mask();
    }
    if old == best_width {
        return if new == best_width {
            by_mask()
        } else {
            current
        };
    }
    if new > best_width || new < old {
        return current;
    }
    if new == best_width || new > old {
        return candidate;
    }
    by_mask()
}

fn assert_same(one: &MergeResult, other: &MergeResult) {
    assert_eq!(one.hint, other.hint);
    assert_eq!(one.admit, other.admit);
    assert_eq!(one.facts.decided_by, other.facts.decided_by);
    assert_eq!(
        one.facts.no_preferred.is_some(),
        other.facts.no_preferred.is_some()
    );
    if one.facts.no_preferred.is_some() {
        assert_eq!(one.facts.best_width, other.facts.best_width);
    }
    assert_eq!(
        one.facts.distance.map(|d| d.sum),
        other.facts.distance.map(|d| d.sum)
    );
    for (one, other) in one.facts.resources.iter().zip(&other.facts.resources) {
        if let (
            HintSummary::Masks {
                narrowest: WidthRange { at_least, at_most },
                ..
            },
            HintSummary::Masks {
                narrowest: exact, ..
            },
        ) = (one.hints, other.hints)
        {
            assert!(at_least <= exact.at_least && exact.at_most <= at_most);
        } else {
            assert_eq!(one, other);
        }
    }
}

fn assert_lists_equal_families(case: &MergeCase) {
    let request = case.request();
    let lists = merge_by_lists(&request).expect("few nodes");
    let families = merge_by_families(&request);
    match families.facts.exact() {
        true => assert_same(&families, &lists),
        false => assert_fallback(case, &families, &lists),
    }
    assert_same(&merge(&request), &lists);
}

/// Larger products are not tried.
const LARGEST_PRODUCT: usize = 300_000;

fn assert_product_equals_lists_equals_families(case: &MergeCase) {
    let lists = written_out(case);
    let combinations = lists
        .iter()
        .fold(1, |product: usize, list| product.saturating_mul(list.len()));
    if combinations <= LARGEST_PRODUCT {
        let by_lists = merge_by_lists(&case.request()).expect("few nodes");
        assert_eq!(by_lists.hint, by_product(case, &lists));
        if case.policy == TopologyPolicy::Restricted && !by_lists.hint.preferred {
            assert_eq!(by_lists.facts.best_width, best_width(&lists));
        }
    }
    assert_lists_equal_families(case);
}

/// What must hold when budgets run out.
fn assert_fallback(case: &MergeCase, found: &MergeResult, exact: &MergeResult) {
    let unfinished = found.facts.unfinished;
    let mask = found.hint.mask.expect("there is always a mask");
    let gave_up = |questions: &[MergeSearch]| questions.iter().any(|&q| unfinished.contains(q));
    let widths = (mask.len(), exact.hint.mask.unwrap().len());
    // An answer is never called preferred without being it.
    if found.hint.preferred {
        assert!(exact.hint.preferred);
        assert!(is_preferred(case, mask));
        assert!(widths.0 >= widths.1);
    } else if exact.hint.preferred {
        assert!(gave_up(&[
            MergeSearch::Preferred,
            MergeSearch::UnknownNodes
        ]));
    }
    let one_part_each = case
        .providers
        .iter()
        .flat_map(|provider| &provider.rows)
        .all(|(_, hints)| match hints {
            ResourceHints::Family(family) => family.components.len() == 1,
            ResourceHints::List(_) => false,
            ResourceHints::DontCare | ResourceHints::Unsatisfiable => true,
        });
    let width_in_doubt = match found.hint.preferred {
        true => gave_up(&[MergeSearch::Preferred, MergeSearch::UnknownNodes]),
        false => {
            gave_up(&[MergeSearch::Width, MergeSearch::Choices])
                || gave_up(&[MergeSearch::Reach]) && !one_part_each
        }
    };
    if found.hint.preferred == exact.hint.preferred && !width_in_doubt {
        assert_eq!(found.facts.decided_by, exact.facts.decided_by);
        assert_eq!(widths.0, widths.1);
        if let (Some(found), Some(exact)) = (found.facts.distance, exact.facts.distance) {
            assert!(found.at_least <= exact.sum && exact.sum <= found.sum);
        }
    }
    if !found.hint.preferred && case.nodes.len() <= 6 {
        let nothing_found = unfinished.contains(MergeSearch::Choices) && mask == case.nodes;
        assert!(
            nothing_found || is_reachable(case, mask),
            "{mask} is not reachable"
        );
    }
}

fn is_preferred(case: &MergeCase, mask: NodeSet) -> bool {
    written_out(case).iter().all(|list| {
        let fits = |hint: &Hint| hint.mask.is_none_or(|own| own & case.nodes == mask);
        list.iter().any(|hint| hint.preferred && fits(hint))
    })
}

fn is_reachable(case: &MergeCase, mask: NodeSet) -> bool {
    let mut reachable = vec![case.nodes];
    for list in written_out(case) {
        let masks = list.iter().map(|hint| hint.mask.unwrap_or(case.nodes));
        let all = masks.flat_map(|mask| reachable.iter().map(move |&old| old & mask));
        let mut next: Vec<NodeSet> = all.filter(|mask| !mask.is_empty()).collect();
        next.sort_unstable();
        next.dedup();
        reachable = next;
    }
    reachable.contains(&mask) || reachable.is_empty() && mask == case.nodes
}

#[test]
fn on_few_nodes_the_product_the_lists_and_the_families_agree() {
    let recipe = |nodes, most_resources, sparse| Recipe {
        nodes,
        most_resources,
        sparse,
        largest: 12,
        lists: true,
    };
    for recipe in [
        recipe((1, 4), 7, false),
        recipe((3, 6), 5, false),
        recipe((1, 6), 4, true),
    ] {
        check(
            10_000,
            |random| case(random, recipe),
            assert_product_equals_lists_equals_families,
        );
    }
}

#[test]
fn on_up_to_14_nodes_the_lists_and_the_families_agree() {
    let recipe = |nodes, sparse| Recipe {
        nodes,
        most_resources: 10,
        sparse,
        largest: 40,
        lists: true,
    };
    check(
        4_000,
        |random| case(random, recipe((7, 10), false)),
        assert_lists_equal_families,
    );
    check(
        800,
        |random| case(random, recipe((7, 12), true)),
        assert_lists_equal_families,
    );
    check(
        60,
        |random| case(random, recipe((11, 14), false)),
        assert_lists_equal_families,
    );
}

#[test]
fn on_adversarial_cases_the_lists_and_the_families_agree() {
    let make = |low, high| {
        move |random: &mut Random| {
            let count = random.between(low, high);
            let shape = random.chance(40).then(|| SHAPES[random.below(5) as usize]);
            adversarial(random, count, shape)
        }
    };
    check(4_000, make(3, 8), assert_lists_equal_families);
    check(100, make(9, 13), assert_lists_equal_families);
}

#[test]
fn tiny_budgets_keep_every_guarantee() {
    for steps in [0, 1, 2, 5] {
        let check_with = |case: &MergeCase| {
            if case.policy == TopologyPolicy::SingleNumaNode {
                return;
            }
            let mut request = case.request();
            let exact = merge_by_lists(&request).expect("few nodes");
            request.budgets = budgets(steps);
            let found = merge_by_families(&request);
            match found.facts.exact() {
                true => assert_same(&found, &exact),
                false => assert_fallback(case, &found, &exact),
            }
            // Small machines are exact nevertheless: their hints are listed.
            assert_eq!(merge(&request).hint, exact.hint);
            assert!(merge(&request).facts.exact());
        };
        let recipe = Recipe {
            nodes: (2, 8),
            most_resources: 6,
            sparse: false,
            largest: 30,
            lists: true,
        };
        check(4_000, |random| case(random, recipe), check_with);
        let hard = |random: &mut Random| {
            let shape = random.chance(50).then(|| SHAPES[random.below(5) as usize]);
            adversarial(random, 3 + random.clone().below(6) as usize, shape)
        };
        check(1_000, hard, check_with);
    }
}
