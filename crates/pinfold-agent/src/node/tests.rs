use std::path::Path;
use std::sync::Arc;

use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Rules;
use pinfold_core::qos::QosClass;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_kube::pod;
use tempfile::TempDir;

use super::*;
use crate::allowance::Quota;
use pinfold_journal::JournalLimits;

mod external;
mod growth;
mod node_annotations;
mod rules_change;
mod takeover;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Two NUMA nodes with four cores of two threads each: 0-3,8-11 and 4-7,12-15. CPUs 0 and 8 are reserved.
fn rules(policy: &str) -> Arc<Rules> {
    let hardware = "2 sockets, 1 numa, 4 cores, smt2";
    let hardware = pinfold_hardware::synthetic::read(hardware).expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("a machine");
    let settings = Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("2".parse().expect("a quantity")),
        ..Settings::default()
    };
    Arc::new(Rules::new(Arc::new(machine), settings).expect("settings that fit"))
}

struct Scene {
    folder: TempDir,
    node: ManagedNode,
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
        let node = open(folder.path(), koordinator, UnknownContainers::Adopt, &pins);
        Self {
            folder,
            node,
            koordinator,
            pins,
        }
    }

    /// Restarts the agent without a shutdown.
    fn restart(&mut self, unknown_containers: UnknownContainers) {
        let elsewhere = tempfile::tempdir().expect("a folder");
        self.node = open(
            elsewhere.path(),
            self.koordinator,
            unknown_containers,
            &self.pins,
        );
        self.node = open(
            self.folder.path(),
            self.koordinator,
            unknown_containers,
            &self.pins,
        );
    }

    fn pod(&mut self, uid: &str, text: &str) -> Result<Vec<Update>, AdmitError> {
        let pod = pod_spec(uid, text);
        let sandbox = sandbox(uid, &pod);
        self.node
            .add_pod(sandbox, Some(&pod), &mut NoPreference, NOW)
    }

    fn container(&mut self, uid: &str, name: &str) -> (Option<Allowance>, Vec<Update>) {
        let container = self.new_container(uid, name);
        let outcome = self.node.add_container(container, &mut NoPreference, NOW);
        outcome.expect("admitted")
    }

    fn new_container(&self, uid: &str, name: &str) -> ManagedContainer {
        let sandbox = self.node.sandbox(&format!("box-{uid}")).expect("a sandbox");
        ManagedContainer::new(format!("{uid}-{name}"), sandbox, name.into())
    }

    /// Adds a pod with one container, and returns the container's allowance.
    fn run(&mut self, uid: &str, text: &str) -> Option<Allowance> {
        self.pod(uid, text).expect("admitted");
        self.container(uid, "main").0
    }

    fn stop(&mut self, uid: &str) -> Vec<Update> {
        let stopped = self.node.stop_pod(&format!("box-{uid}"), NOW);
        stopped.expect("journaled")
    }

    fn sent_cpus(&self, container: &str) -> String {
        let container = self.node.containers.get(container).expect("a container");
        container
            .sent_allowance()
            .map_or_else(String::new, |sent| sent.cpus.to_string())
    }
}

fn open(
    folder: &Path,
    koordinator: bool,
    unknown_containers: UnknownContainers,
    pins: &KubeletPins,
) -> ManagedNode {
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
    ManagedNode::new(
        journaled.expect("a journal"),
        rulebook,
        unknown_containers,
        pins.clone(),
    )
}

/// A pod object with this UID and YAML.
fn pod_spec(uid: &str, text: &str) -> PodObject {
    let manifest =
        format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: {uid}\n  uid: {uid}\n{text}\n");
    let read = pod::read("pod.yaml", manifest.as_bytes()).expect("a pod");
    read.value.into_iter().next().expect("a pod")
}

/// The spec of a pod with one Guaranteed container named main.
fn cpus(count: u32) -> String {
    format!(
        "spec:\n  containers:\n  - name: main\n    resources:\n      \
         limits: {{cpu: {count}, memory: 10Mi}}\n"
    )
}

/// The same spec, with a QoS class of Koordinator.
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
        total: RuntimeResources::default(),
        state: SandboxState::Ready,
    }
}

fn set(text: &str) -> CpuSet {
    text.parse().expect("CPUs")
}

