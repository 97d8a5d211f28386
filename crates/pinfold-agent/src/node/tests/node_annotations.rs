//! Koordinator's labels and annotations of the Node object.

use pinfold_core::quantity::Quantity;
use pinfold_kube::koordinator::{NodeAnnotations, NodeReservation, NodeSettings, SystemQosCpus};

use super::*;

fn reserved(list: &str) -> NodeAnnotations {
    NodeAnnotations {
        reservation: NodeReservation {
            cpus: set(list),
            ..NodeReservation::default()
        },
        ..NodeAnnotations::default()
    }
}

fn settings(annotations: NodeAnnotations) -> NodeSettings {
    NodeSettings {
        annotations,
        ..NodeSettings::default()
    }
}

/// The CPUs of the shared pool.
fn shared(scene: &mut Scene) -> CpuSet {
    let pools = scene.node.koordinator_pools().expect("pools");
    pinfold_cluster::koordinator::pools::union(&pools.shared)
}

fn chosen(list: &str) -> String {
    format!(
        "  labels: {{koordinator.sh/qosClass: LSR}}\n  annotations:\n    \
         scheduling.koordinator.sh/resource-status: '{{\"cpuset\":\"{list}\"}}'\n{}",
        cpus(2)
    )
}

#[test]
fn a_scheduler_s_cpus_that_the_node_reserves_are_decided_again_with_a_reason() {
    let mut scene = Scene::koordinator();
    scene.node.set_node_settings(&settings(reserved("6")));
    let given = scene.run("a", &chosen("6,14")).expect("an allowance");
    assert!(
        !given.cpus.contains(set("6").iter().next().expect("one")),
        "{}",
        given.cpus
    );
    let folder = scene.folder.path().join("agent").join("journal");
    let history = pinfold_journal::JournalHistory::read(&folder).expect("a journal");
    let message = &history.entries.last().expect("an entry").message;
    assert!(
        message.contains("CPUs 6 are reserved by the annotation node.koordinator.sh/reservation"),
        "{message}"
    );
}

#[test]
fn reserved_and_exclusive_system_cpus_are_in_no_pool() {
    let mut scene = Scene::koordinator();
    scene.run("ls", &class("LS", 1));
    let before = shared(&mut scene);
    let annotations = NodeAnnotations {
        system: Some(SystemQosCpus {
            cpus: set("7"),
            exclusive: true,
        }),
        ..reserved("6")
    };
    let updates = scene.node.set_node_settings(&settings(annotations));
    assert!(
        !updates.is_empty(),
        "the container moves to the smaller pool"
    );
    let after = shared(&mut scene);
    assert_eq!(&before - &after, set("6-7"));
}

#[test]
fn a_reservation_by_amount_gets_the_cpus_that_the_kubelet_would_reserve() {
    let rules = rules("restricted");
    let reservation = NodeReservation {
        resources: [("cpu".into(), Quantity::milli(1500))].into(),
        ..NodeReservation::default()
    };
    assert_eq!(reservation.reserved_cpus(&rules), set("0,8"));
    assert_eq!(
        NodeReservation::default().reserved_cpus(&rules),
        CpuSet::new()
    );
}

/// The settings of a Node with this label or annotation.
fn with(field: &str, key: &str, text: &str) -> NodeSettings {
    let node = serde_json::json!({ "metadata": { "name": "worker-1", field: { key: text } } });
    let read = crate::kubernetes::WatchedNode::read(&node);
    read.expect("a Node").settings
}

