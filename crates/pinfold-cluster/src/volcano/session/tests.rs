use proptest::prelude::*;

use super::*;
use crate::volcano::predicate::StatusCode;
use crate::volcano::test_nodes::{any_cpus, cpus, machine, node, odd_machine, task};

const BOTH: [Fidelity; 2] = [Fidelity::Exact, Fidelity::Sound];

fn name(text: &str) -> NodeName {
    NodeName::from(text)
}

fn one_node(free: &str, fidelity: Fidelity) -> VolcanoSession {
    let node = node("n", "best-effort", machine(2, 4, 1), free);
    VolcanoSession::open([node], 1, fidelity)
}

#[test]
fn a_task_with_a_policy_is_rejected_with_the_reason() {
    let static_node = || node("n", "restricted", machine(2, 4, 1), "0-7");
    let with = |change: &dyn Fn(&mut NumaInfo)| {
        let mut node = static_node();
        node.numa.iter_mut().for_each(change);
        node
    };
    let bare = SessionNode {
        name: name("n"),
        numa: None,
    };
    let table = [
        (bare, "numa info is empty"),
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
    for (node, reason) in table {
        for fidelity in BOTH {
            let mut session = VolcanoSession::open([node.clone()], 1, fidelity);
            let error = session.predicate(&asks, &name("n")).expect_err(reason);
            assert_eq!(error.misfit.to_string(), reason);
            assert_eq!(error.misfit.code(), StatusCode::Error);
            let text = format!("task ns/t on node n fit failed: {reason}");
            assert_eq!(error.to_string(), text);
        }
    }
    let elsewhere = one_node("0-7", Fidelity::Sound).predicate(&asks, &name("new"));
    let error = elsewhere.expect_err("the node came later");
    assert_eq!(error.misfit, Misfit::UnknownNode);
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
        let node = node("n", policy, machine(2, 4, 1), "0-7");
        let session = VolcanoSession::open([node], 1, Fidelity::Sound);
        assert_eq!(
            session.simulate(&plain, &name("n")),
            Ok(decided),
            "{policy:?}"
        );
        assert_eq!(session.order(&plain, &[name("n")]), None);
    }
    plain.pod.containers[0].limits.clear();
    let burstable = one_node("", Fidelity::Sound).simulate(&plain, &name("n"));
    assert_eq!(burstable, Ok(None));
}

#[test]
fn a_decision_whose_cpus_were_taken_is_not_bound() {
    let (first, second) = (
        task("a", "best-effort", &["3"]),
        task("b", "best-effort", &["3"]),
    );
    for fidelity in BOTH {
        let mut session = one_node("0-7", fidelity);
        for task in [&first, &second] {
            let decided = session.predicate(task, &name("n"));
            assert_eq!(decided, Ok(Some(cpus("0-2"))));
        }
        assert_eq!(session.allocate(&first, &name("n")), Ok(()));
        let both = session.allocate(&second, &name("n"));
        match fidelity {
            // Volcano assigns CPUs 0 to 2 to both.
            Fidelity::Exact => assert_eq!(both, Ok(())),
            Fidelity::Sound => assert_eq!(
                both,
                Err(BindConflict::Conflict {
                    node: name("n"),
                    taken: cpus("0-2"),
                })
            ),
        }
        assert_eq!(session.free(&name("n")), Some(&cpus("3-7")));
    }
}

#[test]
fn deallocate_releases_the_cpus_that_were_bound() {
    let asks = task("a", "best-effort", &["3"]);
    for (fidelity, expected) in [(Fidelity::Sound, "0-7"), (Fidelity::Exact, "3-7")] {
        let mut session = one_node("0-7", fidelity);
        session.predicate(&asks, &name("n")).expect("fits");
        session.allocate(&asks, &name("n")).expect("is free");
        // The second predicate chooses other CPUs; Volcano then releases those.
        session.predicate(&asks, &name("n")).expect("fits");
        session.deallocate(&asks.pod.uid, &name("n"));
        assert_eq!(
            session.free(&name("n")),
            Some(&cpus(expected)),
            "{fidelity:?}"
        );
        assert!(session.close().is_empty());
    }
}

#[test]
fn a_rejection_drops_the_earlier_decision() {
    let mut asks = task("a", "best-effort", &["3"]);
    for (fidelity, kept) in [(Fidelity::Sound, false), (Fidelity::Exact, true)] {
        let mut session = one_node("0-7", fidelity);
        session.predicate(&asks, &name("n")).expect("fits");
        asks.policy = Some("restricted".into());
        session
            .predicate(&asks, &name("n"))
            .expect_err("another policy");
        asks.policy = Some("best-effort".into());
        assert_eq!(session.decision(&asks.pod.uid, &name("n")).is_some(), kept);
    }
}

