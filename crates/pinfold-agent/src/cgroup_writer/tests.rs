use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use pinfold_core::node_set::NodeSet;
use tempfile::TempDir;

use super::*;

const SLICE: &str = "kubepods-pod1.slice";
const SCOPE: &str = "cri-containerd-4f0c.scope";

/// A systemd that records the properties it gets.
#[derive(Debug, Default)]
struct PlayedSystemd {
    set: Mutex<Vec<(String, UnitProperties)>>,
    calls: AtomicUsize,
    fails: bool,
}

impl UnitManager for PlayedSystemd {
    fn set_properties(&self, unit: &str, properties: &UnitProperties) -> Result<(), SystemdError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err(SystemdError::Bus {
                socket: "/run/bus".into(),
                error: "no answer in time".to_owned(),
            });
        }
        let mut set = self.set.lock().expect("no test panicked");
        set.push((unit.to_owned(), properties.clone()));
        Ok(())
    }
}

/// A machine with cpusets in cgroup v2 whose pod slice has a quota of two CPUs. Quotas are in v1: a write to the file of v2
/// changes only a part of its content, which no ordinary file does.
fn machine() -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    put(
        "proc/self/mountinfo",
        "2 0 0:2 / /cpu rw - cgroup cgroup rw,cpu\n3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n",
    );
    put("cg/cgroup.controllers", "cpuset\n");
    for group in ["kubepods.slice".to_owned(), slice(), scope()] {
        put(&format!("cg/{group}/cpuset.cpus"), "\n");
        put(&format!("cg/{group}/cpuset.mems"), "\n");
        // What the kernel applies in the end.
        put(&format!("cg/{group}/cpuset.cpus.effective"), "2-3\n");
        put(&format!("cg/{group}/cpuset.mems.effective"), "1\n");
        put(&format!("cpu/{group}/cpu.cfs_quota_us"), "200000\n");
        put(&format!("cpu/{group}/cpu.cfs_period_us"), "100000\n");
    }
    root
}

fn slice() -> String {
    format!("kubepods.slice/{SLICE}")
}

fn scope() -> String {
    format!("{}/{SCOPE}", slice())
}

fn own_cpus() -> Allowance {
    Allowance {
        cpus: "2-3".parse().expect("CPUs"),
        mems: NodeSet::from_bits(0b10),
        quota: Quota::Unlimited,
    }
}

fn writer(root: &TempDir, systemd: &Arc<PlayedSystemd>) -> CgroupWriter {
    let hierarchy = Hierarchy::find(root.path()).expect("v2");
    CgroupWriter::new(hierarchy, Some(systemd.clone()))
}

fn read(root: &TempDir, path: &str) -> String {
    let text = fs::read_to_string(root.path().join(path));
    text.expect("a file").trim().to_owned()
}

fn cpus(root: &TempDir, group: &str) -> String {
    read(root, &format!("cg/{group}/cpuset.cpus"))
}

fn quota(root: &TempDir, group: &str) -> String {
    read(root, &format!("cpu/{group}/cpu.cfs_quota_us"))
}

fn units(systemd: &PlayedSystemd) -> Vec<(String, UnitProperties)> {
    systemd.set.lock().expect("no test panicked").clone()
}

#[test]
fn systemd_gets_the_cpus_of_a_scope_and_the_quota_of_the_pods_slice() {
    let (root, systemd) = (machine(), Arc::new(PlayedSystemd::default()));
    let group = GroupPath::parse(&scope()).expect("a path");
    let online = "0-3".parse().expect("CPUs");
    let written = writer(&root, &systemd).enforce(&group, &own_cpus(), &online, None);
    written.expect("written");
    let unlimited = Some(CpuTimeLimit::UNLIMITED);
    let expected = [
        (
            SCOPE.to_owned(),
            UnitProperties {
                allowed_cpus: Some("2-3".parse().expect("CPUs")),
                allowed_memory_nodes: Some(NodeSet::from_bits(0b10)),
                cpu_quota: unlimited,
            },
        ),
        (
            SLICE.to_owned(),
            UnitProperties {
                cpu_quota: unlimited,
                ..UnitProperties::default()
            },
        ),
    ];
    assert_eq!(units(&systemd), expected);
    assert_eq!(cpus(&root, &scope()), "2-3");
    for group in [scope(), slice()] {
        assert_eq!(quota(&root, &group), "-1", "{group}");
    }
    assert_eq!(quota(&root, "kubepods.slice"), "200000");
}

