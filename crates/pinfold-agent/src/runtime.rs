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
use pinfold_core::device::PreferredAllocation;
use pinfold_core::name::PodUid;
use pinfold_kube::pod::PodObject;

use crate::allowance::{Allowance, Quota};
use crate::journal::Timestamp;
use crate::keeper::KeeperError;
use crate::node::{Asked, Guest, Node, Refused, Remark, Sandbox, Update};

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
    node: Arc<Mutex<Node>>,
    specifications: Box<dyn Specifications>,
    devices: Box<dyn PreferredAllocation + Send>,
    witness: Arc<dyn Witness>,
    /// What others may use from now on, for the thread that tells them.
    others: SyncSender<Vec<Update>>,
    clock: fn() -> Timestamp,
}

impl Runtime {
    /// The plugin of a node.
    pub fn new(
        node: Arc<Mutex<Node>>,
        specifications: Box<dyn Specifications>,
        devices: Box<dyn PreferredAllocation + Send>,
        witness: Arc<dyn Witness>,
        others: SyncSender<Vec<Update>>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self {
            node,
            specifications,
            devices,
            witness,
            others,
            clock,
        }
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
            Event::PostStartContainer,
            Event::UpdateContainer,
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
        let outcome = lock(&self.node).synchronize(pods, guests, &mut *self.devices, now);
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
        let waited = start.elapsed();
        let outcome = lock(&self.node).pod_comes(
            sandbox,
            specification.as_deref(),
            &mut *self.devices,
            (self.clock)(),
        );
        let why = outcome.as_ref().err().map(ToString::to_string);
        let took = start.elapsed().saturating_sub(waited);
        self.witness
            .decided(&subject(pod, None), why.as_deref(), took);
        let updates = outcome.map_err(|refused| self.refusal(&refused))?;
        self.tell_later(updates);
        Ok(())
    }

    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Refusal> {
        let freed = lock(&self.node).pod_stops(&pod.id, (self.clock)());
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
        let now = (self.clock)();
        let outcome = lock(&self.node).container_comes(guest, &mut *self.devices, now);
        let why = outcome.as_ref().err().map(ToString::to_string);
        let subject = subject(pod, Some(&container.name));
        self.witness
            .decided(&subject, why.as_deref(), start.elapsed());
        let (allowance, others) = outcome.map_err(|refused| self.refusal(&refused))?;
        let adjust = allowance.map(|allowance| {
            ContainerAdjustment::new().resources(|resources| resources_of(resources, &allowance))
        });
        Ok(CreateContainerResponse {
            adjust,
            update: others.iter().map(update).collect(),
            ..CreateContainerResponse::default()
        })
    }

    fn post_start_container(
        &mut self,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        let started = lock(&self.node).container_started(&container.id, (self.clock)());
        self.freed(started.map(|()| Vec::new()))
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
