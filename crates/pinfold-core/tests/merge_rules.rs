//! The rules of the merge, one small example each, and the facts that explain the answer.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests on small numbers"
)]

use crate::merge_cases::budgets;
use pinfold_core::hint::{
    Component, Family, Hint, Preference, ProviderHints, ResourceHints, SocketRule, Threshold,
    WideGroup,
};
use pinfold_core::merge::{
    Budgets, DistanceFacts, Distances, HintSummary, MergeRequest, MergeResult, MergeRule,
    MergeSearch, NoPreferred, WidthRange, merge, merge_by_families, merge_by_lists,
};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;

fn set(ids: &[i64]) -> NodeSet {
    NodeSet::from_ids(ids.iter().copied()).unwrap()
}

fn first(count: i64) -> NodeSet {
    (0..count).map(|id| NodeId::new(id).unwrap()).collect()
}

fn threshold(need: u64, weights: &[u64]) -> Threshold {
    let ids = (0..64).map(|id| NodeId::new(id).unwrap());
    Threshold::new(need, ids.zip(weights.iter().copied()))
}

/// All masks of as many nodes as there are weights that reach `need`; those of `width` are preferred.
fn sum(need: u64, weights: &[u64], width: usize) -> ResourceHints {
    let part = Component {
        universe: first(weights.len() as i64),
        forced: NodeSet::EMPTY,
        thresholds: [threshold(need, weights)].into_iter().collect(),
    };
    family([part], width)
}

fn family<const N: usize>(parts: [Component; N], width: usize) -> ResourceHints {
    ResourceHints::Family(Family {
        components: parts.into_iter().collect(),
        preference: Preference::Width(width),
    })
}

fn masks(masks: &[(&[i64], bool)]) -> ResourceHints {
    let hints = masks
        .iter()
        .map(|&(ids, preferred)| Hint::on(set(ids), preferred));
    ResourceHints::List(hints.collect())
}

struct TestMerge {
    nodes: NodeSet,
    policy: TopologyPolicy,
    distances: Option<Distances>,
    providers: Vec<ProviderHints>,
    budgets: Budgets,
}

fn case<const N: usize>(nodes: NodeSet, hints: [ResourceHints; N]) -> TestMerge {
    TestMerge {
        nodes,
        policy: TopologyPolicy::Restricted,
        distances: None,
        providers: hints
            .into_iter()
            .map(|h| ProviderHints::one("r".into(), h))
            .collect(),
        budgets: Budgets::default(),
    }
}

impl TestMerge {
    fn request(&self) -> MergeRequest<'_> {
        MergeRequest {
            nodes: self.nodes,
            policy: self.policy,
            closest: self.distances.as_ref(),
            providers: &self.providers,
            budgets: self.budgets,
        }
    }

    fn policy(mut self, policy: TopologyPolicy) -> Self {
        self.policy = policy;
        self
    }

    fn closest(mut self, rows: &[&[u32]]) -> Self {
        self.distances = Some(Distances::from_rows(
            self.nodes.iter().zip(rows.iter().copied()),
        ));
        self
    }

    fn steps(mut self, steps: u32) -> Self {
        self.budgets = budgets(steps);
        self
    }

    /// The answer, which must be the same by lists (where possible) and by families.
    fn merge(&self) -> MergeResult {
        let merged = merge(&self.request());
        assert_eq!(merge_by_families(&self.request()).hint, merged.hint);
        if let Some(listed) = merge_by_lists(&self.request()) {
            assert_eq!(listed.hint, merged.hint);
        }
        merged
    }

    fn by_families(&self) -> MergeResult {
        merge_by_families(&self.request())
    }
}

#[test]
fn the_lowest_mask_that_all_prefer_wins() {
    let cpu = sum(2, &[1, 2, 2, 2], 1);
    let memory = sum(8, &[9, 9, 7, 9], 1);
    let merged = case(first(4), [cpu, memory]).merge();
    assert_eq!(merged.hint, Hint::on(set(&[1]), true));
    assert!(merged.admit);
    assert_eq!(merged.facts.decided_by, MergeRule::Preferred);
    assert_eq!(merged.facts.no_preferred, None);
}