#[test]
fn the_quota_of_a_pod_is_lifted_only_for_exclusive_cpus_and_kept_in_its_container() {
    let (root, systemd) = (machine(), Arc::new(PlayedSystemd::default()));
    let writer = writer(&root, &systemd);
    let group = GroupPath::parse(&scope()).expect("a path");
    let shared = Allowance {
        quota: Quota::AsSpecified,
        ..own_cpus()
    };
    writer.lift_pod_quota(&group, &shared).expect("nothing");
    assert_eq!(units(&systemd), []);
    writer.lift_pod_quota(&group, &own_cpus()).expect("lifted");
    let lifted: Vec<String> = units(&systemd).into_iter().map(|(unit, _)| unit).collect();
    assert_eq!(lifted, [SLICE]);
    assert_eq!(quota(&root, &slice()), "-1");
    let own = quota(&root, &scope());
    assert_eq!(own, "200000", "the runtime sets that of the scope");
}

#[test]
fn a_slice_of_the_kubelet_that_lacks_cpus_is_widened_through_systemd() {
    let (root, systemd) = (machine(), Arc::new(PlayedSystemd::default()));
    let file = root.path().join(format!("cg/{}/cpuset.cpus", slice()));
    fs::write(&file, "0-1\n").expect("a file");
    let group = GroupPath::parse(&scope()).expect("a path");
    let online = "0-3".parse().expect("CPUs");
    let written = writer(&root, &systemd).enforce(&group, &own_cpus(), &online, None);
    written.expect("written");
    let (unit, properties) = units(&systemd).into_iter().next().expect("a unit");
    assert_eq!(unit, SLICE);
    let cpus = properties.allowed_cpus.expect("CPUs").to_string();
    assert_eq!(cpus, "0-3");
    assert_eq!(self::cpus(&root, &slice()), "0-3");
}

#[test]
fn without_systemd_cgroups_are_written_directly_and_the_reason_is_kept_until_it_answers() {
    let root = machine();
    let systemd = Arc::new(PlayedSystemd {
        fails: true,
        ..PlayedSystemd::default()
    });
    let writer = writer(&root, &systemd);
    let group = GroupPath::parse(&scope()).expect("a path");
    writer.lift_pod_quota(&group, &own_cpus()).expect("lifted");
    assert_eq!(quota(&root, &slice()), "-1");
    let error = writer.systemd_error().expect("a problem");
    assert!(error.contains("which systemd may undo"), "{error}");

    let groupfs = GroupPath::parse("kubepods/pod1/4f0c").expect("a path");
    let lifted = writer.lift_pod_quota(&groupfs, &own_cpus());
    assert!(lifted.is_err_and(|error| error.is_vanished()), "it ended");
    assert!(writer.systemd_error().is_some(), "no unit, no call");
}

#[test]
fn a_bus_that_does_not_answer_is_waited_for_once_and_not_for_every_container() {
    let root = machine();
    let systemd = Arc::new(PlayedSystemd {
        fails: true,
        ..PlayedSystemd::default()
    });
    let writer = writer(&root, &systemd);
    let group = GroupPath::parse(&scope()).expect("a path");
    for _ in 0..3 {
        writer.lift_pod_quota(&group, &own_cpus()).expect("lifted");
    }
    assert_eq!(systemd.calls.load(Ordering::Relaxed), 1);
    assert!(writer.systemd_error().is_some());
    writer.last_answer().paused_until = Some(Instant::now());
    writer.lift_pod_quota(&group, &own_cpus()).expect("lifted");
    assert_eq!(systemd.calls.load(Ordering::Relaxed), 2, "after the pause");
}

#[test]
fn a_released_cgroup_gets_the_cpus_of_its_parent() {
    let (root, systemd) = (machine(), Arc::new(PlayedSystemd::default()));
    let file = |name: &str| root.path().join(format!("cg/{}/{name}", slice()));
    fs::write(file("cpuset.cpus.effective"), "0-7\n").expect("a file");
    fs::write(file("cpuset.mems.effective"), "0-1\n").expect("a file");
    let own = root.path().join(format!("cg/{}/cpuset.cpus", scope()));
    fs::write(&own, "2-3\n").expect("a file");
    let group = GroupPath::parse(&scope()).expect("a path");
    writer(&root, &systemd).release(&group).expect("released");
    assert_eq!(cpus(&root, &scope()), "0-7");
    let (unit, properties) = units(&systemd).into_iter().next().expect("a unit");
    assert_eq!(unit, SCOPE);
    assert_eq!(properties.allowed_cpus.expect("CPUs").to_string(), "0-7");
}
