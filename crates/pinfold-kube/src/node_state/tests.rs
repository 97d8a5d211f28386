use std::sync::Arc;

use pinfold_cluster::node_topology::replica::RulesCache;
use pinfold_core::cpu_set::CpuId;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Rules;
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::Settings;

use super::*;
use crate::cluster::KubeletReport;
use crate::node_resource_topology;

/// Two NUMA nodes with four CPUs and 8 GiB each.
fn machine() -> Machine {
    let node = |id: u32| NumaNode {
        id: NodeId::new(id.into()).expect("small"),
        memory: 8 << 30,
        hugepages: Vec::new(),
        distances: vec![10, 21],
        cores: (id * 4..id * 4 + 4)
            .map(|core| Core {
                id: core,
                socket: id,
                die: None,
                l3: None,
                threads: vec![CpuId::new(core).expect("small")],
            })
            .collect(),
    };
    Machine::new(MachineParts {
        nodes: vec![node(0), node(1)],
        num_cpus: 8,
        num_sockets: 2,
        offline: CpuSet::new(),
    })
    .expect("a machine")
}

fn ledger(policy: &str) -> Ledger {
    let gib = ResourceList::from([("memory".into(), Quantity::bytes(1 << 30))]);
    let settings = Settings {
        fidelity: Fidelity::Exact,
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(1.into()),
        memory_policy: MemoryManagerPolicy::Static,
        node_reservation: gib.clone(),
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: gib,
        }],
        ..Settings::default()
    };
    let rules = Rules::new(machine().into(), settings).expect("rules");
    Ledger::new(Arc::new(rules))
}

fn pod(uid: &str, cpus: u32, memory: &str) -> Arc<Pod> {
    let amounts = serde_json::json!({"cpu": cpus.to_string(), "memory": memory});
    let pod = serde_json::json!({"uid": uid, "containers": [{"name": "main", "requests": amounts, "limits": amounts}]});
    Arc::new(serde_json::from_value(pod).expect("a pod"))
}

fn published(ledger: &Ledger) -> NodeResourceTopology {
    let (rules, occupancy) = (ledger.rules(), ledger.occupancy());
    let mut published =
        node_resource_topology::publish("worker", rules.machine(), &occupancy, rules.settings());
    let facts = crate::koordinator::ReportAnnotations::of(
        rules.machine(),
        rules.settings(),
        rules.reserved_cpus(),
    );
    published.meta.annotations.extend(facts.annotations());
    PublishedNodeState::attach(ledger, DialectName::Kubelet, &mut published);
    published
}

#[test]
fn a_published_state_is_read_back_as_the_ledger_s_state() {
    let apart = [("a", 2, "1Gi"), ("b", 3, "5Gi")];
    let across = [("wide", 6, "10Gi")];
    for pods in [&apart[..], &across] {
        let mut ledger = ledger("restricted");
        for &(uid, cpus, memory) in pods {
            let admission = ledger.admit(&pod(uid, cpus, memory), &mut NoPreference);
            assert!(admission.expect("a pod").decision.is_admitted(), "{uid}");
        }
        let published = published(&ledger);
        let read = PublishedNodeState::read(&published)
            .expect("readable")
            .value;
        assert_eq!(
            read,
            Some(PublishedNodeState::of(&ledger, DialectName::Kubelet))
        );
    }
}

#[test]
fn a_report_without_removed_pods_equals_the_report_of_a_node_that_released_them() {
    for policy in ["restricted", "best-effort", "single-numa-node"] {
        let mut ledger = ledger(policy);
        for (uid, cpus, memory) in [("a", 2, "2Gi"), ("b", 2, "3Gi"), ("c", 1, "1Gi")] {
            let admission = ledger.admit(&pod(uid, cpus, memory), &mut NoPreference);
            assert!(admission.expect("a pod").decision.is_admitted(), "{uid}");
        }
        let report = KubeletReport::read(&published(&ledger))
            .expect("readable")
            .value;
        let mut shelf = RulesCache::default();
        for gone in [&["a"][..], &["b"], &["a", "c"], &["a", "b", "c"], &[]] {
            let mut real = ledger.clone();
            for uid in gone {
                real.release(&(*uid).into()).expect("it was there");
            }
            let replica = report
                .replica(
                    &Default::default(),
                    &Default::default(),
                    |uid| gone.contains(&uid.as_str()),
                    pinfold_core::fidelity::KubeletVersion::DEFAULT,
                    &mut shelf,
                )
                .expect("a kubelet");
            for (cpus, memory) in [
                (1, "1Gi"),
                (2, "6Gi"),
                (3, "2Gi"),
                (4, "8Gi"),
                (6, "12Gi"),
                (7, "1Gi"),
            ] {
                let next = pod("next", cpus, memory);
                let predicted = replica.ledger().clone().admit(&next, &mut NoPreference);
                let truth = real.clone().admit(&next, &mut NoPreference);
                let (predicted, truth) = (
                    predicted.expect("a pod").decision,
                    truth.expect("a pod").decision,
                );
                assert_eq!(
                    predicted.is_admitted(),
                    truth.is_admitted(),
                    "{policy}, without {gone:?}, {cpus} CPUs and {memory}"
                );
            }
        }
    }
}

#[test]
fn an_invalid_state_is_rejected_with_its_position() {
    for (text, field) in [
        ("[]", "an object"),
        (r#"{"pods":[{"cpus":"0-1"}]}"#, "the id of a pod"),
        (r#"{"pods":[{"uid":"a","cpus":"x"}]}"#, "pods[0].cpus"),
        (
            r#"{"pods":[{"uid":"a","memory":[{"resource":"memory","nodes":[-1]}]}]}"#,
            "nodes[0]",
        ),
        (r#"{"dialect":"volcano"}"#, "dialect"),
    ] {
        let mut published = NodeResourceTopology::default();
        published
            .meta
            .annotations
            .insert(NODE_STATE.to_owned(), text.to_owned());
        let error = PublishedNodeState::read(&published)
            .expect_err(text)
            .to_string();
        assert!(error.contains(field), "{text}: {error}");
    }
}

#[test]
fn a_local_pod_is_never_taken_for_deleted() {
    let mut ledger = ledger("restricted");
    let admission = ledger.admit(&pod("declared", 2, "2Gi"), &mut NoPreference);
    assert!(admission.expect("a pod").decision.is_admitted());
    for is_local in [false, true] {
        let mut object = published(&ledger);
        let state = PublishedNodeState::of(&ledger, DialectName::Kubelet);
        let state = state.with_local(|_| is_local);
        state.attach_to(&ledger, &mut object);
        let read = PublishedNodeState::read(&object).expect("readable").value;
        let read = read.expect("there is one");
        assert_eq!(read, state);
        let mut counts = object.to_core();
        // The API server lists no such pod.
        let held = read.without(&mut counts, |_| true);
        assert_eq!(held.len(), if is_local { 2 } else { 0 });
        assert_eq!(counts == object.to_core(), is_local);
    }
}
