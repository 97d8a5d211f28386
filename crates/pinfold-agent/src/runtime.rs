//! [`Runtime`]: the node's side of the Node Resource Interface. Words of the runtime in, adjustments and updates out.
//!
//! Runtimes go on without a plugin that is slow, so everything is answered from memory; the one thing that is waited
//! for is the journal. What frees something for others is told them from another thread: a runtime cannot be asked
//! for anything while it waits for an answer.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nri::api::{
    Container, ContainerAdjustment, ContainerState, ContainerUpdate, CreateContainerResponse,
    Event, Events, LinuxResources, PodSandbox, UpdateContainerResponse,
};
use nri::{Plugin, Refusal, RuntimeInfo};
use pinfold_core::device::NoPreference;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_devices::Host;
use pinfold_devices::align;
use pinfold_devices::pod_resources::Reader;
use pinfold_kube::pod::{PodObject, is_extended};

use crate::allowance::{Allowance, Quota};
use crate::journal::Timestamp;
use crate::keeper::KeeperError;
use crate::node::{Asked, Guest, Node, Refused, Remark, Sandbox, Update};

mod edits;

/// Where specifications of pods come from.
pub trait Specifications: Send {
    /// The pod, if it is known or becomes known in time.
    fn pod(&self, uid: &PodUid, wait: Duration) -> Option<Arc<PodObject>>;
}

/// Nobody knows any specification.
#[derive(Clone, Copy, Debug)]
pub struct NoSpecifications;

impl Specifications for NoSpecifications {
    fn pod(&self, _: &PodUid, _: Duration) -> Option<Arc<PodObject>> {
        None
    }
}

/// Somebody who wants to know what happens: logs, metrics, events.
pub trait Witness: Send + Sync {
    /// A runtime is connected.
    fn connected(&self, runtime: &RuntimeInfo);
    /// A pod or container was decided about.
    fn decided(&self, what: &Subject<'_>, refused: Option<&str>, took: Duration);
    /// Something was not as the journal says.
    fn remarked(&self, remark: &Remark);
    /// Something could not be written down.
    fn failed(&self, error: &KeeperError);
    /// Something did not go as it should; what was done all the same is said too.
    fn troubled(&self, problem: &str);
    /// Something changed in the ledger.
    fn changed(&self);
}

/// What was decided about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The pod.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The container; `None` for the pod as a whole.
    pub container: Option<&'a str>,
}

/// How long to wait for the specification of a pod that has just been bound to this node.
const PATIENCE: Duration = Duration::from_millis(500);

/// Runtimes forbid nothing less than this as a quota: no limit.
const NO_QUOTA: i64 = -1;
/// The period that goes with it.
const PERIOD: u64 = 100_000;

/// The plugin.
pub struct Runtime {
    /// What runs here.
    pub node: Arc<Mutex<Node>>,
    /// Where specifications of pods come from.
    pub specifications: Box<dyn Specifications>,
    /// Whose devices are given out.
    pub devices: Devices,
    /// Who wants to know what happens.
    pub witness: Arc<dyn Witness>,
    /// What others may use from now on, for the thread that tells them.
    pub others: SyncSender<Vec<Update>>,
    /// What time it is.
    pub clock: fn() -> Timestamp,
}

/// Who gives out devices.
pub enum Devices {
    /// We do, with plugins of our own.
    Ours(Arc<Host>),
    /// The kubelet does; it tells which on request.
    Kubelets(Reader),
    /// Nobody.
    Nobodys,
}

impl Runtime {
    /// The pod as it is to be decided about: beside the devices that the kubelet has given it, if it has.
    fn with_devices(&self, pod: &PodObject) -> Option<align::Aligned> {
        let Devices::Kubelets(reader) = &self.devices else {
            return None;
        };
        let mut asked = pod.pod.all_containers().flat_map(|one| one.limits.keys());
        if !asked.any(|resource| is_extended(resource.as_str())) {
            return None;
        }
        match reader.get(&pod.meta.namespace, &pod.meta.name) {
            Ok(answer) => Some(align::aligned(&pod.pod, &align::given(&answer))),
            Err(error) => {
                let name = &pod.pod.name;
                self.witness.troubled(&format!(
                    "the kubelet does not tell the devices of {name}, so it is not aligned to them: {error}"
                ));
                None
            }
        }
    }

    /// What a container needs for its devices.
    fn device_edits(
        &self,
        adjustment: ContainerAdjustment,
        pod: &PodUid,
        name: &ContainerName,
    ) -> Result<ContainerAdjustment, Refusal> {
        let Devices::Ours(host) = &self.devices else {
            return Ok(adjustment);
        };
        let devices = lock(&self.node).devices(pod, name);
        if devices.is_empty() {
            return Ok(adjustment);
        }
        let wanted = host.allocate(pod, name, &devices)?;
        for conflict in &wanted.conflicts {
            self.witness.troubled(&conflict.to_string());
        }
        Ok(edits::adjust(adjustment, &wanted)?)
    }

