//! Tests of the cluster with small nodes of every dialect.

use std::sync::Arc;

use super::*;
use crate::koordinator::amounts::NodeAmounts;
use crate::koordinator::cpu_topology::{KoordinatorTopology, ReportedCpu};
use crate::koordinator::ledger::Allocation;
use crate::koordinator::node::{KoordinatorNode, KoordinatorReport};
use crate::koordinator::plugin::{KoordinatorArgs, PodDemand};
use crate::koordinator::policy_values::NumaPolicy;
use crate::koordinator::qos::KoordinatorQos;
use crate::koordinator::score::ScoreKind;
use crate::volcano::cpu_detail::{CpuDetail, CpuRow};
use crate::volcano::numa_amounts::{NumaAmount, NumaAmounts};
use crate::volcano::predicate::NumaInfo;
use pinfold_core::cpu_set::{CpuId, CpuList, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;

mod properties;
mod replicas;
mod twins;

fn cpu(id: u32) -> CpuId {
    CpuId::new(id).expect("a small machine")
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse(list).expect("a list of CPUs")
}

fn numa(id: u32) -> NodeId {
    NodeId::new(i64::from(id)).expect("a small machine")
}

fn room(cpus: u32) -> Amounts {
    Amounts::from([
        ("cpu", i64::from(cpus) * 1000),
        ("memory", 1 << 40),
        ("pods", 110),
    ])
}

/// A node with two NUMA nodes of 5 CPUs; CPU 0 is reserved.
fn kubelet(policy: &str) -> ClusterNode {
    let core = |id: u32| Core {
        id,
        socket: id / 5,
        die: None,
        l3: None,
        threads: vec![cpu(id)],
    };
    let node = |id: u32| NumaNode {
        id: numa(id),
        memory: 16 << 30,
        hugepages: Vec::new(),
        distances: Vec::new(),
        cores: (id * 5..id * 5 + 5).map(core).collect(),
    };
    let machine = Machine::new(MachineParts {
        nodes: (0..2).map(node).collect(),
        num_cpus: 10,
        num_sockets: 2,
        ..MachineParts::default()
    });
    let settings = Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("1".parse().expect("a quantity")),
        reserved_cpus: Some(CpuList::from(&CpuSet::single(cpu(0)))),
        ..Settings::default()
    };
    let rules = Rules::new(Arc::new(machine.expect("a good machine")), settings);
    let ledger = Ledger::new(Arc::new(rules.expect("good settings")));
    ClusterNode::kubelet(ledger, room(9))
}

/// A node with two NUMA nodes, on which a pod holds these CPUs.
fn koordinator(
    per_node: u32,
    policy: Option<NumaPolicy>,
    held: &str,
    args: KoordinatorArgs,
) -> ClusterNode {
    let row = |id: u32| ReportedCpu {
        cpu: cpu(id),
        core: i64::from(id % per_node),
        node: i64::from(id / per_node),
        socket: i64::from(id / per_node),
    };
    let zone = |id: u32| NodeAmounts {
        node: numa(id),
        amounts: Amounts::from([("cpu", i64::from(per_node) * 1000), ("memory", 64 << 30)]),
    };
    let topology = KoordinatorTopology::from_report((0..2 * per_node).map(row), Fidelity::Sound);
    let none = CpuSet::new();
    let zones = vec![zone(0), zone(1)];
    let mut node = KoordinatorNode {
        numa_policy: policy,
        allocatable: room(2 * per_node),
        report: Some(KoordinatorReport::new(topology, &none, none.clone(), zones)),
        ..KoordinatorNode::default()
    };
    let held = cpus(held);
    if !held.is_empty() {
        let milli = i64::try_from(held.len()).expect("few") * 1000;
        let allocation = Allocation {
            cpus: held,
            ..Allocation::default()
        };
        let requests = Amounts::from([("cpu", milli)]);
        node.assume("other".into(), &requests, Some(allocation));
    }
    ClusterNode::koordinator(node, Arc::new(args))
}

