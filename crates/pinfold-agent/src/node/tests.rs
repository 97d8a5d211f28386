use std::path::Path;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::koordinator::plugin::KoordinatorArgs;
use pinfold_core::ledger::Rules;
use pinfold_core::qos::QosClass;
use pinfold_core::settings::Settings;
use pinfold_kube::pod;
use tempfile::TempDir;

use super::*;
use crate::allowance::Quota;
use pinfold_journal::JournalLimits;

mod outside;
mod takeover;

const NOW: Timestamp = Timestamp(1);

/// Two NUMA nodes with four cores of two threads each: 0-3,8-11 and 4-7,12-15. CPU 0 and 8 are the system's.
fn rules(policy: &str) -> Arc<Rules> {
    let hardware = "2 sockets, 1 numa, 4 cores, smt2";
    let hardware = pinfold_hardware::synthetic::read(hardware).expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("a machine");
    let settings = Settings {
        topology_policy: policy.to_owned(),
        cpu_policy: "static".to_owned(),
        reserved_cpu: Some("2".parse().expect("a quantity")),
        ..Settings::default()
    };
    Arc::new(Rules::new(Arc::new(machine), settings).expect("settings that fit"))
}

struct Scene {
    folder: TempDir,
    node: Node,
    koordinator: bool,
    pins: KubeletPins,
}

impl Scene {
    fn kubelet() -> Self {
        Self::with(false, KubeletPins::default())
    }

    fn koordinator() -> Self {
        Self::with(true, KubeletPins::default())
    }

    fn with(koordinator: bool, pins: KubeletPins) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let node = open(folder.path(), koordinator, Strangers::Adopt, &pins);
        Self {
            folder,
            node,
            koordinator,
            pins,
        }
    }

    /// The agent is killed and comes back.
    fn restart(&mut self, strangers: Strangers) {
        let elsewhere = tempfile::tempdir().expect("a folder");
        self.node = open(elsewhere.path(), self.koordinator, strangers, &self.pins);
        self.node = open(self.folder.path(), self.koordinator, strangers, &self.pins);
    }

    fn pod(&mut self, uid: &str, text: &str) -> Result<Vec<Update>, Rejected> {
        let pod = specification(uid, text);
        let sandbox = sandbox(uid, &pod);
        self.node
            .pod_comes(sandbox, Some(&pod), &mut NoPreference, NOW)
    }

    fn container(&mut self, uid: &str, name: &str) -> (Option<Allowance>, Vec<Update>) {
        let guest = self.guest(uid, name);
        let outcome = self.node.container_comes(guest, &mut NoPreference, NOW);
        outcome.expect("let in")
    }

    fn guest(&self, uid: &str, name: &str) -> Guest {
        let sandbox = self.node.sandbox(&format!("box-{uid}")).expect("a sandbox");
        Guest::new(format!("{uid}-{name}"), sandbox, name.into())
    }

    /// A pod with one container: what that may use.
    fn run(&mut self, uid: &str, text: &str) -> Option<Allowance> {
        self.pod(uid, text).expect("let in");
        self.container(uid, "main").0
    }

    fn stop(&mut self, uid: &str) -> Vec<Update> {
        let stopped = self.node.pod_stops(&format!("box-{uid}"), NOW);
        stopped.expect("written")
    }

    fn told(&self, container: &str) -> String {
        let guest = self.node.guests.get(container).expect("a container");
        guest
            .told()
            .map_or_else(String::new, |told| told.cpus.to_string())
    }
}

fn open(folder: &Path, koordinator: bool, strangers: Strangers, pins: &KubeletPins) -> Node {
    let rules = rules("restricted");
    let journaled = JournaledLedger::open(
        &folder.join("agent"),
        rules.clone(),
        JournalLimits::default(),
    );
    let rulebook = match koordinator {
        true => Rulebook::Koordinator(Box::new(Koordinator::new(
            &rules,
            KoordinatorArgs::default(),
        ))),
        false => Rulebook::Kubelet,
    };
    Node::new(
        journaled.expect("a journal"),
        rulebook,
        strangers,
        pins.clone(),
    )
}

/// A pod of one container named main.
fn specification(uid: &str, text: &str) -> PodObject {
    let manifest =
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {uid}\n  uid: {uid}\n{text}\n");
    let read = pod::read("pod.yaml", manifest.as_bytes()).expect("a pod");
    read.value.into_iter().next().expect("a pod")
}