#[test]
fn restricted_rejects_what_best_effort_admits() {
    let hints = || [sum(2, &[1, 1], 1), sum(1, &[1, 1], 1)];
    for (policy, admit) in [
        (TopologyPolicy::BestEffort, true),
        (TopologyPolicy::Restricted, false),
    ] {
        let merged = case(first(2), hints()).policy(policy).merge();
        assert_eq!(merged.hint, Hint::on(set(&[0, 1]), false));
        assert_eq!(merged.admit, admit);
        assert_eq!(merged.facts.best_width, 2);
        assert_eq!(merged.facts.decided_by, MergeRule::BestWidth);
        assert_eq!(
            merged.facts.no_preferred,
            Some(NoPreferred::TooNarrow { resource: 0 })
        );
    }
}

#[test]
fn the_policy_none_ignores_hints() {
    let merged = case(first(2), [ResourceHints::Unsatisfiable])
        .policy(TopologyPolicy::None)
        .merge();
    assert_eq!(merged.hint, Hint::NONE);
    assert!(merged.admit);
    assert_eq!(merged.facts.decided_by, MergeRule::NoPolicy);
}

#[test]
fn single_numa_node_wants_one_node_that_all_prefer() {
    let single = |hints: [ResourceHints; 2], nodes| {
        case(first(nodes), hints)
            .policy(TopologyPolicy::SingleNumaNode)
            .merge()
    };
    let cpu = || sum(2, &[1, 2, 2], 1);
    let merged = single([cpu(), ResourceHints::DontCare], 3);
    assert_eq!(merged.hint, Hint::on(set(&[1]), true));

    let merged = single([cpu(), ResourceHints::Unsatisfiable], 3);
    assert_eq!(merged.hint, Hint::NONE);
    assert!(!merged.admit);
    assert_eq!(
        merged.facts.no_preferred,
        Some(NoPreferred::Unsatisfiable { resource: 1 })
    );

    let merged = single([cpu(), masks(&[(&[0], true), (&[1], false)])], 3);
    assert_eq!(merged.hint, Hint::NONE);
    assert_eq!(merged.facts.no_preferred, Some(NoPreferred::NoCommonMask));

    // All nodes are reported as no mask, even if there is only one.
    let merged = single([sum(1, &[1], 1), ResourceHints::DontCare], 1);
    assert_eq!(merged.hint, Hint::ANY);
    assert!(merged.admit);
}

#[test]
fn without_preferences_the_hint_is_all_nodes() {
    assert_eq!(case(first(3), []).merge().hint, Hint::on(first(3), true));
    let merged = case(
        first(3),
        [ResourceHints::DontCare, ResourceHints::Unsatisfiable],
    )
    .merge();
    assert_eq!(merged.hint, Hint::on(first(3), false));
    assert_eq!(
        merged.facts.no_preferred,
        Some(NoPreferred::Unsatisfiable { resource: 1 })
    );
    // An empty list, and a family without members, are unsatisfiable as well.
    for hints in [masks(&[]), sum(5, &[1, 1, 1], 1)] {
        assert_eq!(
            case(first(3), [hints]).merge().hint,
            Hint::on(first(3), false)
        );
    }
    assert_eq!(
        case(NodeSet::EMPTY, []).merge().hint,
        Hint::on(NodeSet::EMPTY, false)
    );
}

#[test]
fn equal_results_are_not_equal_masks() {
    let merged = case(
        first(2),
        [masks(&[(&[0, 1], true)]), masks(&[(&[0], true)])],
    )
    .merge();
    assert_eq!(merged.hint, Hint::on(set(&[0]), false));
    let reason = NoPreferred::DifferentWidths {
        resource: 0,
        other: 1,
    };
    assert_eq!(merged.facts.no_preferred, Some(reason));
}

