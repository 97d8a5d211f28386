//! Predictions from a report agree with the decisions of the node that wrote it.

use std::sync::Arc;

use pinfold_cluster::node_topology::replica::{DeviceTotals, KnownCpus, Replica, RulesCache};
use pinfold_cluster::volcano::cpu_detail::CpuRow;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::node_set::NodeId;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::Settings;

use super::*;
use crate::cluster::DialectName;
use crate::koordinator::{self, PodCpuAllocation, ReportAnnotations};
use crate::node_state::PublishedNodeState;

/// Two NUMA nodes of four cores with two threads, two of which have a cache together.
fn machine() -> Machine {
    let core = |id: u32| Core {
        id,
        socket: id / 4,
        die: None,
        l3: Some(id / 2),
        threads: [id, id + 8]
            .map(|cpu| CpuId::new(cpu).expect("small"))
            .into(),
    };
    let node = |id: u32| NumaNode {
        id: NodeId::new(i64::from(id)).expect("small"),
        memory: 4 << 30,
        hugepages: Vec::new(),
        distances: if id == 0 { vec![10, 21] } else { vec![21, 10] },
        cores: (id * 4..id * 4 + 4).map(core).collect(),
    };
    Machine::new(MachineParts {
        nodes: vec![node(0), node(1)],
        num_cpus: 16,
        num_sockets: 2,
        ..MachineParts::default()
    })
    .expect("a machine")
}

fn pod(uid: &str, cpus: i64, mebibytes: i64) -> Arc<Pod> {
    let list = ResourceList::from([
        ("cpu".into(), Quantity::from(cpus)),
        ("memory".into(), Quantity::bytes(mebibytes << 20)),
    ]);
    Arc::new(Pod {
        uid: uid.into(),
        name: uid.to_owned(),
        init_containers: Vec::new(),
        containers: vec![Container {
            name: "main".into(),
            restartable: false,
            requests: list.clone(),
            limits: list,
        }],
        pod_requests: None,
        pod_limits: None,
    })
}

/// The prediction of a scheduler from the object that the node publishes.
fn replica(ledger: &Ledger) -> Ledger {
    let rules = ledger.rules();
    let mut facts = ReportAnnotations::of(rules.machine(), rules.settings(), rules.reserved_cpus());
    let held = |uid: &pinfold_core::name::PodUid| PodCpuAllocation {
        uid: uid.to_string(),
        cpus: ledger.exclusive_cpus(uid),
        ..PodCpuAllocation::default()
    };
    facts.pod_cpus = ledger.state().admitted_pods().keys().map(held).collect();
    let plain = publish(
        "worker",
        rules.machine(),
        &ledger.occupancy(),
        rules.settings(),
    );
    let mut written = koordinator::publish(&plain, &facts);
    PublishedNodeState::attach(ledger, DialectName::Kubelet, &mut written);
    let read = one(&written.content().to_json());
    let facts = ReportAnnotations::read(&read, Fidelity::Sound)
        .expect("facts")
        .value;
    let mut known = KnownCpus {
        reserved: facts.cpu_manager.reserved.clone(),
        ..KnownCpus::default()
    };
    facts
        .pod_cpus
        .iter()
        .for_each(|pod| known.held |= &pod.cpus);
    let row = |row: &pinfold_cluster::koordinator::cpu_topology::ReportedCpu| CpuRow {
        cpu: row.cpu,
        core: u32::try_from(row.core).expect("small"),
        node: NodeId::new(row.node).expect("small"),
        socket: u32::try_from(row.socket).expect("small"),
    };
    known.rows = facts.cpus.iter().map(row).collect();
    let core = read.converted(NrtVersion::V1Alpha2).to_core();
    let replica = Replica::of(
        &core,
        &DeviceTotals::new(),
        Some(&known),
        Fidelity::Sound,
        &mut RulesCache::default(),
    );
    replica.expect("a node").ledger().clone()
}

#[test]
fn a_report_is_sufficient_to_predict_the_kubelet() {
    let options = |all: &[(&str, &str)]| {
        let all = all.iter();
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    for (policy, scope, cpu_options) in [
        (
            "restricted",
            "container",
            vec![("prefer-align-cpus-by-uncorecache", "true")],
        ),
        ("single-numa-node", "pod", vec![("full-pcpus-only", "true")]),
        (
            "best-effort",
            "container",
            vec![("distribute-cpus-across-numa", "true")],
        ),
    ] {
        let settings = Settings {
            topology_policy: policy.parse().expect("a policy"),
            topology_scope: scope.parse().expect("a scope"),
            topology_options: options(&[("max-allowable-numa-nodes", "12")]),
            cpu_policy: CpuManagerPolicy::Static,
            cpu_options: options(&cpu_options),
            alpha_cpu_options: true,
            memory_policy: MemoryManagerPolicy::Static,
            reserved_cpu: Some("2".parse().expect("a quantity")),
            reserved_memory: vec![MemoryReservation {
                numa_node: 1,
                limits: [("memory".into(), "1Gi".parse().expect("a quantity"))].into(),
            }],
            node_reservation: [("memory".into(), "1Gi".parse().expect("a quantity"))].into(),
            ..Settings::default()
        };
        let rules = Rules::new(Arc::new(machine()), settings).expect("settings that fit");
        let mut ledger = Ledger::new(Arc::new(rules));
        let mut compared = 0;
        // The last one is wider than a NUMA node where that is allowed, and binds the memory of both.
        for (uid, cpus, mebibytes) in [("a", 2, 512), ("b", 1, 64), ("c", 2, 5000)] {
            for (asked, memory) in [(1, 10), (2, 100), (3, 1500), (4, 3500), (6, 50), (9, 6000)] {
                let next = pod("next", asked, memory);
                let mut here = ledger.clone();
                let mut there = replica(&ledger);
                let decided = here
                    .admit(&next, &mut NoPreference)
                    .expect("decided")
                    .decision;
                let predicted = there
                    .admit(&next, &mut NoPreference)
                    .expect("decided")
                    .decision;
                let context =
                    format!("{policy} {cpu_options:?}: {asked} CPUs, {memory} MiB after {uid}");
                assert_eq!(predicted.is_admitted(), decided.is_admitted(), "{context}");
                let own = |ledger: &Ledger| -> CpuSet { ledger.exclusive_cpus(&"next".into()) };
                assert_eq!(own(&there), own(&here), "{context}");
                compared += usize::from(decided.is_admitted());
            }
            ledger
                .admit(&pod(uid, cpus, mebibytes), &mut NoPreference)
                .expect("decided");
        }
        assert!(compared > 0, "{policy}: no pod was admitted");
    }
}
