//! External cgroups and processes, which the runtime does not know.

use pinfold_standalone::process::Process;

use super::*;

#[test]
fn an_external_cgroup_is_confined_after_a_restart_too_and_not_reported_to_the_runtime() {
    let mut scene = Scene::kubelet();
    let shared = pod_spec("job", "spec: {containers: [{name: main}]}");
    let admitted = scene.node.admit(&shared, &mut NoPreference, NOW);
    admitted.expect("admitted");
    let (uid, name) = ("job".into(), "main".into());
    let held = scene.node.hold("/jobs/one", &uid, &name, NOW);
    assert_eq!(
        held.expect("journaled").expect("the shared pool").cpus,
        set("0-15")
    );
    let missing = scene.node.hold("/jobs/two", &uid, &"other".into(), NOW);
    assert!(matches!(missing, Err(JournaledLedgerError::Ledger(_))));
    scene.restart(UnknownContainers::Adopt);
    let containers: Vec<&str> = scene
        .node
        .containers()
        .map(|container| container.id.as_str())
        .collect();
    assert_eq!(containers, ["/jobs/one"]);
    assert_eq!(scene.sent_cpus("/jobs/one"), "0-15");
    let updates = scene.pod("a", &cpus(4)).expect("admitted");
    assert!(updates.iter().all(Update::is_external), "{updates:?}");
    assert_eq!(scene.sent_cpus("/jobs/one"), "0,3-8,11-15");
    scene.node.release(&uid, NOW).expect("journaled");
    scene.restart(UnknownContainers::Adopt);
    assert_eq!(scene.node.containers().count(), 0);
}

#[test]
fn an_external_process_is_confined_after_a_restart_too_and_dropped_when_it_ended() {
    let mut scene = Scene::kubelet();
    let shared = pod_spec("job", "spec: {containers: [{name: main}]}");
    let admitted = scene.node.admit(&shared, &mut NoPreference, NOW);
    admitted.expect("admitted");
    let uid = "job".into();
    let process = |pid| PinnedProcess {
        process: Process { pid, started: 1 },
        boot: "this one".to_owned(),
        container: "main".into(),
        affinity: set("0-3"),
    };
    let ids = |scene: &Scene| -> Vec<String> {
        let containers = scene.node.containers();
        containers.map(|container| container.id.clone()).collect()
    };
    let held = scene.node.hold_process(&process(7), &uid, &|_| true, NOW);
    assert_eq!(
        held.expect("journaled").expect("the shared pool").cpus,
        set("0-15")
    );
    scene.restart(UnknownContainers::Adopt);
    assert_eq!(ids(&scene), ["/proc/7"]);
    let updates = scene.pod("a", &cpus(4)).expect("admitted");
    assert!(updates.iter().all(Update::is_external), "{updates:?}");
    assert_eq!(scene.sent_cpus("/proc/7"), "0,3-8,11-15");
    let held = scene.node.hold_process(&process(8), &uid, &|_| true, NOW);
    held.expect("journaled");
    assert_eq!(ids(&scene), ["/proc/7", "/proc/8"]);
    // Pinned again, a process keeps the affinity that it had before the first time.
    let again = PinnedProcess {
        affinity: set("1"),
        ..process(8)
    };
    let held = scene.node.hold_process(&again, &uid, &|_| true, NOW);
    held.expect("journaled");
    let record = &scene.node.journaled().records()[&uid];
    let pinned = record.processes.iter().find(|held| held.process.pid == 8);
    assert_eq!(pinned.expect("it is held").affinity, set("0-3"));
    let alive = |held: &PinnedProcess| held.process.pid != 7;
    let held = scene.node.hold_process(&process(9), &uid, &alive, NOW);
    held.expect("journaled");
    assert_eq!(ids(&scene), ["/proc/8", "/proc/9"]);
    scene.restart(UnknownContainers::Adopt);
    assert_eq!(ids(&scene), ["/proc/8", "/proc/9"]);
    scene.node.release(&uid, NOW).expect("journaled");
    scene.restart(UnknownContainers::Adopt);
    assert!(ids(&scene).is_empty());
}