/// The specification of a guaranteed container.
fn cpus(count: u32) -> String {
    format!(
        "spec:\n  containers:\n  - name: main\n    resources:\n      \
         limits: {{cpu: {count}, memory: 10Mi}}\n"
    )
}

/// The same in one of Koordinator's classes.
fn class(class: &str, count: u32) -> String {
    format!(
        "  labels: {{koordinator.sh/qosClass: {class}}}\n{}",
        cpus(count)
    )
}

fn sandbox(uid: &str, pod: &PodObject) -> Sandbox {
    Sandbox {
        id: format!("box-{uid}"),
        uid: uid.into(),
        namespace: "default".to_owned(),
        name: uid.to_owned(),
        labels: pod.meta.labels.clone(),
        annotations: pod.meta.annotations.clone(),
        cgroup_parent: "/kubepods/poduid".to_owned(),
        total: Asked::default(),
    }
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("CPUs")
}

#[test]
fn a_pod_gets_its_cpus_and_everybody_else_makes_room() {
    let mut scene = Scene::kubelet();
    let shared = scene
        .run("s", "spec: {containers: [{name: main}]}")
        .expect("a pool");
    assert_eq!(shared.cpus, set("0-15"));
    assert_eq!(shared.quota, Quota::AsAsked);
    scene.pod("a", &cpus(4)).expect("let in");
    // The sandbox has made room already: whoever runs was to be told then.
    assert_eq!(scene.told("s-main"), "0,3-8,11-15");
    let (own, others) = scene.container("a", "main");
    let own = own.expect("CPUs of its own");
    assert_eq!((own.cpus, own.quota), (set("1-2,9-10"), Quota::Lifted));
    assert_eq!(others, []);
    let updates = scene.stop("a");
    assert_eq!(updates.len(), 1);
    assert_eq!(scene.told("s-main"), "0-15");
}

#[test]
fn a_rejected_pod_leaves_nothing_behind_and_says_why() {
    let mut scene = Scene::kubelet();
    let rejected = scene.pod("big", &cpus(15)).expect_err("too many");
    let why = rejected.to_string();
    assert!(
        why.starts_with("TopologyAffinityError: container main: "),
        "{why}"
    );
    assert!(scene.node.sandbox("box-big").is_none());
    assert!(scene.node.journaled().ledger().residents().is_empty());
    assert_eq!(scene.node.rejections(), 1);
}

#[test]
fn without_a_specification_each_container_is_decided_about_alone() {
    let mut scene = Scene::kubelet();
    let pod = specification("p", &cpus(1));
    let sandbox = sandbox("p", &pod);
    let came = scene.node.pod_comes(sandbox, None, &mut NoPreference, NOW);
    assert_eq!(came.expect("let in"), []);
    let mut guest = scene.guest("p", "main");
    guest.asked = Asked {
        cpu_shares: Some(2048),
        cpu_quota: Some(200_000),
        cpu_period: Some(100_000),
        memory_limit: Some(1 << 20),
        ..Asked::default()
    };
    let (allowance, _) = scene
        .node
        .container_comes(guest, &mut NoPreference, NOW)
        .expect("let in");
    assert_eq!(allowance.expect("its own").cpus, set("1,9"));
    let residents = scene.node.journaled().ledger().residents();
    assert_eq!(residents[0].pod.uid.as_str(), "p/main");
    assert_eq!(QosClass::of(&residents[0].pod), QosClass::Guaranteed);
    // It is no stranger after a restart.
    let home = scene.node.sandbox("box-p").expect("a sandbox").clone();
    let guest = scene.guest("p", "main");
    scene.restart(Strangers::Share);
    let (_, remarks) = scene
        .node
        .synchronize(vec![(home, None)], vec![guest], &mut NoPreference, NOW)
        .expect("written");
    assert_eq!(remarks, []);
    assert_eq!(scene.told("p-main"), "1,9");
    scene.stop("p");
    assert!(scene.node.journaled().ledger().residents().is_empty());
}

#[test]
fn what_others_ask_the_runtime_for_does_not_change_the_cpus() {
    let mut scene = Scene::kubelet();
    let own = scene.run("a", &cpus(2));
    assert_eq!(scene.node.container_changes("a-main"), own);
    assert_eq!(scene.node.container_changes("nobody"), None);
}

