use proptest::prelude::*;

use super::*;
use pinfold_core::hint::{Component, Threshold};
use pinfold_core::name::ResourceName;

fn nodes(bits: u64) -> NodeSet {
    NodeSet::from_bits(bits)
}

fn list(name: &str, hints: Vec<Hint>) -> ProviderHints {
    ProviderHints::one(ResourceName::from(name), ResourceHints::List(hints))
}

/// The rule applied to every combination.
fn by_product(all: NodeSet, lists: &[Vec<Hint>]) -> Hint {
    let mut combinations = vec![Hint::on(all, true)];
    for hints in lists {
        let cannot = [Hint::NONE];
        let hints = if hints.is_empty() { &cannot[..] } else { hints };
        combinations = combinations
            .iter()
            .flat_map(|so_far| {
                hints.iter().map(|hint| Hint {
                    mask: so_far.mask.map(|mask| mask & hint.mask.unwrap_or(all)),
                    preferred: so_far.preferred && hint.preferred,
                })
            })
            .collect();
    }
    let mut best = Hint::on(all, false);
    for found in combinations {
        let mask = found.mask.unwrap_or_default();
        let narrower = mask.is_narrower_than(best.mask.unwrap_or_default());
        if !mask.is_empty()
            && (found.preferred && !best.preferred || found.preferred == best.preferred && narrower)
        {
            best = found;
        }
    }
    best
}

fn single_by_product(all: NodeSet, lists: &[Vec<Hint>]) -> Hint {
    let kept = |hint: &&Hint| hint.preferred && hint.mask.is_none_or(|mask| mask.len() == 1);
    let mut filtered: Vec<Vec<Hint>> = Vec::new();
    for hints in lists {
        let hints: Vec<Hint> = hints.iter().filter(kept).copied().collect();
        if hints.is_empty() {
            return Hint::on(all, false);
        }
        filtered.push(hints);
    }
    by_product(all, &filtered)
}

/// EX-09.
#[test]
fn the_merge_of_two_resources_on_two_nodes_follows_the_table() {
    let all = nodes(0b11);
    let cpu = [Hint::on(nodes(0b01), true), Hint::on(nodes(0b11), false)];
    let gpu = [Hint::on(nodes(0b01), true), Hint::on(nodes(0b10), true)];
    let rows = [
        (cpu[0], gpu[0], Hint::on(nodes(0b01), true)),
        // The AND is empty: the result is the default.
        (cpu[0], gpu[1], Hint::on(all, false)),
        (cpu[1], gpu[0], Hint::on(nodes(0b01), false)),
        (cpu[1], gpu[1], Hint::on(nodes(0b10), false)),
    ];
    for (one, other, expected) in rows {
        let merged = merge(all, &[list("cpu", vec![one]), list("gpu", vec![other])]);
        assert_eq!(merged, expected, "{one:?} and {other:?}");
    }
    let merged = merge(all, &[list("cpu", cpu.to_vec()), list("gpu", gpu.to_vec())]);
    assert_eq!(merged, Hint::on(nodes(0b01), true));
}

#[test]
fn preferred_hints_need_not_be_equal() {
    let merged = merge(
        nodes(0b11),
        &[
            list("cpu", vec![Hint::on(nodes(0b11), true)]),
            list("gpu", vec![Hint::on(nodes(0b01), true)]),
        ],
    );
    assert_eq!(merged, Hint::on(nodes(0b01), true));
}

#[test]
fn without_preference_the_result_is_all_nodes() {
    let all = nodes(0b101);
    assert_eq!(merge(all, &[]), Hint::on(all, true));
    assert_eq!(merge(all, &[ProviderHints::none()]), Hint::on(all, true));
    assert_eq!(merge_single(all, &[]), Hint::on(all, true));
    assert_eq!(merge(NodeSet::EMPTY, &[]), Hint::on(NodeSet::EMPTY, false));
    assert_eq!(
        merge_single(NodeSet::EMPTY, &[]),
        Hint::on(NodeSet::EMPTY, false)
    );
}

#[test]
fn lists_on_64_nodes_terminate() {
    // Every list leaves out one pair of nodes: the narrowest AND needs 32 of them.
    let pairs = (0..32).map(|pair| Hint::on(NodeSet::FULL - nodes(0b11 << (2 * pair)), false));
    let pairs: Vec<Hint> = pairs.collect();
    let providers: Vec<ProviderHints> = (0..32).map(|_| list("x", pairs.clone())).collect();
    let merged = merge(NodeSet::FULL, &providers);
    assert_eq!(merged.mask.map(NodeSet::len), Some(2));
}

fn hints(width: u64) -> impl Strategy<Value = Vec<Hint>> {
    let mask = prop_oneof![1 => Just(None), 6 => (0..1_u64 << width).prop_map(Some)];
    let hint = (mask, any::<bool>()).prop_map(|(mask, preferred)| Hint {
        mask: mask.map(nodes),
        preferred,
    });
    proptest::collection::vec(hint, 0..6)
}

proptest! {
    #[test]
    fn the_result_equals_that_of_the_product(
        all in 0_u64..64, lists in proptest::collection::vec(hints(6), 0..5),
    ) {
        let all = nodes(all);
        let providers: Vec<_> = lists.iter().map(|hints| list("x", hints.clone())).collect();
        let merged = merge(all, &providers);
        prop_assert_eq!(merged, by_product(all, &lists));
    }

    #[test]
    fn the_single_node_result_equals_that_of_the_product(
        all in 0_u64..16, lists in proptest::collection::vec(hints(4), 0..5),
    ) {
        let all = nodes(all);
        let providers: Vec<_> = lists.iter().map(|hints| list("x", hints.clone())).collect();
        prop_assert_eq!(merge_single(all, &providers), single_by_product(all, &lists));
    }

    #[test]
    fn a_family_merges_like_its_list(
        weights in proptest::collection::vec(0_u64..6, 1..7),
        other in proptest::collection::vec(0_u64..6, 7),
        need in 0_u64..16, width in 0_usize..8, with_other: bool,
    ) {
        let all: NodeSet = nodes((1 << weights.len()) - 1);
        let family = |weights: &[u64]| {
            let rows = all.iter().map(|node| (node, weights[node.index()]));
            let part = Component {
                universe: all,
                forced: NodeSet::EMPTY,
                thresholds: smallvec::smallvec![Threshold::new(need, rows)],
            };
            Family {
                components: smallvec::smallvec![part],
                preference: Preference::Width(width),
            }
        };
        let mut families = vec![family(&weights)];
        if with_other {
            families.push(family(&other));
        }
        prop_assume!(families.iter().all(|family| !family.components[0].is_empty()));
        let name = || ResourceName::from("x");
        let as_rule: Vec<_> = families
            .iter()
            .map(|family| ProviderHints::one(name(), ResourceHints::Family(family.clone())))
            .collect();
        let lists: Vec<_> = families.iter().map(Family::list).collect();
        prop_assert_eq!(merge(all, &as_rule), by_product(all, &lists));
        prop_assert_eq!(merge_single(all, &as_rule), single_by_product(all, &lists));
    }
}
