use std::sync::mpsc::{Receiver, sync_channel};

use nri::api::{LinuxContainer, LinuxCpu, LinuxPodSandbox};
use pinfold_core::ledger::Rules;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_devices::pod_resources::PodResourcesClient;
use pinfold_kube::pod;
use tempfile::TempDir;

use super::*;
use crate::journaled_ledger::JournaledLedger;
use crate::node::{KubeletPins, Rulebook, UnknownContainers};
use pinfold_journal::JournalLimits;

/// Records the pods that run although they were rejected, and what their users have to know.
#[derive(Default)]
pub(super) struct Listener(Mutex<Vec<String>>);

impl Listener {
    fn record(&self, what: String) {
        self.0.lock().expect("unpoisoned").push(what);
    }
}

impl Telemetry for Listener {
    fn runtime_connected(&self, _: &RuntimeInfo) {}
    fn record_decision(&self, _: &Subject<'_>, _: Option<&AdmitError>, _: Duration) {}
    fn record_event(&self, _: &'static str, _: Duration) {}
    fn record_sync_change(&self, _: &SyncChange) {}
    fn record_error(&self, _: &JournaledLedgerError) {}
    fn record_tolerated_rejection(&self, pod: &Subject<'_>, _: &str) {
        self.record(format!("{}/{}", pod.namespace, pod.name));
    }
    fn record_rejected_resize(&self, pod: &Subject<'_>, _: &AdmitError) {
        self.record(format!("resize of {} rejected", pod.name));
    }
    fn warn_pod(&self, warning: PodWarning) {
        let PodWarning { pod, reason, .. } = warning;
        self.record(format!("{}: {}", pod.name, reason.name));
    }
    fn node_changed(&self) {}
}

/// Every pod is Guaranteed, with as many CPUs as the number at the end of its UID, and a device if the UID begins with
/// `gpu`.
struct Numbered;

impl PodSpecSource for Numbered {
    fn pod(&self, pod: &PodIdentity, _: Duration) -> Option<Arc<PodObject>> {
        let uid = &pod.uid;
        let count = uid.as_str().rsplit('-').next()?;
        let device = match uid.as_str().starts_with("gpu") {
            true => ", vendor.com/gpu: 1",
            false => "",
        };
        let manifest = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {uid}, uid: {uid}}}\nspec:\n  containers:\n  \
             - name: main\n    resources: {{limits: {{cpu: {count}, memory: 1Mi{device}}}}}\n"
        );
        let read = pod::read("pod.yaml", manifest.as_bytes()).ok()?;
        read.value.into_iter().next().map(Arc::new)
    }
}

struct Stage {
    _folder: TempDir,
    runtime: NriPlugin,
    reported: Arc<Listener>,
    later: Receiver<Vec<Update>>,
}

/// Two NUMA nodes with eight CPUs each.
fn stage(pins: bool) -> Stage {
    let folder = tempfile::tempdir().expect("a folder");
    let hardware = pinfold_hardware::synthetic::read("2 sockets, 1 numa, 4 cores, smt2");
    let hardware = hardware.expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("a machine");
    let settings = Settings {
        topology_policy: TopologyPolicy::SingleNumaNode,
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("2".parse().expect("a quantity")),
        ..Settings::default()
    };
    let rules = Rules::new(Arc::new(machine), settings).expect("settings that fit");
    let journaled = JournaledLedger::open(folder.path(), Arc::new(rules), JournalLimits::default());
    let node = ManagedNode::new(
        journaled.expect("a journal"),
        Rulebook::Kubelet,
        UnknownContainers::Adopt,
        KubeletPins::default(),
    );
    let reported = Arc::new(Listener::default());
    let (updates_sender, later) = sync_channel(16);
    let runtime = NriPlugin {
        node: Arc::new(Mutex::new(node)),
        pod_specs: Box::new(Numbered),
        devices: DeviceSource::Kubelet(PodResourcesClient::new(
            "/nowhere/kubelet.sock",
            Duration::ZERO,
        )),
        pins,
        telemetry: reported.clone(),
        updates: updates_sender,
        clock: || Timestamp::UNIX_EPOCH,
        runtime_sends_pids: false,
    };
    Stage {
        _folder: folder,
        runtime,
        reported,
        later,
    }
}

