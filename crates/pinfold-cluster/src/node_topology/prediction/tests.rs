//! Predictions from small topology objects under every policy.

use std::sync::Arc;

use super::*;
use crate::node_topology::filter::tests::{pod, zone};
use crate::node_topology::replica::{DeviceTotal, DeviceTotals, KnownCpus, ReplicaError};
use crate::node_topology::replica::{Replica, RulesCache};
use crate::node_topology::{Attribute, NodeTopology, Zone, attributes};
use crate::volcano::cpu_detail::CpuRow;
use crate::{ClusterNode, Evaluation, NodeRejection, PodRequest};
use pinfold_core::device::NoPreference;
use pinfold_core::fidelity::Fidelity;

/// A topology object with these attributes and zones.
fn object(rows: &[(&str, &str)], zones: Vec<Zone>) -> NodeTopology {
    let attribute = |&(name, value): &(&str, &str)| Attribute {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    NodeTopology {
        topology_policies: Vec::new(),
        attributes: rows.iter().map(attribute).collect(),
        zones,
    }
}

/// What a scheduler makes of the replica.
#[derive(Debug, PartialEq)]
enum Prediction {
    Admitted,
    Rejected,
    Uncertain(Gap),
}

fn predict(object: &NodeTopology, pod: &Pod) -> Prediction {
    let replica = Replica::of(
        object,
        &DeviceTotals::new(),
        None,
        Fidelity::Sound,
        &mut RulesCache::default(),
    );
    evaluate(&replica.expect("a readable object"), &numbered(pod))
}

/// The pod with different names for its containers.
fn numbered(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    for (at, container) in pod.containers.iter_mut().enumerate() {
        container.name = format!("c{at}").into();
    }
    pod
}

/// Evaluates the pod on the node of a cluster, which has enough in total.
fn evaluate(replica: &Replica, pod: &Pod) -> Prediction {
    let request = PodRequest::new(Arc::new(pod.clone()));
    let node = ClusterNode::kubelet(replica.ledger().clone(), request.requests().clone());
    match node.with_gaps(replica.gaps().clone()).evaluate(&request) {
        Evaluation::Fits(_) | Evaluation::FitsInTotal => Prediction::Admitted,
        Evaluation::Rejected(NodeRejection::Uncertain(gap)) => Prediction::Uncertain(gap),
        Evaluation::Rejected(NodeRejection::Kubelet(..)) => Prediction::Rejected,
        Evaluation::Rejected(other) => panic!("{other:?}"),
    }
}

fn policy(name: &str) -> [(&str, &str); 1] {
    [(attributes::TOPOLOGY_POLICY, name)]
}

/// Two zones of eight CPUs with these available.
fn two_zones(available: [&str; 2]) -> Vec<Zone> {
    let mut zones = vec![zone(0, &[("cpu", "8")]), zone(1, &[("cpu", "8")])];
    for (zone, available) in zones.iter_mut().zip(available) {
        zone.resources[0].available = available.parse().expect("a quantity");
    }
    zones
}

#[test]
fn each_policy_rejects_what_the_kubelet_would_reject() {
    let table = [
        // requested CPUs, available CPUs of both NUMA nodes, policies that admit
        (
            "6",
            ["8", "8"],
            "none best-effort restricted single-numa-node",
        ),
        ("6", ["5", "5"], "none best-effort"),
        ("12", ["8", "8"], "none best-effort restricted"),
        ("12", ["5", "5"], ""),
    ];
    for (asked, available, admitting) in table {
        let pod = pod(&[&[("cpu", asked), ("memory", "1Gi")]]);
        for name in TopologyPolicy::ALL.map(TopologyPolicy::name) {
            let prediction = predict(&object(&policy(name), two_zones(available)), &pod);
            let expected = admitting.split(' ').any(|admits| admits == name);
            assert_eq!(
                prediction == Prediction::Admitted,
                expected,
                "{asked} {available:?} {name}"
            );
        }
    }
}

#[test]
fn a_rejection_lists_the_free_amount_of_each_numa_node() {
    let node = object(&policy("single-numa-node"), two_zones(["5", "3"]));
    let six = Arc::new(pod(&[&[("cpu", "6"), ("memory", "1Gi")]]));
    let replica = Replica::of(
        &node,
        &DeviceTotals::new(),
        None,
        Fidelity::Sound,
        &mut RulesCache::default(),
    );
    let mut ledger = replica.expect("a readable object").ledger().clone();
    let decision = ledger
        .admit(&six, &mut NoPreference)
        .expect("a pod")
        .decision;
    assert!(!decision.is_admitted());
    let alignment = decision
        .explanation
        .alignments
        .last()
        .expect("one alignment");
    let facts = &alignment.resources[0];
    let free: Vec<u64> = facts.nodes.iter().map(|node| node.free).collect();
    assert_eq!((facts.requested, free), (6, vec![5, 3]));
}

#[test]
fn a_pod_that_is_not_guaranteed_or_requests_a_fraction_of_a_cpu_is_not_aligned() {
    let node = object(&policy("single-numa-node"), two_zones(["1", "1"]));
    let mut burstable = pod(&[&[("cpu", "6"), ("memory", "1Gi")]]);
    burstable.containers[0].limits.clear();
    assert_eq!(predict(&node, &burstable), Prediction::Admitted);
    let half = pod(&[&[("cpu", "6500m"), ("memory", "1Gi")]]);
    assert_eq!(predict(&node, &half), Prediction::Admitted);
}

#[test]
fn the_division_of_a_container_across_numa_nodes_matters_only_to_later_containers() {
    let node = object(&policy("restricted"), two_zones(["8", "8"]));
    let wide = [("cpu", "12"), ("memory", "1Gi")];
    let small = [("cpu", "3"), ("memory", "1Gi")];
    assert_eq!(predict(&node, &pod(&[&wide])), Prediction::Admitted);
    assert_eq!(predict(&node, &pod(&[&small, &wide])), Prediction::Admitted);
    // Four CPUs remain: four on one NUMA node, or two on each.
    let open = Gap::Division {
        container: "c0".into(),
        resource: "cpu".into(),
    };
    assert_eq!(
        predict(&node, &pod(&[&wide, &small])),
        Prediction::Uncertain(open)
    );
    // The scope `pod` aligns only once.
    let whole = object(
        &[
            (attributes::TOPOLOGY_POLICY, "restricted"),
            (attributes::TOPOLOGY_SCOPE, "pod"),
        ],
        two_zones(["8", "8"]),
    );
    assert_eq!(
        predict(&whole, &pod(&[&wide, &small])),
        Prediction::Admitted
    );
}

#[test]
fn whole_cores_need_listed_cpus() {
    let rows = [
        (attributes::TOPOLOGY_POLICY, "single-numa-node"),
        (attributes::CPU_OPTIONS, "full-pcpus-only=true"),
    ];
    let node = object(&rows, two_zones(["4", "0"]));
    let two = pod(&[&[("cpu", "2"), ("memory", "1Gi")]]);
    assert_eq!(predict(&node, &two), Prediction::Uncertain(Gap::Cores));

    // Sixteen CPUs with adjacent siblings. On NUMA node 0 every second CPU is held: no core is whole.
    let row = |cpu: u32| CpuRow {
        cpu: pinfold_core::cpu_set::CpuId::new(cpu).expect("small"),
        core: cpu / 2,
        node: pinfold_core::node_set::NodeId::new(i64::from(cpu / 8)).expect("small"),
        socket: cpu / 8,
    };
    let list = |text: &str| pinfold_core::cpu_set::CpuSet::parse(text).expect("a list");
    for (held, admits) in [("0,2,4,6", false), ("0-3", true)] {
        let known = KnownCpus {
            rows: (0..16).map(row).collect(),
            reserved: list("8-9"),
            held: &list(held) | &list("10-15"),
        };
        let totals = DeviceTotals::new();
        let replica = Replica::of(
            &node,
            &totals,
            Some(&known),
            Fidelity::Sound,
            &mut RulesCache::default(),
        );
        let prediction = evaluate(&replica.expect("readable"), &two);
        assert_eq!(
            prediction == Prediction::Admitted,
            admits,
            "{held}: {prediction:?}"
        );
    }
}

#[test]
fn memory_in_use_is_uncertain_unless_its_groups_are_listed_or_cannot_exist() {
    let zones = |group: Option<&str>| {
        let mut zones = vec![zone(0, &[("memory", "8Gi")]), zone(1, &[("memory", "8Gi")])];
        zones[0].resources[0].available = "4Gi".parse().expect("a quantity");
        for zone in &mut zones {
            let value = group.map(str::to_owned);
            zone.attributes.extend(value.map(|value| Attribute {
                name: attributes::MEMORY_GROUP.to_owned(),
                value,
            }));
        }
        zones
    };
    let pod_request = pod(&[&[("cpu", "500m"), ("memory", "2Gi")]]);
    let predicted =
        |policy_name, group| predict(&object(&policy(policy_name), zones(group)), &pod_request);
    assert_eq!(
        predicted("restricted", None),
        Prediction::Uncertain(Gap::MemoryGroups)
    );
    assert_eq!(predicted("single-numa-node", None), Prediction::Admitted);
    // Both NUMA nodes can only be used together, and one would suffice on an empty machine.
    let together = predicted("restricted", Some("node-0,node-1"));
    assert_eq!(together, Prediction::Rejected);
}

#[test]
fn devices_that_no_zone_counts_are_near_no_numa_node() {
    let nic = |count: &'static str| [("v/nic", count)];
    let zones = vec![zone(0, &nic("1")), zone(1, &[])];
    let pod_request = pod(&[&[("cpu", "1"), ("v/nic", "2")]]);
    let predicted = |policy_name, allocatable, free| {
        let node = object(&policy(policy_name), zones.clone());
        let totals = DeviceTotals::from([("v/nic".into(), DeviceTotal { allocatable, free })]);
        let replica = Replica::of(
            &node,
            &totals,
            None,
            Fidelity::Sound,
            &mut RulesCache::default(),
        )
        .expect("readable");
        evaluate(&replica, &pod_request)
    };
    assert_eq!(predicted("best-effort", 3, 2), Prediction::Admitted);
    assert_eq!(predicted("best-effort", 3, 1), Prediction::Rejected);
    assert_eq!(predicted("restricted", 3, 2), Prediction::Rejected);
    // Fewer than the zones count: some devices are near both NUMA nodes and counted twice.
    let zones_count_more = predicted("best-effort", 0, 0);
    assert_eq!(
        zones_count_more,
        Prediction::Uncertain(Gap::WideDevices("v/nic".into()))
    );
}

#[test]
fn an_object_that_describes_no_kubelet_is_an_error_and_not_a_panic() {
    let read = |node: &NodeTopology| {
        Replica::of(
            node,
            &DeviceTotals::new(),
            None,
            Fidelity::Sound,
            &mut RulesCache::default(),
        )
        .map(|_| ())
    };
    assert_eq!(read(&object(&[], vec![])), Err(ReplicaError::NoZones));
    let twice = vec![zone(1, &[]), zone(1, &[])];
    assert!(matches!(
        read(&object(&[], twice)),
        Err(ReplicaError::DuplicateZone(_))
    ));
    let huge = vec![zone(0, &[("cpu", "9E")])];
    assert_eq!(read(&object(&[], huge)), Err(ReplicaError::TooManyCpus));
    let unknown = [(attributes::CPU_OPTIONS, "no-such-option=true")];
    let zones = vec![zone(0, &[("cpu", "2")])];
    assert!(matches!(
        read(&object(&unknown, zones)),
        Err(ReplicaError::Settings(_))
    ));
    // A policy of a future kubelet is not treated as `none`.
    for name in [
        attributes::TOPOLOGY_POLICY,
        attributes::TOPOLOGY_SCOPE,
        attributes::CPU_POLICY,
        attributes::MEMORY_POLICY,
    ] {
        let unknown = [
            (attributes::TOPOLOGY_POLICY, "restricted"),
            (name, "tomorrow"),
        ];
        let zones = vec![zone(0, &[("cpu", "2"), ("memory", "1Gi")])];
        let read = read(&object(&unknown, zones));
        assert!(
            matches!(read, Err(ReplicaError::Settings(_))),
            "{name}: {read:?}"
        );
    }
    // A huge number of devices is modelled up to a limit.
    let many = vec![zone(0, &[("v/kvm", "1E"), ("memory", "9E")])];
    assert_eq!(read(&object(&[], many)), Ok(()));
}

#[test]
fn a_deprecated_policy_without_a_scope_still_sets_the_policy() {
    let policy = |word: &str, attributes: &[(&str, &str)]| {
        let mut node = object(attributes, vec![zone(0, &[("cpu", "2")])]);
        node.topology_policies = vec![word.to_owned()];
        let replica = Replica::of(
            &node,
            &DeviceTotals::new(),
            None,
            Fidelity::Sound,
            &mut RulesCache::default(),
        );
        replica.map(|replica| replica.ledger().rules().policy())
    };
    assert_eq!(policy("None", &[]), Ok(TopologyPolicy::None));
    assert_eq!(policy("Restricted", &[]), Ok(TopologyPolicy::Restricted));
    assert_eq!(policy("BestEffort", &[]), Ok(TopologyPolicy::BestEffort));
    let both = [(attributes::TOPOLOGY_POLICY, "single-numa-node")];
    assert_eq!(
        policy("Restricted", &both),
        Ok(TopologyPolicy::SingleNumaNode)
    );
    assert!(policy("Tomorrow", &[]).is_err());
}