#[test]
fn a_sandbox_that_is_made_anew_keeps_its_pod() {
    let mut scene = Scene::kubelet();
    let own = scene.run("a", &cpus(2)).expect("its own");
    let pod = specification("a", &cpus(2));
    let mut again = sandbox("a", &pod);
    again.id = "box-again".to_owned();
    let came = scene
        .node
        .pod_comes(again, Some(&pod), &mut NoPreference, NOW);
    came.expect("it is here already");
    scene.stop("a");
    assert_eq!(
        scene.node.journaled().ledger().exclusive_cpus(&"a".into()),
        own.cpus
    );
    scene.node.pod_stops("box-again", NOW).expect("written");
    assert!(scene.node.journaled().ledger().residents().is_empty());
}

#[test]
fn a_restart_repairs_toward_the_journal() {
    let mut scene = Scene::kubelet();
    let own = scene.run("stays", &cpus(2)).expect("its own");
    scene.run("gone", &cpus(2));
    let declared = specification("asked-for", &cpus(2));
    let asked = scene.node.admit(&declared, &mut NoPreference, NOW);
    assert!(asked.expect("let in").0.expect("decided").is_admitted());

    scene.restart(Strangers::Adopt);
    let stays = specification("stays", &cpus(2));
    let new = specification("new", &cpus(2));
    let boxes = [("stays", &stays), ("new", &new)];
    let pods: Vec<_> = boxes
        .iter()
        .map(|(uid, pod)| (sandbox(uid, pod), Some(Arc::new((*pod).clone()))))
        .collect();
    let guests = pods
        .iter()
        .map(|(home, _)| Guest::new(format!("{}-main", home.uid), home, "main".into()));
    let guests: Vec<Guest> = guests.collect();
    let (updates, remarks) = scene
        .node
        .synchronize(pods, guests, &mut NoPreference, NOW)
        .expect("written");
    assert_eq!(
        remarks,
        [Remark::Gone("gone".into()), Remark::Adopted("new".into())]
    );
    // Both are told, whatever they were told before.
    assert_eq!(updates.len(), 2);
    let mine = updates
        .iter()
        .find(|update| update.container == "stays-main");
    assert_eq!(mine.expect("told").allowance, own);
    let residents = scene.node.journaled().ledger().residents();
    let uids: Vec<&str> = residents.iter().map(|here| here.pod.uid.as_str()).collect();
    assert_eq!(uids, ["stays", "asked-for", "new"]);
}

#[test]
fn strangers_share_if_that_is_the_rule_or_they_would_be_rejected() {
    for (strangers, count) in [(Strangers::Share, 2), (Strangers::Adopt, 15)] {
        let mut scene = Scene::kubelet();
        scene.run("a", &cpus(2));
        scene.restart(strangers);
        let a = specification("a", &cpus(2));
        let stranger = specification("x", &cpus(count));
        let pods: Vec<_> = [("a", a), ("x", stranger)]
            .map(|(uid, pod)| (sandbox(uid, &pod), Some(Arc::new(pod))))
            .into();
        let guests: Vec<Guest> = pods
            .iter()
            .map(|(home, _)| Guest::new(home.id.clone(), home, "main".into()))
            .collect();
        let (_, remarks) = scene
            .node
            .synchronize(pods, guests, &mut NoPreference, NOW)
            .expect("written");
        assert!(
            matches!(&remarks[..], [Remark::Shares { pod, .. }] if pod.as_str() == "x"),
            "{remarks:?}"
        );
        assert_eq!(scene.told("box-a"), "1,9");
        assert_eq!(scene.told("box-x"), "0,2-8,10-15");
    }
}

#[test]
fn a_pod_that_was_asked_for_stays_while_its_sandboxes_come_and_go() {
    let mut scene = Scene::kubelet();
    let pod = specification("a", &cpus(2));
    let admitted = scene.node.admit(&pod, &mut NoPreference, NOW);
    admitted.expect("let in");
    for _ in 0..2 {
        let own = scene.run("a", &cpus(2)).expect("told");
        assert_eq!(own.cpus, set("1,9"));
        scene.stop("a");
    }
    let released = scene.node.release(&"a".into(), NOW);
    released.expect("it was still here");
}

#[test]
fn cpus_of_init_containers_stay_with_their_pod_until_it_ends() {
    let mut scene = Scene::kubelet();
    scene.run("x", "spec: {containers: [{name: main}]}");
    let resources = |count: u32| format!("resources: {{limits: {{cpu: {count}, memory: 1Mi}}}}");
    let text = format!(
        "spec:\n  initContainers: [{{name: first, {}}}]\n  containers: [{{name: main, {}}}]",
        resources(4),
        resources(2)
    );
    scene.pod("a", &text).expect("let in");
    scene.container("a", "first");
    assert_eq!(scene.told("x-main"), "0,3-8,11-15");
    scene.container("a", "main");
    // The kubelet gives back the memory of init containers then, and not their CPUs.
    let updates = scene.node.container_started("a-main", NOW);
    assert_eq!(updates.expect("written"), []);
    assert_eq!(scene.told("x-main"), "0,3-8,11-15");
    scene.stop("a");
    assert_eq!(scene.told("x-main"), "0-15");
}