fn sandbox_of(uid: &str) -> PodSandbox {
    PodSandbox {
        id: format!("box-{uid}"),
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        name: uid.to_owned(),
        linux: Some(LinuxPodSandbox {
            cgroup_parent: format!("/kubepods/pod{uid}"),
            ..LinuxPodSandbox::default()
        }),
        ..PodSandbox::default()
    }
}

fn container_of(uid: &str) -> Container {
    Container {
        id: format!("{uid}-main"),
        pod_sandbox_id: format!("box-{uid}"),
        name: "main".to_owned(),
        linux: Some(LinuxContainer::default()),
        ..Container::default()
    }
}

impl Stage {
    fn cpus(&mut self, uid: &str) -> String {
        let answer = self
            .runtime
            .create_container(&sandbox_of(uid), &container_of(uid))
            .expect("admitted");
        let linux = answer.adjust.and_then(|adjust| adjust.linux);
        let resources = linux.and_then(|linux| linux.resources);
        let cpu: Option<LinuxCpu> = resources.and_then(|resources| resources.cpu);
        cpu.map_or_else(String::new, |cpu| cpu.cpus)
    }
}

#[test]
fn a_container_is_created_on_its_cpus_and_an_update_does_not_change_them() {
    let mut stage = stage(true);
    let pod = sandbox_of("a-4");
    stage.runtime.run_pod_sandbox(&pod).expect("admitted");
    assert_eq!(stage.cpus("a-4"), "1-2,9-10");
    let update = stage.runtime.update_container(
        &pod,
        &container_of("a-4"),
        &LinuxResources::default().cpus("0-15"),
    );
    assert_eq!(update.expect("answered").update.len(), 1);
    let rejected = stage.runtime.run_pod_sandbox(&sandbox_of("b-9"));
    let reason = rejected.expect_err("too many").to_string();
    assert!(
        reason.contains("Pinfold: TopologyAffinityError"),
        "{reason}"
    );
}

#[test]
fn a_pod_with_devices_waits_until_the_kubelet_lists_them() {
    let mut stage = stage(true);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kubelet.sock");
    let client = PodResourcesClient::new(&socket, Duration::from_millis(50));
    stage.runtime.devices = DeviceSource::Kubelet(client);
    let pod = sandbox_of("gpu-2");
    // A listener that never answers, then the socket of a kubelet that ended.
    let listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let rejected = stage.runtime.run_pod_sandbox(&pod);
    let reason = rejected.expect_err("it does not answer").to_string();
    assert!(reason.contains("did not answer within"), "{reason}");
    drop(listener);
    let rejected = stage.runtime.run_pod_sandbox(&pod);
    let reason = rejected.expect_err("it is gone").to_string();
    assert!(
        reason.contains("devices of the pod are not known"),
        "{reason}"
    );
    // A pod without devices does not need them.
    stage
        .runtime
        .run_pod_sandbox(&sandbox_of("web-2"))
        .expect("admitted");
    stage.runtime.pins = false;
    stage
        .runtime
        .run_pod_sandbox(&pod)
        .expect("another program pins");
}

