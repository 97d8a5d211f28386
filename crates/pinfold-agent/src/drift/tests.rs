use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_cgroup::Hierarchy;
use pinfold_kube::state::cpu::CpuStateFormat;
use tempfile::TempDir;

use super::*;
use crate::allowance::Quota;
use crate::cgroup_writer::CgroupWriter;

const GROUP: &str = "/kubepods/pod1/4f0c";

fn cpus(text: &str) -> CpuSet {
    text.parse().expect("a list of CPUs")
}

fn nodes(bits: u64) -> NodeSet {
    NodeSet::from_bits(bits)
}

fn limit(quota: u64) -> CpuTimeLimit {
    CpuTimeLimit {
        quota: Some(quota),
        period: 100_000,
    }
}

/// A container on CPUs 4 and 5 whose runtime specification has a quota of half a CPU.
fn watched() -> WatchedContainer {
    WatchedContainer {
        container: ContainerRef {
            id: "4f0c".into(),
            pod: "1".into(),
            name: "web".into(),
        },
        group: GroupPath::of_container(GROUP).expect("a path"),
        expected: Allowance {
            cpus: cpus("4-5"),
            mems: nodes(0b10),
            quota: Quota::Unlimited,
        },
        spec: RuntimeSpec {
            cpus: None,
            mems: None,
            cpu_time: Some(limit(50_000)),
        },
    }
}

/// The cgroup of that container without drift.
fn without_drift() -> ObservedCgroup {
    ObservedCgroup {
        state: CgroupState {
            cpus: cpus("4-5"),
            mems: nodes(0b10),
            effective_cpus: cpus("4-5"),
            effective_mems: nodes(0b10),
            cpu_time: Some(CpuTimeLimit::UNLIMITED),
        },
        pod_cpu_time: Some(CpuTimeLimit::UNLIMITED),
        narrow_ancestor: None,
    }
}

/// The kubelet's shared pool is CPUs 0 to 3; in its state the container has CPUs 6 and 7.
fn evidence() -> Evidence {
    let containers = BTreeMap::from([("web".into(), cpus("6-7"))]);
    Evidence {
        online: cpus("0-7"),
        kubelet: Some(CpuManagerState {
            policy: "static".to_owned(),
            default_cpus: cpus("0-3"),
            containers: BTreeMap::from([("1".into(), containers)]),
            ..CpuManagerState::default()
        }),
    }
}

fn with_cpus(given: &str, effective: &str) -> ObservedCgroup {
    let mut found = without_drift();
    found.state.cpus = cpus(given);
    found.state.effective_cpus = cpus(effective);
    found
}

fn cause(
    watched: &WatchedContainer,
    found: &ObservedCgroup,
    evidence: &Evidence,
) -> Option<DriftCause> {
    compare(watched, found, evidence).map(|drift| drift.cause)
}

#[test]
fn the_cause_of_a_cpu_change_is_derived_from_the_cgroup_values() {
    let mut asks = watched();
    asks.spec.cpus = Some(cpus("1-2"));
    let one_offline = Evidence {
        online: cpus("0-4,6-7"),
        ..evidence()
    };
    let both_offline = Evidence {
        online: cpus("0-3"),
        ..evidence()
    };
    let unknown = Evidence {
        kubelet: None,
        ..evidence()
    };
    let mut policy_none = evidence();
    if let Some(state) = &mut policy_none.kubelet {
        state.policy = "none".to_owned();
    }
    let mut narrowed = with_cpus("4-5", "5");
    narrowed.narrow_ancestor = Some(NarrowAncestor {
        path: GroupPath::parse("kubepods").expect("a path"),
        allows: cpus("0-3,5"),
        widenable: false,
    });
    let plain = watched();
    let table = [
        ("no drift", &plain, evidence(), without_drift(), None),
        (
            "the kubelet's shared pool",
            &plain,
            evidence(),
            with_cpus("0-3", "0-3"),
            Some(DriftCause::Kubelet),
        ),
        (
            "the kubelet's entry for the container",
            &plain,
            evidence(),
            with_cpus("6-7", "6-7"),
            Some(DriftCause::Kubelet),
        ),
        (
            "the kubelet's CPU manager is off",
            &plain,
            policy_none,
            with_cpus("0-3", "0-3"),
            Some(DriftCause::Other),
        ),
        (
            "no kubelet state",
            &plain,
            unknown,
            with_cpus("0-3", "0-3"),
            Some(DriftCause::Other),
        ),
        (
            "the specification",
            &asks,
            evidence(),
            with_cpus("1-2", "1-2"),
            Some(DriftCause::Runtime),
        ),
        (
            "no specification",
            &plain,
            evidence(),
            with_cpus("", "0-7"),
            Some(DriftCause::Runtime),
        ),
        (
            "anything else",
            &plain,
            evidence(),
            with_cpus("4", "4"),
            Some(DriftCause::Other),
        ),
        (
            "v1 removes an offline CPU",
            &plain,
            one_offline.clone(),
            with_cpus("4", "4"),
            Some(DriftCause::CpuOffline),
        ),
        (
            "v2 keeps it configured",
            &plain,
            one_offline.clone(),
            with_cpus("4-5", "4"),
            Some(DriftCause::CpuOffline),
        ),
        (
            "all are offline",
            &plain,
            both_offline,
            with_cpus("4-5", "0-3"),
            Some(DriftCause::CpuOffline),
        ),
        (
            "offline and changed",
            &plain,
            one_offline,
            with_cpus("0", "0"),
            Some(DriftCause::Other),
        ),
        (
            "a parent was narrowed",
            &plain,
            evidence(),
            narrowed,
            Some(DriftCause::NarrowAncestor),
        ),
    ];
    for (what, watched, evidence, found, expected) in table {
        assert_eq!(cause(watched, &found, &evidence), expected, "{what}");
    }
}

