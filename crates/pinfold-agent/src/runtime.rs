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
use nri::{Plugin, Rejection, RuntimeInfo};
use pinfold_core::device::NoPreference;
use pinfold_core::name::PodUid;
use pinfold_kube::pod::PodObject;

use crate::allowance::Quota;
use crate::journaled_ledger::JournaledLedgerError;
use crate::node::{Guest, Node, Rejected, Remark, Sandbox, Update};
use pinfold_journal::Timestamp;

mod devices;
mod edits;
mod errands;
mod words;

pub(crate) use devices::given_to_strangers;
pub use devices::{Devices, Ours};
pub use words::update;

use words::{guest, resources_of, sandbox, subject};

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
    fn decided(&self, what: &Subject<'_>, rejected: Option<&str>, took: Duration);
    /// Something was not as the journal says.
    fn remarked(&self, remark: &Remark);
    /// Something could not be written down.
    fn failed(&self, error: &JournaledLedgerError);
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

/// The plugin.
pub struct Runtime {
    /// What runs here.
    pub node: Arc<Mutex<Node>>,
    /// Where specifications of pods come from.
    pub specifications: Box<dyn Specifications>,
    /// Whose devices are given out.
    pub devices: Devices,
    /// Whether containers are told what they may use. If not, somebody else pins them: nobody is rejected, and what the
    /// rules say is only written down.
    pub pins: bool,
    /// Who wants to know what happens.
    pub witness: Arc<dyn Witness>,
    /// What others may use from now on, for the thread that tells them.
    pub others: SyncSender<Vec<Update>>,
    /// What time it is.
    pub clock: fn() -> Timestamp,
}

impl Runtime {
    /// Tells others later what they may use; drift is repaired if that is not possible.
    fn tell_later(&self, updates: Vec<Update>) {
        if self.pins && !updates.is_empty() {
            let _ = self.others.try_send(updates);
        }
    }

    /// What the runtime can be told in its answer. It knows nothing of control groups that others made.
    fn tell_now(&self, updates: Vec<Update>) -> Vec<ContainerUpdate> {
        let (outside, inside): (Vec<Update>, Vec<Update>) =
            updates.into_iter().partition(Update::is_outside);
        self.tell_later(outside);
        match self.pins {
            true => inside.iter().map(update).collect(),
            false => Vec::new(),
        }
    }

    /// Something left: what it held is free for others.
    fn freed(&self, freed: Result<Vec<Update>, JournaledLedgerError>) -> Result<(), Rejection> {
        match freed {
            Ok(updates) => {
                self.witness.changed();
                self.tell_later(updates);
                Ok(())
            }
            Err(error) => {
                self.witness.failed(&error);
                Err(Rejection::new(error.to_string()))
            }
        }
    }

    /// A pod that the rules reject while somebody else pins runs all the same.
    fn tolerated(&self, pod: &PodSandbox, rejected: &Rejected) {
        let (namespace, name) = (&pod.namespace, &pod.name);
        self.witness.troubled(&format!(
            "pod {namespace}/{name} would be rejected, but somebody else pins here: {rejected}"
        ));
        lock(&self.node).pod_shares(sandbox(pod));
    }

    fn rejection(&self, rejected: &Rejected) -> Rejection {
        if let Rejected::Journal(error) = rejected {
            self.witness.failed(error);
        }
        Rejection::new(format!("Pinfold: {rejected}"))
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

    fn configure(&mut self, runtime: &RuntimeInfo) -> Result<(), Rejection> {
        self.witness.connected(runtime);
        Ok(())
    }

    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, Rejection> {
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
        let pods: Vec<_> = sandboxes.into_iter().map(with_specification).collect();
        let beside = self.given_to_strangers(&pods);
        let now = (self.clock)();
        let outcome = match &self.devices {
            Devices::Ours(ours) => {
                lock(&self.node).synchronize(pods, guests, &mut ours.host.preferences(), now)
            }
            _ => lock(&self.node).synchronize_beside(pods, guests, beside, now),
        };
        self.witness.changed();
        match outcome {
            Ok((updates, remarks)) => {
                for remark in &remarks {
                    self.witness.remarked(remark);
                }
                Ok(self.tell_now(updates))
            }
            Err(error) => {
                self.witness.failed(&error);
                Err(Rejection::new(error.to_string()))
            }
        }
    }

    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Rejection> {
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
            (Devices::Ours(ours), _, pod) => {
                lock(&self.node).pod_comes(sandbox, pod, &mut ours.host.preferences(), now)
            }
            (_, _, pod) => lock(&self.node).pod_comes(sandbox, pod, &mut NoPreference, now),
        };
        let why = outcome.as_ref().err().map(ToString::to_string);
        let took = start.elapsed().saturating_sub(waited);
        self.witness
            .decided(&subject(pod, None), why.as_deref(), took);
        let updates = match outcome {
            Err(rejected @ Rejected::Rules { .. }) if !self.pins => {
                self.tolerated(pod, &rejected);
                return Ok(());
            }
            outcome => outcome.map_err(|rejected| self.rejection(&rejected))?,
        };
        self.witness.changed();
        self.tell_later(updates);
        Ok(())
    }

    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Rejection> {
        let uid = sandbox(pod).uid;
        let (freed, goes_on) = {
            let mut node = lock(&self.node);
            let freed = node.pod_stops(&pod.id, (self.clock)());
            // An old sandbox is removed long after the pod got a new one.
            let goes_on = node.is_here(&uid) || node.has_sandbox_of(&uid);
            (freed, goes_on)
        };
        if !goes_on
            && let Devices::Ours(ours) = &self.devices
            && let Err(error) = ours.host.remove_pod(&uid)
        {
            self.witness.troubled(&error.to_string());
        }
        self.freed(freed)
    }

    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), Rejection> {
        self.stop_pod_sandbox(pod)
    }

    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, Rejection> {
        let start = Instant::now();
        let guest = guest(container, &sandbox(pod));
        let (uid, name) = (guest.pod.clone(), guest.name.clone());
        let now = (self.clock)();
        let outcome = match &self.devices {
            Devices::Ours(ours) => {
                lock(&self.node).container_comes(guest, &mut ours.host.preferences(), now)
            }
            _ => lock(&self.node).container_comes(guest, &mut NoPreference, now),
        };
        let why = outcome.as_ref().err().map(ToString::to_string);
        let subject = subject(pod, Some(&container.name));
        self.witness
            .decided(&subject, why.as_deref(), start.elapsed());
        let (allowance, others) = match outcome {
            Err(Rejected::Rules { .. }) if !self.pins => (None, Vec::new()),
            outcome => outcome.map_err(|rejected| self.rejection(&rejected))?,
        };
        self.witness.changed();
        let mut adjust = ContainerAdjustment::new();
        if let Some(allowance) = allowance.filter(|_| self.pins) {
            adjust = adjust.resources(|resources| resources_of(resources, &allowance));
        }
        let adjust = match self.device_edits(adjust, &uid, &name) {
            Ok(adjust) => adjust,
            Err(rejection) => {
                // It is not created, so nobody will tell that it is gone.
                self.remove_container(pod, container)?;
                return Err(rejection);
            }
        };
        Ok(CreateContainerResponse {
            adjust: Some(adjust),
            update: self.tell_now(others),
            ..CreateContainerResponse::default()
        })
    }

    fn start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), Rejection> {
        if let Devices::Ours(ours) = &self.devices {
            ours.pre_start(sandbox(pod).uid, container.name.as_str().into())?;
        }
        Ok(())
    }

    fn post_start_container(
        &mut self,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Rejection> {
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
    ) -> Result<UpdateContainerResponse, Rejection> {
        let allowance = lock(&self.node).container_changes(&container.id);
        let allowance = allowance.filter(|_| self.pins);
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
    ) -> Result<Vec<ContainerUpdate>, Rejection> {
        // What it held alone is free at once: it may be an init container whose CPUs the next one needs.
        let freed = lock(&self.node).container_goes(&container.id, (self.clock)());
        self.freed(freed)?;
        Ok(Vec::new())
    }

    fn remove_container(&mut self, _: &PodSandbox, container: &Container) -> Result<(), Rejection> {
        let freed = lock(&self.node).container_goes(&container.id, (self.clock)());
        self.freed(freed)
    }
}

#[cfg(test)]
mod tests;
