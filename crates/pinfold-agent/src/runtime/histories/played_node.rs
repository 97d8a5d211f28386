//! [`PlayedNode`]: the kubelet, runtime, API server and disk around one agent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use nri::api::{
    Container, ContainerState, ContainerUpdate, LinuxContainer, LinuxNamespace, LinuxPodSandbox,
    LinuxResources, PodSandbox,
};
use nri::{EventError, Plugin, RuntimeInfo};
use pinfold_core::cpu_set::{CpuList, CpuSet};
use pinfold_core::device::{AdvertisedDevices, Device, DevicesByResource};
use pinfold_core::ledger::{AuditFinding, LedgerState, Rules};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::pod::ResourceList;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};
use pinfold_devices::pod_resources::PodResourcesClient;
use pinfold_journal::{FILE, JournalLimits, Timestamp};
use pinfold_kube::pod::{self, PodIdentity, PodObject};
use tempfile::TempDir;

use super::super::tests::Listener;
use super::super::{DeviceSource, NriPlugin, PodSpecSource, lock};
use super::{Runtime, Setup, Step};
use crate::journaled_ledger::JournaledLedger;
use crate::node::{
    KubeletPins, ManagedNode, PodStatus, PodStatusSource, Rulebook, UnknownContainers, Update,
};

const OFFLINE: [&str; 4] = ["", ", offline=3", ", offline=2,10", ", offline=6-7,14-15"];
const RULES: [(&str, &str); 4] = [
    ("best-effort", "0,8"),
    ("best-effort", "0,8,12"),
    ("restricted", "0,8"),
    ("single-numa-node", "0,1"),
];

fn settings(rules: u8) -> Settings {
    let (policy, reserved) = RULES[usize::from(rules)];
    let reserved: CpuSet = reserved.parse().expect("CPUs");
    let memory: ResourceList = [("memory".into(), "1Gi".parse().expect("a quantity"))].into();
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some(reserved.len().to_string().parse().expect("a quantity")),
        reserved_cpus: Some(CpuList::from(&reserved)),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: memory.clone(),
        }],
        node_reservation: memory,
        ..Settings::default()
    }
}

/// All rules of the histories: by offline CPUs, then by configuration.
fn rules(offline: u8, rules: u8) -> Arc<Rules> {
    static ALL: OnceLock<Vec<Arc<Rules>>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let make = |index: u8| {
            let machine = format!(
                "2 sockets, 4 cores, smt2{}",
                OFFLINE[usize::from(index / 4)]
            );
            let hardware = pinfold_hardware::synthetic::read(&machine).expect("a machine");
            let (machine, _) = hardware.machine_within_reach().expect("a machine");
            Arc::new(Rules::new(Arc::new(machine), settings(index % 4)).expect("settings that fit"))
        };
        (0..16).map(make).collect()
    });
    all[usize::from(offline * 4 + rules)].clone()
}

/// The spec of a pod, by its number: Guaranteed with whole CPUs, an init container, shared, a device, two containers.
fn specs() -> &'static [PodObject] {
    static ALL: OnceLock<Vec<PodObject>> = OnceLock::new();
    ALL.get_or_init(|| {
        let main = |cpus: u8, more: &str| {
            format!("{{name: c0, resources: {{limits: {{cpu: {cpus}, memory: 64Mi{more}}}}}}}")
        };
        let second = "{name: c1, resources: {limits: {cpu: 2, memory: 64Mi}}}";
        let bodies = [
            format!("containers: [{}]", main(2, "")),
            format!("containers: [{}, {second}]", main(4, "")),
            "containers: [{name: c0, resources: {requests: {cpu: 500m}}}]".to_owned(),
            format!("containers: [{}]", main(2, ", vendor.com/gpu: 1")),
            format!(
                "initContainers: [{}]\n  containers: [{second}]",
                main(4, "")
            ),
            format!("containers: [{}]", main(6, "")),
        ];
        let read = |body: &String| {
            let text = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, uid: p}}\nspec:\n  {body}\n"
            );
            let read = pod::read("pod.yaml", text.as_bytes()).expect("a pod");
            read.value.into_iter().next().expect("a pod")
        };
        bodies.iter().map(read).collect()
    })
}