#[test]
fn widths_rank_best_then_narrower_from_wide_to_narrow_then_wider() {
    // The reachable masks, given that another resource needs two nodes; the answer, and the rule behind it.
    type Row = (&'static [&'static [i64]], &'static [i64], MergeRule);
    let table: [Row; 4] = [
        (&[&[0, 1, 2], &[2, 3], &[3]], &[2, 3], MergeRule::BestWidth),
        (&[&[0, 1, 2, 3], &[1], &[3]], &[1], MergeRule::Narrower),
        (&[&[0, 1, 2, 3], &[1, 2, 3]], &[1, 2, 3], MergeRule::Wider),
        (&[&[4]], &[0, 1, 2, 3, 4], MergeRule::NoCommonNode),
    ];
    for (reachable, answer, rule) in table {
        let list: Vec<(&[i64], bool)> = reachable.iter().map(|&mask| (mask, false)).collect();
        // Contains all four nodes, so it excludes none, and has a mask of two other nodes.
        let needy = masks(&[(&[0, 1, 2, 3], false), (&[5, 6], false)]);
        let merged = case(first(5), [masks(&list), needy]).merge();
        let best_width = list
            .iter()
            .map(|(mask, _)| mask.len())
            .min()
            .unwrap()
            .max(2);
        assert_eq!(merged.hint, Hint::on(set(answer), false));
        assert_eq!(merged.facts.best_width, best_width);
        assert_eq!(
            merged.facts.decided_by,
            if best_width == 3 {
                MergeRule::BestWidth
            } else {
                rule
            }
        );
    }
}

#[test]
fn resources_on_different_nodes_have_nothing_in_common() {
    let devices = family(
        [Component {
            universe: set(&[2, 3]),
            forced: NodeSet::EMPTY,
            thresholds: [threshold(1, &[0, 0, 1, 1])].into_iter().collect(),
        }],
        1,
    );
    let merged = case(first(4), [sum(1, &[1, 1], 1), devices]).merge();
    assert_eq!(merged.hint, Hint::on(first(4), false));
    assert_eq!(merged.facts.decided_by, MergeRule::NoCommonNode);
    assert_eq!(merged.facts.no_preferred, Some(NoPreferred::NoCommonMask));
}

#[test]
fn devices_that_span_nodes_count_once() {
    let mut spanning = threshold(3, &[1, 0, 0, 1]);
    spanning.groups.push(WideGroup {
        nodes: set(&[0, 1]),
        count: 2,
    });
    let part = Component {
        universe: first(4),
        forced: NodeSet::EMPTY,
        thresholds: [spanning].into_iter().collect(),
    };
    let merged = case(first(4), [family([part], 1)]).merge();
    assert_eq!(merged.hint, Hint::on(set(&[0]), true));
}

#[test]
fn align_by_socket_also_prefers_whole_sockets() {
    let part = Component {
        universe: first(4),
        forced: NodeSet::EMPTY,
        thresholds: [threshold(3, &[1, 1, 2, 1])].into_iter().collect(),
    };
    let cpu = ResourceHints::Family(Family {
        components: [part].into_iter().collect(),
        preference: Preference::WidthOrSockets(
            1,
            SocketRule {
                sockets: 1,
                nodes_of_socket: vec![set(&[0, 1]), set(&[2, 3])],
            },
        ),
    });
    let merged = case(first(4), [cpu]).merge();
    assert_eq!(merged.hint, Hint::on(set(&[2, 3]), true));
}

#[test]
fn prefer_closest_breaks_ties_inside_a_width() {
    let far: [&[u32]; 4] = [
        &[10, 40, 40, 40],
        &[40, 10, 40, 20],
        &[40, 40, 10, 40],
        &[40, 20, 40, 10],
    ];
    let merged = case(first(4), [sum(2, &[1, 1, 1, 1], 2)])
        .closest(&far)
        .merge();
    assert_eq!(merged.hint, Hint::on(set(&[1, 3]), true));
    let sum_of_pair = DistanceFacts {
        sum: 60,
        at_least: 60,
    };
    assert_eq!(merged.facts.distance, Some(sum_of_pair));
    // The same where no mask is preferred.
    let merged = case(first(4), [sum(2, &[1, 1, 1, 1], 1)])
        .closest(&far)
        .merge();
    assert_eq!(merged.hint, Hint::on(set(&[1, 3]), false));
    assert_eq!(merged.facts.distance, Some(sum_of_pair));
    // single-numa-node ignores distances.
    let own: [&[u32]; 2] = [&[30, 40], &[40, 10]];
    let one = || [sum(1, &[1, 1], 1)];
    assert_eq!(
        case(first(2), one()).closest(&own).merge().hint.mask,
        Some(set(&[1]))
    );
    let single = case(first(2), one())
        .closest(&own)
        .policy(TopologyPolicy::SingleNumaNode);
    assert_eq!(single.merge().hint.mask, Some(set(&[0])));
}