/// A node with two NUMA nodes of 4 CPUs, of which these are free.
fn volcano(free: &str) -> ClusterNode {
    let row = |id: u32| CpuRow {
        cpu: cpu(id),
        core: id,
        node: numa(id / 4),
        socket: id / 4,
    };
    let info = NumaInfo {
        cpu_manager: "static".into(),
        topology: "single-numa-node".into(),
        cpus: CpuDetail::new((0..8).map(row)),
        free: Some(cpus(free)),
        reserved: None,
    };
    let memory = [0, 1].map(|id| {
        let amount = NumaAmount {
            total: 64 << 30,
            free: 64 << 30,
        };
        ("memory".into(), numa(id), amount)
    });
    let memory = NumaAmounts::new(memory);
    ClusterNode::volcano(Some(info), memory, room(8), Fidelity::Sound)
}

/// A Guaranteed LSR pod of one container with the Volcano policy `single-numa-node`.
fn request(uid: &str, cpus: u32) -> PodRequest {
    let amounts: ResourceList = [("cpu", cpus.to_string()), ("memory", "1Gi".into())]
        .map(|(name, amount)| (name.into(), amount.parse().expect("a quantity")))
        .into();
    let requests = Amounts::of(&amounts);
    let pod = Pod {
        uid: uid.into(),
        name: format!("ns/{uid}"),
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: amounts.clone(),
            limits: amounts,
        }],
        pod_requests: None,
        pod_limits: None,
    };
    PodRequest::new(Arc::new(pod))
        .with_koordinator(PodDemand {
            limits: requests.clone(),
            requests,
            qos: Some(KoordinatorQos::Lsr),
            ..PodDemand::default()
        })
        .with_volcano_policy("single-numa-node")
}