#[test]
fn memory_nodes_and_cpu_quotas_drift_too() {
    let mut elsewhere = without_drift();
    elsewhere.state.mems = nodes(0b1);
    elsewhere.state.effective_mems = nodes(0b1);
    assert_eq!(
        cause(&watched(), &elsewhere, &evidence()),
        Some(DriftCause::Other)
    );
    elsewhere.state.mems = NodeSet::default();
    assert_eq!(
        cause(&watched(), &elsewhere, &evidence()),
        Some(DriftCause::Runtime)
    );

    let mut throttled = without_drift();
    throttled.state.cpu_time = Some(limit(50_000));
    assert_eq!(
        cause(&watched(), &throttled, &evidence()),
        Some(DriftCause::Runtime)
    );
    throttled.state.cpu_time = Some(limit(60_000));
    assert_eq!(
        cause(&watched(), &throttled, &evidence()),
        Some(DriftCause::Other)
    );
    let mut pod = without_drift();
    pod.pod_cpu_time = Some(limit(50_000));
    assert_eq!(
        cause(&watched(), &pod, &evidence()),
        Some(DriftCause::PodLimit)
    );

    let mut as_asked = watched();
    as_asked.expected.quota = Quota::AsSpecified;
    assert_eq!(cause(&as_asked, &throttled, &evidence()), None);
}

#[test]
fn a_resource_that_the_allowance_does_not_set_cannot_drift() {
    let mut free = watched();
    free.expected = Allowance {
        cpus: CpuSet::new(),
        mems: NodeSet::default(),
        quota: Quota::AsSpecified,
    };
    assert_eq!(compare(&free, &with_cpus("0", "0"), &evidence()), None);
}

#[test]
fn the_text_of_a_drift_names_every_difference_and_the_cause() {
    let mut found = with_cpus("0-3", "0-3");
    found.state.effective_mems = nodes(0b1);
    found.pod_cpu_time = Some(limit(50_000));
    let drift = compare(&watched(), &found, &evidence()).expect("a drift");
    assert_eq!(
        drift.to_string(),
        "container web of pod 1: CPUs 0-3 instead of 4-5, memory of nodes 0 instead of 1, \
         a CPU quota instead of none; the kubelet wrote the state of its CPU manager"
    );
}

/// A directory with the files of a cgroup v1 machine and one container. Configured values are also the effective ones.
fn machine() -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    put(
        "proc/self/mountinfo",
        "1 0 0:1 / /cpuset rw - cgroup cgroup rw,cpuset\n2 0 0:2 / /cpu rw - cgroup cgroup rw,cpu\n",
    );
    put("sys/devices/system/cpu/online", "0-7\n");
    for group in ["", "/kubepods", "/kubepods/pod1", GROUP] {
        put(&format!("cpuset{group}/cpuset.cpus"), "0-7\n");
        put(&format!("cpuset{group}/cpuset.mems"), "0-1\n");
        put(&format!("cpu{group}/cpu.cfs_quota_us"), "50000\n");
        put(&format!("cpu{group}/cpu.cfs_period_us"), "100000\n");
        let folder = root.path().join(format!("cpuset{group}"));
        for (file, effective) in [
            ("cpuset.cpus", "cpuset.effective_cpus"),
            ("cpuset.mems", "cpuset.effective_mems"),
        ] {
            symlink(file, folder.join(effective)).expect("a link");
        }
    }
    root
}