fn spec(pod: usize, uid: &str) -> PodObject {
    let mut spec = specs()[pod].clone();
    spec.meta.name = uid.to_owned();
    spec.meta.uid = Some(uid.to_owned());
    spec.pod.uid = uid.into();
    spec.pod.name = spec.meta.full_name();
    spec
}

/// A container of the played runtime.
pub(super) struct PlayedContainer {
    pub(super) id: String,
    pod: PodUid,
    name: ContainerName,
    number: u8,
    sandbox: String,
    state: State,
    /// The CPUs of its cgroup.
    pub(super) cpus: CpuSet,
    milli: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Creating,
    Created,
    Running,
    Stopped,
}

struct PlayedSandbox {
    id: String,
    ready: bool,
}

/// A pod of the played kubelet. A new pod takes its place when it ended.
struct PlayedPod {
    uid: String,
    sandboxes: Vec<PlayedSandbox>,
    ended: bool,
}

/// What the API server has, and what the agent's watch has delivered of it.
#[derive(Debug, Default)]
struct ApiServer {
    pods: BTreeMap<String, (usize, PodStatus)>,
    events: VecDeque<(String, Option<PodStatus>)>,
    last: Option<(String, Option<PodStatus>)>,
    seen: BTreeMap<String, (Arc<PodObject>, PodStatus)>,
    listed: bool,
}

#[derive(Clone, Debug, Default)]
struct PodView(Arc<Mutex<ApiServer>>);

impl PodView {
    fn with<T>(&self, change: impl FnOnce(&mut ApiServer) -> T) -> T {
        change(&mut self.0.lock().expect("unpoisoned"))
    }
}

impl ApiServer {
    fn set(&mut self, uid: &str, pod: usize, status: Option<PodStatus>) {
        match status {
            Some(status) => drop(self.pods.insert(uid.to_owned(), (pod, status))),
            None => drop(self.pods.remove(uid)),
        }
        self.events.push_back((uid.to_owned(), status));
    }

    fn deliver(&mut self) {
        if !self.listed {
            self.listed = true;
            self.events.clear();
            let listed = self.pods.iter();
            let listed = listed
                .map(|(uid, (pod, status))| (uid.clone(), (Arc::new(spec(*pod, uid)), *status)));
            self.seen = listed.collect();
        } else if let Some(event) = self.events.pop_front() {
            self.apply(event);
        }
    }

    fn apply(&mut self, (uid, status): (String, Option<PodStatus>)) {
        self.last = Some((uid.clone(), status));
        match (status, self.pods.get(&uid)) {
            (Some(status), Some((pod, _))) => {
                let spec = Arc::new(spec(*pod, &uid));
                self.seen.insert(uid, (spec, status));
            }
            (Some(_), None) | (None, _) => drop(self.seen.remove(&uid)),
        }
    }
}

impl PodSpecSource for PodView {
    fn pod(&self, pod: &PodIdentity, _: Duration) -> Option<Arc<PodObject>> {
        self.with(|api| Some(api.seen.get(pod.uid.as_str())?.0.clone()))
    }

    fn wait_for_list(&self, _: Duration) -> bool {
        self.with(|api| api.listed)
    }
}

impl PodStatusSource for PodView {
    fn status(&self, pod: &PodIdentity) -> PodStatus {
        self.with(|api| match api.seen.get(pod.uid.as_str()) {
            Some((_, status)) => *status,
            None if api.listed => PodStatus::Absent,
            None => PodStatus::NotListed,
        })
    }

    fn spec(&self, pod: &PodIdentity) -> Option<Arc<PodObject>> {
        self.pod(pod, Duration::ZERO)
    }
}