#[test]
fn exclusive_cpus_of_a_pod_are_removed_from_the_shared_pool() {
    let mut scene = Scene::kubelet();
    let shared = scene
        .run("s", "spec: {containers: [{name: main}]}")
        .expect("the shared pool");
    assert_eq!(shared.cpus, set("0-15"));
    assert_eq!(shared.quota, Quota::AsSpecified);
    scene.pod("a", &cpus(4)).expect("admitted");
    // Adding the sandbox has shrunk the shared pool already.
    assert_eq!(scene.sent_cpus("s-main"), "0,3-8,11-15");
    let (own, others) = scene.container("a", "main");
    let own = own.expect("exclusive CPUs");
    assert_eq!((own.cpus, own.quota), (set("1-2,9-10"), Quota::Unlimited));
    assert_eq!(others, []);
    let updates = scene.stop("a");
    assert_eq!(updates.len(), 1);
    assert_eq!(scene.sent_cpus("s-main"), "0-15");
}

#[test]
fn a_rejected_pod_changes_nothing_and_has_a_reason() {
    let mut scene = Scene::kubelet();
    let rejected = scene.pod("big", &cpus(15)).expect_err("too many");
    assert_eq!(rejected.status_reason(), "TopologyAffinityError");
    let why = rejected.to_string();
    assert!(
        why.starts_with("TopologyAffinityError: container main: "),
        "{why}"
    );
    assert!(scene.node.sandbox("box-big").is_none());
    assert!(scene.node.journaled().ledger().admitted_pods().is_empty());
    assert_eq!(scene.node.rejections(), 1);
}

#[test]
fn without_a_pod_spec_each_container_is_admitted_separately() {
    let mut scene = Scene::kubelet();
    let pod = pod_spec("p", &cpus(1));
    let sandbox = sandbox("p", &pod);
    let added = scene.node.add_pod(sandbox, None, &mut NoPreference, NOW);
    assert_eq!(added.expect("admitted"), []);
    let mut container = scene.new_container("p", "main");
    container.resources = RuntimeResources {
        cpu_shares: Some(2048),
        cpu_quota: Some(200_000),
        cpu_period: Some(100_000),
        memory_limit: Some(1 << 20),
        ..RuntimeResources::default()
    };
    let (allowance, _) = scene
        .node
        .add_container(container, &mut NoPreference, NOW)
        .expect("admitted");
    assert_eq!(allowance.expect("exclusive CPUs").cpus, set("1,9"));
    let residents = scene.node.journaled().ledger().admitted_pods();
    assert_eq!(residents[0].pod.uid.as_str(), "p/main");
    assert_eq!(QosClass::of(&residents[0].pod), QosClass::Guaranteed);
    // It is known from the journal after a restart.
    let sandbox_of_pod = scene.node.sandbox("box-p").expect("a sandbox").clone();
    let container = scene.new_container("p", "main");
    scene.restart(UnknownContainers::UseSharedPool);
    let (_, changes) = scene.node.synchronize(
        vec![(sandbox_of_pod, None)],
        vec![container],
        &mut NoPreference,
        NOW,
    );
    assert_eq!(changes, []);
    assert_eq!(scene.sent_cpus("p-main"), "1,9");
    scene.stop("p");
    assert!(scene.node.journaled().ledger().admitted_pods().is_empty());
}

#[test]
fn an_update_by_another_client_does_not_change_the_cpus() {
    let mut scene = Scene::kubelet();
    let own = scene.run("a", &cpus(2));
    assert_eq!(scene.node.container_allowance("a-main"), own);
    assert_eq!(scene.node.container_allowance("missing"), None);
}

#[test]
fn a_recreated_sandbox_keeps_the_resources_of_its_pod() {
    let mut scene = Scene::kubelet();
    let own = scene.run("a", &cpus(2)).expect("exclusive CPUs");
    let pod = pod_spec("a", &cpus(2));
    let mut again = sandbox("a", &pod);
    again.id = "box-again".to_owned();
    let added = scene
        .node
        .add_pod(again, Some(&pod), &mut NoPreference, NOW);
    added.expect("it is in the ledger already");
    scene.stop("a");
    assert_eq!(
        scene.node.journaled().ledger().exclusive_cpus(&"a".into()),
        own.cpus
    );
    scene.node.stop_pod("box-again", NOW).expect("journaled");
    assert!(scene.node.journaled().ledger().admitted_pods().is_empty());
}