#[test]
fn masks_may_contain_nodes_that_the_machine_does_not_have() {
    // Equality and width use the masks as they are; only the result is cut to the machine.
    let gone = || masks(&[(&[1, 9], true)]);
    let merged = case(first(3), [gone(), gone()]).merge();
    assert_eq!(merged.hint, Hint::on(set(&[1]), true));
    let merged = case(first(3), [gone(), masks(&[(&[1], true)])]).merge();
    assert_eq!(merged.hint, Hint::on(set(&[1]), false));
    assert_eq!(merged.facts.best_width, 2);
    assert_eq!(merged.facts.decided_by, MergeRule::Narrower);
}

#[test]
fn facts_summarize_the_hints_of_every_resource() {
    let hints = [
        sum(3, &[2, 2, 2], 1),
        ResourceHints::DontCare,
        masks(&[(&[0], false)]),
    ];
    let merged = case(first(3), hints).by_families();
    let summaries: Vec<HintSummary> = merged
        .facts
        .resources
        .iter()
        .map(|facts| facts.hints)
        .collect();
    let masks = |width, preferred_width| HintSummary::Masks {
        narrowest: WidthRange::exactly(width),
        preferred_width,
    };
    assert_eq!(
        summaries,
        [masks(2, Some(1)), HintSummary::DontCare, masks(1, None)]
    );
    assert_eq!(
        merged.facts.no_preferred,
        Some(NoPreferred::PrefersNothing { resource: 2 })
    );
    let places: Vec<_> = merged
        .facts
        .resources
        .iter()
        .map(|f| (f.provider, f.row))
        .collect();
    assert_eq!(places, [(0, Some(0)), (1, Some(0)), (2, Some(0))]);
}

#[test]
fn sixty_four_nodes_work_like_two() {
    let nodes = NodeSet::FULL;
    let even: Vec<u64> = (0..64).map(|id| 1 - id % 2).collect();
    let all = [1; 64];
    let merged = case(nodes, [sum(3, &even, 3), sum(3, &all, 3)]).merge();
    assert_eq!(merged.hint, Hint::on(set(&[0, 2, 4]), true));
    let merged = case(nodes, [sum(64, &all, 64), sum(1, &all, 64)]).merge();
    assert_eq!(merged.hint, Hint::on(nodes, true));
    let merged = case(nodes, [sum(64, &all, 64), sum(1, &all, 1)]).merge();
    assert_eq!(merged.hint, Hint::on(nodes, false));
}

#[test]
fn huge_amounts_are_rounded_and_reported() {
    let huge = [u64::MAX - 1; 20];
    let merged = case(
        first(20),
        [sum(u64::MAX, &huge, 2), sum(u64::MAX, &huge, 2)],
    )
    .merge();
    assert_eq!(merged.hint, Hint::on(set(&[0, 1]), true));
    assert!(merged.facts.unfinished.contains(MergeSearch::Amounts));
    // One node is enough: nothing is added up.
    let merged = case(first(20), [sum(u64::MAX - 1, &huge, 1), sum(1, &huge, 1)]).merge();
    assert_eq!(merged.hint, Hint::on(set(&[0]), true));
    assert!(merged.facts.exact());
    // Few enough nodes to list: exact nevertheless.
    let merged = case(first(3), [sum(u64::MAX, &[u64::MAX / 2; 3], 3)]).merge();
    assert_eq!(merged.hint, Hint::on(first(3), true));
    assert!(merged.facts.exact());
}

/// 20 nodes where the ones with much of one kind of memory have little of the other.
fn opposed(width: usize) -> ResourceHints {
    let offsets: Vec<u64> = (0..20).map(|id| id * id * 7919 % 1009).collect();
    let more: Vec<u64> = offsets.iter().map(|offset| 10_000 + offset).collect();
    let less: Vec<u64> = offsets.iter().map(|offset| 10_000 - offset).collect();
    let chosen = [1, 4, 6, 11, 13, 18];
    let need = |weights: &[u64]| chosen.iter().map(|&id: &usize| weights[id]).sum();
    let part = Component {
        universe: first(20),
        forced: NodeSet::EMPTY,
        thresholds: [threshold(need(&more), &more), threshold(need(&less), &less)]
            .into_iter()
            .collect(),
    };
    family([part], width)
}