#[test]
fn a_departure_that_cannot_be_written_down_is_made_up_for() {
    let mut scene = Scene::kubelet();
    scene.run("a", &cpus(2));
    scene.run("x", "spec: {containers: [{name: main}]}");
    scene.node.journaled_mut().fail_to_write(true);
    let stopped = scene.node.pod_stops("box-a", NOW);
    stopped.expect_err("the disk is full");
    assert!(scene.node.journaled().write_error().is_some());
    scene.node.settle(NOW).expect_err("it still is");
    assert_eq!(scene.told("x-main"), "0,2-8,10-15");
    scene.node.journaled_mut().fail_to_write(false);
    let updates = scene.node.settle(NOW).expect("there is room");
    assert_eq!(updates.expect("somebody left").len(), 1);
    assert_eq!(scene.told("x-main"), "0-15");
    assert!(scene.node.journaled().write_error().is_none());
    assert_eq!(scene.node.settle(NOW).expect("nothing to do"), None);
}

#[test]
fn everything_that_is_told_has_a_number_of_its_own() {
    let mut scene = Scene::kubelet();
    scene.run("x", "spec: {containers: [{name: main}]}");
    let number = |scene: &Scene| scene.node.guests["x-main"].changes();
    let first = number(&scene);
    scene.run("a", &cpus(2));
    let second = number(&scene);
    scene.stop("a");
    // It may use what it could at first, and was told twice since.
    assert!(first < second && second < number(&scene));
}

#[test]
fn koordinators_classes_have_their_pools() {
    let mut scene = Scene::koordinator();
    let reserved = scene.node.journaled().ledger().rules().reserved_cpus();
    assert_eq!(reserved, set("0,8"));
    let own = |allowance: Option<Allowance>| {
        let allowance = allowance.expect("told");
        assert_eq!(allowance.quota, Quota::Lifted);
        allowance.cpus
    };
    let lse = own(scene.run("lse", &class("LSE", 2)));
    let lsr = own(scene.run("lsr", &class("LSR", 2)));
    assert_eq!((lse.len(), lsr.len()), (2, 2));
    assert!(lse.is_disjoint(&lsr) && lse.is_disjoint(&reserved) && lsr.is_disjoint(&reserved));

    let shared = "spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}";
    let ls = format!("  labels: {{koordinator.sh/qosClass: LS}}\n{shared}");
    let ls = scene.run("ls", &ls).expect("the pool");
    assert_eq!(ls.cpus, &(&set("0-15") - &lse) - &lsr);
    assert_eq!(ls.quota, Quota::AsAsked);
    // Best-effort pods keep to the system's CPUs while they find room there, a CPU each.
    let be = "  labels: {koordinator.sh/qosClass: BE, koordinator.sh/priority-class: koord-batch}\n\
              spec: {containers: [{name: main}]}";
    assert_eq!(scene.run("be-1", be).expect("told").cpus, reserved);
    assert_eq!(scene.run("be-2", be).expect("told").cpus, reserved);
    let pool = &set("0-15") - &lse;
    assert_eq!(scene.run("be-3", be).expect("told").cpus, pool);
    assert_eq!(scene.told("be-1-main"), pool.to_string());

    scene.stop("lse");
    assert_eq!(scene.told("be-1-main"), "0-15");
    assert_eq!(scene.told("ls-main"), (&set("0-15") - &lsr).to_string());
    scene.stop("lsr");
    scene.stop("be-3");
    assert_eq!(scene.told("ls-main"), "0-15");
    assert_eq!(scene.told("be-1-main"), "0,8");
}

