//! Volcano's predicate, score and bookkeeping on the nodes of a cluster.

use proptest::prelude::*;

use super::*;
use crate::cluster::{Cluster, Dialect, RankedNode};
use crate::volcano::numa_amounts::NumaAmounts;
use crate::volcano::predicate::NumaInfo;
use crate::volcano::test_nodes::{
    any_cpus, cluster_node, cpus, evaluate, machine, node, odd_machine, request, task,
};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::NodeName;

const BOTH: [Fidelity; 2] = [Fidelity::Exact, Fidelity::Sound];

fn cluster(nodes: impl IntoIterator<Item = NumaInfo>, fidelity: Fidelity) -> Cluster {
    let mut cluster = Cluster::new();
    for (at, info) in nodes.into_iter().enumerate() {
        cluster.insert(
            format!("n{at}").into(),
            cluster_node(Some(info), NumaAmounts::default(), fidelity),
        );
    }
    cluster
}

fn one_node(free: &str, fidelity: Fidelity) -> Cluster {
    cluster([node("best-effort", machine(2, 4, 1), free)], fidelity)
}

fn free(cluster: &Cluster, name: &NodeName) -> CpuSet {
    match cluster.node(name).expect("inserted").dialect() {
        Dialect::Volcano(node) => node.free.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_with_a_policy_is_rejected_with_the_reason() {
    let with = |change: &dyn Fn(&mut NumaInfo)| {
        let mut info = node("restricted", machine(2, 4, 1), "0-7");
        change(&mut info);
        Some(info)
    };
    let table = [
        (None, "numa info is empty"),
        (
            with(&|numa| numa.cpu_manager.clear()),
            "cpu manager policy isn't static",
        ),
        (
            with(&|numa| numa.topology = "none".into()),
            "task topology policy[restricted] is different with node[none]",
        ),
        (
            with(&|numa| numa.free = None),
            "cpu allocatable map is empty",
        ),
    ];
    let asks = task("t", "restricted", &["2"]);
    for (info, reason) in table {
        for fidelity in BOTH {
            let node = cluster_node(info.clone(), NumaAmounts::default(), fidelity);
            let misfit = evaluate(node, &asks).expect_err(reason);
            assert_eq!(misfit.to_string(), reason);
        }
    }
}

#[test]
fn a_pod_without_a_policy_passes_unless_the_node_has_one() {
    let mut plain = task("t", "", &["3"]);
    plain.policy = None;
    for (policy, decided) in [
        ("none", None),
        ("", None),
        ("restricted", Some(cpus("0-2"))),
    ] {
        let info = node(policy, machine(2, 4, 1), "0-7");
        let mut cluster = cluster([info.clone()], Fidelity::Sound);
        let node = cluster_node(Some(info), NumaAmounts::default(), Fidelity::Sound);
        assert_eq!(evaluate(node, &plain), Ok(decided), "{policy:?}");
        let ranked = cluster.rank(&request(&plain));
        assert_eq!(
            ranked[0].score, 0,
            "the plugin scores only tasks with a policy"
        );
    }
    std::sync::Arc::make_mut(&mut plain.pod).containers[0]
        .limits
        .clear();
    let burstable = one_node("", Fidelity::Sound).evaluate(&request(&plain), &"n0".into());
    assert_eq!(burstable, Evaluation::FitsInTotal);
}

/// Volcano binds the CPUs that the predicate chose even if another task has got them since.
#[test]
fn a_pod_is_decided_again_when_it_is_placed() {
    let ask = |name: &str| request(&task(name, "best-effort", &["3"]));
    for fidelity in BOTH {
        let mut cluster = one_node("0-7", fidelity);
        for name in ["a", "b"] {
            let Evaluation::Fits(fit) = cluster.evaluate(&ask(name), &"n0".into()) else {
                panic!("fits")
            };
            assert_eq!(fit.cpus, cpus("0-2"));
        }
        assert_eq!(cluster.place(&ask("a")).expect("fits").cpus, cpus("0-2"));
        assert_eq!(cluster.place(&ask("b")).expect("fits").cpus, cpus("4-6"));
        assert_eq!(free(&cluster, &"n0".into()), cpus("3,7"));
    }
}

#[test]
fn removing_a_pod_releases_the_cpus_that_it_was_placed_with() {
    let ask = request(&task("a", "best-effort", &["3"]));
    for fidelity in BOTH {
        let mut cluster = one_node("0-7", fidelity);
        cluster.place(&ask).expect("fits");
        // Evaluated again, the pod would get other CPUs; those are not the ones to release.
        let again = cluster.evaluate(&ask, &"n0".into());
        assert!(matches!(again, Evaluation::Fits(fit) if fit.cpus == cpus("4-6")));
        assert_eq!(cluster.remove(&"a".into()), Some("n0".into()));
        assert_eq!(free(&cluster, &"n0".into()), cpus("0-7"));
    }
}

#[test]
fn the_node_with_the_smaller_span_wins_and_the_first_among_equals() {
    let frees = ["2-5", "0-7", "0-7"];
    let nodes = frees.map(|free| node("best-effort", machine(2, 4, 1), free));
    let mut cluster = cluster(nodes, Fidelity::Sound).with_volcano_weight(10);
    let ask = request(&task("a", "best-effort", &["3"]));
    let scored = |ranked: Vec<RankedNode<'_>>| -> Vec<(String, i64)> {
        let rows = ranked.into_iter();
        rows.map(|ranked| (ranked.node.to_string(), ranked.score))
            .collect()
    };
    let expected = [("n1", 500), ("n2", 500), ("n0", 0)];
    let expected = expected.map(|(name, score)| (name.to_owned(), score));
    assert_eq!(scored(cluster.rank(&ask)), expected);
    let placement = cluster.place(&ask).expect("fits");
    assert_eq!(
        (placement.node.as_str(), placement.cpus),
        ("n1", cpus("0-2"))
    );
}

fn requests() -> impl Strategy<Value = Vec<PodRequest>> {
    let policy = prop_oneof![Just("best-effort"), Just("restricted"), Just("none")];
    let amounts = proptest::collection::vec(
        prop_oneof![Just("1"), Just("2"), Just("3"), Just("1500m"), Just("7")],
        1..4,
    );
    proptest::collection::vec((policy, amounts), 0..6).prop_map(|list| {
        let numbered = list.iter().enumerate();
        numbered
            .map(|(at, (policy, amounts))| request(&task(&format!("t{at}"), policy, amounts)))
            .collect()
    })
}

fn nodes() -> impl Strategy<Value = Vec<NumaInfo>> {
    let policy = prop_oneof![Just("best-effort"), Just("restricted")];
    let free = proptest::option::of(any_cpus());
    let node = (policy, odd_machine(), free).prop_map(|(policy, detail, free)| NumaInfo {
        free,
        ..node(policy, detail, "")
    });
    proptest::collection::vec(node, 1..4)
}

proptest! {
    #[test]
    fn tasks_are_placed_without_conflict_and_a_rejected_one_changes_nothing(
        nodes in nodes(), requests in requests(), exact: bool,
    ) {
        let fidelity = if exact { Fidelity::Exact } else { Fidelity::Sound };
        let mut cluster = cluster(nodes, fidelity);
        let before = cluster.clone();
        let mut placed = Vec::new();
        for request in &requests {
            let unchanged = cluster.clone();
            match cluster.place(request) {
                Ok(placement) => placed.push(placement),
                Err(_) => prop_assert!(cluster == unchanged),
            }
        }
        for (name, _) in before.nodes() {
            // Free and assigned CPUs are disjoint, and their union is the initial free set.
            let mut sum = free(&cluster, name);
            for placement in placed.iter().filter(|placement| placement.node == *name) {
                prop_assert!(sum.is_disjoint(&placement.cpus));
                sum |= &placement.cpus;
            }
            prop_assert_eq!(sum, free(&before, name));
        }
        for request in &requests {
            cluster.remove(request.uid());
        }
        for (name, _) in before.nodes() {
            prop_assert_eq!(free(&cluster, name), free(&before, name));
        }
    }

    #[test]
    fn a_sound_decision_has_exactly_the_requested_number_of_cpus(
        nodes in nodes(), amounts in proptest::collection::vec(1_usize..6, 1..4),
    ) {
        let texts: Vec<String> = amounts.iter().map(usize::to_string).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut asks = task("t", "", &texts);
        asks.policy = None;
        for info in nodes {
            let node = cluster_node(Some(info), NumaAmounts::default(), Fidelity::Sound);
            if let Ok(Some(decided)) = evaluate(node, &asks) {
                prop_assert_eq!(decided.len(), amounts.iter().sum::<usize>());
            }
        }
    }
}
