//! The worked examples of the documentation of these rules, each with its numbers.

#![expect(clippy::unwrap_used, reason = "a failing test is the point of a test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::cpu_set::{CpuId, CpuList, CpuSet};
use pinfold_core::decision::RejectionReason;
use pinfold_core::demand;
use pinfold_core::device::{
    AdvertisedDevices, Device, DeviceSet, NoPreference, PreferredAllocation,
    PreferredAllocationQuery,
};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::hint::{Hint, ProviderHints, ResourceHints};
use pinfold_core::ledger::{Ledger, Rules, SettingsError};
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::merge::{Budgets, MergeRequest, merge};
use pinfold_core::name::{DeviceId, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;

/// `nodes` NUMA nodes, one socket each, with `cores` cores of one thread.
fn machine(nodes: u32, cores: u32) -> Arc<Machine> {
    let node = |id: u32| NumaNode {
        id: NodeId::new(id.into()).unwrap(),
        memory: 32 << 30,
        hugepages: Vec::new(),
        distances: Vec::new(),
        cores: (0..cores)
            .map(|core| Core {
                id: core,
                socket: id,
                die: None,
                l3: None,
                threads: vec![CpuId::new(id * cores + core).unwrap()],
            })
            .collect(),
    };
    let parts = MachineParts {
        num_cpus: (nodes * cores) as usize,
        num_sockets: nodes as usize,
        nodes: (0..nodes).map(node).collect(),
        ..MachineParts::default()
    };
    Arc::new(Machine::new(parts).unwrap())
}

fn settings(policy: &str, reserved: &str) -> Settings {
    let reserved = CpuList::parse(reserved).unwrap();
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(Quantity::from(i64::try_from(reserved.len()).unwrap())),
        reserved_cpus: Some(reserved),
        ..Settings::default()
    }
}

fn ledger(machine: &Arc<Machine>, policy: &str, reserved: &str) -> Ledger {
    Ledger::new(Arc::new(
        Rules::new(machine.clone(), settings(policy, reserved)).unwrap(),
    ))
}

fn list(rows: &[(&str, &str)]) -> ResourceList {
    rows.iter()
        .map(|&(name, text)| (ResourceName::from(name), text.parse().unwrap()))
        .collect()
}

fn container(name: &str, rows: &[(&str, &str)]) -> Container {
    Container::guaranteed(name, list(rows))
}

fn pod(uid: &str, rows: &[(&str, &str)]) -> Arc<Pod> {
    Arc::new(Pod::new(uid, [container("c", rows)]))
}

fn cpus_of(ledger: &mut Ledger, uid: &str, cpus: &str) -> Result<CpuSet, RejectionReason> {
    let admission = ledger
        .admit(
            &pod(uid, &[("cpu", cpus), ("memory", "1Gi")]),
            &mut NoPreference,
        )
        .unwrap();
    match admission.decision.rejection() {
        Some(rejection) => Err(rejection.reason),
        None => Ok(ledger.exclusive_cpus(&uid.into())),
    }
}

fn set(ids: &[i64]) -> NodeSet {
    NodeSet::from_ids(ids.iter().copied()).unwrap()
}

fn cpus(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap()
}

#[test]
fn two_nodes_have_three_subsets_and_the_low_one_is_narrowest() {
    let subsets: Vec<NodeSet> = set(&[0, 1]).subsets_by_width().collect();
    assert_eq!(subsets, [set(&[0]), set(&[1]), set(&[0, 1])]);
    assert!(set(&[0]).is_narrower_than(set(&[1])));
    assert!(set(&[1]).is_narrower_than(set(&[0, 1])));
}

#[test]
fn two_cpus_fit_one_node_and_six_need_both() {
    let machine = machine(2, 4);
    for (cpus, hint) in [
        ("2", Hint::on(set(&[0]), true)),
        ("6", Hint::on(set(&[0, 1]), true)),
    ] {
        let mut ledger = ledger(&machine, "restricted", "0");
        let admission = ledger
            .admit(
                &pod("p", &[("cpu", cpus), ("memory", "1Gi")]),
                &mut NoPreference,
            )
            .unwrap();
        assert!(admission.decision.is_admitted(), "{cpus} CPUs");
        assert_eq!(
            admission.decision.explanation.alignments[0].hint, hint,
            "{cpus} CPUs"
        );
    }
}