#[test]
fn without_pinning_no_container_is_changed_and_no_pod_rejected() {
    let mut stage = stage(false);
    for uid in ["a-4", "b-9"] {
        stage
            .runtime
            .run_pod_sandbox(&sandbox_of(uid))
            .expect("not rejected");
        assert_eq!(stage.cpus(uid), "", "{uid}");
    }
    let pod = sandbox_of("a-4");
    let asked = LinuxResources::default().cpus("0-15");
    let update = stage
        .runtime
        .update_container(&pod, &container_of("a-4"), &asked);
    assert_eq!(update.expect("answered").update, []);
    let both = ["a-4", "b-9"];
    let synchronized = stage
        .runtime
        .synchronize(both.map(sandbox_of).into(), both.map(container_of).into());
    assert_eq!(synchronized.expect("answered"), []);
    assert!(stage.later.try_recv().is_err(), "no update is sent");
    let reported = stage.reported.0.lock().expect("unpoisoned").join("\n");
    assert_eq!(reported, "default/b-9", "the pod that would be rejected");
    // The decision is journaled nevertheless.
    let node = lock(&stage.runtime.node);
    assert_eq!(
        node.journaled()
            .ledger()
            .exclusive_cpus(&"a-4".into())
            .len(),
        4
    );
}

#[test]
fn removing_an_old_sandbox_does_not_release_the_pod_of_a_new_one() {
    let mut stage = stage(true);
    let old = sandbox_of("a-4");
    stage.runtime.run_pod_sandbox(&old).expect("admitted");
    stage.runtime.stop_pod_sandbox(&old).expect("stopped");
    let new = PodSandbox {
        id: "box-again".to_owned(),
        ..old.clone()
    };
    stage.runtime.run_pod_sandbox(&new).expect("admitted again");
    stage.runtime.remove_pod_sandbox(&old).expect("removed");
    let node = lock(&stage.runtime.node);
    assert!(node.has_pod(&"a-4".into()));
    assert!(node.has_sandbox_of(&"a-4".into()));
}

#[test]
fn a_resize_of_exclusive_cpus_is_rejected_with_a_reason_and_others_are_accepted() {
    let mut stage = stage(true);
    let wanted = |shares: u64| LinuxResources::default().cpu_shares(shares);
    let with_shares = |uid: &str, shares: u64| {
        let mut container = container_of(uid);
        container.linux = Some(LinuxContainer {
            resources: Some(wanted(shares)),
            ..LinuxContainer::default()
        });
        container
    };
    let (pod, container) = (sandbox_of("a-4"), with_shares("a-4", 4096));
    stage.runtime.run_pod_sandbox(&pod).expect("admitted");
    let created = stage.runtime.create_container(&pod, &container);
    created.expect("created");
    let same = stage
        .runtime
        .update_container(&pod, &container, &wanted(4096));
    assert_eq!(same.expect("unchanged").update.len(), 1);
    let more = stage
        .runtime
        .update_container(&pod, &container, &wanted(5120));
    let reason = more.expect_err("it would need a fifth CPU").to_string();
    assert!(
        reason.contains("container main has exclusive CPUs"),
        "{reason}"
    );
    let mut total = pod.clone();
    total.linux.get_or_insert_default().pod_resources = Some(wanted(4096));
    let known = lock(&stage.runtime.node)
        .resize_pod(&pod.id, &nri_convert::runtime_resources(&wanted(4096)));
    known.expect("the total was not known");
    let more = stage
        .runtime
        .update_pod_sandbox(&pod, &wanted(0), &wanted(5120));
    assert!(more.is_err());
    let reported = stage.reported.0.lock().expect("unpoisoned").join("\n");
    assert_eq!(reported, "resize of a-4 rejected\nresize of a-4 rejected");
    let shared = PodSandbox {
        linux: Some(LinuxPodSandbox {
            cgroup_parent: "/kubepods/burstable/podx".to_owned(),
            ..LinuxPodSandbox::default()
        }),
        ..sandbox_of("x")
    };
    let container = with_shares("x", 512);
    stage.runtime.run_pod_sandbox(&shared).expect("admitted");
    let created = stage.runtime.create_container(&shared, &container);
    created.expect("created");
    let more = stage
        .runtime
        .update_container(&shared, &container, &wanted(1024));
    assert_eq!(more.expect("accepted").update.len(), 1);
    let node = lock(&stage.runtime.node);
    assert_eq!(node.rejections(), 2);
    let exclusive = node.journaled().ledger().exclusive_cpus(&"a-4".into());
    assert_eq!(exclusive.len(), 4);
}

