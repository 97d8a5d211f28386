//! Koordinator's annotations of the Node object.

use pinfold_core::quantity::Quantity;
use pinfold_kube::koordinator::{NodeAnnotations, NodeReservation, SystemQosCpus};

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
    scene.node.set_node_annotations(&reserved("6"));
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
    let updates = scene.node.set_node_annotations(&annotations);
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
