use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::{Cluster, Evaluation};
use pinfold_core::ledger::Rules;
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::NodeId;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;

use super::*;

/// Four NUMA nodes with four CPUs each; neighbours are near, the others far.
fn machine() -> Machine {
    let node = |id: u32| NumaNode {
        id: NodeId::new(id.into()).expect("small"),
        memory: 8 << 30,
        hugepages: Vec::new(),
        distances: (0..4)
            .map(|other| match (id, other) {
                (id, other) if id == other => 10,
                (0, 1) | (1, 0) | (2, 3) | (3, 2) => 12,
                _ => 32,
            })
            .collect(),
        cores: (id * 4..id * 4 + 4)
            .map(|core| Core {
                id: core,
                socket: 0,
                die: None,
                l3: None,
                threads: vec![pinfold_core::cpu_set::CpuId::new(core).expect("small")],
            })
            .collect(),
    };
    Machine::new(MachineParts {
        nodes: (0..4).map(node).collect(),
        num_cpus: 16,
        num_sockets: 1,
        offline: CpuSet::new(),
    })
    .expect("a machine")
}

fn ask(uid: &str, cpus: u32) -> PodRequest {
    let amounts = serde_json::json!({ "cpu": cpus.to_string(), "memory": "1Gi" });
    let pod = serde_json::json!({ "uid": uid, "containers": [
        { "name": "main", "requests": amounts, "limits": amounts },
    ]});
    PodRequest::new(Arc::new(serde_json::from_value(pod).expect("a pod")))
}

/// A cluster with one node on which pods with these numbers of CPUs run.
fn node(residents: &[u32]) -> Cluster {
    let settings = Settings {
        topology_policy: TopologyPolicy::BestEffort,
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(1.into()),
        ..Settings::default()
    };
    let rules = Rules::new(machine().into(), settings).expect("rules");
    let ledger = Ledger::new(Arc::new(rules));
    let allocatable = Amounts::from([("cpu", 15_000), ("memory", 32 << 30), ("pods", 110)]);
    let mut cluster = Cluster::new();
    cluster.insert("a".into(), ClusterNode::kubelet(ledger, allocatable));
    for (at, cpus) in residents.iter().enumerate() {
        let placed = cluster.place_on(&ask(&format!("r{at}"), *cpus), &"a".into());
        assert!(placed.is_ok(), "{cpus}");
    }
    cluster
}

/// The score of the node for a pod with `cpus` CPUs.
fn score(weights: &Weights, residents: &[u32], cpus: u32) -> i64 {
    let mut cluster = node(residents);
    let next = ask("next", cpus);
    let Evaluation::Fits(fit) = cluster.evaluate(&next, &"a".into()) else {
        panic!("expected a fit");
    };
    let member = cluster.node(&"a".into()).expect("the node");
    weights.score(&next, member, Some(&fit))
}

const NOTHING: Weights = Weights {
    span: 0,
    dialect: 0,
    utilization: 0,
    distance: 0,
    fragmentation: 0,
    prefer: Prefer::Pack,
};

#[test]
fn every_part_orders_nodes_as_documented() {
    let span = Weights { span: 1, ..NOTHING };
    assert_eq!(score(&span, &[], 4), MAX_SCORE);
    assert!(score(&span, &[], 8) < score(&span, &[], 4));
    assert!(score(&span, &[], 12) < score(&span, &[], 8));
    let pack = Weights {
        utilization: 1,
        ..NOTHING
    };
    assert!(score(&pack, &[4, 4], 2) > score(&pack, &[], 2));
    let spread = Weights {
        prefer: Prefer::Spread,
        ..pack.clone()
    };
    assert!(score(&spread, &[4, 4], 2) < score(&spread, &[], 2));
    let distance = Weights {
        distance: 1,
        ..NOTHING
    };
    assert_eq!(score(&distance, &[], 4), MAX_SCORE, "one NUMA node");
    assert!(score(&distance, &[], 12) < score(&distance, &[], 4));
    let whole = Weights {
        fragmentation: 1,
        ..NOTHING
    };
    // Taking CPUs of one NUMA node while others are whole costs nothing; breaking the last whole one does.
    assert_eq!(score(&whole, &[], 3), MAX_SCORE);
    assert!(score(&whole, &[4, 4, 2], 2) <= score(&whole, &[], 3));
}

#[test]
fn scores_are_equal_without_weights_and_always_in_bounds() {
    assert_eq!(score(&NOTHING, &[], 4), 0);
    let all = Weights {
        span: 100,
        dialect: 100,
        utilization: 100,
        distance: 100,
        fragmentation: 100,
        prefer: Prefer::Pack,
    };
    for cpus in 1..=15 {
        assert!((0..=MAX_SCORE).contains(&score(&all, &[], cpus)), "{cpus}");
        assert!((0..=MAX_SCORE).contains(&score(&Weights::default(), &[], cpus)));
    }
}

#[test]
fn a_node_without_numa_rules_is_scored_by_its_utilization() {
    let allocatable = Amounts::from([("cpu", 10_000), ("pods", 110)]);
    let empty = ClusterNode::unknown(allocatable.clone());
    let half = ClusterNode::unknown(allocatable).with_used(Amounts::from([("cpu", 5000)]));
    let (weights, next) = (Weights::default(), ask("next", 1));
    assert_eq!(weights.score(&next, &empty, None), 10);
    assert_eq!(weights.score(&next, &half, None), 60);
}