#[test]
fn a_container_of_a_sandbox_that_was_never_reported_is_admitted_with_its_pod() {
    let mut stage = stage(true);
    assert_eq!(stage.cpus("a-4"), "1-2,9-10");
    let node = lock(&stage.runtime.node);
    assert!(node.has_pod(&"a-4".into()));
}

#[test]
fn a_pod_that_started_before_the_agent_and_has_cpus_of_its_own_is_warned_about() {
    let mut stage = stage(true);
    let all = ["a-4", "b-9", "c-0"];
    let listed = stage
        .runtime
        .synchronize(all.map(sandbox_of).into(), all.map(container_of).into());
    listed.expect("answered");
    let reported = stage.reported.0.lock().expect("unpoisoned").join("\n");
    // The first is pinned now, the second does not fit, the third has no CPUs of its own.
    assert_eq!(
        reported,
        "default/a-4: StartedUnpinned\ndefault/b-9: StartedUnpinned"
    );
}

#[test]
fn a_container_whose_creation_the_agent_missed_is_warned_about_when_it_runs() {
    let mut stage = stage(true);
    let (pod, container) = (sandbox_of("a-9"), container_of("a-9"));
    let started = stage.runtime.post_start_container(&pod, &container);
    started.expect("it runs already");
    let reported = stage.reported.0.lock().expect("unpoisoned").join("\n");
    assert!(reported.contains("a-9: StartedUnpinned"), "{reported}");
}

#[test]
fn without_pinning_a_full_disk_rejects_nothing() {
    let mut stage = stage(false);
    lock(&stage.runtime.node)
        .journaled_mut()
        .fail_to_write(true);
    let (pod, container) = (sandbox_of("a-4"), container_of("a-4"));
    stage.runtime.run_pod_sandbox(&pod).expect("not rejected");
    let created = stage.runtime.create_container(&pod, &container);
    created.expect("not rejected");
    // Nor a container of a sandbox that the agent never saw.
    let created = stage
        .runtime
        .create_container(&sandbox_of("b-4"), &container_of("b-4"));
    created.expect("not rejected");
    // Nor one that is decided without its pod's spec.
    let (pod, container) = (sandbox_of("x"), container_of("x"));
    stage.runtime.run_pod_sandbox(&pod).expect("not rejected");
    let created = stage.runtime.create_container(&pod, &container);
    created.expect("not rejected");
}

#[test]
fn the_runtime_reports_updates_that_failed_unless_they_are_part_of_its_request() {
    let mut stage = stage(true);
    let both = ["a-4", "c-0"];
    let listed = stage
        .runtime
        .synchronize(both.map(sandbox_of).into(), both.map(container_of).into());
    let listed = listed.expect("answered");
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|update| update.ignore_failure));
    // The cgroup of a container is written directly if the runtime reports a failure.
    let queued: Vec<Update> = stage.later.try_iter().flatten().collect();
    assert_eq!(queued.len(), 1);
    assert!(!update(&queued[0]).ignore_failure);
}

#[test]
fn the_quota_of_an_adopted_pod_is_lifted_when_the_runtime_connects() {
    let mut stage = stage(true);
    let mut sandbox = sandbox_of("a-4");
    sandbox.pid = 4711;
    let synchronized = stage
        .runtime
        .synchronize(vec![sandbox], vec![container_of("a-4")]);
    assert_eq!(synchronized.expect("answered").len(), 1);
    // The thread that sends updates also removes the quota of the pod's cgroup, which the response cannot.
    let queued: Vec<Update> = stage.later.try_iter().flatten().collect();
    assert_eq!(queued.len(), 1, "{queued:?}");
    assert_eq!(queued[0].container, "a-4-main");
    assert_eq!(queued[0].allowance.quota, Quota::Unlimited);
}
