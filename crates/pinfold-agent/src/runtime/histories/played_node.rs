//! [`PlayedNode`]: the kubelet, runtime, API server and disk around one agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nri::api::{
    Container, ContainerState, ContainerUpdate, LinuxContainer, LinuxCpu, LinuxNamespace,
    LinuxPodSandbox, LinuxResources, PodSandbox,
};
use nri::{EventError, Plugin, RuntimeInfo};
use pinfold_cluster::koordinator::plugin::KoordinatorArgs;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::{AdvertisedDevices, Device, DevicesByResource};
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::node_set::NodeSet;
use pinfold_devices::pod_resources::PodResourcesClient;
use pinfold_journal::{FILE, JournalLimits, Timestamp};
use tempfile::TempDir;

use super::super::tests::Listener;
use super::super::{DeviceSource, NriPlugin, PodSpecSource, lock};
use super::api_server::{ApiServer, PodView};
use super::kubelet_cpus::KubeletCpus;
use super::pod_specs::{BURSTABLE, WITH_DEVICE, labels, specs, total_milli};
use super::rules::{NodeVariant, rules};
use super::{Runtime, Setup, Step};
use crate::journaled_ledger::JournaledLedger;
use crate::node::{
    Koordinator, KubeletPins, ManagedNode, PodStatus, Rulebook, UnknownContainers, Update,
};

/// A container of the played runtime.
pub(super) struct PlayedContainer {
    pub(super) id: String,
    pub(super) pod: PodUid,
    pub(super) name: ContainerName,
    number: u8,
    sandbox: String,
    pub(super) state: State,
    /// The CPUs of its cgroup.
    pub(super) cpus: CpuSet,
    /// Whether its cgroup has CPUs of its own, and not those of the cgroup above it.
    pub(super) has_cpus: bool,
    /// The memory nodes of its cgroup; `None` for those of the cgroup above it.
    pub(super) mems: Option<NodeSet>,
    /// The CPU quota of its cgroup; negative for none.
    pub(super) quota: i64,
    /// The CPUs that it requests, which are its limit too.
    pub(super) milli: u64,
    /// Whether it was resized while the agent was down.
    pub(super) resized_unseen: bool,
}

impl PlayedContainer {
    /// Writes its cgroup as the runtime does: what a message leaves out stays.
    fn set(&mut self, cpu: &LinuxCpu) {
        if !cpu.cpus.is_empty() {
            self.has_cpus = true;
            self.cpus = cpu.cpus.parse().expect("CPUs");
        }
        if !cpu.mems.is_empty() {
            self.mems = Some(nodes(&cpu.mems));
        }
        self.quota = cpu.quota.unwrap_or(self.quota);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Creating,
    Created,
    Running,
    Stopped,
}

pub(super) struct PlayedSandbox {
    id: String,
    ready: bool,
    /// Whether it was stopped while the agent was down, or could not journal it.
    pub(super) stopped_unseen: bool,
}

/// A pod of the played kubelet. A new pod takes its place when it ended.
pub(super) struct PlayedPod {
    pub(super) uid: String,
    pub(super) sandboxes: Vec<PlayedSandbox>,
    pub(super) ended: bool,
}

/// Who pins containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The kubelet's static CPU manager; the agent journals its own decisions only.
    Kubelet,
    /// The agent.
    Agent,
}

/// A node with an agent, of which everything else is played.
pub(super) struct PlayedNode {
    pub(super) setup: Setup,
    folder: TempDir,
    pub(super) agent: Option<(NriPlugin, Receiver<Vec<Update>>)>,
    pub(super) api: PodView,
    pub(super) pods: Vec<PlayedPod>,
    /// Earlier pods whose sandboxes the runtime still lists.
    ended_pods: Vec<(usize, PlayedPod)>,
    pub(super) containers: Vec<PlayedContainer>,
    pub(super) phase: Phase,
    pub(super) kubelet: KubeletCpus,
    /// What containers held when the agent was killed.
    pub(super) held_at_kill: BTreeMap<String, (CpuSet, DevicesByResource)>,
    variant: NodeVariant,
    disk_is_full: bool,
    /// Whether releases may be pending because the disk was full.
    pub(super) pending: bool,
    made: usize,
}