/// A node with an agent, of which everything else is played.
pub(super) struct PlayedNode {
    setup: Setup,
    folder: TempDir,
    agent: Option<(NriPlugin, Receiver<Vec<Update>>)>,
    api: PodView,
    pods: Vec<PlayedPod>,
    /// Earlier pods whose sandboxes the runtime still lists.
    ended_pods: Vec<(usize, PlayedPod)>,
    containers: Vec<PlayedContainer>,
    offline: u8,
    rules: u8,
    disk_is_full: bool,
    /// Whether releases may be pending because the disk was full.
    pending: bool,
    made: usize,
}

impl PlayedNode {
    pub(super) fn new(setup: Setup) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let mut node = Self {
            setup,
            folder: folder.expect("a folder"),
            agent: None,
            api: PodView::default(),
            pods: Vec::new(),
            ended_pods: Vec::new(),
            containers: Vec::new(),
            offline: 0,
            rules: 0,
            disk_is_full: false,
            pending: false,
            made: 0,
        };
        for pod in 0..specs().len() {
            let played = node.new_pod(pod);
            node.pods.push(played);
        }
        node.start_agent();
        node
    }

    fn new_pod(&mut self, pod: usize) -> PlayedPod {
        self.made += 1;
        let uid = format!("p{pod}-{}", self.made);
        self.api
            .with(|api| api.set(&uid, pod, Some(PodStatus::Active)));
        PlayedPod {
            uid,
            sandboxes: Vec::new(),
            ended: false,
        }
    }

    fn start_agent(&mut self) {
        if self.agent.is_some() {
            return;
        }
        self.api.with(|api| {
            api.listed = false;
            api.seen.clear();
        });
        let rules = rules(self.offline, self.rules);
        let folder = self.folder.path().join("agent");
        let journaled = JournaledLedger::open(&folder, rules.clone(), JournalLimits::default());
        let journaled = journaled.expect("a journal");
        let mut node = ManagedNode::new(
            journaled,
            Rulebook::Kubelet,
            UnknownContainers::Adopt,
            KubeletPins::default(),
        );
        if self.setup.api_server {
            node = node.with_pod_status(Arc::new(self.api.clone()));
        }
        let device = |numa| Device {
            numa: Some(vec![numa]),
            healthy: true,
        };
        let devices: AdvertisedDevices =
            [("gpu0".into(), device(0)), ("gpu1".into(), device(1))].into();
        let offered =
            node.journaled_mut()
                .set_devices(&"vendor.com/gpu".into(), Some(devices), NOW);
        offered.expect("written");
        node.journaled_mut().fail_to_write(self.disk_is_full);
        let (updates, later) = sync_channel(1024);
        let pod_specs: Box<dyn PodSpecSource> = match self.setup.api_server {
            true => Box::new(self.api.clone()),
            false => Box::new(super::super::NoPodSpecs),
        };
        let plugin = NriPlugin {
            node: Arc::new(Mutex::new(node)),
            pod_specs,
            devices: DeviceSource::Kubelet(PodResourcesClient::new(
                "/nowhere/kubelet.sock",
                Duration::ZERO,
            )),
            pins: true,
            telemetry: Arc::new(Listener::default()),
            updates,
            clock: || NOW,
            runtime_sends_pids: false,
        };
        self.agent = Some((plugin, later));
        self.change_rules();
        self.synchronize();
    }

    /// Applies the current machine and configuration, as at the start, after a hotplug and after SIGHUP.
    fn change_rules(&mut self) {
        let rules = rules(self.offline, self.rules);
        let Some((plugin, _)) = &self.agent else {
            return;
        };
        let mut node = lock(&plugin.node);
        let now = node.journaled().ledger().rules();
        if now.machine() == rules.machine() && now.settings() == rules.settings() {
            return;
        }
        let plan = node.journaled().plan_rules_change(&rules).expect("a plan");
        let updates = node.apply_plan(plan, NOW);
        drop(node);
        if let Ok(updates) = updates {
            plugin.send_updates(updates);
        }
    }

    fn synchronize(&mut self) {
        let (mut pods, mut containers) = (Vec::new(), Vec::new());
        let pods_now = self.pods.iter().enumerate();
        let ended = self.ended_pods.iter().map(|(number, pod)| (*number, pod));
        for (number, pod) in pods_now.chain(ended) {
            for sandbox in &pod.sandboxes {
                pods.push(self.sandbox_message(number, &pod.uid, sandbox));
            }
        }
        for container in &self.containers {
            if container.state != State::Creating {
                containers.push(message(container));
            }
        }
        let runtime = RuntimeInfo {
            name: match self.setup.runtime {
                Runtime::Containerd => "containerd".to_owned(),
                Runtime::CriO => "cri-o".to_owned(),
            },
            version: String::new(),
            nri_version: String::new(),
            config: String::new(),
            request_timeout: None,
            events: nri::api::Events::ALL,
        };
        let Some((plugin, _)) = &mut self.agent else {
            return;
        };
        plugin.configure(&runtime).expect("configured");
        let synchronized = plugin.synchronize(pods, containers);
        let updates = synchronized.expect("the runtime drops a plugin that does not synchronize");
        self.apply(&updates);
    }

    fn sandbox_message(&self, pod: usize, uid: &str, sandbox: &PlayedSandbox) -> PodSandbox {
        let class = match pod {
            2 => "burstable/",
            _ => "",
        };
        let namespaces = match (self.setup.runtime, sandbox.ready) {
            (_, true) => vec![LinuxNamespace::default()],
            (_, false) => Vec::new(),
        };
        PodSandbox {
            id: sandbox.id.clone(),
            uid: uid.to_owned(),
            namespace: "default".to_owned(),
            name: uid.to_owned(),
            pid: match self.setup.runtime {
                Runtime::Containerd => u32::from(sandbox.ready),
                Runtime::CriO => 0,
            },
            linux: Some(LinuxPodSandbox {
                cgroup_parent: format!("/kubepods/{class}pod{uid}"),
                namespaces,
                ..LinuxPodSandbox::default()
            }),
            ..PodSandbox::default()
        }
    }

    /// Applies updates in the runtime's answer to an event. A container that is being created is not in its store yet.
    fn apply(&mut self, updates: &[ContainerUpdate]) {
        for update in updates {
            let linux = update
                .linux
                .as_ref()
                .and_then(|linux| linux.resources.as_ref());
            let cpus = linux.and_then(|linux| linux.cpu.as_ref());
            let container = self.containers.iter_mut().find(|one| {
                one.id == update.container_id
                    && matches!(one.state, State::Created | State::Running)
            });
            if let (Some(cpus), Some(container)) = (cpus, container) {
                container.cpus = cpus.cpus.parse().expect("CPUs");
            }
        }
    }

    /// Sends queued updates to the runtime: the newest one of each container.
    fn send_queued(&mut self) {
        let mut ids = BTreeSet::new();
        let mut newest = Vec::new();
        if let Some((plugin, later)) = &self.agent {
            for update in later.try_iter().flatten() {
                ids.insert(update.container);
            }
            let node = lock(&plugin.node);
            for id in ids {
                let container = node.container(&id);
                if let Some(allowance) = container.and_then(|one| one.sent_allowance()).cloned() {
                    newest.push(super::super::update(&Update {
                        container: id,
                        allowance,
                    }));
                }
            }
        }
        self.apply(&newest);
    }

    /// Sends an event to the agent, if it is connected. Returns its answer.
    fn event<T: Default>(
        &mut self,
        event: impl FnOnce(&mut NriPlugin) -> Result<T, EventError>,
    ) -> Result<T, EventError> {
        match &mut self.agent {
            Some((plugin, _)) => event(plugin),
            None => Ok(T::default()),
        }
    }

    /// Does what is pending before a request, as the plugin does, so that the rest of the step is the request's effect.
    pub(super) fn prepare(&mut self, step: Step) {
        if let (Step::Run(_) | Step::Create(..), Some((plugin, _))) = (step, &self.agent) {
            plugin.settle();
        }
        self.send_queued();
    }

    /// Plays a step. Returns whether the agent rejected a pod or container.
    pub(super) fn step(&mut self, step: Step) -> bool {
        let rejected = self.play(step);
        self.send_queued();
        rejected
    }

    fn play(&mut self, step: Step) -> bool {
        match step {
            Step::Run(pod) => return self.run(pod.into()),
            Step::Create(pod, number) => return self.create(pod.into(), number),
            Step::Created(pod, number) => self.created(pod.into(), number),
            Step::Start(pod, number) => self.start(pod.into(), number),
            Step::Exit(pod, number) => self.exit(pod.into(), number),
            Step::RemoveContainer(pod, number) => self.remove_container(pod.into(), number),
            Step::PauseDies(pod) => self.stop_sandbox(pod.into()),
            Step::Complete(pod) => self.end(pod.into(), Some(PodStatus::Terminated)),
            Step::Delete(pod) => self.end(pod.into(), None),
            Step::RemoveSandbox(pod) => self.remove_sandbox(pod.into()),
            Step::Resize(pod, number) => return self.resize(pod.into(), number),
            Step::Watch => self.api.with(ApiServer::deliver),
            Step::WatchAgain => self.api.with(|api| {
                if let Some(last) = api.last.clone() {
                    api.apply(last);
                }
            }),
            Step::WatchAll => self.api.with(|api| {
                api.deliver();
                while !api.events.is_empty() {
                    api.deliver();
                }
            }),
            Step::Kill => self.agent = None,
            Step::StartAgent => self.start_agent(),
            Step::RestartRuntime => self.synchronize(),
            Step::Offline(offline) => {
                self.offline = offline;
                self.change_rules();
            }
            Step::Rules(rules) => {
                self.rules = rules;
                self.change_rules();
            }
            Step::Disk(full) => {
                self.disk_is_full = full;
                self.pending |= full;
                if let Some((plugin, _)) = &self.agent {
                    lock(&plugin.node).journaled_mut().fail_to_write(full);
                }
            }
            Step::KillWhileWriting => {
                self.agent = None;
                let journal = self.folder.path().join("agent").join(FILE);
                let file = OpenOptions::new().append(true).open(journal);
                file.expect("a journal")
                    .write_all(b"0badc0de {\"entry\":{")
                    .expect("written");
            }
            Step::Check => {
                self.check();
                self.pending = self.disk_is_full;
            }
        }
        false
    }

    fn check(&mut self) {
        if let Some((plugin, _)) = &self.agent {
            let mut node = lock(&plugin.node);
            node.journaled_mut().retry_writing();
            let updates = node.release_pending(NOW);
            drop(node);
            if let Ok(Some(updates)) = updates {
                plugin.send_updates(updates);
            }
        }
    }

    fn find(&self, pod: usize, number: u8, state: State) -> Option<usize> {
        let uid = self.pods[pod].uid.as_str();
        self.containers
            .iter()
            .position(|one| one.pod.as_str() == uid && one.number == number && one.state == state)
    }

    /// Both messages of a container event.
    fn messages(&self, pod: usize, container: usize) -> (PodSandbox, Container) {
        let container = &self.containers[container];
        let sandboxes = self.pods[pod].sandboxes.iter();
        let id = container.sandbox.clone();
        let ready = sandboxes.clone().any(|one| one.id == id && one.ready);
        let sandbox = PlayedSandbox { id, ready };
        (
            self.sandbox_message(pod, &self.pods[pod].uid, &sandbox),
            message(container),
        )
    }

    fn run(&mut self, pod: usize) -> bool {
        if self.pods[pod].ended {
            let new = self.new_pod(pod);
            let ended = std::mem::replace(&mut self.pods[pod], new);
            self.ended_pods.push((pod, ended));
        }
        if self.pods[pod].sandboxes.iter().any(|one| one.ready) {
            return false;
        }
        self.made += 1;
        let sandbox = PlayedSandbox {
            id: format!("s{}", self.made),
            ready: true,
        };
        let message = self.sandbox_message(pod, &self.pods[pod].uid, &sandbox);
        let admitted = self.event(|plugin| plugin.run_pod_sandbox(&message));
        if admitted.is_ok() {
            self.pods[pod].sandboxes.push(sandbox);
        }
        admitted.is_err()
    }

    fn create(&mut self, pod: usize, number: u8) -> bool {
        let spec = &specs()[pod].pod;
        let Some(container) = spec.all_containers().nth(number.into()) else {
            return false;
        };
        let name = container.name.clone();
        let milli = container
            .requests
            .get("cpu")
            .map_or(0, pinfold_core::quantity::Quantity::milli_value);
        let uid: PodUid = self.pods[pod].uid.as_str().into();
        let ready = self.pods[pod].sandboxes.iter().find(|one| one.ready);
        let Some(sandbox) = ready.map(|one| one.id.clone()) else {
            return false;
        };
        let unfinished = |one: &PlayedContainer| {
            one.pod == uid && one.number == number && one.state != State::Stopped
        };
        if self.containers.iter().any(unfinished) {
            return false;
        }
        self.made += 1;
        let online = rules(self.offline, self.rules).machine().online().clone();
        self.containers.push(PlayedContainer {
            id: format!("c{}", self.made),
            pod: uid,
            name,
            number,
            sandbox,
            state: State::Creating,
            cpus: online,
            milli: u64::try_from(milli).unwrap_or(0),
        });
        let created = self.containers.len() - 1;
        let (sandbox, message) = self.messages(pod, created);
        let answer = self.event(|plugin| plugin.create_container(&sandbox, &message));
        let Ok(answer) = answer else {
            self.containers.pop();
            return true;
        };
        let linux = answer.adjust.and_then(|adjust| adjust.linux);
        let cpu = linux
            .and_then(|linux| linux.resources)
            .and_then(|all| all.cpu);
        if let Some(cpu) = cpu {
            self.containers[created].cpus = cpu.cpus.parse().expect("CPUs");
        }
        self.apply(&answer.update);
        false
    }

    fn created(&mut self, pod: usize, number: u8) {
        if let Some(index) = self.find(pod, number, State::Creating) {
            self.containers[index].state = State::Created;
            let (sandbox, message) = self.messages(pod, index);
            let _ = self.event(|plugin| plugin.post_create_container(&sandbox, &message));
        }
    }

    fn start(&mut self, pod: usize, number: u8) {
        if let Some(index) = self.find(pod, number, State::Created) {
            let (sandbox, message) = self.messages(pod, index);
            let allowed = self.event(|plugin| plugin.start_container(&sandbox, &message));
            if allowed.is_ok() {
                self.send_queued();
                self.containers[index].state = State::Running;
                let (sandbox, message) = self.messages(pod, index);
                let _ = self.event(|plugin| plugin.post_start_container(&sandbox, &message));
            }
        }
    }

    fn exit(&mut self, pod: usize, number: u8) {
        if let Some(index) = self.find(pod, number, State::Running) {
            self.stop_container(pod, index);
        }
    }

    fn stop_container(&mut self, pod: usize, index: usize) {
        self.containers[index].state = State::Stopped;
        let (sandbox, message) = self.messages(pod, index);
        if let Ok(updates) = self.event(|plugin| plugin.stop_container(&sandbox, &message)) {
            self.apply(&updates);
        }
    }

    fn remove_container(&mut self, pod: usize, number: u8) {
        if let Some(index) = self.find(pod, number, State::Stopped) {
            let (sandbox, message) = self.messages(pod, index);
            let _ = self.event(|plugin| plugin.remove_container(&sandbox, &message));
            self.containers.remove(index);
        }
    }

    fn stop_sandbox(&mut self, pod: usize) {
        let Some(at) = self.pods[pod].sandboxes.iter().position(|one| one.ready) else {
            return;
        };
        let id = self.pods[pod].sandboxes[at].id.clone();
        for index in 0..self.containers.len() {
            let container = &self.containers[index];
            if container.sandbox == id && container.state != State::Stopped {
                self.stop_container(pod, index);
            }
        }
        self.pods[pod].sandboxes[at].ready = false;
        let message = self.sandbox_message(pod, &self.pods[pod].uid, &self.pods[pod].sandboxes[at]);
        let _ = self.event(|plugin| plugin.stop_pod_sandbox(&message));
    }

    fn end(&mut self, pod: usize, status: Option<PodStatus>) {
        if self.pods[pod].ended || self.pods[pod].sandboxes.is_empty() {
            return;
        }
        self.stop_sandbox(pod);
        self.pods[pod].ended = true;
        let uid = self.pods[pod].uid.clone();
        self.api.with(|api| api.set(&uid, pod, status));
    }

    fn remove_sandbox(&mut self, pod: usize) {
        let stopped = self.pods[pod].sandboxes.iter().position(|one| !one.ready);
        if let Some(at) = stopped {
            let sandbox = self.pods[pod].sandboxes.remove(at);
            self.containers.retain(|one| one.sandbox != sandbox.id);
            let message = self.sandbox_message(pod, &self.pods[pod].uid, &sandbox);
            let _ = self.event(|plugin| plugin.remove_pod_sandbox(&message));
        }
    }

    fn resize(&mut self, pod: usize, number: u8) -> bool {
        let Some(index) = self.find(pod, number, State::Running) else {
            return false;
        };
        let (sandbox, message) = self.messages(pod, index);
        let milli = self.containers[index].milli + 1000;
        let wanted = resources(milli);
        let answer = self.event(|plugin| plugin.update_container(&sandbox, &message, &wanted));
        match answer {
            Ok(answer) => {
                self.containers[index].milli = milli;
                self.apply(&answer.update);
                false
            }
            Err(_) => true,
        }
    }

    // What the model reads.

    fn with_node<T>(&self, read: impl FnOnce(&ManagedNode) -> T) -> Option<T> {
        let (plugin, _) = self.agent.as_ref()?;
        Some(read(&lock(&plugin.node)))
    }

    /// Whether the agent runs.
    pub(super) fn is_managed(&self) -> bool {
        self.agent.is_some()
    }

    pub(super) fn state(&self) -> Option<LedgerState> {
        self.with_node(|node| node.journaled().ledger().state().clone())
    }

    pub(super) fn audit(&self) -> Vec<AuditFinding> {
        self.with_node(|node| node.journaled().ledger().audit())
            .unwrap_or_default()
    }

    pub(super) fn shared_pool(&self) -> CpuSet {
        let shared = self.with_node(|node| {
            let ledger = node.journaled().ledger();
            match ledger.state().cpus().shared() {
                shared if shared.is_empty() => ledger.rules().reserved_cpus(),
                shared => shared.clone(),
            }
        });
        shared.unwrap_or_default()
    }

    /// The CPUs that the rules in force allow pods to hold.
    pub(super) fn assignable_cpus(&self) -> CpuSet {
        let rules = self.with_node(|node| node.journaled().ledger().rules().clone());
        rules.map_or_else(CpuSet::new, |rules| {
            rules.machine().online() - &rules.reserved_cpus()
        })
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &PlayedContainer> {
        let containers = self.containers.iter();
        containers.filter(|container| container.state == State::Running)
    }

    /// The exclusive CPUs of a container in the ledger, whether its pod was admitted as a whole or not.
    pub(super) fn exclusive_cpus(&self, container: &PlayedContainer) -> Option<CpuSet> {
        let alone: PodUid = format!("{}/{}", container.pod, container.name).into();
        self.with_node(|node| {
            let cpus = node.journaled().ledger().state().cpus();
            let own = cpus.container(&container.pod, &container.name);
            own.or_else(|| cpus.container(&alone, &container.name))
                .cloned()
        })?
    }

    pub(super) fn held_by_running(&self) -> BTreeMap<String, (CpuSet, DevicesByResource)> {
        let held = self.running().filter_map(|container| {
            let cpus = self.exclusive_cpus(container)?;
            let devices = self.with_node(|node| node.devices(&container.pod, &container.name))?;
            Some((container.id.clone(), (cpus, devices)))
        });
        held.collect()
    }

    /// Whether the agent has the container.
    pub(super) fn knows(&self, container: &PlayedContainer) -> bool {
        self.with_node(|node| node.container(&container.id).is_some())
            .unwrap_or(true)
    }

    /// Whether the agent has seen that the API server has the pod, and the pod goes on.
    pub(super) fn is_active(&self, uid: &str) -> bool {
        let goes_on = self.pods.iter().any(|pod| pod.uid == uid && !pod.ended);
        let seen = |api: &mut ApiServer| api.seen.get(uid).map(|(_, status)| *status);
        let is_seen = self.api.with(seen) == Some(PodStatus::Active);
        self.setup.api_server && goes_on && is_seen
    }

    /// Exclusive CPUs of the pods that were admitted as a whole and go on.
    pub(super) fn held_by_active(&self) -> BTreeMap<String, CpuSet> {
        let held = self.with_node(|node| {
            let ledger = node.journaled().ledger();
            let pods = ledger.state().admitted_pods().keys();
            let held = pods.map(|uid| (uid.to_string(), ledger.exclusive_cpus(uid)));
            held.filter(|(uid, _)| self.is_active(uid)).collect()
        });
        held.unwrap_or_default()
    }

    /// Pods that ended and hold resources. With an API server and on a full disk they may do so until the next check.
    pub(super) fn ended_but_held(&self, step: Step) -> Vec<String> {
        let delivered = self.api.with(|api| api.listed && api.events.is_empty());
        let checked = step == Step::Check && delivered;
        if self.pending || (self.setup.api_server && !checked) {
            return Vec::new();
        }
        let held = self.with_node(|node| {
            let pods = node.journaled().ledger().state().admitted_pods();
            pods.keys().map(ToString::to_string).collect::<Vec<_>>()
        });
        let alive = |uid: &str| {
            let uid = uid.split('/').next().unwrap_or(uid);
            self.pods.iter().any(|pod| pod.uid == uid && !pod.ended)
        };
        let held = held.unwrap_or_default().into_iter();
        held.filter(|uid| !alive(uid)).collect()
    }
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn resources(milli: u64) -> LinuxResources {
    let shares = milli * 1024 / 1000;
    let quota = i64::try_from(milli * 100).expect("small");
    let resources = LinuxResources::default().cpu_quota(quota, 100_000);
    resources.cpu_shares(shares).memory_limit(64 << 20)
}

fn message(container: &PlayedContainer) -> Container {
    let state = match container.state {
        State::Creating => ContainerState::Unknown,
        State::Created => ContainerState::Created,
        State::Running => ContainerState::Running,
        State::Stopped => ContainerState::Stopped,
    };
    Container {
        id: container.id.clone(),
        pod_sandbox_id: container.sandbox.clone(),
        name: container.name.to_string(),
        state: state.into(),
        linux: Some(LinuxContainer {
            resources: Some(resources(container.milli)),
            ..LinuxContainer::default()
        }),
        ..Container::default()
    }
}
