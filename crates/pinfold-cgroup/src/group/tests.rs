use std::fs;

use tempfile::TempDir;

use super::*;

const POD: &str = "/kubepods/burstable/pod12-ab";
const CONTAINER: &str = "/kubepods/burstable/pod12-ab/4f0c";
const SECOND: &str = "/kubepods/burstable/pod12-ab/5a1d";

fn cpus(text: &str) -> CpuSet {
    text.parse().expect("a list of CPUs")
}

fn wanted(text: &str) -> CgroupSettings {
    CgroupSettings {
        cpus: Some(cpus(text)),
        ..CgroupSettings::default()
    }
}

/// A folder that stands for a machine: its groups with their configured CPUs.
struct Machine {
    root: TempDir,
    version: CgroupVersion,
}

impl Machine {
    fn new(version: CgroupVersion) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let mounts = match version {
            CgroupVersion::V1 => {
                "1 0 0:1 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n\
                 2 0 0:2 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 3 0 0:3 / /cg/unified rw - cgroup2 cgroup2 rw\n"
            }
            CgroupVersion::V2 => "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n",
        };
        let machine = Self { root, version };
        machine.put("proc/self/mountinfo", mounts);
        match version {
            CgroupVersion::V1 => machine.put("cg/unified/cgroup.controllers", "hugetlb\n"),
            CgroupVersion::V2 => machine.put("cg/cgroup.controllers", "cpuset cpu memory\n"),
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn get(&self, path: &str) -> String {
        let text = fs::read_to_string(self.root.path().join(path));
        text.expect("a file").trim().to_owned()
    }

    fn cpuset(&self, group: &str, file: &str) -> String {
        let mount = match self.version {
            CgroupVersion::V1 => "cg/cpuset",
            CgroupVersion::V2 => "cg",
        };
        format!("{mount}{}/{file}", group.trim_end_matches('/'))
    }

    fn group(&self, group: &str, cpus: &str) {
        self.put(&self.cpuset(group, "cpuset.cpus"), &format!("{cpus}\n"));
        self.put(&self.cpuset(group, "cpuset.mems"), "0-1\n");
        let (effective_cpus, effective_mems) =
            (self.version.effective_cpus(), self.version.effective_mems());
        self.put(&self.cpuset(group, effective_cpus), &format!("{cpus}\n"));
        self.put(&self.cpuset(group, effective_mems), "0-1\n");
        match self.version {
            CgroupVersion::V1 => {
                self.put(&format!("cg/cpu{group}/cpu.cfs_quota_us"), "200000\n");
                self.put(&format!("cg/cpu{group}/cpu.cfs_period_us"), "100000\n");
            }
            CgroupVersion::V2 => self.put(&self.cpuset(group, "cpu.max"), "200000 100000\n"),
        }
    }

    fn hierarchy(&self) -> Hierarchy {
        Hierarchy::find(self.root.path()).expect("a hierarchy")
    }

    fn pods(&self) {
        self.group("/", "0-7");
        for group in ["/kubepods", "/kubepods/burstable"] {
            self.group(group, "0-7");
        }
        self.group(POD, "0-3");
        self.group(CONTAINER, "0-1");
    }
}

fn path(text: &str) -> GroupPath {
    GroupPath::of_container(text).expect("a path")
}

const BOTH: [CgroupVersion; 2] = [CgroupVersion::V1, CgroupVersion::V2];

#[test]
fn controllers_are_found_in_v1_v2_and_in_a_mixture() {
    let v1 = Machine::new(CgroupVersion::V1).hierarchy();
    assert_eq!(v1.cpuset.version, CgroupVersion::V1);
    assert_eq!(v1.cpu.map(|home| home.version), Some(CgroupVersion::V1));
    let v2 = Machine::new(CgroupVersion::V2).hierarchy();
    assert_eq!(v2.cpuset.version, CgroupVersion::V2);
    assert_eq!(v2.cpu.map(|home| home.version), Some(CgroupVersion::V2));

    let mixed = Machine::new(CgroupVersion::V2);
    mixed.put(
        "proc/self/mountinfo",
        "1 0 0:1 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n\
         2 0 0:2 / /cg/unified rw - cgroup2 cgroup2 rw\n",
    );
    mixed.put("cg/unified/cgroup.controllers", "cpu memory\n");
    let mixed = mixed.hierarchy();
    assert_eq!(mixed.cpuset.version, CgroupVersion::V1);
    assert_eq!(mixed.cpu.map(|home| home.version), Some(CgroupVersion::V2));

    let none = Machine::new(CgroupVersion::V2);
    none.put("cg/cgroup.controllers", "cpu memory\n");
    let missing = Hierarchy::find(none.root.path());
    assert!(matches!(
        missing,
        Err(CgroupError::NoCpuset { unified: Some(_) })
    ));
}

#[test]
fn a_group_is_read_in_both_versions() {
    for version in BOTH {
        let machine = Machine::new(version);
        machine.pods();
        let hierarchy = machine.hierarchy();
        let group = hierarchy.group(&path(CONTAINER)).expect("a group");
        assert!(group.exists());
        let state = group.read().expect("its state");
        assert_eq!(
            (&state.cpus, &state.effective_cpus),
            (&cpus("0-1"), &cpus("0-1"))
        );
        assert_eq!(state.effective_mems.to_string(), "0-1");
        let limit = state.cpu_time.expect("a limit");
        assert_eq!((limit.quota, limit.period), (Some(200_000), 100_000));
    }
}

#[test]
fn ancestors_of_the_kubelet_are_widened_and_reported() {
    for version in BOTH {
        let machine = Machine::new(version);
        machine.pods();
        let hierarchy = machine.hierarchy();
        let group = hierarchy.group(&path(CONTAINER)).expect("a group");
        let written = group.write(&wanted("5-6")).expect("it can be widened");
        assert_eq!(written.state.cpus, cpus("5-6"));
        assert_eq!(machine.get(&machine.cpuset(POD, "cpuset.cpus")), "0-3,5-6");
        assert_eq!(
            machine.get(&machine.cpuset("/kubepods", "cpuset.cpus")),
            "0-7"
        );
        let pod = hierarchy.cpuset.folder(&path(POD)).expect("a folder");
        assert_eq!(written.widened, [pod]);
        // No kernel applies the write here, so the effective CPUs are still the old ones, which is an error.
        let short = written.verify_applied(&wanted("5-6"));
        assert!(
            matches!(short, Err(CgroupError::NotApplied { .. })),
            "{short:?}"
        );
    }
}

#[test]
fn kubepods_is_not_widened_and_nothing_is_written() {
    for version in BOTH {
        let machine = Machine::new(version);
        machine.pods();
        machine.group("/kubepods", "0-3");
        machine.group("/kubepods/burstable", "0-3");
        let hierarchy = machine.hierarchy();
        let group = hierarchy.group(&path(CONTAINER)).expect("a group");
        match group.write(&wanted("3-4")) {
            Err(CgroupError::ParentTooNarrow {
                allows,
                lacks,
                path,
            }) => {
                assert_eq!((allows.as_str(), lacks.as_str()), ("0-3", "4"));
                assert!(path.ends_with("kubepods/cpuset.cpus"), "{path:?}");
            }
            other => panic!("{version}: {other:?}"),
        }
        assert_eq!(
            machine.get(&machine.cpuset(CONTAINER, "cpuset.cpus")),
            "0-1"
        );
        assert_eq!(machine.get(&machine.cpuset(POD, "cpuset.cpus")), "0-3");
    }
}

#[test]
fn a_limit_on_cpu_time_is_lifted_and_nothing_else_is_touched() {
    for version in BOTH {
        let machine = Machine::new(version);
        machine.pods();
        let hierarchy = machine.hierarchy();
        let group = hierarchy.group(&path(CONTAINER)).expect("a group");
        let lift = CgroupSettings {
            cpu_time: Some(CpuTimeLimit::UNLIMITED),
            ..CgroupSettings::default()
        };
        match version {
            CgroupVersion::V1 => {
                let state = group.write(&lift).expect("it can be lifted").state;
                assert_eq!(state.cpu_time, Some(CpuTimeLimit::UNLIMITED));
                assert_eq!(state.cpus, cpus("0-1"));
            }
            CgroupVersion::V2 => {
                // The kernel would fill in the period that this file lacks now.
                let unread = group.write(&lift);
                assert!(
                    matches!(unread, Err(CgroupError::Unreadable { .. })),
                    "{unread:?}"
                );
                assert_eq!(machine.get(&machine.cpuset(CONTAINER, "cpu.max")), "max");
            }
        }
    }
}

#[test]
fn pages_migrate_only_if_requested_and_only_on_v1() {
    let machine = Machine::new(CgroupVersion::V1);
    machine.pods();
    let file = machine.cpuset(CONTAINER, "cpuset.memory_migrate");
    machine.put(&file, "0\n");
    let hierarchy = machine.hierarchy();
    let group = hierarchy.group(&path(CONTAINER)).expect("a group");
    group.write(&wanted("1")).expect("CPUs alone");
    assert_eq!(machine.get(&file), "0");
    let with_memory = CgroupSettings {
        mems: Some(NodeSet::from_bits(0b10)),
        migrate_memory: Some(true),
        ..CgroupSettings::default()
    };
    let state = group.write(&with_memory).expect("memory too").state;
    assert_eq!(state.mems.to_string(), "1");
    assert_eq!(machine.get(&file), "1");
}

#[test]
fn a_removed_group_is_an_error_of_its_own_and_never_created_again() {
    for version in BOTH {
        let machine = Machine::new(version);
        machine.pods();
        let hierarchy = machine.hierarchy();
        let gone = hierarchy.group(&path("/kubepods/podx/y")).expect("a group");
        assert!(!gone.exists() && !gone.is_populated());
        let read = gone.read().map(drop);
        let written = gone.write(&wanted("1")).map(drop);
        for outcome in [read, written] {
            assert!(outcome.is_err_and(|error| error.is_vanished()), "{version}");
        }
        assert!(!gone.exists());
    }
}

#[test]
fn an_empty_set_is_never_written() {
    let machine = Machine::new(CgroupVersion::V2);
    machine.pods();
    let hierarchy = machine.hierarchy();
    let group = hierarchy.group(&path(CONTAINER)).expect("a group");
    let rejected = group.write(&wanted(""));
    assert!(
        matches!(rejected, Err(CgroupError::EmptySet { .. })),
        "{rejected:?}"
    );
    assert_eq!(
        machine.get(&machine.cpuset(CONTAINER, "cpuset.cpus")),
        "0-1"
    );
}

#[test]
fn groups_below_are_narrowed_before_the_group_in_v1() {
    let machine = Machine::new(CgroupVersion::V1);
    machine.pods();
    machine.group(&format!("{CONTAINER}/a"), "0-1");
    machine.group(&format!("{CONTAINER}/a/b"), "1");
    machine.put(
        &machine.cpuset(&format!("{CONTAINER}/a/b"), "cgroup.procs"),
        "7\n",
    );
    let hierarchy = machine.hierarchy();
    let group = hierarchy.group(&path(CONTAINER)).expect("a group");
    assert!(group.is_populated(), "a process is two levels below");
    group.write(&wanted("0")).expect("it can be narrowed");
    for below in ["/a", "/a/b"] {
        let file = machine.cpuset(&format!("{CONTAINER}{below}"), "cpuset.cpus");
        assert_eq!(machine.get(&file), "0", "{below}");
    }
}

#[test]
fn ancestors_of_a_partition_claim_its_cpus_while_it_exists() {
    let machine = Machine::new(CgroupVersion::V2);
    machine.pods();
    machine.group(SECOND, "2");
    let above = ["/kubepods", "/kubepods/burstable", POD];
    for group in above.iter().chain(&[CONTAINER, SECOND]) {
        machine.put(&machine.cpuset(group, "cpuset.cpus.exclusive"), "\n");
        machine.put(&machine.cpuset(group, "cpuset.cpus.partition"), "member\n");
    }
    let hierarchy = machine.hierarchy();
    let first = hierarchy.group(&path(CONTAINER)).expect("a group");
    let second = hierarchy.group(&path(SECOND)).expect("a group");
    let claims = |group: &str| machine.get(&machine.cpuset(group, "cpuset.cpus.exclusive"));
    let is = |group: &str| machine.get(&machine.cpuset(group, "cpuset.cpus.partition"));

    first.set_partition(Partition::Isolated).expect("formed");
    second.set_partition(Partition::Root).expect("formed");
    assert_eq!([is(CONTAINER), is(SECOND)], ["isolated", "root"]);
    assert_eq!([claims(CONTAINER), claims(SECOND)], ["0-1", "2"]);
    assert_eq!(above.map(claims), ["0-2"; 3]);
    assert_eq!(above.map(is), ["member"; 3]);

    machine.put(&machine.cpuset(CONTAINER, "cpuset.cpus"), "3\n");
    first.set_partition(Partition::Isolated).expect("moved");
    assert_eq!([is(CONTAINER), claims(CONTAINER)], ["isolated", "3"]);
    first.release_unused_claims().expect("settled");
    assert_eq!(above.map(claims), ["2-3"; 3]);

    second.set_partition(Partition::Member).expect("dissolved");
    assert_eq!([is(SECOND), claims(SECOND)], ["member", ""]);
    assert_eq!(above.map(claims), ["3"; 3]);

    let gone = machine.cpuset(CONTAINER, "");
    fs::remove_dir_all(machine.root.path().join(gone)).expect("removed");
    first.release_unused_claims().expect("settled");
    assert_eq!(above.map(claims), [""; 3]);
}