impl PlayedNode {
    pub(super) fn new(setup: Setup) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let variant = NodeVariant {
            koordinator: setup.koordinator,
            ..NodeVariant::default()
        };
        let first = rules(variant);
        let mut node = Self {
            setup,
            folder: folder.expect("a folder"),
            agent: None,
            api: PodView::default(),
            pods: Vec::new(),
            ended_pods: Vec::new(),
            containers: Vec::new(),
            phase: match setup.takeover {
                true => Phase::Kubelet,
                false => Phase::Agent,
            },
            kubelet: KubeletCpus::new(first.machine().online().clone(), first.reserved_cpus()),
            held_at_kill: BTreeMap::new(),
            variant,
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
        let rules = rules(self.variant);
        let folder = self.folder.path().join("agent");
        let journaled = JournaledLedger::open(&folder, rules.clone(), JournalLimits::default());
        let journaled = journaled.expect("a journal");
        let rulebook = match self.setup.koordinator {
            true => Rulebook::Koordinator(Box::new(Koordinator::new(
                &rules,
                KoordinatorArgs::default(),
            ))),
            false => Rulebook::Kubelet,
        };
        let mut node = ManagedNode::new(
            journaled,
            rulebook,
            UnknownContainers::Adopt,
            KubeletPins {
                pods: self.kubelet.assigned.clone(),
            },
        );
        if self.phase == Phase::Kubelet {
            node = node.observe_only();
        }
        if self.setup.api_server {
            node = node.with_pod_status(Arc::new(self.api.clone()));
        }
        if self.has_devices() {
            let device = |numa| Device {
                numa: Some(vec![numa]),
                healthy: true,
            };
            let devices: AdvertisedDevices =
                [("gpu0".into(), device(0)), ("gpu1".into(), device(1))].into();
            let journaled = node.journaled_mut();
            let offered = journaled.set_devices(&"vendor.com/gpu".into(), Some(devices), NOW);
            offered.expect("written");
        }
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
            pins: self.phase == Phase::Agent,
            telemetry: Arc::new(Listener::default()),
            updates,
            clock: || NOW,
            runtime_sends_pids: false,
        };
        self.agent = Some((plugin, later));
        self.change_rules();
        self.synchronize();
    }

    /// Whether the agent assigns devices: those of a node with a kubelet are the kubelet's, and Koordinator's rules have none.
    fn has_devices(&self) -> bool {
        !self.setup.takeover && !self.setup.koordinator
    }

    /// Applies the current machine and configuration, as at the start, after a hotplug and after SIGHUP.
    fn change_rules(&mut self) {
        let rules = rules(self.variant);
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
            BURSTABLE => "burstable/",
            _ => "",
        };
        // CRI-O keeps those of stopped ones in its list.
        let namespaces = match (self.setup.runtime, sandbox.ready) {
            (Runtime::CriO, _) | (_, true) => vec![LinuxNamespace::default()],
            (Runtime::Containerd, false) => Vec::new(),
        };
        PodSandbox {
            id: sandbox.id.clone(),
            uid: uid.to_owned(),
            namespace: "default".to_owned(),
            name: uid.to_owned(),
            labels: labels(pod).into_iter().collect(),
            pid: match self.setup.runtime {
                Runtime::Containerd => u32::from(sandbox.ready),
                Runtime::CriO => 0,
            },
            linux: Some(LinuxPodSandbox {
                cgroup_parent: format!("/kubepods/{class}pod{uid}"),
                namespaces,
                pod_resources: Some(resources(total_milli(pod))),
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
                container.set(cpus);
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
            Step::Run(pod) => return self.run(pod.into(), true),
            Step::RunUnseen(pod) => return self.run(pod.into(), false),
            Step::Create(pod, number) => return self.create(pod.into(), number),
            Step::Created(pod, number) => self.created(pod.into(), number),
            Step::Start(pod, number) => self.start(pod.into(), number),
            Step::Exit(pod, number) => self.exit(pod.into(), number),
            Step::RemoveContainer(pod, number) => self.remove_container(pod.into(), number),
            Step::PauseDies(pod) => self.stop_sandbox(pod.into()),
            Step::Complete(pod) => self.end(pod.into(), Some(PodStatus::Terminated)),
            Step::Delete(pod) => self.end(pod.into(), None),
            Step::RemoveSandbox(pod) => self.remove_sandbox(pod.into()),
            Step::Resize(pod, number) => {
                return self.resize(pod.into(), number, |milli| milli + 1000);
            }
            Step::Shrink(pod, number) => return self.resize(pod.into(), number, |milli| milli / 2),
            Step::Vanish(pod) => self.vanish(pod.into()),
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
            Step::Kill => self.kill(),
            Step::TakeOver => self.take_over(),
            Step::Reboot(memory) => self.reboot(memory),
            Step::StartAgent => self.start_agent(),
            Step::RestartRuntime => self.synchronize(),
            // The played kubelet of a takeover knows one machine and one configuration.
            Step::Offline(_) | Step::Rules(_) if self.setup.takeover => {}
            Step::Offline(offline) => {
                self.variant.offline = offline;
                self.change_rules();
            }
            Step::Rules(settings) => {
                self.variant.settings = settings;
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
                self.kill();
                let journal = self.folder.path().join("agent").join(FILE);
                let written = std::fs::read(&journal).expect("a journal");
                // Blank lines after it are preallocated space.
                let last = written.iter().rposition(|&byte| byte != b'\n');
                let end = last.map_or(0, |last| last + 2);
                let file = OpenOptions::new().write(true).open(journal);
                let torn = file.expect("a journal");
                let torn = torn.write_all_at(b"0badc0de {\"entry\":{", end as u64);
                torn.expect("written");
            }
            Step::Check => {
                self.check();
                self.pending = self.disk_is_full;
            }
        }
        false
    }

    fn kill(&mut self) {
        if self.agent.is_some() {
            self.held_at_kill = self.held_by_containers();
        }
        self.agent = None;
    }

    /// The agent is started with the configuration that pins containers; the second time, the kubelet's state file is
    /// deleted.
    fn take_over(&mut self) {
        if self.phase == Phase::Agent {
            self.kubelet.assigned.clear();
            if let Some((plugin, _)) = &self.agent {
                lock(&plugin.node).set_kubelet_pins(KubeletPins::default());
            }
            return;
        }
        self.kill();
        self.phase = Phase::Agent;
        self.start_agent();
    }

    /// The machine boots with other memory: nothing runs, and the runtime lists all sandboxes as not ready.
    fn reboot(&mut self, memory: u8) {
        self.kill();
        self.variant.memory = memory;
        let containers = self.containers.iter_mut();
        containers.for_each(|container| container.state = State::Stopped);
        let sandboxes = self.pods.iter_mut().flat_map(|pod| &mut pod.sandboxes);
        sandboxes.for_each(|sandbox| {
            sandbox.stopped_unseen |= sandbox.ready;
            sandbox.ready = false;
        });
    }

    /// The kubelet sets the CPUs of containers without exclusive ones.
    fn set_default_cpus(&mut self) {
        if self.phase == Phase::Kubelet {
            for container in &mut self.containers {
                container.cpus = self.kubelet.of(&container.pod, &container.name);
            }
        }
    }

    fn check(&mut self) {
        if let Some((plugin, _)) = &self.agent {
            let mut node = lock(&plugin.node);
            if node.journaled().folder_to_probe().is_some() && !self.disk_is_full {
                node.journaled_mut().clear_write_error();
            }
            let updates = node.release_pending(NOW);
            drop(node);
            if let Ok(Some(updates)) = updates {
                plugin.send_updates(updates);
            }
        }
    }

    /// Whether nothing says that a pod ended: CRI-O lists its stopped sandbox as one that may run, and there is no API
    /// server.
    pub(super) fn may_run(&self, uid: &str) -> bool {
        let unsaid = self.setup.runtime == Runtime::CriO && !self.setup.api_server;
        let ended = self.ended_pods.iter().map(|(_, pod)| pod);
        let mut pods = self.pods.iter().chain(ended);
        let pod = pods.find(|pod| pod.uid == uid);
        unsaid && pod.is_some_and(|pod| pod.sandboxes.iter().any(|one| one.stopped_unseen))
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
        let sandbox = PlayedSandbox {
            id,
            ready,
            stopped_unseen: false,
        };
        (
            self.sandbox_message(pod, &self.pods[pod].uid, &sandbox),
            message(container),
        )
    }

    fn run(&mut self, pod: usize, is_seen: bool) -> bool {
        if pod == WITH_DEVICE && !self.has_devices() {
            return false;
        }
        if self.pods[pod].ended {
            let new = self.new_pod(pod);
            let ended = std::mem::replace(&mut self.pods[pod], new);
            self.ended_pods.push((pod, ended));
        }
        if self.pods[pod].sandboxes.iter().any(|one| one.ready) {
            return false;
        }
        if self.phase == Phase::Kubelet {
            let uid = self.pods[pod].uid.as_str().into();
            if !self.kubelet.admit(&uid, &specs()[pod].pod) {
                return false;
            }
            self.set_default_cpus();
        }
        self.made += 1;
        let sandbox = PlayedSandbox {
            id: format!("s{}", self.made),
            ready: true,
            stopped_unseen: false,
        };
        let message = self.sandbox_message(pod, &self.pods[pod].uid, &sandbox);
        let admitted = match is_seen {
            true => self.event(|plugin| plugin.run_pod_sandbox(&message)),
            false => Ok(()),
        };
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
        let cpus = match self.phase {
            Phase::Kubelet => self.kubelet.of(&uid, &name),
            Phase::Agent => rules(self.variant).machine().online().clone(),
        };
        self.containers.push(PlayedContainer {
            id: format!("c{}", self.made),
            pod: uid,
            name,
            number,
            sandbox,
            state: State::Creating,
            cpus,
            has_cpus: self.phase == Phase::Kubelet,
            mems: None,
            quota: milli * 100,
            milli: u64::try_from(milli).unwrap_or(0),
            resized_unseen: false,
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
            self.containers[created].set(&cpu);
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
        // What could not be journaled is forgotten when the agent is killed.
        self.pods[pod].sandboxes[at].stopped_unseen = self.agent.is_none() || self.disk_is_full;
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
        self.api.with(|api| {
            if api.has(&uid) {
                api.set(&uid, pod, status);
            }
        });
        if self.phase == Phase::Kubelet {
            self.kubelet.assigned.remove(uid.as_str());
            self.set_default_cpus();
        }
    }

    fn vanish(&mut self, pod: usize) {
        let played = &self.pods[pod];
        if !played.ended && !played.sandboxes.is_empty() {
            self.api.with(|api| api.set(&played.uid, pod, None));
        }
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

    fn resize(&mut self, pod: usize, number: u8, change: fn(u64) -> u64) -> bool {
        let Some(index) = self.find(pod, number, State::Running) else {
            return false;
        };
        let (sandbox, message) = self.messages(pod, index);
        let milli = change(self.containers[index].milli);
        let wanted = resources(milli);
        let answer = self.event(|plugin| plugin.update_container(&sandbox, &message, &wanted));
        match answer {
            Ok(answer) => {
                let unseen = self.agent.is_none();
                let container = &mut self.containers[index];
                container.milli = milli;
                container.quota = quota(milli);
                container.resized_unseen |= unseen;
                self.apply(&answer.update);
                false
            }
            Err(_) => true,
        }
    }
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn quota(milli: u64) -> i64 {
    i64::try_from(milli * 100).expect("small")
}

fn resources(milli: u64) -> LinuxResources {
    let shares = milli * 1024 / 1000;
    let resources = LinuxResources::default().cpu_quota(quota(milli), 100_000);
    resources.cpu_shares(shares).memory_limit(64 << 20)
}

/// The resources of a container as the runtime lists them.
fn listed_resources(container: &PlayedContainer) -> LinuxResources {
    let resources = resources(container.milli).cpu_quota(container.quota, 100_000);
    let resources = match container.has_cpus {
        true => resources.cpus(container.cpus.to_string()),
        false => resources,
    };
    match container.mems {
        Some(mems) => resources.mems(mems.to_string()),
        None => resources,
    }
}

/// NUMA nodes in the kernel's list format.
fn nodes(list: &str) -> NodeSet {
    let ids: CpuSet = list.parse().expect("a list");
    NodeSet::from_ids(ids.iter().map(|id| i64::from(id.get()))).expect("nodes")
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
            resources: Some(listed_resources(container)),
            ..LinuxContainer::default()
        }),
        ..Container::default()
    }
}