#[test]
fn a_restart_repairs_toward_the_journal() {
    let mut scene = Scene::kubelet();
    let own = scene.run("stays", &cpus(2)).expect("exclusive CPUs");
    scene.run("gone", &cpus(2));
    let declared = pod_spec("declared", &cpus(2));
    let admitted = scene.node.admit(&declared, &mut NoPreference, NOW);
    assert!(
        admitted
            .expect("admitted")
            .0
            .expect("decided")
            .is_admitted()
    );

    scene.restart(UnknownContainers::Adopt);
    let stays = pod_spec("stays", &cpus(2));
    let new = pod_spec("new", &cpus(2));
    let boxes = [("stays", &stays), ("new", &new)];
    let pods: Vec<_> = boxes
        .iter()
        .map(|(uid, pod)| (sandbox(uid, pod), Some(Arc::new((*pod).clone()))))
        .collect();
    let containers = pods.iter().map(|(sandbox_of_pod, _)| {
        ManagedContainer::new(
            format!("{}-main", sandbox_of_pod.uid),
            sandbox_of_pod,
            "main".into(),
        )
    });
    let containers: Vec<ManagedContainer> = containers.collect();
    let (updates, changes) = scene
        .node
        .synchronize(pods, containers, &mut NoPreference, NOW);
    assert_eq!(
        changes,
        [
            SyncChange::Released("gone".into()),
            SyncChange::Adopted("new".into())
        ]
    );
    // Both allowances are sent, whatever was sent before.
    assert_eq!(updates.len(), 2);
    let stays_update = updates
        .iter()
        .find(|update| update.container == "stays-main");
    assert_eq!(stays_update.expect("an allowance").allowance, own);
    let residents = scene.node.journaled().ledger().admitted_pods();
    let uids: Vec<&str> = residents.iter().map(|here| here.pod.uid.as_str()).collect();
    assert_eq!(uids, ["stays", "declared", "new"]);
}

#[test]
fn running_pods_that_are_not_in_the_journal_are_admitted_with_one_sync_of_it() {
    let mut scene = Scene::kubelet();
    let pods = ["a", "b", "c", "d"].map(|uid| {
        let pod = pod_spec(uid, &cpus(2));
        (sandbox(uid, &pod), Some(Arc::new(pod)))
    });
    let before = scene.node.journaled().journal_syncs();
    let (_, changes) = scene
        .node
        .synchronize(pods.into(), Vec::new(), &mut NoPreference, NOW);
    assert_eq!(changes.len(), 4);
    assert_eq!(scene.node.journaled().generation(), 4, "one entry for each");
    assert_eq!(scene.node.journaled().journal_syncs() - before, 1);
    let before = scene.node.journaled().journal_syncs();
    scene.stop("a");
    let after = scene.node.journaled().journal_syncs();
    assert_eq!(after - before, 1, "other changes are synced one by one");
}

#[test]
fn unknown_containers_use_the_shared_pool_if_configured_or_rejected() {
    for (unknown_containers, count) in [
        (UnknownContainers::UseSharedPool, 2),
        (UnknownContainers::Adopt, 15),
    ] {
        let mut scene = Scene::kubelet();
        scene.run("a", &cpus(2));
        scene.restart(unknown_containers);
        let a = pod_spec("a", &cpus(2));
        let unknown = pod_spec("x", &cpus(count));
        let pods: Vec<_> = [("a", a), ("x", unknown)]
            .map(|(uid, pod)| (sandbox(uid, &pod), Some(Arc::new(pod))))
            .into();
        let containers: Vec<ManagedContainer> = pods
            .iter()
            .map(|(sandbox_of_pod, _)| {
                ManagedContainer::new(sandbox_of_pod.id.clone(), sandbox_of_pod, "main".into())
            })
            .collect();
        let (_, changes) = scene
            .node
            .synchronize(pods, containers, &mut NoPreference, NOW);
        assert!(
            matches!(&changes[..], [SyncChange::UsesSharedPool { pod, .. }] if pod.as_str() == "x"),
            "{changes:?}"
        );
        assert_eq!(scene.sent_cpus("box-a"), "1,9");
        assert_eq!(scene.sent_cpus("box-x"), "0,2-8,10-15");
    }
}

