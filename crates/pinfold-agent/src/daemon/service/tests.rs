use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use std::time::Duration;

use nri::{Identity, Runner};
use pinfold_core::cpu_set::CpuSet;
use pinfold_journal::JournalLimits;

use super::*;
use crate::journaled_ledger::JournaledLedger;
use crate::kubernetes::WatchedNode;
use crate::node::{KubeletPins, Rulebook, UnknownContainers};

/// The service of an agent on this machine, with a journal in `folder` and a runtime that is not connected, or none.
pub(in crate::daemon) fn service(folder: &Path, with_runtime: bool) -> Arc<Service> {
    let mut config = AgentConfig::default();
    if !with_runtime {
        config.runtime.nri_socket = None;
    }
    let machine = LocalMachine::detect().expect("this machine");
    let rules = machine.rules(&config).expect("built-in settings");
    let journaled = JournaledLedger::open(folder, rules, JournalLimits::default());
    let node = ManagedNode::new(
        journaled.expect("a journal"),
        Rulebook::Kubelet,
        UnknownContainers::Adopt,
        KubeletPins::default(),
    );
    let (changed, _) = sync_channel(1);
    let (updates, _) = sync_channel(1);
    let identity = Identity::new("pinfold", 10).expect("a name and an index");
    let metrics = Arc::new(crate::metrics::registry());
    Arc::new(Service {
        node: Arc::new(Mutex::new(node)),
        name: "worker-1".to_owned(),
        config,
        machine: Mutex::new(machine),
        telemetry: Arc::new(NodeTelemetry::new(metrics, None, changed)),
        handle: with_runtime.then(|| Runner::new(identity).handle()),
        devices: None,
        writer: None,
        updates,
        pod_resources: None,
        kubelet_policy: Mutex::default(),
        own_node: Mutex::default(),
        cluster: None,
        journal_read_lock: Mutex::default(),
        counter_totals: Mutex::default(),
        journal_problem: Mutex::default(),
    })
}

#[test]
fn the_agent_is_ready_exactly_while_it_has_no_problem_and_names_the_first_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path(), false);
    assert_eq!(service.readiness().reason, "AgentReady");
    assert!(service.readiness().ready);
    let problem = Some("cgroup of web is overwritten".to_owned());
    service.telemetry.problem("CgroupConflict", problem);
    let conflict = service.readiness();
    assert_eq!((conflict.ready, conflict.reason), (false, "CgroupConflict"));
    assert_eq!(conflict.message, "cgroup of web is overwritten");
    service.telemetry.problem("CgroupConflict", None);
    assert!(service.readiness().ready);
    let metrics = crate::metrics::registry();
    service.update_gauges(&metrics);
    let text = metrics.expose();
    assert!(text.contains("\npinfold_ready 1\n"), "{text}");
    assert!(
        text.contains("\npinfold_journal_write_failed 0\n"),
        "{text}"
    );
    assert!(!text.contains("\npinfold_nri_connected"), "{text}");
}

#[test]
fn an_agent_without_its_runtime_is_not_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path(), true);
    let lost = service.readiness();
    assert_eq!((lost.ready, lost.reason), (false, "RuntimeDisconnected"));
    let metrics = crate::metrics::registry();
    service.update_gauges(&metrics);
    let text = metrics.expose();
    assert!(text.contains("\npinfold_ready 0\n"), "{text}");
    assert!(text.contains("\npinfold_nri_connected 0\n"), "{text}");
}

#[test]
fn probes_answer_while_a_decision_is_made_and_the_watchdog_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path(), false);
    assert!(service.is_live());
    let deciding = lock(&service.node);
    let (answers, answered) = channel();
    let probed = service.clone();
    thread::spawn(move || answers.send((probed.health(), probed.is_live())));
    let answer = answered.recv_timeout(Duration::from_secs(60));
    drop(deciding);
    let (health, is_live) = answer.expect("a probe waits for no decision");
    assert_eq!(health, Health::default());
    assert!(!is_live, "a decision that never ends is a deadlock");
}

#[test]
fn a_process_is_in_its_cgroup_and_in_all_above() {
    let groups = "12:cpuset:/system.slice\n0::/system.slice/agent.service\n";
    for (group, expected) in [
        ("system.slice", true),
        ("system.slice/agent.service", true),
        ("system.slice/agent", false),
        ("system.slice/agent.service/below", false),
        ("kubepods.slice", false),
    ] {
        let path = GroupPath::parse(group).expect("a path");
        assert_eq!(is_in(groups, &path), expected, "{group}");
    }
}

#[test]
fn a_report_is_held_back_until_the_node_is_known_and_has_the_cpus_that_it_reserves() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path(), false);
    let mut service = Arc::into_inner(service).expect("the only one");
    service.config.state_directory = folder.path().to_owned();
    service.cluster = Some((OtherWriters::default(), Publisher::default()));
    assert!(service.report(&service.snapshot()).is_none());
    let node = serde_json::json!({ "metadata": { "name": "worker-1", "annotations": {
        "node.koordinator.sh/reservation": "{\"reservedCPUs\":\"0\"}",
    } } });
    service.apply_node(&WatchedNode::read(&node).expect("a Node"));
    let report = service.report(&service.snapshot()).expect("a report");
    let text = format!("{:?}", report.objects);
    assert!(text.contains(r#"\"reservedCPUs\":\"0\""#), "{text}");
    let kept = std::fs::read_to_string(folder.path().join("node.json"));
    assert!(
        kept.expect("kept for the next start")
            .contains("reservedCPUs")
    );
}

#[test]
#[ignore = "starts a process, which has the locks of other tests' journals until its program runs: .ci/run runs it alone"]
fn a_process_has_the_affinity_back_that_it_had_before_its_pod_was_released() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path(), false);
    let online = lock(&service.node)
        .journaled()
        .ledger()
        .rules()
        .machine()
        .online()
        .clone();
    let mut child = std::process::Command::new("sleep")
        .arg("1000")
        .spawn()
        .expect("a process");
    let allowed = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("it runs");
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.expect("a list")
            .trim()
            .parse::<CpuSet>()
            .expect("CPUs")
    };
    let own: CpuSet = online.iter().take(1).collect();
    let process = pinfold_standalone::process::Process::find(child.id()).expect("it runs");
    confine_process(process, &own).expect("confined");
    let pod = br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job", "uid": "job"},
        "spec": {"containers": [{"name": "main"}]}}"#;
    service.admit(pod).expect("admitted");
    let target = PinTarget {
        container: None,
        pid: Some(child.id()),
        cgroup: None,
    };
    service.pin(&"job".into(), &target).expect("pinned");
    let pinned = allowed();
    service.release(&"job".into()).expect("released");
    let released = allowed();
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(pinned, online, "the shared pool");
    assert_eq!(released, own);
}