#[test]
fn a_task_is_bound_once() {
    let asks = task("a", "best-effort", &["3"]);
    let mut session = one_node("0-7", Fidelity::Sound);
    session.place(&asks, &[name("n")]).expect("fits");
    let before = session.clone();
    let again = session.place(&asks, &[name("n")]);
    assert!(matches!(
        again,
        Err(TaskNotPlaced::BindConflict {
            reason: BindConflict::Already { .. },
            ..
        })
    ));
    assert_eq!(session, before);
}

#[test]
fn the_node_with_the_smaller_span_wins_and_the_first_among_equals() {
    let nodes = [
        node("n0", "best-effort", machine(2, 4, 1), "2-5"),
        node("n1", "best-effort", machine(2, 4, 1), "0-7"),
        node("n2", "best-effort", machine(2, 4, 1), "0-7"),
    ];
    let names = [name("n0"), name("n1"), name("n2")];
    let asks = task("a", "best-effort", &["3"]);
    let mut session = VolcanoSession::open(nodes, 10, Fidelity::Sound);
    let placement = session.place(&asks, &names).expect("fits");
    assert_eq!(session.order(&asks, &names), Some(vec![0.0, 500.0, 500.0]));
    assert_eq!(placement.node, names[1]);
    assert_eq!(VolcanoSession::best(&names, None), Some(&names[0]));
    assert_eq!(VolcanoSession::best(&[], Some(&[])), None);
    let submitted = session.close();
    assert_eq!(submitted[&asks.pod.uid].cpus, cpus("0-2"));
}

fn tasks() -> impl Strategy<Value = Vec<VolcanoTask>> {
    let policy = prop_oneof![Just("best-effort"), Just("restricted"), Just("none")];
    let amounts = proptest::collection::vec(
        prop_oneof![Just("1"), Just("2"), Just("3"), Just("1500m"), Just("7")],
        1..4,
    );
    proptest::collection::vec((policy, amounts), 0..6).prop_map(|list| {
        let numbered = list.iter().enumerate();
        numbered
            .map(|(at, (policy, amounts))| task(&format!("t{at}"), policy, amounts))
            .collect()
    })
}

fn nodes() -> impl Strategy<Value = Vec<SessionNode>> {
    let policy = prop_oneof![Just("best-effort"), Just("restricted")];
    let free = proptest::option::of(any_cpus());
    proptest::collection::vec((policy, odd_machine(), free), 1..4).prop_map(|list| {
        let mut nodes = Vec::new();
        for (at, (policy, detail, free)) in list.into_iter().enumerate() {
            let mut node = node(&format!("n{at}"), policy, detail, "");
            node.numa
                .iter_mut()
                .for_each(|numa| numa.free = free.clone());
            nodes.push(node);
        }
        nodes
    })
}

proptest! {
    #[test]
    fn undo_restores_the_session(nodes in nodes(), tasks in tasks(), exact: bool) {
        let fidelity = if exact { Fidelity::Exact } else { Fidelity::Sound };
        let names: Vec<NodeName> = nodes.iter().map(|node| node.name.clone()).collect();
        let mut session = VolcanoSession::open(nodes, 1, fidelity);
        let mut history = Vec::new();
        for task in &tasks {
            let before = session.clone();
            match session.place(task, &names) {
                Ok(placement) => history.push((before, placement)),
                Err(_) => prop_assert_eq!(&session, &before),
            }
        }
        for (before, placement) in history.into_iter().rev() {
            session.undo(placement);
            prop_assert_eq!(&session, &before);
        }
    }

    #[test]
    fn all_tasks_are_placed_without_conflict_or_none(
        nodes in nodes(), tasks in tasks(),
    ) {
        let names: Vec<NodeName> = nodes.iter().map(|node| node.name.clone()).collect();
        let mut session = VolcanoSession::open(nodes.clone(), 1, Fidelity::Sound);
        let before = session.clone();
        match session.place_all(&tasks, &names) {
            Err(_) => prop_assert_eq!(session, before),
            Ok(placed) => {
                prop_assert_eq!(placed.len(), tasks.len());
                let free = |session: &VolcanoSession, node: &NodeName| {
                    session.free(node).cloned().unwrap_or_default()
                };
                let left: Vec<_> = names.iter().map(|node| free(&session, node)).collect();
                let bound = session.close();
                for (node, left) in names.iter().zip(left) {
                    // Free and assigned CPUs are disjoint, and their union is the initial free set.
                    let mut sum = left;
                    for binding in bound.values().filter(|binding| binding.node == *node) {
                        prop_assert!(sum.is_disjoint(&binding.cpus));
                        sum |= &binding.cpus;
                    }
                    prop_assert_eq!(sum, free(&before, node));
                }
            }
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
        let session = VolcanoSession::open(nodes.clone(), 1, Fidelity::Sound);
        for node in &nodes {
            if let Ok(Some(decided)) = session.simulate(&asks, &node.name) {
                prop_assert_eq!(decided.len(), amounts.iter().sum::<usize>());
            }
        }
    }
}