#[test]
fn a_declared_pod_keeps_its_cpus_while_its_sandboxes_are_recreated() {
    let mut scene = Scene::kubelet();
    let pod = pod_spec("a", &cpus(2));
    let admitted = scene.node.admit(&pod, &mut NoPreference, NOW);
    admitted.expect("admitted");
    for _ in 0..2 {
        let own = scene.run("a", &cpus(2)).expect("an allowance");
        assert_eq!(own.cpus, set("1,9"));
        scene.stop("a");
    }
    let released = scene.node.release(&"a".into(), NOW);
    released.expect("it was in the ledger");
}

#[test]
fn cpus_of_init_containers_stay_with_their_pod_until_it_terminates() {
    let mut scene = Scene::kubelet();
    scene.run("x", "spec: {containers: [{name: main}]}");
    let resources = |count: u32| format!("resources: {{limits: {{cpu: {count}, memory: 1Mi}}}}");
    let text = format!(
        "spec:\n  initContainers: [{{name: first, {}}}]\n  containers: [{{name: main, {}}}]",
        resources(4),
        resources(2)
    );
    scene.pod("a", &text).expect("admitted");
    scene.container("a", "first");
    assert_eq!(scene.sent_cpus("x-main"), "0,3-8,11-15");
    scene.container("a", "main");
    // Like the kubelet, which then releases the memory of init containers, but not their CPUs.
    let updates = scene.node.container_started("a-main", NOW);
    assert_eq!(updates.expect("journaled"), []);
    assert_eq!(scene.sent_cpus("x-main"), "0,3-8,11-15");
    scene.stop("a");
    assert_eq!(scene.sent_cpus("x-main"), "0-15");
}

#[test]
fn a_release_that_could_not_be_journaled_is_retried() {
    let mut scene = Scene::kubelet();
    scene.run("a", &cpus(2));
    scene.run("x", "spec: {containers: [{name: main}]}");
    scene.node.journaled_mut().fail_to_write(true);
    let stopped = scene.node.stop_pod("box-a", NOW);
    stopped.expect_err("the disk is full");
    assert!(scene.node.journaled().write_error().is_some());
    scene
        .node
        .release_pending(NOW)
        .expect_err("the disk is still full");
    assert_eq!(scene.sent_cpus("x-main"), "0,2-8,10-15");
    scene.node.journaled_mut().fail_to_write(false);
    let updates = scene.node.release_pending(NOW).expect("the disk has room");
    assert_eq!(updates.expect("a pod was pending").len(), 1);
    assert_eq!(scene.sent_cpus("x-main"), "0-15");
    assert!(scene.node.journaled().write_error().is_none());
    assert_eq!(
        scene.node.release_pending(NOW).expect("nothing to do"),
        None
    );
}

#[test]
fn every_update_has_its_own_sequence_number() {
    let mut scene = Scene::kubelet();
    scene.run("x", "spec: {containers: [{name: main}]}");
    let number = |scene: &Scene| scene.node.containers["x-main"].update_seq();
    let first = number(&scene);
    scene.run("a", &cpus(2));
    let second = number(&scene);
    scene.stop("a");
    // Its CPUs are those of the beginning again, after two updates.
    assert!(first < second && second < number(&scene));
}

