use std::fs;
use std::path::Path;
use std::sync::Mutex;

use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Rules;
use pinfold_core::settings::{CpuManagerPolicy, Settings};
use pinfold_journal::{JournalHistory, JournalLimits};
use pinfold_kube::pod;
use tempfile::TempDir;

use super::*;
use crate::daemon::service::tests::service;
use crate::journaled_ledger::JournaledLedger;
use crate::node::{
    Koordinator, KubeletPins, ManagedContainer, ManagedNode, Rulebook, RuntimeResources, Sandbox,
    SandboxState, UnknownContainers,
};

/// Two NUMA nodes with four cores of two threads each: 0-3,8-11 and 4-7,12-15.
const MACHINE: &str = "2 sockets, 1 numa, 4 cores, smt2";

struct Scene {
    root: TempDir,
    suppressor: Suppressor,
    last: LastRound,
    /// Rounds, total CPU time and that of the best-effort container, in seconds and microseconds.
    rounds: u64,
    total: u64,
    best_effort: u64,
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

impl Scene {
    /// An LSR pod with four CPUs, a pod without limits (LS) and a best-effort pod, in a tree of cgroup v2 made of files.
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let mounts = "3 0 0:3 / /cg rw - cgroup2 cgroup2 rw\n";
        put(root.path(), "proc/self/mountinfo", mounts);
        put(root.path(), "cg/cgroup.controllers", "cpuset cpu\n");
        let machine = pinfold_hardware::synthetic::read(MACHINE).expect("a machine");
        let (machine, _) = machine.machine_within_reach().expect("a machine");
        let settings = Settings {
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some(1.into()),
            ..Settings::default()
        };
        let rules = Rules::new(Arc::new(machine), settings).expect("settings that fit");
        let rules = Arc::new(rules);
        let state = root.path().join("state");
        let journaled = JournaledLedger::open(&state, rules.clone(), JournalLimits::default());
        let koordinator = Koordinator::new(&rules, KoordinatorArgs::default());
        let mut node = ManagedNode::new(
            journaled.expect("a journal"),
            Rulebook::Koordinator(Box::new(koordinator)),
            UnknownContainers::Adopt,
            KubeletPins::default(),
        );
        let lsr = "{koordinator.sh/qosClass: LSR}";
        let ls = "{koordinator.sh/qosClass: LS}";
        let be = "{koordinator.sh/qosClass: BE, koordinator.sh/priority-class: koord-batch}";
        let four = "{limits: {cpu: 4, memory: 1Mi}}";
        for (uid, labels, resources) in [
            ("lsr", lsr, four),
            ("ls", ls, "{requests: {cpu: 1}}"),
            ("be-1", be, "{}"),
            // Two find no room on the reserved CPU.
            ("be-2", be, "{}"),
        ] {
            add(&mut node, uid, labels, resources);
        }
        let service = service(root.path(), false);
        let mut service = Arc::into_inner(service).expect("the only one");
        service.node = Arc::new(Mutex::new(node));
        let mut scene = Self {
            suppressor: Suppressor {
                service: Arc::new(service),
                hierarchy: Hierarchy::find(root.path()).expect("a tree"),
                stat: root.path().join("proc/stat"),
                threshold: 65,
            },
            root,
            last: LastRound::default(),
            rounds: 0,
            total: 0,
            best_effort: 0,
        };
        scene.round(0, 0);
        scene
    }

    /// One second in which others use these CPUs, and the best-effort pod these. Returns what the best-effort pod has then.
    fn round(&mut self, others: u64, best_effort: u64) -> String {
        self.total += (others + best_effort) * 1_000_000;
        self.best_effort += best_effort * 1_000_000;
        self.rounds += 1;
        let usage = |total: u64| format!("usage_usec {total}\n");
        put(self.root.path(), "cg/cpu.stat", &usage(self.total));
        let group = "cg/kubepods/besteffort/podbe-1/be-1-main/cpu.stat";
        put(self.root.path(), group, &usage(self.best_effort));
        let at = Duration::from_secs(self.rounds);
        self.suppressor.round(&mut self.last, at);
        self.cpus("be-1-main")
    }

    fn cpus(&self, container: &str) -> String {
        let node = lock(&self.suppressor.service.node);
        let container = node.container(container).expect("a container");
        let sent = container.sent_allowance();
        sent.map_or_else(String::new, |sent| sent.cpus.to_string())
    }

    fn journal(&self) -> Vec<String> {
        let journal = self.root.path().join("state/journal");
        let history = JournalHistory::read(&journal).expect("a journal");
        let messages = history.entries.into_iter().map(|entry| entry.message);
        messages
            .filter(|message| message.starts_with("best-effort"))
            .collect()
    }
}