#[test]
fn the_hints_of_two_cpus_name_either_node_or_both_and_those_of_six_only_both() {
    let machine = machine(2, 4);
    let ledger = ledger(&machine, "restricted", "0");
    let either: &[(&[i64], bool)] = &[(&[0], true), (&[1], true), (&[0, 1], false)];
    for (count, expected) in [("2", either), ("6", &[(&[0, 1], true)])] {
        let pod = pod("p", &[("cpu", count), ("memory", "1Gi")]);
        let listed = ledger.list_hints(&pod, 8);
        let cpus = listed[0]
            .resources
            .iter()
            .find(|row| row.resource == ResourceName::from("cpu"));
        let expected = expected
            .iter()
            .map(|&(ids, preferred)| Hint::on(set(ids), preferred));
        assert_eq!(
            cpus.unwrap().hints,
            Some(expected.collect()),
            "{count} CPUs"
        );
    }
}

#[test]
fn three_cpus_beside_two_busy_ones_come_from_the_other_node() {
    let machine = machine(2, 4);
    let mut ledger = ledger(&machine, "best-effort", "0-1");
    assert_eq!(cpus_of(&mut ledger, "p", "3"), Ok(cpus("4-6")));
}

#[test]
fn three_cpus_that_no_node_has_are_spread_or_rejected_by_policy() {
    let machine = machine(2, 4);
    for (policy, expected) in [
        ("best-effort", Ok(cpus("2-3,6"))),
        ("restricted", Err(RejectionReason::TopologyAffinityError)),
        (
            "single-numa-node",
            Err(RejectionReason::TopologyAffinityError),
        ),
    ] {
        let mut ledger = ledger(&machine, policy, "0-1,4-5");
        assert_eq!(cpus_of(&mut ledger, "p", "3"), expected, "{policy}");
    }
}

#[test]
fn the_table_of_four_combinations_ends_in_the_preferred_node() {
    let row = |name: &str, hints: &[(&[i64], bool)]| {
        let hints = hints
            .iter()
            .map(|&(ids, preferred)| Hint::on(set(ids), preferred))
            .collect();
        ProviderHints::one(name.into(), ResourceHints::List(hints))
    };
    let providers = [
        row("gpu", &[(&[0], true), (&[1], true)]),
        row("cpu", &[(&[0], true), (&[0, 1], false)]),
    ];
    let merged = merge(&MergeRequest {
        nodes: set(&[0, 1]),
        policy: TopologyPolicy::Restricted,
        closest: None,
        providers: &providers,
        budgets: Budgets::default(),
    });
    assert_eq!(
        (merged.hint, merged.admit),
        (Hint::on(set(&[0]), true), true)
    );
}

#[test]
fn hints_that_are_preferred_apart_but_differ_are_not_preferred_together() {
    let row = |name: &str, hints: &[(&[i64], bool)]| {
        let hints = hints
            .iter()
            .map(|&(ids, preferred)| Hint::on(set(ids), preferred))
            .collect();
        ProviderHints::one(name.into(), ResourceHints::List(hints))
    };
    let providers = [
        row("gpu", &[(&[0], true), (&[1], true), (&[0, 1], false)]),
        row("cpu", &[(&[0, 1], true)]),
    ];
    let merged = merge(&MergeRequest {
        nodes: set(&[0, 1]),
        policy: TopologyPolicy::Restricted,
        closest: None,
        providers: &providers,
        budgets: Budgets::default(),
    });
    assert_eq!(
        (merged.hint, merged.admit),
        (Hint::on(set(&[0, 1]), false), false)
    );
}

#[test]
fn two_init_and_two_app_containers_need_three_cpus_and_three_gigabytes() {
    let pod = Pod {
        uid: "p".into(),
        name: String::new(),
        init_containers: vec![
            container("i1", &[("cpu", "2"), ("memory", "1G")]),
            container("i2", &[("cpu", "2"), ("memory", "3G")]),
        ],
        containers: vec![
            container("a1", &[("cpu", "2"), ("memory", "1G")]),
            container("a2", &[("cpu", "1"), ("memory", "1G")]),
        ],
        pod_requests: None,
        pod_limits: None,
    };
    assert_eq!(
        demand::effective_requests(&pod),
        list(&[("cpu", "3"), ("memory", "3G")])
    );
    assert_eq!(
        demand::effective_limits(&pod),
        list(&[("cpu", "3"), ("memory", "3G")])
    );
}

/// A plugin that prefers GPUs linked in pairs.
struct Pairs;

