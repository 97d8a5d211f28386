//! Changes of the machine and the settings while pods run.

use pinfold_core::cpu_set::CpuList;
use pinfold_core::device::{AdvertisedDevices, Device};
use pinfold_core::settings::CpuManagerPolicy;

use super::*;
use crate::journaled_ledger::PodOutcome;

/// The rules of the other tests, with CPUs offline and another CPU manager policy.
fn changed_rules(offline: &str, cpu_policy: CpuManagerPolicy) -> Arc<Rules> {
    let hardware = format!("2 sockets, 1 numa, 4 cores, smt2{offline}");
    let hardware = pinfold_hardware::synthetic::read(&hardware).expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("a machine");
    let settings = Settings {
        cpu_policy,
        // Which CPUs are reserved would otherwise depend on those that are online.
        reserved_cpus: Some(CpuList::from(&set("0,8"))),
        ..rules("restricted").settings().clone()
    };
    Arc::new(Rules::new(Arc::new(machine), settings).expect("settings that fit"))
}

/// Plans and applies a change. Returns the planned outcomes and the updates.
fn change(scene: &mut Scene, rules: &Arc<Rules>) -> (Vec<(PodUid, PodOutcome)>, Vec<Update>) {
    let plan = scene.node.journaled().plan_rules_change(rules);
    let plan = plan.expect("a plan");
    let outcomes = plan.outcomes.clone();
    let updates = scene.node.apply_plan(plan, NOW).expect("applied");
    assert_eq!(scene.node.journaled().ledger().audit(), []);
    for (pod, outcome) in &outcomes {
        let holds = scene.node.journaled().ledger().assignment(pod);
        if let PodOutcome::Moved { to, .. } = outcome {
            assert_eq!(holds.as_ref(), Some(to), "what is planned is what is done");
        }
    }
    (outcomes, updates)
}

fn held(scene: &Scene, pod: &str) -> String {
    let cpus = scene.node.journaled().ledger().exclusive_cpus(&pod.into());
    cpus.to_string()
}

#[test]
fn a_pod_that_the_kubelet_pinned_keeps_its_cpus_when_the_rules_change() {
    let pins = KubeletPins {
        pods: [("old".into(), [("main".into(), set("2,10"))].into())].into(),
    };
    let mut scene = Scene::with(false, pins);
    let old = pod_spec("old", &cpus(2));
    let pods = vec![(sandbox("old", &old), None)];
    let _ = scene
        .node
        .synchronize(pods, Vec::new(), &mut NoPreference, NOW);
    let (outcomes, _) = change(
        &mut scene,
        &changed_rules(", offline=7", CpuManagerPolicy::Static),
    );
    assert_eq!(outcomes, [("old".into(), PodOutcome::Unchanged)]);
    assert_eq!(held(&scene, "old"), "2,10");
    let new = scene.run("new", &cpus(2)).expect("exclusive CPUs");
    assert!(new.cpus.is_disjoint(&set("2,10")));
    // One of its CPUs is gone: the agent does not give it another one.
    change(
        &mut scene,
        &changed_rules(", offline=7,10", CpuManagerPolicy::Static),
    );
    assert_eq!(held(&scene, "old"), "2");
    assert_eq!(scene.node.kubelet_pinned(), 1);
}

#[test]
fn koordinators_placements_survive_a_change_of_the_rules() {
    let mut scene = Scene::koordinator();
    let own = scene.run("lsr", &class("LSR", 4)).expect("exclusive CPUs");
    let ls = "  labels: {koordinator.sh/qosClass: LS}\nspec: {containers: [{name: main}]}";
    scene.run("ls", ls).expect("the pool");
    let gone = own.cpus.iter().last().expect("a CPU");
    let other = &(&set("1-15") - &own.cpus) - &set("8");
    let other = other.iter().last().expect("a CPU");
    let (outcomes, _) = change(
        &mut scene,
        &changed_rules(&format!(", offline={other}"), CpuManagerPolicy::Static),
    );
    assert!(
        outcomes
            .iter()
            .all(|(_, outcome)| *outcome == PodOutcome::Unchanged)
    );
    assert_eq!(scene.sent_cpus("lsr-main"), own.cpus.to_string());
    // A CPU that is gone is replaced, in the ledger and for the container.
    change(
        &mut scene,
        &changed_rules(&format!(", offline={gone}"), CpuManagerPolicy::Static),
    );
    let now = set(&scene.sent_cpus("lsr-main"));
    assert_eq!(now.to_string(), held(&scene, "lsr"));
    assert_eq!(now.len(), 4);
    let stays: CpuSet = own.cpus.iter().filter(|cpu| *cpu != gone).collect();
    assert!(stays.is_subset(&now) && !now.contains(gone));
    assert!(set(&scene.sent_cpus("ls-main")).is_disjoint(&now));
}