fn names(ranked: &[RankedNode<'_>]) -> Vec<String> {
    ranked
        .iter()
        .map(|ranked| ranked.node.to_string())
        .collect()
}

/// STORY-05: A has 2 + 2 CPUs free, B has 4 + 0.
#[test]
fn a_node_whose_free_cpus_lie_on_different_numa_nodes_is_not_chosen() {
    let single = || Some(NumaPolicy::SingleNumaNode);
    let filled = |sizes: &[u32]| {
        let mut cluster = Cluster::new();
        cluster.insert("only".into(), kubelet("single-numa-node"));
        for (at, &size) in sizes.iter().enumerate() {
            let placed = cluster.place(&request(&format!("filler-{at}"), size));
            placed.expect("there is room");
        }
        cluster.remove_node(&"only".into()).expect("it is there")
    };
    let pairs = [
        ("kubelet", filled(&[2, 3]), filled(&[5])),
        (
            "koordinator",
            koordinator(4, single(), "0-1,4-5", KoordinatorArgs::default()),
            koordinator(4, single(), "4-7", KoordinatorArgs::default()),
        ),
        ("volcano", volcano("2-3,6-7"), volcano("0-3")),
    ];
    for (dialect, a, b) in pairs {
        let mut cluster = Cluster::new();
        cluster.insert("a".into(), a);
        cluster.insert("b".into(), b);
        let pod = request("pod", 4);
        assert_eq!(names(&cluster.rank(&pod)), ["b"], "{dialect}");
        let rejection = cluster.evaluate(&pod, &"a".into());
        assert!(
            !matches!(
                rejection.rejection(),
                None | Some(NodeRejection::Insufficient(_))
            ),
            "{dialect}: the totals suffice, so NUMA must be the reason: {rejection:?}"
        );
        let placement = cluster.place(&pod).expect("it fits b");
        assert_eq!(placement.node.as_str(), "b", "{dialect}");
        assert_eq!(placement.numa, NodeSet::single(numa(0)), "{dialect}");
        assert_eq!(placement.cpus.len(), 4, "{dialect}");
    }
}

/// STORY-07: 2 and 6 CPUs are free on the two NUMA nodes, 2 are requested.
#[test]
fn the_scoring_strategy_chooses_the_fullest_or_the_emptiest_numa_node() {
    for (kind, expected) in [
        (ScoreKind::MostAllocated, 0),
        (ScoreKind::LeastAllocated, 1),
    ] {
        let args = KoordinatorArgs {
            numa_scoring: kind,
            ..KoordinatorArgs::default()
        };
        let policy = Some(NumaPolicy::SingleNumaNode);
        let mut cluster = Cluster::new();
        cluster.insert("a".into(), koordinator(8, policy, "0-5,8-9", args));
        let placement = cluster.place(&request("pod", 2)).expect("there is room");
        assert_eq!(placement.numa, NodeSet::single(numa(expected)), "{kind:?}");
    }
}

#[test]
fn nodes_with_equal_scores_are_used_in_the_order_of_their_names() {
    let mut cluster = Cluster::new();
    for name in ["c", "a", "b"] {
        cluster.insert(name.into(), volcano("0-3"));
    }
    for expected in ["a", "b", "c"] {
        let placement = cluster.place(&request(&format!("on-{expected}"), 4));
        let node = placement.map(|placement| placement.node.to_string());
        assert_eq!(node.as_deref(), Ok(expected));
    }
}

#[test]
fn every_dialect_checks_the_totals_of_allocatable() {
    let full = Amounts::from([("cpu", 9000), ("pods", 9)]);
    let single = Some(NumaPolicy::SingleNumaNode);
    for node in [
        kubelet("none"),
        koordinator(4, single, "", KoordinatorArgs::default()),
        volcano("0-7"),
        ClusterNode::unknown(room(8)),
    ] {
        let mut node = node.with_used(full.clone());
        let evaluation = node.evaluate(&request("pod", 1));
        let text = evaluation.rejection().map(NodeRejection::to_string);
        let left = node.allocatable().get("cpu") / 1000 - 9;
        let expected = format!("Insufficient cpu (1 asked, {left} left)");
        assert_eq!(text, Some(expected));
    }
}

#[test]
fn the_error_for_a_pod_that_fits_no_node_counts_reasons_as_kube_scheduler_does() {
    let mut cluster = Cluster::new();
    cluster.insert("a".into(), volcano("0-1,4-5"));
    cluster.insert("b".into(), ClusterNode::unknown(room(2)));
    cluster.insert("c".into(), ClusterNode::unknown(room(1)));
    let error = cluster.place(&request("pod", 4)).expect_err("no room");
    assert_eq!(
        error.to_string(),
        "pod pod: 0/3 nodes are available: 1 container main cannot be assigned by numa, \
         2 Insufficient cpu."
    );
}

#[test]
fn a_pod_cannot_be_placed_twice() {
    let mut cluster = Cluster::new();
    cluster.insert("a".into(), volcano("0-7"));
    cluster.place(&request("pod", 2)).expect("there is room");
    let again = cluster.place(&request("pod", 2));
    assert!(matches!(again, Err(PlaceError::AlreadyPlaced { .. })));
    assert_eq!(cluster.remove(&"pod".into()), Some("a".into()));
    assert_eq!(cluster.remove(&"pod".into()), None);
    cluster.place(&request("pod", 2)).expect("it was removed");
}

#[test]
fn a_node_view_shows_which_pods_hold_which_cpus_under_every_dialect() {
    let aligned = Some(NumaPolicy::SingleNumaNode);
    let table = [
        (kubelet("single-numa-node"), "1-3", "", 10),
        (
            koordinator(4, aligned, "0-1", KoordinatorArgs::default()),
            "4-6",
            "0-1",
            8,
        ),
        (volcano("2-7"), "4-6", "0-1", 8),
    ];
    for (node, held, before, size) in table {
        let mut cluster = Cluster::new();
        cluster.insert("a".into(), node);
        let placed = cluster.place(&request("new", 3)).expect("there is room");
        assert_eq!(placed.cpus, cpus(held));
        let view = cluster.node_view(&"a".into(), |uid| format!("the {uid}"));
        let NodeView { machine, occupancy } = view.expect("its CPUs are known");
        assert_eq!((machine.online().len(), machine.nodes().len()), (size, 2));
        let held_by_new = occupancy
            .holders
            .iter()
            .filter(|one| one.cpus == cpus(held));
        assert_eq!(held_by_new.count(), 1, "{occupancy:?}");
        let mut all = cpus(held);
        all |= &cpus(before);
        assert_eq!(occupancy.shared, machine.online() - &all);
    }
    let mut cluster = Cluster::new();
    cluster.insert("a".into(), ClusterNode::unknown(room(8)));
    assert_eq!(cluster.node_view(&"a".into(), PodUid::to_string), None);
    assert_eq!(cluster.node_view(&"b".into(), PodUid::to_string), None);
}