fn overwrite(root: &Path, cpus: &str) {
    let file = root.join(format!("cpuset{GROUP}/cpuset.cpus"));
    fs::write(file, cpus).expect("a file");
}

fn writer(root: &TempDir) -> CgroupWriter {
    CgroupWriter::new(Hierarchy::find(root.path()).expect("v1"), None)
}

fn outcomes(scan: &DriftScan) -> Vec<&RepairOutcome> {
    scan.drifts.iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn drift_is_repaired_and_counted() {
    let root = machine();
    let writer = writer(&root);
    let mut monitor = DriftMonitor::default();
    let containers = [watched()];
    let now = Instant::now();
    let scan = monitor.scan(&writer, &NoRuntime, &containers, &evidence(), now);
    assert!(
        matches!(outcomes(&scan)[..], [RepairOutcome::Repaired]),
        "{scan:?}"
    );
    let read = |path: &str| fs::read_to_string(root.path().join(path)).expect("a file");
    assert_eq!(read(&format!("cpuset{GROUP}/cpuset.cpus")), "4-5\n");
    assert_eq!(read(&format!("cpuset{GROUP}/cpuset.mems")), "1\n");
    for group in [GROUP, "/kubepods/pod1"] {
        assert_eq!(
            read(&format!("cpu{group}/cpu.cfs_quota_us")),
            "-1\n",
            "{group}"
        );
    }
    assert_eq!(read("cpu/kubepods/cpu.cfs_quota_us"), "50000\n");

    let quiet = monitor.scan(&writer, &NoRuntime, &containers, &evidence(), now);
    assert!(
        quiet.drifts.is_empty() && quiet.unreadable.is_empty(),
        "{quiet:?}"
    );

    overwrite(root.path(), "0-3");
    monitor.scan(&writer, &NoRuntime, &containers, &evidence(), now);
    let counters = monitor.counters(DriftCause::Kubelet);
    assert_eq!(
        (counters.drifted, counters.repaired, counters.failed),
        (1, 1, 0)
    );
}

#[test]
fn a_container_whose_allowance_has_just_changed_is_not_repaired() {
    let root = machine();
    let writer = writer(&root);
    let mut monitor = DriftMonitor::default();
    let (containers, now) = ([watched()], Instant::now());
    overwrite(root.path(), "0-3");
    let runtime = PlayedRuntime::default();
    let scan = monitor.scan(&writer, &runtime, &containers, &evidence(), now);
    assert!(scan.drifts.is_empty(), "{scan:?}");
    assert_eq!(
        monitor.counters(DriftCause::Kubelet),
        DriftCounters::default()
    );
    let path = root.path().join(format!("cpuset{GROUP}/cpuset.cpus"));
    let found = fs::read_to_string(path).expect("a file");
    assert_eq!(found.trim(), "0-3", "nothing is written");
    let scan = monitor.scan(&writer, &NoRuntime, &containers, &evidence(), now);
    assert!(
        matches!(outcomes(&scan)[..], [RepairOutcome::Repaired]),
        "{scan:?}"
    );
}

/// A runtime that sets the CPUs `applies` in the container's cgroup when it gets an update.
#[derive(Default)]
struct PlayedRuntime {
    is_settled: bool,
    applies: Option<(PathBuf, &'static str)>,
    updates: RefCell<Vec<ContainerRef>>,
}

impl RuntimeUpdates for PlayedRuntime {
    fn is_settled(&self, _: &WatchedContainer) -> bool {
        self.is_settled
    }

    fn update(&self, watched: &WatchedContainer) -> bool {
        self.updates.borrow_mut().push(watched.container.clone());
        if let Some((root, cpus)) = &self.applies {
            overwrite(root, cpus);
            fs::write(root.join(format!("cpuset{GROUP}/cpuset.mems")), "1").expect("a file");
            let quota = root.join(format!("cpu{GROUP}/cpu.cfs_quota_us"));
            fs::write(quota, "-1").expect("a file");
        }
        self.applies.is_some()
    }
}

#[test]
fn drift_is_repaired_by_the_runtime_and_directly_only_if_that_does_not_help() {
    for applies in [Some("4-5"), Some("0-3"), None] {
        let root = machine();
        let writer = writer(&root);
        let runtime = PlayedRuntime {
            is_settled: true,
            applies: applies.map(|cpus| (root.path().to_owned(), cpus)),
            updates: RefCell::default(),
        };
        let file = root.path().join(format!("cpuset{GROUP}/cpuset.cpus"));
        let mut monitor = DriftMonitor::default();
        let scan = monitor.scan(&writer, &runtime, &[watched()], &evidence(), Instant::now());
        assert!(
            matches!(outcomes(&scan)[..], [RepairOutcome::Repaired]),
            "{applies:?}: {scan:?}"
        );
        assert_eq!(runtime.updates.borrow().len(), 1, "{applies:?}");
        let found = fs::read_to_string(&file).expect("a file");
        // A direct write ends with a line break, that of the played runtime does not.
        let expected = match applies {
            Some("4-5") => "4-5",
            _ => "4-5\n",
        };
        assert_eq!(found, expected, "{applies:?}");
        let pod = root.path().join("cpu/kubepods/pod1/cpu.cfs_quota_us");
        let quota = fs::read_to_string(pod).expect("a file");
        assert_eq!(quota.trim(), "-1", "{applies:?}: the pod's quota");
    }
}

#[test]
fn a_vanished_cgroup_is_reported_as_gone_and_not_as_unreadable() {
    let root = machine();
    let writer = writer(&root);
    fs::remove_dir_all(root.path().join(format!("cpuset{GROUP}"))).expect("it can go");
    let scan = DriftMonitor::default().scan(
        &writer,
        &NoRuntime,
        &[watched()],
        &evidence(),
        Instant::now(),
    );
    assert_eq!(scan.gone, [watched().container]);
    assert!(scan.unreadable.is_empty() && scan.drifts.is_empty());
}

#[test]
fn an_offline_cpu_is_counted_once_and_not_repaired() {
    let root = machine();
    let writer = writer(&root);
    let mut monitor = DriftMonitor::default();
    let now = Instant::now();
    monitor.scan(&writer, &NoRuntime, &[watched()], &evidence(), now);
    overwrite(root.path(), "4");
    let offline = Evidence {
        online: cpus("0-4"),
        ..evidence()
    };
    for _ in 0..3 {
        let scan = monitor.scan(&writer, &NoRuntime, &[watched()], &offline, now);
        assert!(
            matches!(outcomes(&scan)[..], [RepairOutcome::NotRepairable]),
            "{scan:?}"
        );
    }
    assert_eq!(monitor.counters(DriftCause::CpuOffline).drifted, 1);
    // The CPU is online again; v1 does not add it to the cgroup by itself.
    let scan = monitor.scan(&writer, &NoRuntime, &[watched()], &evidence(), now);
    assert!(
        matches!(outcomes(&scan)[..], [RepairOutcome::Repaired]),
        "{scan:?}"
    );
}

#[test]
fn an_ancestor_that_allows_fewer_cpus_is_the_cause_and_only_one_of_the_kubelet_is_widened() {
    for (group, repairable) in [("kubepods", false), ("kubepods/pod1", true)] {
        let root = machine();
        let above = root.path().join(format!("cpuset/{group}/cpuset.cpus"));
        fs::write(&above, "0-3").expect("a file");
        let mut monitor = DriftMonitor::default();
        let now = Instant::now();
        let scan = monitor.scan(&writer(&root), &NoRuntime, &[watched()], &evidence(), now);
        let (drift, outcome) = &scan.drifts[0];
        assert_eq!(drift.cause, DriftCause::NarrowAncestor, "{group}");
        assert!(drift.has_other_cpus());
        let text = drift.to_string();
        let culprit = format!("/{group} allows CPUs 0-3 only: widen it, or reserve CPUs 4-5");
        assert!(text.contains(&culprit), "{text}");
        match repairable {
            true => assert!(matches!(outcome, RepairOutcome::Repaired), "{scan:?}"),
            false => assert!(matches!(outcome, RepairOutcome::NotRepairable), "{scan:?}"),
        }
        let allowed = fs::read_to_string(&above).expect("a file");
        let expected = if repairable { "0-5" } else { "0-3" };
        assert_eq!(allowed.trim(), expected, "{group}");
    }
}

#[test]
fn a_failed_repair_is_reported_with_its_error() {
    let root = machine();
    fs::write(root.path().join("cpuset/kubepods/cpuset.mems"), "0").expect("a file");
    let mut monitor = DriftMonitor::default();
    let scan = monitor.scan(
        &writer(&root),
        &NoRuntime,
        &[watched()],
        &evidence(),
        Instant::now(),
    );
    let error = match outcomes(&scan)[..] {
        [RepairOutcome::Failed(error)] => error.to_string(),
        _ => panic!("{scan:?}"),
    };
    assert!(error.contains("lacks 1"), "{error}");
    let failed: u64 = DriftCause::ALL
        .map(|cause| monitor.counters(cause).failed)
        .iter()
        .sum();
    assert_eq!(failed, 1);
}

#[test]
fn a_conflict_is_reported_and_the_pauses_between_repairs_double_until_it_ends() {
    let root = machine();
    let writer = writer(&root);
    let limits = RepairLimits {
        repairs: 3,
        within: Duration::from_secs(120),
        first_pause: Duration::from_secs(60),
        longest_pause: Duration::from_secs(200),
    };
    let mut monitor = DriftMonitor::new(limits, None);
    let start = Instant::now();
    let mut repairs = Vec::new();
    let mut conflicts = Vec::new();
    // The kubelet overwrites every 10 seconds, for 15 minutes.
    for second in (0..900).step_by(10) {
        overwrite(root.path(), "0-3");
        let now = start + Duration::from_secs(second);
        let scan = monitor.scan(&writer, &NoRuntime, &[watched()], &evidence(), now);
        match outcomes(&scan)[..] {
            [RepairOutcome::Repaired] => repairs.push(second),
            [RepairOutcome::BackedOff(until)] => assert!(*until > now),
            _ => panic!("{scan:?}"),
        }
        conflicts.extend(
            scan.conflicts
                .iter()
                .map(|conflict| (second, conflict.repairs)),
        );
    }
    assert_eq!(repairs, [0, 10, 20, 80, 200, 400, 600, 800]);
    assert_eq!(
        conflicts,
        [(20, 3), (80, 4), (200, 5), (400, 6), (600, 7), (800, 8)]
    );
    assert_eq!(monitor.conflicts(), 1);
    let counters = monitor.counters(DriftCause::Kubelet);
    let repaired = counters.repaired + monitor.counters(DriftCause::Other).repaired;
    assert_eq!(repaired, 8);
    assert_eq!(counters.backed_off, 90 - 8);

    overwrite(root.path(), "4-5");
    for (second, conflicts) in [(900, 1), (1000, 1), (1001, 0)] {
        let now = start + Duration::from_secs(second);
        monitor.scan(&writer, &NoRuntime, &[watched()], &evidence(), now);
        assert_eq!(monitor.conflicts(), conflicts, "after {second} seconds");
    }
}

#[test]
fn rare_repairs_are_no_conflict_and_history_of_removed_containers_is_dropped() {
    let root = machine();
    let writer = writer(&root);
    let mut monitor = DriftMonitor::default();
    let start = Instant::now();
    for minute in 0..10 {
        overwrite(root.path(), "0-3");
        let now = start + Duration::from_secs(minute * 61);
        let scan = monitor.scan(&writer, &NoRuntime, &[watched()], &evidence(), now);
        assert!(scan.conflicts.is_empty(), "minute {minute}");
    }
    for _ in 0..3 {
        overwrite(root.path(), "0-3");
        monitor.scan(
            &writer,
            &NoRuntime,
            &[watched()],
            &evidence(),
            start + Duration::from_secs(601),
        );
    }
    assert_eq!(monitor.conflicts(), 1);
    monitor.scan(
        &writer,
        &NoRuntime,
        &[],
        &evidence(),
        start + Duration::from_secs(602),
    );
    assert_eq!(monitor.conflicts(), 0);
}

#[test]
fn evidence_is_read_from_sysfs_and_cpu_manager_state() {
    let root = machine();
    let file = root.path().join("cpu_manager_state");
    let gathered = Evidence::gather(root.path(), &file).expect("CPUs are online");
    assert_eq!(gathered.kubelet, None);
    let state = evidence().kubelet.expect("a state");
    for format in [CpuStateFormat::V2, CpuStateFormat::V3, CpuStateFormat::V4] {
        fs::write(&file, state.write(format)).expect("a file");
        let gathered = Evidence::gather(root.path(), &file).expect("CPUs are online");
        assert_eq!(gathered, evidence(), "{format:?}");
    }
    fs::write(&file, "{").expect("a file");
    let torn = Evidence::gather(root.path(), &file).expect("CPUs are online");
    assert_eq!(torn.kubelet, None);
}