fn add(node: &mut ManagedNode, uid: &str, labels: &str, resources: &str) {
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {uid}, uid: {uid}, labels: {labels}}}\n\
         spec: {{containers: [{{name: main, resources: {resources}}}]}}\n"
    );
    let read = pod::read("pod.yaml", manifest.as_bytes()).expect("a pod");
    let pod = read.value.into_iter().next().expect("a pod");
    let sandbox = Sandbox {
        id: format!("box-{uid}"),
        uid: uid.into(),
        namespace: "default".to_owned(),
        name: uid.to_owned(),
        labels: pod.meta.labels.clone(),
        annotations: pod.meta.annotations.clone(),
        cgroup_parent: "/kubepods/besteffort".to_owned(),
        total: RuntimeResources::default(),
        state: SandboxState::Ready,
    };
    let mut container = ManagedContainer::new(format!("{uid}-main"), &sandbox, "main".into());
    container.cgroup = format!("/kubepods/besteffort/pod{uid}/{uid}-main");
    let now = crate::daemon::service::now();
    node.add_pod(sandbox, Some(&pod), &mut NoPreference, now)
        .expect("admitted");
    node.add_container(container, &mut NoPreference, now)
        .expect("admitted");
}

#[test]
fn lsr_cpus_are_lent_while_the_load_is_low_and_taken_back_when_it_rises() {
    let mut scene = Scene::new();
    let lsr: CpuSet = scene.cpus("lsr-main").parse().expect("CPUs");
    assert_eq!(lsr.len(), 4);
    let set = |cpus: &str| -> CpuSet { cpus.parse().expect("CPUs") };
    // 65 % of 16 CPUs: ten of the twelve that no pod holds, before any that are lent.
    let idle = set(&scene.round(0, 0));
    assert_eq!((idle.len(), idle.common_len(&lsr)), (10, 0));
    // The load of the best-effort pods themselves takes nothing from them.
    assert_eq!(set(&scene.round(0, 10)), idle);
    // Others use six CPUs.
    let less = set(&scene.round(6, 4));
    assert_eq!(less.len(), 4);
    assert!(less.is_subset(&idle));
    // Full load: one core is left.
    let least = set(&scene.round(14, 2));
    assert_eq!(least.len(), 2);
    assert_eq!(scene.cpus("be-2-main"), scene.cpus("be-1-main"));
    // The load ends: all CPUs return, after three rounds, step by step.
    let sizes: Vec<usize> = (0..7).map(|_| set(&scene.round(0, 2)).len()).collect();
    assert_eq!(sizes, [2, 2, 4, 6, 8, 10, 10]);
    assert_eq!(scene.cpus("lsr-main"), lsr.to_string(), "never changed");
    let journal = scene.journal();
    assert_eq!(journal.len(), 2, "{journal:?}");
    assert!(
        journal[0].contains("other pods use 6.0 CPUs") && journal[1].ends_with("again"),
        "{journal:?}"
    );
    let exposed = scene.suppressor.service.telemetry.metrics.expose();
    assert!(
        exposed.contains("\npinfold_best_effort_cpus 10\n"),
        "{exposed}"
    );
}

#[test]
fn with_a_threshold_of_100_percent_all_lsr_cpus_are_lent_and_are_the_first_to_be_taken_back() {
    let mut scene = Scene::new();
    scene.suppressor.threshold = 100;
    let lsr: CpuSet = scene.cpus("lsr-main").parse().expect("CPUs");
    assert_eq!(scene.round(0, 8), "0-15");
    let after = scene.round(4, 12);
    let without: CpuSet = after.parse().expect("CPUs");
    let all: CpuSet = "0-15".parse().expect("CPUs");
    assert_eq!(without, &all - &lsr);
}

#[test]
fn a_limit_from_before_an_lse_pod_came_gives_best_effort_pods_none_of_its_cpus() {
    let scene = Scene::new();
    let node = &scene.suppressor.service.node;
    let lse = "{koordinator.sh/qosClass: LSE}";
    let four = "{limits: {cpu: 4, memory: 1Mi}}";
    add(&mut lock(node), "lse", lse, four);
    let lse: CpuSet = scene.cpus("lse-main").parse().expect("CPUs");
    assert_eq!(lse.len(), 4);
    drop(lock(node).limit_best_effort(lse.clone()));
    let left: CpuSet = scene.cpus("be-1-main").parse().expect("CPUs");
    assert!(!left.is_empty() && left.is_disjoint(&lse), "{left}; {lse}");
}

#[test]
fn without_counters_best_effort_pods_have_their_whole_pool() {
    let mut scene = Scene::new();
    scene.round(14, 2);
    assert_eq!(
        scene
            .cpus("be-1-main")
            .parse::<CpuSet>()
            .map(|cpus| cpus.len()),
        Ok(2)
    );
    put(scene.root.path(), "cg/cpu.stat", "damaged\n");
    let at = Duration::from_secs(100);
    scene.suppressor.round(&mut scene.last, at);
    assert_eq!(scene.cpus("be-1-main"), "0-15");
}
