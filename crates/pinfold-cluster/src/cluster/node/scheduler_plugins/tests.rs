//! The plugin's filter, score and cache on a node of a cluster.

use super::*;
use crate::cluster::{Cluster, ClusterNode, PlaceError, Placement};
use crate::node_topology::filter::tests::{amounts, pod, topology, zone};
use crate::node_topology::score::ScoringStrategy;
use pinfold_core::name::NodeName;
use pinfold_core::pod::Pod;

/// A node with two NUMA zones that have these CPUs available.
fn node(cpus: [&str; 2], args: TopologyMatchArgs) -> TopologyMatchNode {
    let zones = [0, 1].map(|id| zone(id, &[("cpu", cpus[id]), ("memory", "32Gi")]));
    TopologyMatchNode::new(
        Some(topology("container", zones.into())),
        amounts(&[("cpu", "64"), ("memory", "64Gi"), ("pods", "110")]),
        Arc::new(args),
        Fidelity::Exact,
    )
}

fn cluster(nodes: impl IntoIterator<Item = (&'static str, TopologyMatchNode)>) -> Cluster {
    let mut cluster = Cluster::new();
    for (name, node) in nodes {
        cluster.insert(name.into(), ClusterNode::scheduler_plugins(node));
    }
    cluster
}

fn request(uid: &str, cpus: &str) -> PodRequest {
    let pod = Pod {
        uid: uid.into(),
        name: format!("ns/{uid}"),
        ..pod(&[&[("cpu", cpus), ("memory", "1Gi")]])
    };
    PodRequest::new(Arc::new(pod))
}

fn with_cache() -> TopologyMatchArgs {
    TopologyMatchArgs {
        over_reserve: true,
        ..TopologyMatchArgs::default()
    }
}

fn available_cpus(cluster: &Cluster, name: &str) -> Vec<String> {
    let node = cluster.node(&name.into()).expect("inserted");
    let crate::Dialect::SchedulerPlugins(node) = node.dialect() else {
        panic!("a node of scheduler-plugins")
    };
    let zones = node.topology().expect("reported").zones.iter();
    let cpus = zones.flat_map(|zone| &zone.resources);
    cpus.filter(|resource| resource.name.as_str() == "cpu")
        .map(|resource| resource.available.to_string())
        .collect()
}

fn node_of(placed: Result<Placement, PlaceError>) -> NodeName {
    placed.expect("fits").node
}

#[test]
fn a_pod_that_no_zone_has_room_for_is_rejected_with_container_and_resource() {
    let mut cluster = cluster([("n", node(["4", "3"], TopologyMatchArgs::default()))]);
    let evaluation = cluster.evaluate(&request("p", "5"), &"n".into());
    let rejection = evaluation.rejection().expect("no zone has 5 CPUs");
    assert_eq!(
        rejection.to_string(),
        "cannot align container (c: no NUMA zone has enough cpu)"
    );
    assert_eq!(rejection.summary(), "cannot align container");
}

#[test]
fn the_totals_of_allocatable_are_compared_before_the_plugin_filters() {
    let mut cluster = cluster([("n", node(["99", "99"], TopologyMatchArgs::default()))]);
    let evaluation = cluster.evaluate(&request("p", "65"), &"n".into());
    assert!(matches!(
        evaluation.rejection(),
        Some(NodeRejection::Insufficient(_))
    ));
}

#[test]
fn the_pod_goes_to_the_node_that_the_strategy_scores_highest() {
    for (strategy, best) in [
        (ScoringStrategy::LeastAllocated, "empty"),
        (ScoringStrategy::MostAllocated, "full"),
    ] {
        let args = TopologyMatchArgs {
            strategy,
            weights: [("cpu".into(), 1)].into(),
            over_reserve: false,
        };
        let mut cluster = cluster([
            ("empty", node(["32", "32"], args.clone())),
            ("full", node(["8", "8"], args)),
        ]);
        let placement = cluster.place(&request("p", "4")).expect("fits");
        assert_eq!(placement.node.as_str(), best, "{strategy:?}");
        // The plugin chooses neither CPUs nor NUMA nodes.
        assert!(placement.cpus.is_empty() && placement.numa.is_empty());
        let PlacementDetail::SchedulerPlugins { score } = placement.detail else {
            panic!("{:?}", placement.detail)
        };
        assert!((1..=100).contains(&score), "{score}");
    }
}

#[test]
fn a_node_without_a_report_passes_the_filter_and_scores_zero() {
    let bare = TopologyMatchNode::new(
        None,
        amounts(&[("cpu", "64"), ("memory", "64Gi")]),
        Arc::new(with_cache()),
        Fidelity::Exact,
    );
    let mut cluster = cluster([("bare", bare)]);
    let Evaluation::Fits(fit) = cluster.evaluate(&request("p", "5"), &"bare".into()) else {
        panic!("not filtered")
    };
    assert_eq!(fit.score, FitScore::Absolute(0));
    assert_eq!(node_of(cluster.place(&request("p", "5"))).as_str(), "bare");
}

#[test]
fn the_cache_deducts_a_placed_pod_from_every_zone_until_it_is_removed() {
    let mut cluster = cluster([("n", node(["4", "3"], with_cache()))]);
    node_of(cluster.place(&request("a", "3")));
    // The plugin does not know which zone the kubelet will use, and no zone falls below 0.
    assert_eq!(available_cpus(&cluster, "n"), ["1", "0"]);
    assert!(cluster.place(&request("b", "3")).is_err());
    cluster.remove(&"a".into());
    assert_eq!(available_cpus(&cluster, "n"), ["4", "3"]);
    node_of(cluster.place(&request("b", "3")));
}

#[test]
fn without_the_cache_placed_pods_do_not_change_what_the_plugin_sees() {
    let mut cluster = cluster([("n", node(["4", "3"], TopologyMatchArgs::default()))]);
    for uid in ["a", "b", "c"] {
        node_of(cluster.place(&request(uid, "4")));
    }
    assert_eq!(available_cpus(&cluster, "n"), ["4", "3"]);
}

#[test]
fn a_pod_that_does_not_fit_leaves_the_cache_unchanged() {
    let mut cluster = cluster([("n", node(["4", "4"], with_cache()))]);
    for uid in ["a", "b"] {
        node_of(cluster.place(&request(uid, "2")));
    }
    let before = cluster.clone();
    cluster
        .place(&request("c", "2"))
        .expect_err("both are full");
    assert!(cluster == before);
}

#[test]
fn the_overhead_of_the_runtime_class_counts_at_pod_scope_and_in_the_cache() {
    let zones = vec![zone(0, &[("cpu", "4"), ("memory", "32Gi")])];
    let node = TopologyMatchNode::new(
        Some(topology("pod", zones)),
        amounts(&[("cpu", "64"), ("memory", "64Gi")]),
        Arc::new(with_cache()),
        Fidelity::Exact,
    );
    let mut cluster = cluster([("n", node)]);
    let overhead = |cpus: &str| amounts(&[("cpu", cpus)]);
    let too_much = request("p", "4").with_overhead(overhead("1"));
    assert!(!cluster.evaluate(&too_much, &"n".into()).admits());
    node_of(cluster.place(&request("p", "2").with_overhead(overhead("1"))));
    assert_eq!(available_cpus(&cluster, "n"), ["1"]);
}