#[test]
fn a_held_device_never_moves() {
    let mut scene = Scene::kubelet();
    let device = |numa| Device {
        numa: Some(vec![numa]),
        healthy: true,
    };
    let gpus: AdvertisedDevices = [("gpu0".into(), device(0)), ("gpu1".into(), device(1))].into();
    let resource = "vendor.com/gpu".into();
    let offered = scene
        .node
        .journaled_mut()
        .set_devices(&resource, Some(gpus), NOW);
    assert!(offered.expect("journaled"));
    let text = "spec:\n  containers:\n  - name: main\n    resources:\n      \
        limits: {cpu: 2, memory: 10Mi, vendor.com/gpu: 1}\n";
    scene.run("a", text);
    scene.run("b", text);
    let device_of = |scene: &Scene, pod: &str| {
        let devices = scene.node.devices(&pod.into(), &"main".into());
        devices.values().flatten().next().map(ToString::to_string)
    };
    assert_eq!(device_of(&scene, "b").as_deref(), Some("gpu1"));
    let cpus_of_b = held(&scene, "b");
    scene.stop("a");
    let gone = set(&cpus_of_b).iter().next().expect("a CPU");
    for offline in [", offline=1".to_owned(), format!(", offline=1,{gone}")] {
        change(
            &mut scene,
            &changed_rules(&offline, CpuManagerPolicy::Static),
        );
        assert_eq!(device_of(&scene, "b").as_deref(), Some("gpu1"));
    }
    assert_ne!(held(&scene, "b"), cpus_of_b);
    scene.run("c", text);
    assert_eq!(device_of(&scene, "c").as_deref(), Some("gpu0"));
}

#[test]
fn without_a_cpu_manager_containers_get_all_cpus_and_their_quota_back() {
    let mut scene = Scene::kubelet();
    scene.pod("a", &cpus(2)).expect("admitted");
    let mut container = scene.new_container("a", "main");
    container.resources.cpu_shares = Some(2048);
    let added = scene.node.add_container(container, &mut NoPreference, NOW);
    assert!(added.is_ok());
    scene.run("s", "spec: {containers: [{name: main}]}");
    let (_, updates) = change(&mut scene, &changed_rules("", CpuManagerPolicy::None));
    assert_eq!(held(&scene, "a"), "");
    let own = updates.iter().find(|update| update.container == "a-main");
    let own = &own.expect("an update").allowance;
    assert_eq!(own.cpus, set("0-15"));
    let limit = Quota::Limited {
        quota: 200_000,
        period: 100_000,
    };
    assert_eq!(own.quota, limit);
    assert_eq!(scene.sent_cpus("s-main"), "0-15");
}

#[test]
fn a_pod_that_is_moved_is_warned_about_with_its_cpus_before_and_after() {
    let mut scene = Scene::kubelet();
    let before = scene.run("own", &cpus(2)).expect("exclusive CPUs").cpus;
    scene.run("other", &cpus(2)).expect("exclusive CPUs");
    let gone = before.iter().next().expect("a CPU");
    let rules = changed_rules(&format!(", offline={gone}"), CpuManagerPolicy::Static);
    let plan = scene.node.journaled().plan_rules_change(&rules);
    let warnings = moves(&plan.expect("a plan"), scene.node.journaled().ledger());
    change(&mut scene, &rules);
    let after = held(&scene, "own");
    let [warning] = warnings.as_slice() else {
        panic!("only one pod moves: {warnings:?}");
    };
    assert_eq!(warning.pod.uid, "own".into());
    assert_eq!(warning.reason.name, "Moved");
    let expected = format!("moved from CPUs {before} to CPUs {after}");
    assert!(warning.message.ends_with(&expected), "{}", warning.message);
}