#[test]
fn koordinators_qos_classes_have_their_pools() {
    let mut scene = Scene::koordinator();
    let reserved = scene.node.journaled().ledger().rules().reserved_cpus();
    assert_eq!(reserved, set("0,8"));
    let own = |allowance: Option<Allowance>| {
        let allowance = allowance.expect("an allowance");
        assert_eq!(allowance.quota, Quota::Unlimited);
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
    assert_eq!(ls.quota, Quota::AsSpecified);
    // Best-effort pods use the reserved CPUs as long as there is one for each.
    let be = "  labels: {koordinator.sh/qosClass: BE, koordinator.sh/priority-class: koord-batch}\n\
              spec: {containers: [{name: main}]}";
    assert_eq!(scene.run("be-1", be).expect("an allowance").cpus, reserved);
    assert_eq!(scene.run("be-2", be).expect("an allowance").cpus, reserved);
    let pool = &set("0-15") - &lse;
    assert_eq!(scene.run("be-3", be).expect("an allowance").cpus, pool);
    assert_eq!(scene.sent_cpus("be-1-main"), pool.to_string());

    scene.stop("lse");
    assert_eq!(scene.sent_cpus("be-1-main"), "0-15");
    assert_eq!(
        scene.sent_cpus("ls-main"),
        (&set("0-15") - &lsr).to_string()
    );
    scene.stop("lsr");
    scene.stop("be-3");
    assert_eq!(scene.sent_cpus("ls-main"), "0-15");
    assert_eq!(scene.sent_cpus("be-1-main"), "0,8");
}

#[test]
fn the_schedulers_cpus_are_used_while_they_are_free() {
    let chosen = |list: &str| {
        format!(
            "  labels: {{koordinator.sh/qosClass: LSR}}\n  annotations:\n    \
             scheduling.koordinator.sh/resource-status: '{{\"cpuset\":\"{list}\"}}'\n    \
             pinfold.dev/generation: \"7\"\n{}",
            cpus(2)
        )
    };
    let mut scene = Scene::koordinator();
    let first = scene.run("a", &chosen("6,14")).expect("an allowance");
    assert_eq!(first.cpus, set("6,14"));
    let second = scene.run("b", &chosen("6,14")).expect("an allowance");
    assert_eq!(second.cpus.len(), 2);
    assert!(second.cpus.is_disjoint(&first.cpus));
    let folder = scene.folder.path().join("agent").join("journal");
    let history = pinfold_journal::JournalHistory::read(&folder).expect("a journal");
    let message = &history.entries.last().expect("an entry").message;
    assert!(
        message.starts_with(
            "the scheduler chose CPUs 6,14 for generation 7 of the node, which is at 1: "
        ) && message.contains("held by a; the agent decided instead"),
        "{message}"
    );
    // After a restart the journal suffices.
    scene.restart(UnknownContainers::Adopt);
    let pods = ["a", "b"].map(|uid| {
        let pod = pod_spec(uid, &class("LSR", 2));
        (sandbox(uid, &pod), None)
    });
    let containers: Vec<ManagedContainer> = pods
        .iter()
        .map(|(sandbox_of_pod, _)| {
            ManagedContainer::new(sandbox_of_pod.id.clone(), sandbox_of_pod, "main".into())
        })
        .collect();
    let (_, changes) = scene
        .node
        .synchronize(pods.into(), containers, &mut NoPreference, NOW);
    assert_eq!(changes, []);
    assert_eq!(scene.sent_cpus("box-a"), "6,14");
    assert_eq!(scene.sent_cpus("box-b"), second.cpus.to_string());
}

#[test]
fn a_pod_whose_requests_do_not_fit_its_qos_class_is_rejected() {
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
fn by_the_kubelets_rules_each_container_gets_its_part_of_the_schedulers_cpus() {
    let chosen = |list: &str| {
        format!(
            "  annotations:\n    scheduling.koordinator.sh/resource-status: '{{\"cpuset\":\"{list}\"}}'\n    \
             pinfold.dev/generation: \"3\"\n{}",
            cpus(2)
        )
    };
    let mut scene = Scene::kubelet();
    let first = scene.run("a", &chosen("6,14")).expect("an allowance");
    assert_eq!((first.cpus, first.quota), (set("6,14"), Quota::Unlimited));
    // Held by another pod, reserved, or more than requested: the agent decides, and the journal has the reason.
    for (uid, list, why) in [
        ("b", "6,14", "held by a"),
        ("c", "0,8", "reserved for the system"),
        ("d", "5,13,7", "would assign only"),
    ] {
        let own = scene.run(uid, &chosen(list)).expect("an allowance").cpus;
        assert_eq!(own.len(), 2, "{uid}");
        let folder = scene.folder.path().join("agent").join("journal");
        let history = pinfold_journal::JournalHistory::read(&folder).expect("a journal");
        let message = &history.entries.last().expect("an entry").message;
        assert!(
            message.starts_with(&format!("the scheduler chose CPUs {}", set(list)))
                && message.contains("for generation 3 of the node")
                && message.contains(why),
            "{message}"
        );
    }
    assert_eq!(scene.node.counters().cpu_requests, 4);
}

#[test]
fn a_declared_pod_keeps_its_cpus_when_its_sandbox_stops() {
    let mut scene = Scene::kubelet();
    let pod = pod_spec("declared", &cpus(2));
    let admitted = scene.node.admit(&pod, &mut NoPreference, NOW);
    admitted.expect("admitted");
    let own = scene
        .run("declared", &cpus(2))
        .expect("exclusive CPUs")
        .cpus;
    scene.stop("declared");
    let uid = "declared".into();
    assert_eq!(scene.node.journaled().ledger().exclusive_cpus(&uid), own);
    scene.node.release(&uid, NOW).expect("journaled");
    assert!(scene.node.journaled().ledger().admitted_pods().is_empty());
}

#[test]
fn a_rejected_running_pod_is_not_admitted_again_at_every_synchronization() {
    let mut scene = Scene::kubelet();
    let big = pod_spec("x", &cpus(15));
    let generations: Vec<u64> = (0..3)
        .map(|_| {
            let pods = vec![(sandbox("x", &big), Some(Arc::new(big.clone())))];
            let synchronized = scene
                .node
                .synchronize(pods, Vec::new(), &mut NoPreference, NOW);
            drop(synchronized);
            scene.node.journaled().generation()
        })
        .collect();
    assert_eq!(generations, [1, 1, 1]);
}

#[test]
fn only_known_annotations_of_limited_length_are_journaled() {
    for mut scene in [Scene::kubelet(), Scene::koordinator()] {
        let long = "x".repeat(pod_record::MAX_VALUE + 1);
        let other = format!(
            "  annotations: {{pinfold.dev/note: {long}, a.koordinator.sh/note: {long}, \
             scheduling.koordinator.sh/resource-spec: '{{}}'}}\n{}",
            class("LS", 1)
        );
        scene.pod("other", &other).expect("admitted");
        let record = &scene.node.journaled().records()["other"];
        let keys: Vec<&str> = record.annotations.keys().map(String::as_str).collect();
        assert_eq!(keys, ["scheduling.koordinator.sh/resource-spec"]);
        assert_eq!(record.labels.len(), 1);
        let before = scene.node.journaled().journal_length();
        let spec = format!(
            "  annotations: {{scheduling.koordinator.sh/resource-spec: {long}}}\n{}",
            cpus(1)
        );
        let rejected = scene.pod("long", &spec).expect_err("too long");
        assert_eq!(rejected.status_reason(), "PinfoldRejected");
        let rejected = rejected.to_string();
        assert!(rejected.contains("at most 16384 bytes"), "{rejected}");
        let grown = scene.node.journaled().journal_length() - before;
        assert!(grown < 4096, "the journal grew by {grown} bytes");
    }
}

#[test]
fn an_annotation_gives_no_cpus_beyond_class_count_and_rules() {
    let pod = |labels: &str, list: &str, spec: &str| {
        format!(
            "  labels: {{{labels}}}\n  annotations:\n    \
             scheduling.koordinator.sh/resource-status: '{{\"cpuset\":\"{list}\"}}'\n{spec}"
        )
    };
    let lsr = "koordinator.sh/qosClass: LSR";
    let be = "koordinator.sh/qosClass: BE, koordinator.sh/priority-class: koord-batch";
    let empty = "spec: {containers: [{name: main}]}";
    let mut scene = Scene::koordinator();
    for (uid, text) in [
        ("be", pod(be, "1-7,9-15", empty)),
        ("none", pod("", "1-7,9-15", empty)),
        ("ls", pod("koordinator.sh/qosClass: LS", "1-7", &cpus(7))),
    ] {
        let allowance = scene.run(uid, &text).expect("a pool");
        assert_eq!(allowance.quota, Quota::AsSpecified, "{uid}");
        let held = scene.node.journaled().ledger().exclusive_cpus(&uid.into());
        assert!(held.is_empty(), "{uid} holds {held}");
    }
    let more = scene.run("more", &pod(lsr, "1-7", &cpus(2))).expect("CPUs");
    assert_eq!(more.cpus.len(), 2, "it requests two");
    let right = scene
        .run("right", &pod(lsr, "6,14", &cpus(2)))
        .expect("CPUs");
    assert_eq!(right.cpus, set("6,14"));
}

#[test]
fn a_panic_in_a_decision_leaves_the_ledger_as_it_was() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use pinfold_core::device::{Device, PreferredAllocationQuery};

    let mut scene = Scene::kubelet();
    let device = Device {
        numa: None,
        healthy: true,
    };
    let gpus = ["gpu0", "gpu1"]
        .map(|id| (id.into(), device.clone()))
        .into();
    let resource = "vendor.com/gpu".into();
    let offered = scene
        .node
        .journaled_mut()
        .set_devices(&resource, Some(gpus), NOW);
    assert!(offered.expect("journaled"));
    let before = scene.node.journaled().ledger().state().clone();
    // The second container's device is chosen after the first one has its CPUs.
    let text = "spec:\n  containers:\n  - name: main\n    resources: {limits: {cpu: 2, memory: 1Mi}}\n  \
        - name: gpu\n    resources: {limits: {cpu: 1, memory: 1Mi, vendor.com/gpu: 1}}\n";
    let pod = pod_spec("bad", text);
    let Scene { folder, node, .. } = scene;
    let node = Mutex::new(node);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut plugin = |_: PreferredAllocationQuery<'_>| panic!("a defect of the engine");
        let mut node = crate::runtime::lock(&node);
        node.add_pod(sandbox("bad", &pod), Some(&pod), &mut plugin, NOW)
    }));
    assert!(panicked.is_err());
    let mut node = crate::runtime::lock(&node);
    assert_eq!(*node.journaled().ledger().state(), before);
    let good = pod_spec("good", &cpus(2));
    let added = node.add_pod(sandbox("good", &good), Some(&good), &mut NoPreference, NOW);
    added.expect("the next pod is admitted");
    drop(folder);
}