/// CPUs 0 and 8 are reserved: NUMA node 0 has 1-3,9-11 and NUMA node 1 has 4-7,12-15.
#[test]
fn the_agent_places_pods_by_the_labels_of_its_node() {
    // The label; the CPUs of an LSR pod of two CPUs; those of a second one; and why one of three CPUs is rejected.
    let bind = "node.koordinator.sh/cpu-bind-policy";
    let strategy = "node.koordinator.sh/numa-allocate-strategy";
    let table = [
        (None, "4,12", "1,9", None),
        (
            Some((bind, "FullPCPUsOnly")),
            "4,12",
            "1,9",
            Some("not multiple cpus per core"),
        ),
        (Some((bind, "SpreadByPCPUs")), "4-5", "6-7", None),
        (
            Some(("node.koordator.sh/cpubind-policy", "FullPCPUsOnly")),
            "4,12",
            "1,9",
            Some("not multiple cpus per core"),
        ),
        (Some((strategy, "MostAllocated")), "1,9", "2,10", None),
    ];
    for (label, first, second, rejected) in table {
        let mut scene = Scene::koordinator();
        if let Some((key, word)) = label {
            scene.node.set_node_settings(&with("labels", key, word));
        }
        for (pod, cpus) in [("first", first), ("second", second)] {
            let given = scene.run(pod, &class("LSR", 2)).expect("an allowance");
            assert_eq!(given.cpus.to_string(), cpus, "{label:?}: {pod}");
        }
        let third = scene.pod("third", &class("LSR", 3));
        let reason = third.err().map(|error| error.to_string());
        match rejected {
            None => assert_eq!(reason, None, "{label:?}"),
            Some(why) => {
                let reason = reason.expect("rejected");
                assert!(reason.contains(why), "{label:?}: {reason}");
            }
        }
    }
}

#[test]
fn a_numa_policy_of_the_node_rejects_pods_that_no_numa_node_has_room_for() {
    for key in [
        "node.koordinator.sh/numa-topology-policy",
        "node.koordinator.sh/numa-topology-alignment-policy",
    ] {
        let mut scene = Scene::koordinator();
        let single = with("labels", key, "SingleNUMANode");
        scene.node.set_node_settings(&single);
        assert!(scene.pod("wide", &class("LSR", 10)).is_err(), "{key}");
        assert!(scene.pod("fits", &class("LSR", 8)).is_ok(), "{key}");
        // The label is removed while the agent runs.
        scene.node.set_node_settings(&NodeSettings::default());
        assert!(scene.pod("both", &class("LSR", 4)).is_ok(), "{key}");
    }
}

#[test]
fn amplified_cpus_of_the_node_admit_more_pods_that_share_and_no_more_that_bind() {
    let ratio = r#"{"cpu": 2.0}"#;
    let amplified = with(
        "annotations",
        "node.koordinator.sh/resource-amplification-ratio",
        ratio,
    );
    let single = with(
        "labels",
        "node.koordinator.sh/numa-topology-policy",
        "SingleNUMANode",
    );
    for (policies, fits) in [(&single.policies, false), (&amplified.policies, true)] {
        let mut scene = Scene::koordinator();
        let mut settings = single.clone();
        settings.policies.ratios = policies.ratios.clone();
        scene.node.set_node_settings(&settings);
        // Twelve CPUs on a NUMA node of eight.
        assert_eq!(scene.pod("shares", &class("LS", 12)).is_ok(), fits);
        assert!(scene.pod("binds", &class("LSR", 9)).is_err());
    }
}

#[test]
fn a_reservation_is_kept_when_the_rules_change() {
    let mut scene = Scene::koordinator();
    scene.node.set_node_settings(&settings(reserved("6")));
    let rules = rules("none");
    let plan = scene.node.journaled().plan_rules_change(&rules);
    let applied = scene.node.apply_plan(plan.expect("a plan"), NOW);
    applied.expect("journaled");
    assert!((&shared(&mut scene) & &set("6")).is_empty());
}

/// A pod of this class with one CPU for which a scheduler wrote `status`.
fn with_status(class: &str, status: &str) -> String {
    format!(
        "  labels: {{koordinator.sh/qosClass: {class}}}\n  annotations:\n    \
         scheduling.koordinator.sh/resource-spec: '{{\"preferredCPUBindPolicy\":\"ConstrainedBurst\"}}'\n    \
         scheduling.koordinator.sh/resource-status: '{status}'\n{}",
        cpus(1)
    )
}

#[test]
fn pods_are_bound_to_the_pools_that_the_scheduler_chose_and_nothing_is_decided_again() {
    let policy = "node.koordinator.sh/numa-topology-policy";
    for node in [
        NodeSettings::default(),
        with("labels", policy, "SingleNUMANode"),
        with("labels", policy, "Restricted"),
        with("labels", policy, "BestEffort"),
    ] {
        let mut scene = Scene::koordinator();
        scene.node.set_node_settings(&node);
        // An empty machine has more room on NUMA node 1, which the agent would choose.
        for (uid, status) in [
            ("pools", r#"{"cpuSharedPools":[{"socket":0,"node":0}]}"#),
            (
                "amounts",
                r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"1"}}]}"#,
            ),
        ] {
            let bound = scene.run(uid, &with_status("LS", status)).expect("a pool");
            assert_eq!(bound.cpus, set("0-3,8-11"), "{node:?}");
            assert_eq!(bound.quota, Quota::AsSpecified);
            let record = &scene.node.journaled().records()[uid];
            let kept = &record.annotations["scheduling.koordinator.sh/resource-status"];
            assert_eq!(kept, status, "the scheduler's words");
        }
        // The pool shrinks, and the pod with it.
        let own = scene.run("lsr", &class("LSR", 2)).expect("CPUs");
        let left = &set("0-3,8-11") - &own.cpus;
        assert_eq!(scene.sent_cpus("pools-main"), left.to_string());
    }
}