#[test]
fn what_a_scheduler_chose_is_followed_while_it_fits() {
    let chosen = |list: &str| {
        format!(
            "  labels: {{koordinator.sh/qosClass: LSR}}\n  annotations:\n    \
             scheduling.koordinator.sh/resource-status: '{{\"cpuset\":\"{list}\"}}'\n    \
             pinfold.dev/generation: \"7\"\n{}",
            cpus(2)
        )
    };
    let mut scene = Scene::koordinator();
    let first = scene.run("a", &chosen("6,14")).expect("told");
    assert_eq!(first.cpus, set("6,14"));
    let second = scene.run("b", &chosen("6,14")).expect("told");
    assert_eq!(second.cpus.len(), 2);
    assert!(second.cpus.is_disjoint(&first.cpus));
    let folder = scene.folder.path().join("agent").join("journal");
    let history = pinfold_journal::JournalHistory::read(&folder).expect("a journal");
    let told = &history.entries.last().expect("an entry").message;
    assert!(
        told.starts_with(
            "its scheduler chose CPUs 6,14 for generation 7 of the node, which is at 1: "
        ) && told.contains("held by a; decided here instead"),
        "{told}"
    );
    // After a restart everything is known from the journal alone.
    scene.restart(Strangers::Adopt);
    let pods = ["a", "b"].map(|uid| {
        let pod = specification(uid, &class("LSR", 2));
        (sandbox(uid, &pod), None)
    });
    let guests: Vec<Guest> = pods
        .iter()
        .map(|(home, _)| Guest::new(home.id.clone(), home, "main".into()))
        .collect();
    let (_, remarks) = scene
        .node
        .synchronize(pods.into(), guests, &mut NoPreference, NOW)
        .expect("written");
    assert_eq!(remarks, []);
    assert_eq!(scene.told("box-a"), "6,14");
    assert_eq!(scene.told("box-b"), second.cpus.to_string());
}

#[test]
fn a_class_that_does_not_suit_a_pod_is_rejected() {
    let mut scene = Scene::koordinator();
    let half = "  labels: {koordinator.sh/qosClass: LSR}\n\
        spec: {containers: [{name: main, resources: {limits: {cpu: 500m, memory: 1Mi}}}]}";
    let rejected = scene.pod("half", half).expect_err("half a CPU");
    assert_eq!(
        rejected.to_string(),
        "the requested CPUs of LSR Pod must be integer"
    );
}

#[test]
fn by_the_kubelets_rules_a_schedulers_choice_is_followed_container_by_container() {
    let chosen = |list: &str| {
        format!(
            "  annotations:\n    scheduling.koordinator.sh/resource-status: '{{\"cpuset\":\"{list}\"}}'\n    \
             pinfold.dev/generation: \"3\"\n{}",
            cpus(2)
        )
    };
    let mut scene = Scene::kubelet();
    let first = scene.run("a", &chosen("6,14")).expect("told");
    assert_eq!((first.cpus, first.quota), (set("6,14"), Quota::Lifted));
    // Taken, reserved, or more than it asks for: decided here, and the journal says why.
    for (uid, list, why) in [
        ("b", "6,14", "held by a"),
        ("c", "0,8", "reserved for the system"),
        ("d", "5,13,7", "of them only"),
    ] {
        let own = scene.run(uid, &chosen(list)).expect("told").cpus;
        assert_eq!(own.len(), 2, "{uid}");
        let folder = scene.folder.path().join("agent").join("journal");
        let history = pinfold_journal::JournalHistory::read(&folder).expect("a journal");
        let told = &history.entries.last().expect("an entry").message;
        assert!(
            told.starts_with(&format!("its scheduler chose CPUs {}", set(list)))
                && told.contains("for generation 3 of the node")
                && told.contains(why),
            "{told}"
        );
    }
    assert_eq!(scene.node.tally().cpu_requests, 4);
}

#[test]
fn a_pod_that_somebody_asked_for_stays_when_its_sandbox_stops() {
    let mut scene = Scene::kubelet();
    let pod = specification("asked-for", &cpus(2));
    let asked = scene.node.admit(&pod, &mut NoPreference, NOW);
    asked.expect("let in");
    let own = scene.run("asked-for", &cpus(2)).expect("its own").cpus;
    scene.stop("asked-for");
    let uid = "asked-for".into();
    assert_eq!(scene.node.journaled().ledger().exclusive_cpus(&uid), own);
    scene.node.release(&uid, NOW).expect("written");
    assert!(scene.node.journaled().ledger().residents().is_empty());
}

#[test]
fn who_had_to_share_is_not_asked_about_every_time() {
    let mut scene = Scene::kubelet();
    let big = specification("x", &cpus(15));
    let generations: Vec<u64> = (0..3)
        .map(|_| {
            let pods = vec![(sandbox("x", &big), Some(Arc::new(big.clone())))];
            let met = scene
                .node
                .synchronize(pods, Vec::new(), &mut NoPreference, NOW);
            met.expect("written");
            scene.node.journaled().generation()
        })
        .collect();
    assert_eq!(generations, [1, 1, 1]);
}