/// An API server with these pods.
#[derive(Debug)]
struct Pods(Vec<Arc<PodObject>>);

impl PodStatusSource for Pods {
    fn status(&self, pod: &pinfold_kube::pod::PodIdentity) -> PodStatus {
        match self.spec(pod) {
            Some(_) => PodStatus::Active,
            None => PodStatus::Absent,
        }
    }

    fn spec(&self, pod: &pinfold_kube::pod::PodIdentity) -> Option<Arc<PodObject>> {
        self.0.iter().find(|one| one.identity() == *pod).cloned()
    }
}

#[test]
fn a_pod_whose_spec_arrives_late_is_in_the_ledger_under_its_own_uid_with_the_same_cpus() {
    let mut scene = Scene::kubelet();
    scene.run("other", &cpus(2));
    let pod = pod_spec("p", &cpus(2));
    let added = scene
        .node
        .add_pod(sandbox("p", &pod), None, &mut NoPreference, NOW);
    added.expect("admitted");
    scene.stop("other");
    let mut container = scene.new_container("p", "main");
    container.resources = RuntimeResources {
        cpu_shares: Some(2048),
        memory_limit: Some(10 << 20),
        ..RuntimeResources::default()
    };
    let added = scene.node.add_container(container, &mut NoPreference, NOW);
    let own = added.expect("admitted").0.expect("exclusive CPUs");
    assert_eq!(own.cpus.len(), 2);
    assert!(!scene.node.has_pod(&"p".into()));
    scene.node = scene
        .node
        .with_pod_status(Arc::new(Pods(vec![Arc::new(pod)])));
    let updates = scene.node.release_pending(NOW).expect("journaled");
    assert_eq!(updates, Some(Vec::new()), "no container changes");
    let residents = scene.node.journaled().ledger().admitted_pods();
    let uids: Vec<&str> = residents.iter().map(|here| here.pod.uid.as_str()).collect();
    assert_eq!(uids, ["p"]);
    assert_eq!(
        scene.node.journaled().ledger().exclusive_cpus(&"p".into()),
        own.cpus
    );
    scene.restart(UnknownContainers::Adopt);
    assert!(scene.node.has_pod(&"p".into()));
}

