//! Nodes in equal states share an evaluation, and a budget bounds a call.

use proptest::prelude::*;

use super::*;

const COUNT: usize = 6;

fn name(number: usize) -> String {
    format!("twin-{number}")
}

/// Nodes of one machine type under the same rules, all empty.
fn twins() -> Cluster {
    let mut cluster = Cluster::new();
    let node = kubelet("single-numa-node");
    for number in 0..COUNT {
        cluster.insert(name(number).as_str().into(), node.clone());
    }
    cluster
}

/// How many nodes a call evaluates with this budget.
fn evaluated(cluster: &mut Cluster, request: &PodRequest, mut budget: DecisionBudget) -> usize {
    let names: Vec<String> = (0..COUNT).map(name).collect();
    let names = names.iter().map(String::as_str);
    let found = cluster.evaluate_nodes(request, names, &mut budget);
    let is_evaluated =
        |one: &&BoundedEvaluation<'_>| matches!(one, BoundedEvaluation::Evaluated(_));
    found.iter().filter(is_evaluated).count()
}

#[test]
fn equal_nodes_cost_one_decision_and_different_ones_one_each() {
    let mut cluster = twins();
    let one = DecisionBudget::new(1);
    assert_eq!(evaluated(&mut cluster, &request("a", 2), one), COUNT);
    for number in 0..3 {
        // One, two and three CPUs are taken.
        let other = request(
            &format!("r{number}"),
            1 + u32::try_from(number).expect("few"),
        );
        let placed = cluster.place_on(&other, &name(number).as_str().into());
        assert!(placed.is_ok(), "{placed:?}");
    }
    assert_eq!(evaluated(&mut cluster, &request("b", 3), one), 1);
    let four = DecisionBudget::new(4);
    let found = evaluated(&mut cluster, &request("c", 4), four);
    assert_eq!(found, COUNT, "three different ones and the empty ones");
}

#[test]
fn what_a_budget_did_not_suffice_for_is_evaluated_by_later_calls() {
    let mut cluster = twins();
    for number in 0..COUNT {
        let size = 1 + u32::try_from(number % 4).expect("few");
        for copy in 0..=number / 4 {
            let other = request(&format!("r{number}-{copy}"), size);
            let placed = cluster.place_on(&other, &name(number).as_str().into());
            assert!(placed.is_ok(), "{placed:?}");
        }
    }
    for calls in 1..=COUNT {
        let two = request(&format!("call-{calls}"), 2);
        assert_eq!(evaluated(&mut cluster, &two, DecisionBudget::new(1)), calls);
    }
    let none = DecisionBudget::new(0);
    assert_eq!(
        evaluated(&mut cluster, &request("c", 2), none),
        COUNT,
        "remembered"
    );
    let unknown = cluster.evaluate_nodes(&request("d", 2), ["elsewhere"], &mut { none });
    assert!(matches!(unknown[..], [BoundedEvaluation::UnknownNode]));
}

proptest! {
    #[test]
    fn an_evaluation_is_the_one_of_the_node_alone(
        steps in prop::collection::vec((0..COUNT, 1_u32..6, 0_usize..4), 1..24),
    ) {
        let mut cluster = twins();
        for (number, (node, size, removed)) in steps.into_iter().enumerate() {
            let node = name(node).as_str().into();
            let _ = cluster.place_on(&request(&format!("p{number}"), size), &node);
            if removed == 0 {
                cluster.remove(&format!("p{}", number / 2).as_str().into());
            }
            // A pod that may be on a node already, and one that is on none.
            for uid in [format!("p{}", number / 2), "new".to_owned()] {
                let wanted = request(&uid, size);
                let nodes: Vec<(NodeName, ClusterNode)> =
                    cluster.nodes().map(|(name, node)| (name.clone(), node.clone())).collect();
                let together: Vec<Evaluation> = cluster
                    .evaluate_all(&wanted)
                    .into_iter()
                    .map(|one| one.evaluation.clone())
                    .collect();
                for ((name, mut node), evaluation) in nodes.into_iter().zip(together) {
                    prop_assert_eq!(node.evaluate(&wanted), evaluation, "{} on {}", uid, name);
                }
            }
        }
    }
}