#[test]
fn out_of_steps_for_a_preferred_mask_the_answer_is_not_preferred() {
    let exact = case(first(20), [opposed(6)]).merge();
    assert!(exact.hint.preferred && exact.facts.exact());
    let unfinished = case(first(20), [opposed(6)]).steps(1).by_families();
    assert!(unfinished.facts.unfinished.contains(MergeSearch::Preferred));
    assert_eq!(
        unfinished.facts.no_preferred,
        Some(NoPreferred::BudgetExhausted)
    );
    assert!(!unfinished.hint.preferred);
}

#[test]
fn out_of_steps_for_a_width_the_narrowest_known_mask_is_used() {
    let exact = case(first(20), [opposed(1)]).merge();
    let unfinished = case(first(20), [opposed(1)]).steps(1).by_families();
    assert!(unfinished.facts.unfinished.contains(MergeSearch::Width));
    let HintSummary::Masks { narrowest, .. } = unfinished.facts.resources[0].hints else {
        panic!("a family has masks");
    };
    assert!(narrowest.at_least <= exact.facts.best_width);
    assert!(exact.facts.best_width <= narrowest.at_most);
    assert_eq!(unfinished.facts.best_width, narrowest.at_most);
    // The mask is a member of the family.
    let mask = unfinished.hint.mask.unwrap();
    assert_eq!(mask.len(), narrowest.at_most);
    let ResourceHints::Family(family) = opposed(1) else {
        panic!("it is a family");
    };
    assert!(family.contains(mask));
}

#[test]
fn out_of_steps_for_dropping_nodes_they_are_kept() {
    let weights: Vec<u64> = (0..20).map(|id| 3 + id * 5 % 11).collect();
    let hints = || [sum(60, &weights, 1), sum(70, &weights, 1)];
    let exact = case(first(20), hints()).merge();
    let unfinished = case(first(20), hints()).steps(1).by_families();
    assert!(unfinished.facts.unfinished.contains(MergeSearch::Reach));
    let (exact, found) = (exact.hint.mask.unwrap(), unfinished.hint.mask.unwrap());
    assert_eq!(exact.len(), found.len());
    assert!(exact < found);
}

#[test]
fn out_of_steps_for_the_closest_nodes_the_facts_have_bounds() {
    let rows: Vec<Vec<u32>> = (0..20_u32)
        .map(|x| {
            (0..20)
                .map(|y| 10 + (x * y * 31 + x + y) % 17 * u32::from(x != y))
                .collect()
        })
        .collect();
    let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
    let exact = case(first(20), [sum(5, &[1; 20], 5)])
        .closest(&rows)
        .merge();
    let unfinished = case(first(20), [sum(5, &[1; 20], 5)])
        .closest(&rows)
        .steps(2)
        .by_families();
    assert!(exact.facts.exact());
    assert!(unfinished.facts.unfinished.contains(MergeSearch::Closest));
    assert!(unfinished.hint.preferred);
    let (exact, found) = (
        exact.facts.distance.unwrap(),
        unfinished.facts.distance.unwrap(),
    );
    assert!(found.at_least <= exact.sum && exact.sum <= found.sum);
    assert_eq!(exact.at_least, exact.sum);
}

#[test]
fn with_too_many_choices_the_widest_are_kept() {
    let singles: Vec<[i64; 1]> = (0..20).map(|id| [id]).collect();
    let list = || {
        let all = singles.iter().map(|ids| (ids.as_slice(), false));
        masks(&all.chain([(&[3_i64, 4][..], false)]).collect::<Vec<_>>())
    };
    let exact = case(first(20), [list(), list()]).merge();
    assert_eq!(exact.hint, Hint::on(set(&[0]), false));
    let unfinished = case(first(20), [list(), list()]).steps(1).by_families();
    assert!(unfinished.facts.unfinished.contains(MergeSearch::Choices));
    assert!(!unfinished.hint.preferred);
}