/// An API server whose pods are not listed yet.
#[derive(Debug)]
struct NotListed;

impl PodStatusSource for NotListed {
    fn status(&self, _: &pinfold_kube::pod::PodIdentity) -> PodStatus {
        PodStatus::NotListed
    }

    fn spec(&self, _: &pinfold_kube::pod::PodIdentity) -> Option<Arc<PodObject>> {
        None
    }
}

#[test]
fn a_running_pod_waits_for_the_list_of_pods_and_is_not_admitted_container_by_container() {
    let mut scene = Scene::kubelet();
    scene.node = scene.node.with_pod_status(Arc::new(NotListed));
    let pod = pod_spec("p", &cpus(2));
    let sandbox = sandbox("p", &pod);
    let mut container = ManagedContainer::new("p-main".to_owned(), &sandbox, "main".into());
    container.resources = RuntimeResources {
        cpu_shares: Some(2048),
        memory_limit: Some(10 << 20),
        ..RuntimeResources::default()
    };
    let synchronized = scene.node.synchronize(
        vec![(sandbox, None)],
        vec![container],
        &mut NoPreference,
        NOW,
    );
    assert_eq!(synchronized.1, []);
    assert!(scene.node.journaled().ledger().admitted_pods().is_empty());
    scene.node = scene
        .node
        .with_pod_status(Arc::new(Pods(vec![Arc::new(pod)])));
    let updates = scene.node.release_pending(NOW).expect("journaled");
    assert_eq!(updates.map(|updates| updates.len()), Some(1));
    assert!(scene.node.has_pod(&"p".into()));
    assert_eq!(scene.sent_cpus("p-main"), "1,9");
}