    /// Tells others later what they may use; drift is repaired if that is not possible.
    fn tell_later(&self, updates: Vec<Update>) {
        if !updates.is_empty() {
            let _ = self.others.try_send(updates);
        }
    }

    /// Something left: what it held is free for others.
    fn freed(&self, freed: Result<Vec<Update>, KeeperError>) -> Result<(), Refusal> {
        match freed {
            Ok(updates) => {
                self.witness.changed();
                self.tell_later(updates);
                Ok(())
            }
            Err(error) => {
                self.witness.failed(&error);
                Err(Refusal::new(error.to_string()))
            }
        }
    }

    fn refusal(&self, refused: &Refused) -> Refusal {
        if let Refused::Keeper(error) = refused {
            self.witness.failed(error);
        }
        Refusal::new(format!("Pinfold: {refused}"))
    }
}

/// The node, whatever became of the thread that had it last: every change of it is whole.
pub(crate) fn lock(node: &Mutex<Node>) -> MutexGuard<'_, Node> {
    node.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plugin for Runtime {
    fn events(&self) -> Events {
        Events::of(&[
            Event::RunPodSandbox,
            Event::StopPodSandbox,
            Event::RemovePodSandbox,
            Event::CreateContainer,
            Event::StartContainer,
            Event::PostStartContainer,
            Event::UpdateContainer,
            Event::StopContainer,
            Event::RemoveContainer,
        ])
    }

    fn configure(&mut self, runtime: &RuntimeInfo) -> Result<(), Refusal> {
        self.witness.connected(runtime);
        Ok(())
    }

    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        let sandboxes: Vec<Sandbox> = pods.iter().map(sandbox).collect();
        let alive = |container: &&Container| container.state() != ContainerState::Stopped;
        let guests = containers.iter().filter(alive).filter_map(|container| {
            let home = |sandbox: &&Sandbox| sandbox.id == container.pod_sandbox_id;
            Some(guest(container, sandboxes.iter().find(home)?))
        });
        let guests: Vec<Guest> = guests.collect();
        let with_specification = |sandbox: Sandbox| {
            let pod = self.specifications.pod(&sandbox.uid, Duration::ZERO);
            (sandbox, pod)
        };
        let pods = sandboxes.into_iter().map(with_specification).collect();
        let now = (self.clock)();
        let outcome = match &self.devices {
            Devices::Ours(host) => {
                lock(&self.node).synchronize(pods, guests, &mut host.advice(), now)
            }
            _ => lock(&self.node).synchronize(pods, guests, &mut NoPreference, now),
        };
        self.witness.changed();
        match outcome {
            Ok((updates, remarks)) => {
                for remark in &remarks {
                    self.witness.remarked(remark);
                }
                Ok(updates.iter().map(update).collect())
            }
            Err(error) => {
                self.witness.failed(&error);
                Err(Refusal::new(error.to_string()))
            }
        }
    }

    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Refusal> {
        let start = Instant::now();
        let sandbox = sandbox(pod);
        let specification = self.specifications.pod(&sandbox.uid, PATIENCE);
        let beside = specification.as_deref();
        let beside = beside.and_then(|pod| self.with_devices(pod));
        let waited = start.elapsed();
        let now = (self.clock)();
        let outcome = match (&self.devices, beside, specification.as_deref()) {
            (_, Some(beside), Some(pod)) => {
                lock(&self.node).pod_comes_with_devices(sandbox, pod, beside, now)
            }
            (Devices::Ours(host), _, pod) => {
                lock(&self.node).pod_comes(sandbox, pod, &mut host.advice(), now)
            }
            (_, _, pod) => lock(&self.node).pod_comes(sandbox, pod, &mut NoPreference, now),
        };
        let why = outcome.as_ref().err().map(ToString::to_string);
        let took = start.elapsed().saturating_sub(waited);
        self.witness
            .decided(&subject(pod, None), why.as_deref(), took);
        let updates = outcome.map_err(|refused| self.refusal(&refused))?;
        self.witness.changed();
        self.tell_later(updates);
        Ok(())
    }

    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Refusal> {
        let freed = lock(&self.node).pod_stops(&pod.id, (self.clock)());
        if let Devices::Ours(host) = &self.devices
            && let Err(error) = host.forget(&sandbox(pod).uid)
        {
            self.witness.troubled(&error.to_string());
        }
        self.freed(freed)
    }

    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Refusal> {
        self.stop_pod_sandbox(pod)
    }

    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, Refusal> {
        let start = Instant::now();
        let guest = guest(container, &sandbox(pod));
        let (uid, name) = (guest.pod.clone(), guest.name.clone());
        let now = (self.clock)();
        let outcome = match &self.devices {
            Devices::Ours(host) => lock(&self.node).container_comes(guest, &mut host.advice(), now),
            _ => lock(&self.node).container_comes(guest, &mut NoPreference, now),
        };
        let why = outcome.as_ref().err().map(ToString::to_string);
        let subject = subject(pod, Some(&container.name));
        self.witness
            .decided(&subject, why.as_deref(), start.elapsed());
        let (allowance, others) = outcome.map_err(|refused| self.refusal(&refused))?;
        self.witness.changed();
        let mut adjust = ContainerAdjustment::new();
        if let Some(allowance) = allowance {
            adjust = adjust.resources(|resources| resources_of(resources, &allowance));
        }
        let adjust = match self.device_edits(adjust, &uid, &name) {
            Ok(adjust) => adjust,
            Err(refusal) => {
                // It is not created, so nobody will tell that it is gone.
                self.remove_container(pod, container)?;
                return Err(refusal);
            }
        };
        Ok(CreateContainerResponse {
            adjust: Some(adjust),
            update: others.iter().map(update).collect(),
            ..CreateContainerResponse::default()
        })
    }

    fn start_container(&mut self, pod: &PodSandbox, container: &Container) -> Result<(), Refusal> {
        if let Devices::Ours(host) = &self.devices {
            host.pre_start(&sandbox(pod).uid, &container.name.as_str().into())?;
        }
        Ok(())
    }

    fn post_start_container(
        &mut self,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        let mut node = lock(&self.node);
        let started = node.container_started(&container.id, (self.clock)());
        // A limit on the CPU time of its pod as a whole can only be lifted now that there is a group.
        let own = node.container_changes(&container.id);
        drop(node);
        let lifted = own.filter(|own| own.quota == Quota::Lifted);
        let update = lifted.map(|allowance| Update {
            container: container.id.clone(),
            allowance,
        });
        self.freed(started.map(|others| others.into_iter().chain(update).collect()))
    }

    fn update_container(
        &mut self,
        _: &PodSandbox,
        container: &Container,
        _: &LinuxResources,
    ) -> Result<UpdateContainerResponse, Refusal> {
        let allowance = lock(&self.node).container_changes(&container.id);
        let updates = allowance.map(|allowance| {
            let container = container.id.clone();
            update(&Update {
                container,
                allowance,
            })
        });
        Ok(updates.into_iter().collect::<Vec<_>>().into())
    }

    fn stop_container(
        &mut self,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, Refusal> {
        // What it held alone is free at once: it may be an init container whose CPUs the next one needs.
        let freed = lock(&self.node).container_goes(&container.id, (self.clock)());
        self.freed(freed)?;
        Ok(Vec::new())
    }

    fn remove_container(&mut self, _: &PodSandbox, container: &Container) -> Result<(), Refusal> {
        let freed = lock(&self.node).container_goes(&container.id, (self.clock)());
        self.freed(freed)
    }
}

