//! Control groups and processes that no runtime knows.

use pinfold_standalone::process::Process;

use super::*;

#[test]
fn a_control_group_is_held_after_a_restart_too_and_no_runtime_is_told_of_it() {
    let mut scene = Scene::kubelet();
    let shared = specification("job", "spec: {containers: [{name: main}]}");
    let asked = scene.node.admit(&shared, &mut NoPreference, NOW);
    asked.expect("let in");
    let (uid, name) = ("job".into(), "main".into());
    let held = scene.node.hold("/jobs/one", &uid, &name, NOW);
    assert_eq!(held.expect("written").expect("a pool").cpus, set("0-15"));
    let nobody = scene.node.hold("/jobs/two", &uid, &"other".into(), NOW);
    assert!(matches!(nobody, Err(JournaledLedgerError::Ledger(_))));
    scene.restart(Strangers::Adopt);
    let guests: Vec<&str> = scene.node.guests().map(|guest| guest.id.as_str()).collect();
    assert_eq!(guests, ["/jobs/one"]);
    assert_eq!(scene.told("/jobs/one"), "0-15");
    let updates = scene.pod("a", &cpus(4)).expect("let in");
    assert!(updates.iter().all(Update::is_outside), "{updates:?}");
    assert_eq!(scene.told("/jobs/one"), "0,3-8,11-15");
    scene.node.release(&uid, NOW).expect("written");
    scene.restart(Strangers::Adopt);
    assert_eq!(scene.node.guests().count(), 0);
}

#[test]
fn a_process_is_held_after_a_restart_too_and_forgotten_when_it_has_ended() {
    let mut scene = Scene::kubelet();
    let shared = specification("job", "spec: {containers: [{name: main}]}");
    let asked = scene.node.admit(&shared, &mut NoPreference, NOW);
    asked.expect("let in");
    let uid = "job".into();
    let process = |pid| PinnedProcess {
        process: Process { pid, started: 1 },
        boot: "this one".to_owned(),
        container: "main".into(),
    };
    let ids = |scene: &Scene| -> Vec<String> {
        let guests = scene.node.guests();
        guests.map(|guest| guest.id.clone()).collect()
    };
    let held = scene.node.hold_process(&process(7), &uid, &|_| true, NOW);
    assert_eq!(held.expect("written").expect("a pool").cpus, set("0-15"));
    scene.restart(Strangers::Adopt);
    assert_eq!(ids(&scene), ["/proc/7"]);
    let updates = scene.pod("a", &cpus(4)).expect("let in");
    assert!(updates.iter().all(Update::is_outside), "{updates:?}");
    assert_eq!(scene.told("/proc/7"), "0,3-8,11-15");
    let held = scene.node.hold_process(&process(8), &uid, &|_| true, NOW);
    held.expect("written");
    assert_eq!(ids(&scene), ["/proc/7", "/proc/8"]);
    let alive = |held: &PinnedProcess| held.process.pid != 7;
    let held = scene.node.hold_process(&process(9), &uid, &alive, NOW);
    held.expect("written");
    assert_eq!(ids(&scene), ["/proc/8", "/proc/9"]);
    scene.restart(Strangers::Adopt);
    assert_eq!(ids(&scene), ["/proc/8", "/proc/9"]);
    scene.node.release(&uid, NOW).expect("written");
    scene.restart(Strangers::Adopt);
    assert!(ids(&scene).is_empty());
}