#[test]
fn a_pod_that_opts_out_runs_in_the_shared_pool_under_every_rulebook() {
    let opt_out =
        |text: &str, value: &str| format!("  annotations: {{pinfold.dev/pin: {value:?}}}\n{text}");
    for (mut scene, guaranteed) in [
        (Scene::kubelet(), cpus(2)),
        (Scene::koordinator(), class("LSR", 2)),
    ] {
        let own = scene.run("own", &guaranteed).expect("exclusive CPUs").cpus;
        let shared = scene.run("opted-out", &opt_out(&guaranteed, "false"));
        let shared = shared.expect("the shared pool").cpus;
        assert!(shared.is_disjoint(&own), "{shared} {own}");
        let ledger = scene.node.journaled().ledger();
        assert!(ledger.exclusive_cpus(&"opted-out".into()).is_empty());
        assert!(scene.node.has_opted_out(&"opted-out".into()));
        assert!(!scene.node.has_opted_out(&"own".into()));
        // The shared pool shrinks for it too, and a restart does not pin it.
        let next = scene.run("next", &guaranteed).expect("exclusive CPUs").cpus;
        let now = set(&scene.sent_cpus("opted-out-main"));
        assert!(now.is_disjoint(&next), "{now} {next}");
        scene.restart(UnknownContainers::Adopt);
        assert!(scene.node.has_opted_out(&"opted-out".into()));
        let ledger = scene.node.journaled().ledger();
        assert!(ledger.exclusive_cpus(&"opted-out".into()).is_empty());
    }
    let mut scene = Scene::kubelet();
    let typo = scene.pod("typo", &opt_out(&cpus(1), "no"));
    let why = typo.expect_err("neither true nor false").to_string();
    assert!(why.contains("expected \"true\" or \"false\""), "{why}");
    let wanted = scene.run("wanted", &opt_out(&cpus(1), "true"));
    assert_eq!(wanted.expect("an exclusive CPU").cpus.len(), 1);
}

#[test]
fn a_container_without_a_known_spec_opts_out_by_the_annotations_of_its_sandbox() {
    let mut scene = Scene::kubelet();
    let pod = pod_spec(
        "x",
        "  annotations: {pinfold.dev/pin: \"false\"}\nspec: {containers: [{name: main}]}",
    );
    let sandbox = sandbox("x", &pod);
    let added = scene.node.add_pod(sandbox, None, &mut NoPreference, NOW);
    added.expect("nothing is decided yet");
    let mut container = scene.new_container("x", "main");
    container.resources = RuntimeResources {
        cpu_shares: Some(2048),
        cpu_quota: Some(200_000),
        cpu_period: Some(100_000),
        memory_limit: Some(1 << 20),
        ..RuntimeResources::default()
    };
    let added = scene.node.add_container(container, &mut NoPreference, NOW);
    let (allowance, _) = added.expect("admitted");
    let allowance = allowance.expect("the shared pool");
    assert_eq!(allowance.quota, Quota::AsSpecified);
    let ledger = scene.node.journaled().ledger();
    assert!(ledger.exclusive_cpus(&"x/main".into()).is_empty());
}
