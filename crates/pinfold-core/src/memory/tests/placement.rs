//! The NUMA nodes that a request is assigned.

use super::*;

#[test]
fn groups_decide_which_masks_are_hints() {
    // Node 0 has a single-node assignment, 1 and 2 are a group, 3 and 4 are unused.
    let mut bench = Bench::new(&[10, 10, 10, 10, 10], Fidelity::Sound);
    bench.fill("alone", 2, &[0]);
    bench.fill("wide", 12, &[1, 2]);
    let hints = |memory: u64| {
        let requesting = pod("new", vec![], vec![container("c", memory, None)]);
        let found = super::hints(
            &bench.policy,
            &bench.state,
            &requesting,
            &requesting.containers[0],
        );
        masks(&found)
    };
    let one = vec![
        (vec![0], true),
        (vec![3], true),
        (vec![4], true),
        (vec![1, 2], false),
        (vec![3, 4], false),
    ];
    assert_eq!(hints(8), one);
    assert_eq!(
        hints(9),
        [(vec![3], true), (vec![4], true), (vec![3, 4], false)]
    );
    assert_eq!(hints(20), [(vec![3, 4], true)]);
    assert_eq!(hints(21), []);
}

#[test]
fn without_an_affinity_the_lowest_of_the_narrowest_masks_is_used() {
    let cases: [(&[u64], u64, &[usize]); 4] = [
        (&[4, 9, 9], 8, &[1]),
        (&[4, 9, 9], 13, &[0, 1]),
        (&[4, 9, 9], 14, &[1, 2]),
        (&[4, 9, 9], 20, &[0, 1, 2]),
    ];
    for (memory, requested, expected) in cases {
        let mut bench = Bench::new(memory, Fidelity::Sound);
        let requesting = pod("p", vec![], vec![container("c", requested, None)]);
        assert_eq!(
            bench.allocate(&requesting, "c", FREE_CHOICE),
            Ok(set(expected)),
            "{requested}"
        );
    }
}

#[test]
fn an_affinity_that_is_too_small_is_extended_to_the_narrowest_mask_that_contains_it() {
    let mut bench = Bench::new(&[9, 4, 9, 9], Fidelity::Sound);
    let requesting = pod("p", vec![], vec![container("c", 12, None)]);
    assert_eq!(bench.on_nodes(&requesting, "c", &[2]), Ok(set(&[0, 2])));
    assert_eq!(bench.reserved(), [9, 0, 3, 0]);
}

#[test]
fn every_rejection_has_the_kubelets_message() {
    let requesting = |memory| pod("p", vec![], vec![container("c", memory, None)]);
    let on = |ids: &[usize], preferred| Hint::on(set(ids), preferred);
    let cases = [
        (
            requesting(21),
            FREE_CHOICE,
            "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
        ),
        (
            requesting(9),
            Hint::ANY,
            "failed to find the default preferred hint",
        ),
        (
            requesting(21),
            on(&[0], false),
            "failed to find NUMA nodes to extend the current topology hint",
        ),
        (
            requesting(9),
            on(&[1], true),
            "failed to find the extended preferred hint",
        ),
        (
            requesting(2),
            on(&[0, 1], false),
            "preferred hint violates NUMA node allocation",
        ),
    ];
    for (pod, affinity, expected) in cases {
        // Only the pair {1, 2} has 9 bytes, though one empty node would.
        let mut bench = Bench::new(&[10, 10, 10], Fidelity::Sound);
        bench.fill("low", 2, &[0]);
        bench.fill("wide", 8, &[1, 2]);
        let before = bench.state.clone();
        let error = bench.allocate(&pod, "c", affinity).expect_err("rejected");
        assert_eq!(error.to_string(), format!("[memorymanager] {expected}"));
        assert_eq!(bench.state, before);
    }
}

#[test]
fn one_node_of_a_group_is_not_assigned_alone() {
    let requesting = pod("p", vec![], vec![container("c", 3, None)]);
    for (fidelity, expected) in [
        (Fidelity::Exact, set(&[1])),
        (Fidelity::Sound, set(&[0, 1])),
    ] {
        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.fill("wide", 12, &[0, 1]);
        assert_eq!(
            bench.on_nodes(&requesting, "c", &[1]),
            Ok(expected),
            "{fidelity:?}"
        );
    }
}

#[test]
fn a_release_frees_the_nodes_of_the_group_that_were_filled_last() {
    for (fidelity, expected) in [(Fidelity::Exact, [7, 5]), (Fidelity::Sound, [10, 2])] {
        let mut bench = Bench::new(&[10, 10], fidelity);
        bench.fill("first", 12, &[0, 1]);
        bench.fill("second", 3, &[0, 1]);
        bench.remove("second", "c");
        assert_eq!(bench.reserved(), expected, "{fidelity:?}");
        bench.remove("first", "c");
        assert_eq!(bench.state, bench.policy.initial_state());
    }
}

#[test]
fn a_node_without_the_page_size_adds_nothing() {
    let machine = machine(&[(0, 11, None), (3, 10 + 2048, Some(2))]);
    let mut bench = Bench::on(&machine, PodLevel::Ignored, Fidelity::Sound);
    let requesting = pod("p", vec![], vec![container("c", 12, Some(2048))]);
    assert_eq!(
        bench.allocate(&requesting, "c", FREE_CHOICE),
        Ok(set(&[0, 3]))
    );
    assert_eq!(bench.policy.start(&bench.state), Ok(Vec::new()));
    let too_many = pod("q", vec![], vec![container("c", 1, Some(4096))]);
    let rejected = bench.allocate(&too_many, "c", FREE_CHOICE);
    assert!(matches!(rejected, Err(MemoryError::NoNodes { .. })));
}

#[test]
fn unknown_nodes_are_rejected_not_ignored() {
    let mut bench = Bench::new(&[10], Fidelity::Exact);
    let requesting = pod("p", vec![], vec![container("c", 3, None)]);
    let unknown = set(&[7]);
    assert_eq!(
        bench.on_nodes(&requesting, "c", &[0, 7]),
        Err(MemoryError::UnknownNodes { unknown })
    );
}

#[test]
fn only_guaranteed_pods_are_managed() {
    let mut burstable = pod("p", vec![], vec![container("c", 3, None)]);
    burstable.containers[0].limits.clear();
    let mut bench = Bench::new(&[10], Fidelity::Sound);
    assert_eq!(
        bench.allocate(&burstable, "c", Hint::ANY),
        Ok(NodeSet::EMPTY)
    );
    let hints = bench
        .policy
        .pod_hints(&bench.state, &demand(&bench.policy, &burstable));
    assert_eq!(hints, MemoryHints::unmanaged());
}

#[test]
fn an_amount_of_half_a_byte_is_rejected() {
    let mut requesting = pod("p", vec![], vec![container("c", 3, None)]);
    let half: Quantity = "2500m".parse().expect("a quantity");
    requesting.containers[0]
        .requests
        .insert(memory_resource(), half);
    requesting.containers[0]
        .limits
        .insert(memory_resource(), half);
    let mut bench = Bench::new(&[10], Fidelity::Sound);
    let rejected = bench.allocate(&requesting, "c", FREE_CHOICE);
    assert_eq!(rejected, Err(MemoryError::NotWholeBytes(NotWholeBytes)));
}