impl PreferredAllocation for Pairs {
    fn preferred(
        &mut self,
        query: PreferredAllocationQuery<'_>,
    ) -> Result<Option<DeviceSet>, String> {
        let pairs = [["0", "3"], ["1", "2"], ["4", "7"], ["5", "6"]];
        let pair =
            |pair: &[&str; 2]| -> DeviceSet { pair.iter().map(|&id| DeviceId::from(id)).collect() };
        Ok(pairs
            .iter()
            .map(pair)
            .find(|pair| pair.is_subset(query.available)))
    }
}

#[test]
fn a_plugin_that_prefers_pairs_gets_a_free_pair() {
    let mut ledger = ledger(&machine(1, 16), "none", "0");
    let offer: AdvertisedDevices = (0..8)
        .map(|id| {
            (
                DeviceId::from(id.to_string()),
                Device {
                    numa: Some(vec![0]),
                    healthy: true,
                },
            )
        })
        .collect();
    ledger.set_devices("example.com/gpu".into(), Some(offer));
    let mut take = |uid: &str, count: &str, advice: &mut dyn PreferredAllocation| {
        let pod = pod(
            uid,
            &[("cpu", "1"), ("memory", "1Gi"), ("example.com/gpu", count)],
        );
        assert!(ledger.admit(&pod, advice).unwrap().decision.is_admitted());
        let held = ledger
            .state()
            .devices()
            .held_by_pod(&uid.into(), &"example.com/gpu".into());
        held.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    // GPUs 0 and 2 are in use, so the first two pairs are broken.
    let mut exactly = |query: PreferredAllocationQuery<'_>| {
        Ok(Some(
            query
                .available
                .iter()
                .filter(|id| ["0", "2"].contains(&id.as_str()))
                .cloned()
                .collect(),
        ))
    };
    assert_eq!(take("busy", "2", &mut exactly), ["0", "2"]);
    assert_eq!(take("pair", "2", &mut Pairs), ["4", "7"]);
}

#[test]
fn a_machine_of_sixty_four_nodes_needs_no_option() {
    let machine = machine(64, 2);
    let exact = Settings {
        fidelity: Fidelity::Exact,
        ..settings("restricted", "0")
    };
    let rejected = Rules::new(machine.clone(), exact.clone()).unwrap_err();
    assert_eq!(rejected, SettingsError::TooManyNodes { most: 8, found: 64 });
    assert_eq!(
        rejected.to_string(),
        "unsupported on machines with more than 8 NUMA Nodes"
    );
    let raised = BTreeMap::from([("max-allowable-numa-nodes".to_owned(), "64".to_owned())]);
    assert!(
        Rules::new(
            machine.clone(),
            Settings {
                topology_options: raised,
                ..exact
            }
        )
        .is_ok()
    );

    let mut ledger = ledger(&machine, "restricted", "0");
    assert_eq!(cpus_of(&mut ledger, "narrow", "2"), Ok(cpus("2-3")));
    assert_eq!(cpus_of(&mut ledger, "wide", "100"), Ok(cpus("4-103")));
    assert_eq!(
        cpus_of(&mut ledger, "more", "26"),
        Err(RejectionReason::TopologyAffinityError)
    );
}

#[test]
fn a_machine_with_cpus_on_two_of_thirty_four_nodes_works() {
    let mut parts = machine(34, 4).parts().clone();
    for node in &mut parts.nodes[2..] {
        node.cores.clear();
    }
    parts.num_cpus = 8;
    parts.num_sockets = 2;
    let machine = Arc::new(Machine::new(parts).unwrap());
    let mut ledger = ledger(&machine, "single-numa-node", "0");
    assert_eq!(cpus_of(&mut ledger, "a", "4"), Ok(cpus("4-7")));
    assert_eq!(cpus_of(&mut ledger, "b", "3"), Ok(cpus("1-3")));
    assert_eq!(
        cpus_of(&mut ledger, "c", "1"),
        Err(RejectionReason::TopologyAffinityError)
    );
}

#[test]
fn ten_cpus_over_two_nodes_of_eight_are_five_each_when_distributed() {
    let machine = machine(2, 8);
    let mut distributed = settings("none", "0");
    distributed.cpu_options =
        BTreeMap::from([("distribute-cpus-across-numa".into(), "true".into())]);
    let rules = Rules::new(machine, distributed).unwrap();
    let mut ledger = Ledger::new(Arc::new(rules));
    let taken = cpus_of(&mut ledger, "p", "10").unwrap();
    assert_eq!(
        (
            taken.common_len(&cpus("0-7")),
            taken.common_len(&cpus("8-15"))
        ),
        (5, 5)
    );
}
