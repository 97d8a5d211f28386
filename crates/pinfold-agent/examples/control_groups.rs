//! Changes real control groups and checks the result in the kernel. Prints one line per check.
//!
//! ```console
//! # cargo run --example control_groups
//! ok a pod that lacks CPUs is widened
//! ```
//!
//! The program creates its own control groups and removes them at the end. With `--offline` it also takes a CPU offline
//! for a moment: cgroup v1 then removes that CPU from all groups of the machine permanently, so use a test machine. Needs
//! two CPUs and root.

#![allow(clippy::print_stdout, reason = "that is the point of it")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use pinfold_agent::cgroup_writer::CgroupWriter;
use pinfold_agent::drift::{
    ContainerRef, DriftCause, DriftMonitor, Evidence, NoRuntime, RepairLimits, RepairOutcome,
    RuntimeSpec, WatchedContainer,
};
use pinfold_agent::{Allowance, Quota};
use pinfold_cgroup::{
    CgroupError, CgroupSettings, CgroupState, CgroupVersion, ControllerMount, CpuTimeLimit,
    GroupPath, Hierarchy, Partition, folder,
};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;
use pinfold_kube::state::CpuManagerState;

type Checked = Result<(), String>;
type Check = fn(&mut Bench) -> Checked;

fn main() -> ExitCode {
    let offline = std::env::args().any(|argument| argument == "--offline");
    match Bench::new() {
        Ok(mut bench) => bench.run(offline),
        Err(problem) => {
            println!("FAILED preparing: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// A tree of control groups like the kubelet's, with a process in its only container.
struct Bench {
    hierarchy: Hierarchy,
    kubepods: GroupPath,
    pod: GroupPath,
    container: GroupPath,
    process: Child,
    /// Two CPUs.
    one: CpuSet,
    other: CpuSet,
    both: CpuSet,
    /// The last NUMA node with memory.
    node: NodeSet,
}

fn text<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Checked {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: expected {expected:?}, found {found:?}")),
    }
}

fn cpus_only(cpus: &CpuSet) -> CgroupSettings {
    CgroupSettings {
        cpus: Some(cpus.clone()),
        ..CgroupSettings::default()
    }
}

impl Bench {
    fn new() -> Result<Self, String> {
        let hierarchy = Hierarchy::find(Path::new("/")).map_err(text)?;
        let version = hierarchy.cpuset.version;
        println!("{version}");
        let online = fs::read_to_string("/sys/devices/system/cpu/online").map_err(text)?;
        let online = CpuSet::parse(online.trim()).map_err(text)?;
        let (Some(one), Some(other)) = (online.first(), online.last()) else {
            return Err("no CPU is online".to_owned());
        };
        let (one, other) = (CpuSet::single(one), CpuSet::single(other));
        let both = &one | &other;
        equal("CPUs", &both.len(), &2)?;
        let top = &hierarchy.cpuset.mount.point;
        let mems = pinfold_cgroup::control::read_mems(&top.join(version.effective_mems()));
        let last = mems.map_err(text)?.iter().next_back();
        let node = NodeSet::single(last.ok_or("no memory node")?);

        let path = |below: &str| {
            let name = format!("/pinfold-check-{}{below}", std::process::id());
            GroupPath::of_container(&name).map_err(text)
        };
        let kubepods = path("/kubepods")?;
        let pod = path("/kubepods/burstable/pod1")?;
        let container = path("/kubepods/burstable/pod1/c")?;
        let process = Command::new("sleep")
            .arg("1000")
            .stdout(Stdio::null())
            .spawn()
            .map_err(text)?;
        let mut bench = Self {
            hierarchy,
            kubepods,
            pod,
            container,
            process,
            one,
            other,
            both,
            node,
        };
        match bench.make() {
            Ok(()) => Ok(bench),
            Err(problem) => {
                bench.clear();
                Err(problem)
            }
        }
    }

    fn homes(&self) -> impl Iterator<Item = &ControllerMount> {
        std::iter::once(&self.hierarchy.cpuset).chain(&self.hierarchy.cpu)
    }

    /// Creates all groups of the tree, with both CPUs where cgroup v1 requires some, and moves the process into the
    /// container.
    fn make(&self) -> Checked {
        let mut groups = self.container.ancestors();
        groups.push(self.container.clone());
        for home in self.homes() {
            for group in &groups {
                let folder = home.folder(group).map_err(text)?;
                if !folder.exists() {
                    folder::create(&folder).map_err(text)?;
                }
                let leaf = *group == self.container;
                match home.version {
                    CgroupVersion::V2 if !leaf => {
                        let file = folder.join("cgroup.subtree_control");
                        fs::write(&file, "+cpuset +cpu").map_err(text)?;
                    }
                    CgroupVersion::V1
                        if !group.is_root() && folder.join("cpuset.cpus").exists() =>
                    {
                        fs::write(folder.join("cpuset.cpus"), self.both.to_string())
                            .map_err(text)?;
                        fs::write(folder.join("cpuset.mems"), self.node.to_string())
                            .map_err(text)?;
                    }
                    _ => {}
                }
            }
            let folder = home.folder(&self.container).map_err(text)?;
            fs::write(folder.join("cgroup.procs"), self.process.id().to_string()).map_err(text)?;
        }
        Ok(())
    }

    fn run(&mut self, offline: bool) -> ExitCode {
        let mut checks: Vec<(&str, Check)> = vec![
            ("a pod that lacks CPUs is widened", Self::widen),
            ("a group moves from one CPU to another", Self::move_over),
            ("groups below shrink first", Self::shrink),
            ("a group outside kubepods is not widened", Self::too_narrow),
            ("memory is pinned and migrated", Self::memory),
            ("a CPU quota is set and removed", Self::quota),
            (
                "CPUs that do not exist are an error that names them",
                Self::no_such_cpu,
            ),
            ("drift is found, attributed and repaired", Self::drift),
            ("a repair conflict is noticed", Self::repair_conflict),
            ("a rejected partition is reported", Self::partition),
        ];
        if offline {
            checks.push((
                "drift after a CPU went offline is attributed to the kernel",
                Self::offline,
            ));
        }
        checks.push(("a removed group is not an error", Self::vanish));
        let mut code = ExitCode::SUCCESS;
        for (name, check) in checks {
            let fresh = self.group(&self.container, &self.both.clone()).map(drop);
            match fresh.and_then(|()| check(self)) {
                Ok(()) => println!("ok {name}"),
                Err(problem) => {
                    println!("FAILED {name}: {problem}");
                    code = ExitCode::FAILURE;
                }
            }
        }
        self.clear();
        code
    }

    /// Sets the CPUs of a group.
    fn group(&self, path: &GroupPath, cpus: &CpuSet) -> Result<CgroupState, String> {
        let group = self.hierarchy.group(path).map_err(text)?;
        let wanted = cpus_only(cpus);
        let written = group.write(&wanted).map_err(text)?;
        written.verify_applied(&wanted).map_err(text)?;
        Ok(written.state)
    }

    /// A field of `/proc/PID/status` of the process in the container.
    fn allowed(&self, key: &str) -> Result<String, String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.map_err(text)?;
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        Ok(line.unwrap_or("").trim_matches([':', '\t', ' ']).to_owned())
    }

    fn runs_on(&self, cpus: &CpuSet) -> Checked {
        let found = self.allowed("Cpus_allowed_list")?;
        equal("CPUs of the process", &found, &cpus.to_string())
    }

    fn widen(&mut self) -> Checked {
        self.group(&self.container, &self.one)?;
        self.group(&self.pod, &self.one)?;
        let group = self.hierarchy.group(&self.container).map_err(text)?;
        let written = group.write(&cpus_only(&self.both)).map_err(text)?;
        let pod = self.hierarchy.cpuset.folder(&self.pod).map_err(text)?;
        equal("widened groups", &written.widened, &vec![pod])?;
        equal("populated", &group.is_populated(), &true)?;
        self.runs_on(&self.both)
    }

    fn move_over(&mut self) -> Checked {
        for cpus in [&self.one, &self.other, &self.one] {
            self.group(&self.container, cpus)?;
            self.runs_on(cpus)?;
        }
        Ok(())
    }

    /// Moves the pod to another CPU while its container still has the first one.
    fn shrink(&mut self) -> Checked {
        self.group(&self.container, &self.one)?;
        self.group(&self.pod, &self.one)?;
        self.group(&self.pod, &self.other)?;
        self.runs_on(&self.other)?;
        self.group(&self.pod, &self.both).map(drop)
    }

    fn too_narrow(&mut self) -> Checked {
        self.group(&self.kubepods, &self.one)?;
        let group = self.hierarchy.group(&self.container).map_err(text)?;
        let rejected = match group.write(&cpus_only(&self.other)) {
            Err(CgroupError::ParentTooNarrow { lacks, .. }) => {
                equal("what it lacks", &lacks, &self.other.to_string())
            }
            other => Err(format!("{other:?}")),
        };
        self.group(&self.kubepods, &self.both)?;
        rejected
    }

    fn memory(&mut self) -> Checked {
        let group = self.hierarchy.group(&self.container).map_err(text)?;
        let wanted = CgroupSettings {
            mems: Some(self.node),
            migrate_memory: Some(true),
            ..CgroupSettings::default()
        };
        let written = group.write(&wanted).map_err(text)?;
        written.verify_applied(&wanted).map_err(text)?;
        let found = self.allowed("Mems_allowed_list")?;
        equal("nodes of the process", &found, &self.node.to_string())?;
        if self.hierarchy.cpuset.version == CgroupVersion::V1 {
            let file = group.folder().join("cpuset.memory_migrate");
            let found = fs::read_to_string(file).map_err(text)?;
            equal("cpuset.memory_migrate", &found.trim(), &"1")?;
        }
        Ok(())
    }

    /// Sets the CPU quota of the pod, then of the container.
    fn limit(&self, quota: u64) -> Checked {
        for path in [&self.pod, &self.container] {
            let limit = CpuTimeLimit {
                quota: Some(quota),
                period: 50_000,
            };
            let wanted = CgroupSettings {
                cpu_time: Some(limit),
                ..CgroupSettings::default()
            };
            let group = self.hierarchy.group(path).map_err(text)?;
            let found = group.write(&wanted).map_err(text)?.state.cpu_time;
            equal("limit", &found, &Some(limit))?;
        }
        Ok(())
    }

    fn quota(&mut self) -> Checked {
        self.limit(25_000)?;
        let lift = CgroupSettings {
            cpu_time: Some(CpuTimeLimit::UNLIMITED),
            ..CgroupSettings::default()
        };
        for path in [&self.container, &self.pod] {
            let group = self.hierarchy.group(path).map_err(text)?;
            let found = group.write(&lift).map_err(text)?.state.cpu_time;
            equal("quota", &found.map(|found| found.quota), &Some(None))?;
        }
        Ok(())
    }

    fn no_such_cpu(&mut self) -> Checked {
        let absent = CpuSet::parse("4000").map_err(text)?;
        let group = self.hierarchy.group(&self.container).map_err(text)?;
        let wanted = cpus_only(&absent);
        let outcome = group
            .write(&wanted)
            .and_then(|done| done.verify_applied(&wanted));
        self.group(&self.container, &self.both)?;
        match outcome {
            Err(error) => equal("its text", &error.to_string().contains("4000"), &true),
            Ok(()) => Err("it was taken".to_owned()),
        }
    }

    fn watched(&self, cpus: &CpuSet) -> WatchedContainer {
        WatchedContainer {
            container: ContainerRef {
                id: "c".into(),
                pod: "1".into(),
                name: "main".into(),
            },
            group: self.container.clone(),
            expected: Allowance {
                cpus: cpus.clone(),
                mems: self.node,
                quota: Quota::Unlimited,
            },
            spec: RuntimeSpec::default(),
        }
    }

    fn writer(&self) -> CgroupWriter {
        CgroupWriter::new(self.hierarchy.clone(), None)
    }

    fn evidence(&self) -> Result<Evidence, String> {
        let mut evidence =
            Evidence::gather(Path::new("/"), Path::new("/nonexistent")).map_err(text)?;
        evidence.kubelet = Some(CpuManagerState {
            policy: "static".to_owned(),
            default_cpus: self.other.clone(),
            ..CpuManagerState::default()
        });
        Ok(evidence)
    }

    /// One scan, in which exactly one container drifted.
    fn one_drift(
        &self,
        monitor: &mut DriftMonitor,
        expected: &CpuSet,
        now: Instant,
    ) -> Result<(DriftCause, RepairOutcome), String> {
        let containers = [self.watched(expected)];
        let mut scan = monitor.scan(
            &self.writer(),
            &NoRuntime,
            &containers,
            &self.evidence()?,
            now,
        );
        match (scan.drifts.pop(), scan.drifts.is_empty()) {
            (Some((drift, outcome)), true) => Ok((drift.cause, outcome)),
            _ => Err(format!("{scan:?}")),
        }
    }

    fn drift(&mut self) -> Checked {
        let mut monitor = DriftMonitor::default();
        let now = Instant::now();
        self.limit(25_000)?;
        for (overwritten, cause) in [
            (&self.both, DriftCause::Other),
            (&self.other, DriftCause::Kubelet),
        ] {
            self.group(&self.container, overwritten)?;
            let (found, outcome) = self.one_drift(&mut monitor, &self.one, now)?;
            equal("cause", &found, &cause)?;
            match outcome {
                RepairOutcome::Repaired => self.runs_on(&self.one)?,
                other => return Err(format!("{other:?}")),
            }
        }
        let pod = self.hierarchy.group(&self.pod).map_err(text)?;
        let limit = pod.cpu_time().map_err(text)?;
        equal(
            "limit of the pod",
            &limit.and_then(|limit| limit.quota),
            &None,
        )?;
        let containers = [self.watched(&self.one)];
        let scan = monitor.scan(
            &self.writer(),
            &NoRuntime,
            &containers,
            &self.evidence()?,
            now,
        );
        equal("drifts afterwards", &scan.drifts.len(), &0)?;
        equal("unreadable containers", &scan.unreadable.len(), &0)
    }

    fn repair_conflict(&mut self) -> Checked {
        let limits = RepairLimits::default();
        let mut monitor = DriftMonitor::new(limits, None);
        let now = Instant::now();
        for turn in 0..=limits.repairs {
            self.group(&self.container, &self.other)?;
            let (_, outcome) = self.one_drift(&mut monitor, &self.one, now)?;
            let backed_off = matches!(outcome, RepairOutcome::BackedOff(_));
            equal("held back", &backed_off, &(turn == limits.repairs))?;
        }
        let later = now + limits.first_pause + Duration::from_secs(1);
        let (_, outcome) = self.one_drift(&mut monitor, &self.one, later)?;
        equal(
            "tried again",
            &matches!(outcome, RepairOutcome::Repaired),
            &true,
        )?;
        equal("conflicts", &monitor.conflicts(), &1)
    }

    fn partition(&mut self) -> Checked {
        let group = self.hierarchy.group(&self.container).map_err(text)?;
        self.group(&self.container, &self.other)?;
        let outcome = group.set_partition(Partition::Isolated);
        if self.hierarchy.cpuset.version == CgroupVersion::V1 {
            return match outcome {
                Err(CgroupError::NoPartitions { .. }) => Ok(()),
                other => Err(format!("{other:?}")),
            };
        }
        // The parent groups are not partitions, so the kernel must reject it with a reason.
        match outcome {
            Err(CgroupError::InvalidPartition { reason, .. }) => {
                println!("the kernel says: {reason}");
            }
            other => return Err(format!("{other:?}")),
        }
        let found = group.partition().map_err(text)?;
        equal("afterwards", &found.partition, &Partition::Member)?;
        // Directly below the root a partition is allowed.
        let name = format!("/pinfold-check-{}-partition", std::process::id());
        let path = GroupPath::of_container(&name).map_err(text)?;
        let top = self.hierarchy.group(&path).map_err(text)?;
        folder::create(top.folder()).map_err(text)?;
        self.group(&self.container, &self.one)?;
        let outcome = self
            .group(&path, &self.other)
            .and_then(|_| top.set_partition(Partition::Isolated).map_err(text))
            .and_then(|()| {
                let root = self
                    .hierarchy
                    .cpuset
                    .mount
                    .point
                    .join("cpuset.cpus.effective");
                let rest = pinfold_cgroup::control::read_cpus(&root).map_err(text)?;
                equal("kept off", &rest.is_disjoint(&self.other), &true)?;
                top.set_partition(Partition::Member).map_err(text)
            });
        folder::remove(top.folder()).map_err(text)?;
        outcome
    }

    fn offline(&mut self) -> Checked {
        self.group(&self.container, &self.both)?;
        let file = format!("/sys/devices/system/cpu/cpu{}/online", self.other);
        fs::write(&file, "0").map_err(text)?;
        let seen = self.one_drift(&mut DriftMonitor::default(), &self.both, Instant::now());
        fs::write(&file, "1").map_err(text)?;
        match seen? {
            (DriftCause::CpuOffline, RepairOutcome::NotRepairable) => {}
            other => return Err(format!("{other:?}")),
        }
        let containers = [self.watched(&self.both)];
        let mut monitor = DriftMonitor::default();
        let scan = monitor.scan(
            &self.writer(),
            &NoRuntime,
            &containers,
            &self.evidence()?,
            Instant::now(),
        );
        equal("drifts when it is back", &scan.drifts.len(), &0)
    }

    fn vanish(&mut self) -> Checked {
        self.process.kill().map_err(text)?;
        self.process.wait().map_err(text)?;
        for home in self.homes() {
            let folder = home.folder(&self.container).map_err(text)?;
            folder::remove(&folder).map_err(text)?;
        }
        let group = self.hierarchy.group(&self.container).map_err(text)?;
        let written = group.write(&cpus_only(&self.one));
        let vanished = written.is_err_and(|error| error.is_vanished());
        equal("vanished", &vanished, &true)?;
        let containers = [self.watched(&self.one)];
        let scan = DriftMonitor::default().scan(
            &self.writer(),
            &NoRuntime,
            &containers,
            &self.evidence()?,
            Instant::now(),
        );
        equal("gone", &scan.gone.len(), &1)
    }

    fn clear(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let mut groups = self.container.ancestors();
        groups.push(self.container.clone());
        for home in self.homes() {
            for group in groups.iter().rev().filter(|group| !group.is_root()) {
                if let Ok(folder) = home.folder(group) {
                    let _ = folder::remove(&folder);
                }
            }
        }
    }
}