#[test]
fn pools_that_the_node_cannot_give_are_not_followed_and_the_journal_says_why() {
    for (class, status, why) in [
        (
            "LS",
            r#"{"cpuSharedPools":[{"socket":0,"node":7}]}"#,
            "shared pools of NUMA nodes 7: the machine has no NUMA node 7",
        ),
        (
            "LS",
            r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"2"}}]}"#,
            "more cpu than the pod requests",
        ),
        (
            "LS",
            r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"1","memory":"1Ti"}}]}"#,
            "more memory than the pod requests",
        ),
        (
            "LSR",
            r#"{"cpuSharedPools":[{"socket":0,"node":0}]}"#,
            "give it CPUs of its own",
        ),
    ] {
        let mut scene = Scene::koordinator();
        scene.run("pod", &with_status(class, status));
        let folder = scene.folder.path().join("agent").join("journal");
        let history = pinfold_journal::JournalHistory::read(&folder).expect("a journal");
        let message = &history.entries.last().expect("an entry").message;
        assert!(message.contains(why), "{status}: {message}");
    }
}

#[test]
fn cpus_that_the_scheduler_chose_before_the_nodes_bind_policy_changed_are_decided_again() {
    let key = "node.koordinator.sh/cpu-bind-policy";
    for (policy, old, is_followed) in [
        ("FullPCPUsOnly", "6,14", true),
        ("FullPCPUsOnly", "6-7", false),
        ("SpreadByPCPUs", "6-7", true),
        ("SpreadByPCPUs", "6,14", false),
    ] {
        let mut scene = Scene::koordinator();
        scene.node.set_node_settings(&with("labels", key, policy));
        let given = scene.run("pod", &chosen(old)).expect("an allowance");
        assert_eq!(given.cpus == set(old), is_followed, "{policy} {old}");
    }
}

#[test]
fn on_a_machine_with_one_cpu_per_core_the_journal_says_that_policies_count_as_others() {
    let hardware = pinfold_hardware::synthetic::read("1 socket, 4 cores").expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("a machine");
    let settings = Settings {
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(1.into()),
        ..Settings::default()
    };
    let rules = Rules::new(Arc::new(machine), settings).expect("settings that fit");
    let rules = Arc::new(rules);
    let folder = tempfile::tempdir().expect("a folder");
    let journaled = JournaledLedger::open(folder.path(), rules.clone(), JournalLimits::default());
    let koordinator = Koordinator::new(&rules, KoordinatorArgs::default());
    let mut node = ManagedNode::new(
        journaled.expect("a journal"),
        Rulebook::Koordinator(Box::new(koordinator)),
        UnknownContainers::Adopt,
        KubeletPins::default(),
    );
    for (uid, policy, is_said) in [
        ("spread", "SpreadByPCPUs", true),
        ("full", "FullPCPUs", false),
    ] {
        let text = format!(
            "  labels: {{koordinator.sh/qosClass: LSR}}\n  annotations:\n    \
             scheduling.koordinator.sh/resource-spec: '{{\"preferredCPUBindPolicy\":\"{policy}\"}}'\n{}",
            cpus(1)
        );
        let pod = pod_spec(uid, &text);
        let added = node.add_pod(sandbox(uid, &pod), Some(&pod), &mut NoPreference, NOW);
        added.expect("admitted");
        let history = pinfold_journal::JournalHistory::read(&folder.path().join("journal"));
        let history = history.expect("a journal");
        let message = &history.entries.last().expect("an entry").message;
        let said = message.contains("one CPU per core: its bind policy counts as FullPCPUs");
        assert_eq!(said, is_said, "{message}");
    }
}