/// An update as the runtime wants it. A container that ends this very moment is no reason to fail anything.
#[must_use]
pub fn update(update: &Update) -> ContainerUpdate {
    ContainerUpdate::new(&update.container)
        .resources(|resources| resources_of(resources, &update.allowance))
        .ignore_failure()
}

fn resources_of(resources: LinuxResources, allowance: &Allowance) -> LinuxResources {
    let mut resources = resources;
    if !allowance.cpus.is_empty() {
        resources = resources.cpus(allowance.cpus.to_string());
    }
    if !allowance.mems.is_empty() {
        resources = resources.mems(allowance.mems.to_string());
    }
    match allowance.quota {
        Quota::AsAsked => resources,
        Quota::Lifted => resources.cpu_quota(NO_QUOTA, PERIOD),
    }
}

fn subject<'a>(pod: &'a PodSandbox, container: Option<&'a str>) -> Subject<'a> {
    Subject {
        uid: &pod.uid,
        namespace: &pod.namespace,
        name: &pod.name,
        container,
    }
}

fn sandbox(pod: &PodSandbox) -> Sandbox {
    let linux = pod.linux.clone().unwrap_or_default();
    Sandbox {
        id: pod.id.clone(),
        // Sandboxes that no kubelet makes may lack one.
        uid: match pod.uid.as_str() {
            "" => pod.id.as_str().into(),
            uid => uid.into(),
        },
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        labels: pod.labels.clone(),
        annotations: pod.annotations.clone(),
        cgroup_parent: linux.cgroup_parent,
        total: asked(linux.pod_resources.as_ref()),
    }
}

fn guest(container: &Container, sandbox: &Sandbox) -> Guest {
    let name = container.name.as_str().into();
    let mut guest = Guest::new(container.id.clone(), sandbox, name);
    if let Some(linux) = &container.linux {
        guest.cgroup.clone_from(&linux.cgroups_path);
        guest.asked = asked(linux.resources.as_ref());
    }
    guest
}

fn asked(resources: Option<&LinuxResources>) -> Asked {
    let Some(resources) = resources else {
        return Asked::default();
    };
    let cpu = resources.cpu.clone().unwrap_or_default();
    let pages = resources.hugepage_limits.iter();
    Asked {
        cpu_shares: cpu.shares,
        cpu_quota: cpu.quota,
        cpu_period: cpu.period,
        memory_limit: resources.memory.as_ref().and_then(|memory| memory.limit),
        hugepages: pages
            .map(|page| (page.page_size.clone(), page.limit))
            .collect(),
        cpus: cpu.cpus,
    }
}
