//! Tests of the merge, against a search of every combination as in Koordinator.

use proptest::prelude::*;

use super::*;
use pinfold_core::node_set::NodeId;

/// Koordinator's algorithm: every combination, in order.
fn every_combination(context: &MergeContext, lists: &[&[ScoredHint]]) -> ScoredHint {
    let mut best = context.all_nodes();
    let mut places = vec![0; lists.len()];
    if lists.iter().any(|list| list.is_empty()) {
        return best;
    }
    loop {
        let chosen: Vec<&ScoredHint> = places
            .iter()
            .zip(lists)
            .map(|(&at, list)| &list[at])
            .collect();
        consider(context, &chosen, &mut best);
        let Some(turn) = (0..lists.len())
            .rev()
            .find(|&at| places[at] + 1 < lists[at].len())
        else {
            return best;
        };
        places[turn] += 1;
        places[turn + 1..].fill(0);
    }
}

fn consider(context: &MergeContext, chosen: &[&ScoredHint], best: &mut ScoredHint) {
    let masks: Vec<NodeSet> = chosen.iter().filter_map(|hint| hint.mask).collect();
    let common = masks
        .iter()
        .fold(context.nodes, |common, mask| common & *mask);
    if common.is_empty() {
        return;
    }
    let alike = masks.iter().all(|mask| Some(mask) == masks.first());
    let widest = masks.iter().map(|mask| mask.len()).max();
    let new = ScoredHint {
        mask: Some(common),
        preferred: alike && chosen.iter().all(|hint| hint.preferred) && !context.conflicts(common),
        unsatisfied: chosen.iter().any(|hint| hint.unsatisfied)
            || widest.is_some_and(|width| width != common.len()),
        score: chosen
            .iter()
            .filter(|hint| hint.mask == Some(common))
            .map(|hint| hint.score)
            .sum(),
    };
    if new.preferred != best.preferred {
        if new.preferred {
            *best = new;
        }
    } else if replaces(&new, best) {
        *best = new;
    }
}

fn context(nodes: u64) -> MergeContext {
    MergeContext {
        nodes: NodeSet::from_bits(nodes),
        numa_exclusive: false,
        occupancy: NumaOccupancy::default(),
    }
}

fn hint(bits: u64, preferred: bool, score: i64) -> ScoredHint {
    ScoredHint {
        mask: Some(NodeSet::from_bits(bits)),
        preferred,
        unsatisfied: false,
        score,
    }
}

#[test]
fn of_two_equally_wide_sets_with_lower_number_and_higher_score_the_later_wins() {
    let (low, high) = (hint(0b01, true, 3), hint(0b10, true, 5));
    for (list, winner) in [([high, low], low), ([low, high], high)] {
        assert_eq!(merge_lists(&context(0b11), &[&list]), winner);
    }
}

#[test]
fn numa_exclusive_only_removes_the_preference_of_conflicting_sets() {
    let mut context = context(0b11);
    context.numa_exclusive = true;
    context.occupancy.single = NodeSet::from_bits(0b01);
    let list = [hint(0b11, true, 0)];
    assert!(!merge_lists(&context, &[&list]).preferred);
    context.numa_exclusive = false;
    assert!(merge_lists(&context, &[&list]).preferred);
}

#[test]
fn numa_ids_with_gaps_are_compared_as_ids() {
    let mut context = context(1 << 60 | 1 << 3);
    context.numa_exclusive = true;
    context
        .occupancy
        .spanning
        .insert(NodeId::new(60).expect("in range"));
    assert!(context.conflicts(NodeSet::from_bits(1 << 60)));
    assert!(!context.conflicts(NodeSet::from_bits(1 << 3)));
}

#[test]
fn a_rejection_lists_the_hints_of_each_resource() {
    let (cpu, memory) = (ResourceName::from("cpu"), ResourceName::from("memory"));
    let (first, second) = (
        [hint(0b01, true, 0), hint(0b11, false, 0)],
        [hint(0b10, true, 0)],
    );
    let provider = ProviderHintLists::from_iter([
        (&cpu, HintList::Hints(&first)),
        (&memory, HintList::Hints(&second)),
    ]);
    let merged = merge(MergePolicy::Restricted, &context(0b11), &[provider]);
    assert!(!merged.admit);
    let text = merged.reasons[0].to_string();
    assert_eq!(
        text,
        "Unaligned NUMA Hint cause cpu prefer [01] among [01 11] & memory prefer [10] among [10]"
    );
}

#[test]
fn eight_lists_of_all_sets_of_eight_nodes_are_merged() {
    // 255^8 combinations; every list prefers another node, so none is preferred.
    let lists: Vec<Vec<ScoredHint>> = (0..8_u32)
        .map(|at| {
            (1..256)
                .map(|bits| hint(bits, bits == 1 << at, i64::from(at) + 1))
                .collect()
        })
        .collect();
    let lists: Vec<&[ScoredHint]> = lists.iter().map(Vec::as_slice).collect();
    let best = merge_lists(&context(0xff), &lists);
    assert!(!best.preferred);
    assert_eq!(best.mask.map(NodeSet::len), Some(1));
}

#[test]
fn adversarial_lists_on_64_nodes_return_all_nodes() {
    // Every list leaves out one of its own nodes: 2^32 different masks are possible.
    let lists: Vec<Vec<ScoredHint>> = (0..32)
        .map(|at| {
            vec![
                hint(!(1 << at), false, at),
                hint(!(1 << (at + 32)), false, 1),
            ]
        })
        .collect();
    let lists: Vec<&[ScoredHint]> = lists.iter().map(Vec::as_slice).collect();
    let context = context(u64::MAX);
    assert_eq!(merge_lists(&context, &lists), context.all_nodes());
}

fn any_hint() -> impl Strategy<Value = ScoredHint> {
    let mask = prop_oneof![8 => (1_u64..32).prop_map(Some), 1 => Just(None)];
    (mask, any::<bool>(), 0_u8..12, 0_i64..4).prop_map(|(mask, preferred, unsatisfied, score)| {
        ScoredHint {
            mask: mask.map(NodeSet::from_bits),
            preferred,
            unsatisfied: unsatisfied == 0,
            score,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Also on machines that lack some of the hints' NUMA nodes.
    #[test]
    fn the_result_equals_that_of_trying_every_combination(
        lists in proptest::collection::vec(proptest::collection::vec(any_hint(), 0..7), 0..5),
        nodes in 1_u64..32,
        numa_exclusive: bool,
        (single, spanning) in (0_u64..32, 0_u64..32),
    ) {
        let occupancy = NumaOccupancy { single: NodeSet::from_bits(single), spanning: NodeSet::from_bits(spanning) };
        let context = MergeContext { nodes: NodeSet::from_bits(nodes), numa_exclusive, occupancy };
        let lists: Vec<&[ScoredHint]> = lists.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(merge_lists(&context, &lists), every_combination(&context, &lists));
    }
}
