//! [`NriPlugin`]: the agent's plugin for the Node Resource Interface (NRI) of the container runtime.
//!
//! The runtime drops a plugin that answers slowly, so requests are answered from memory; only the journal write blocks.
//! Updates of other containers are sent from another thread: the runtime accepts no request while it waits for an answer.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nri::api::{
    Container, ContainerAdjustment, ContainerState, ContainerUpdate, CreateContainerResponse,
    Event, Events, LinuxResources, PodSandbox, UpdateContainerResponse,
};
use nri::{EventError, Plugin, RuntimeInfo};
use pinfold_core::device::NoPreference;
use pinfold_kube::pod::{PodIdentity, PodObject};

use crate::allowance::Quota;
use crate::journaled_ledger::JournaledLedgerError;
use crate::node::{
    AdmitError, ManagedContainer, ManagedNode, PodWarning, Sandbox, SyncChange, Update,
};
use pinfold_journal::Timestamp;

mod background_calls;
mod device_edits;
mod devices;
mod nri_convert;

pub(crate) use devices::kubelet_devices_of_new_pods;
pub use devices::{AgentDevices, DeviceSource};
pub use nri_convert::update;

use nri_convert::{
    listed_sandbox, managed_container, resources_of, runtime_resources, sandbox, subject,
};

/// Source of pod specs.
pub trait PodSpecSource: Send {
    /// The pod object, waiting up to `wait` for its watch event; `None` if it has not arrived by then.
    fn pod(&self, pod: &PodIdentity, wait: Duration) -> Option<Arc<PodObject>>;

    /// Waits up to `wait` for the first complete list of pods. True if it is there, or if there is no API server.
    fn wait_for_list(&self, wait: Duration) -> bool {
        let _ = wait;
        true
    }
}

/// A source without pod specs, for agents without access to the API server.
#[derive(Clone, Copy, Debug)]
pub struct NoPodSpecs;

impl PodSpecSource for NoPodSpecs {
    fn pod(&self, _: &PodIdentity, _: Duration) -> Option<Arc<PodObject>> {
        None
    }
}

/// Receives what the plugin observes, for logs, metrics and pod events.
pub trait Telemetry: Send + Sync {
    /// The runtime connected.
    fn runtime_connected(&self, runtime: &RuntimeInfo);
    /// A pod or container was admitted or rejected.
    fn record_decision(&self, what: &Subject<'_>, rejected: Option<&AdmitError>, took: Duration);
    /// An NRI event was answered after this time, waits included.
    fn record_event(&self, event: &'static str, took: Duration);
    /// A difference between the runtime and the journal was resolved.
    fn record_sync_change(&self, change: &SyncChange);
    /// The resources of a running pod or container cannot change.
    fn record_rejected_resize(&self, what: &Subject<'_>, rejected: &AdmitError);
    /// The user of a running pod has to know something about it.
    fn warn_pod(&self, warning: PodWarning);
    /// The ledger or the journal failed.
    fn record_error(&self, error: &JournaledLedgerError);
    /// A pod was rejected, but runs because another program pins containers.
    fn record_tolerated_rejection(&self, pod: &Subject<'_>, reason: &str);
    /// The ledger changed: the published state of the node is stale.
    fn node_changed(&self);
}

/// The pod or container of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// UID of the pod.
    pub uid: &'a str,
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub name: &'a str,
    /// Name of the container; `None` for the pod as a whole.
    pub container: Option<&'a str>,
}

/// The name with which containerd registers plugins.
const CONTAINERD: &str = "containerd";
/// How long to wait for the first list of pods when the runtime connects: it drops a plugin after two seconds.
const POD_LIST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for the watch event of a pod that has just been bound to this node.
const POD_SPEC_TIMEOUT: Duration = Duration::from_millis(500);

/// The NRI plugin: admits pods and containers, and pins them.
pub struct NriPlugin {
    /// The node's pods, containers and ledger.
    pub node: Arc<Mutex<ManagedNode>>,
    /// Source of pod specs.
    pub pod_specs: Box<dyn PodSpecSource>,
    /// Which program assigns devices.
    pub devices: DeviceSource,
    /// Whether the agent pins containers. If not, another program does: decisions are only journaled, and no pod is
    /// rejected.
    pub pins: bool,
    /// Logs, metrics and pod events.
    pub telemetry: Arc<dyn Telemetry>,
    /// Queue of the thread that sends container updates.
    pub updates: SyncSender<Vec<Update>>,
    /// Returns the current time.
    pub clock: fn() -> Timestamp,
    /// Whether the connected runtime sends the pid of every sandbox that runs.
    pub runtime_sends_pids: bool,
}

impl NriPlugin {
    /// Queues updates for the sender thread. If the queue is full, the drift monitor repairs the containers later.
    fn send_updates(&self, updates: Vec<Update>) {
        if self.pins && !updates.is_empty() {
            let _ = self.updates.try_send(updates);
        }
    }

    /// Converts updates for the response to the runtime. Updates of external cgroups, which it does not know, are queued.
    fn update_response(&self, updates: Vec<Update>) -> Vec<ContainerUpdate> {
        let (outside, inside): (Vec<Update>, Vec<Update>) =
            updates.into_iter().partition(Update::is_external);
        self.send_updates(outside);
        match self.pins {
            // A failure must not fail the request: the container may have terminated.
            true => {
                let updates = inside.iter().map(update);
                updates.map(ContainerUpdate::ignore_failure).collect()
            }
            false => Vec::new(),
        }
    }

    /// Queues the updates after a release, or reports that it failed.
    fn release_response(
        &self,
        released: Result<Vec<Update>, JournaledLedgerError>,
    ) -> Result<(), EventError> {
        match released {
            Ok(updates) => {
                self.telemetry.node_changed();
                self.send_updates(updates);
                Ok(())
            }
            Err(error) => {
                self.telemetry.record_error(&error);
                Err(EventError::new(error.to_string()))
            }
        }
    }

    /// Removes a pod from the device checkpoint if it ended. The runtime may remove an old sandbox long after it created a
    /// new one for the pod.
    fn forget_devices(&self, pod: &PodSandbox) {
        let uid = sandbox(pod).uid;
        let pod_remains = {
            let node = lock(&self.node);
            node.has_pod(&uid) || node.has_sandbox_of(&uid)
        };
        if !pod_remains
            && let DeviceSource::Agent(agent) = &self.devices
            && let Err(error) = agent.host.remove_pod(&uid)
        {
            tracing::warn!(%uid, %error, "device checkpoint update failed");
        }
    }

    /// Lets a rejected pod run in the shared pool, because another program pins containers.
    fn tolerate_rejected(&self, pod: &PodSandbox, rejected: &AdmitError) {
        self.telemetry
            .record_tolerated_rejection(&subject(pod, None), &rejected.to_string());
        lock(&self.node).add_pod_to_shared_pool(sandbox(pod));
    }

    /// Admits the pod of a sandbox.
    fn admit_sandbox(&self, pod: &PodSandbox) -> Result<(), EventError> {
        let start = Instant::now();
        let sandbox = sandbox(pod);
        let spec = self.pod_specs.pod(&sandbox.identity(), POD_SPEC_TIMEOUT);
        let kubelet_devices = match spec.as_deref() {
            Some(pod) => self.kubelet_devices(pod)?,
            None => None,
        };
        let waited = start.elapsed();
        let now = (self.clock)();
        let outcome = match (&self.devices, kubelet_devices, spec.as_deref()) {
            (_, Some(kubelet_devices), Some(pod)) => {
                lock(&self.node).add_pod_with_kubelet_devices(sandbox, pod, kubelet_devices, now)
            }
            (DeviceSource::Agent(agent), _, pod) => {
                lock(&self.node).add_pod(sandbox, pod, &mut agent.host.preferences(), now)
            }
            (_, _, pod) => lock(&self.node).add_pod(sandbox, pod, &mut NoPreference, now),
        };
        let took = start.elapsed().saturating_sub(waited);
        self.telemetry
            .record_decision(&subject(pod, None), outcome.as_ref().err(), took);
        let updates = match outcome {
            Err(rejected) if !self.pins => {
                self.tolerate_rejected(pod, &rejected);
                return Ok(());
            }
            outcome => outcome.map_err(|rejected| self.rejection(&rejected))?,
        };
        self.telemetry.node_changed();
        self.send_updates(updates);
        Ok(())
    }

    /// Admits the pod of a sandbox for which no `RunPodSandbox` event arrived: the agent was not connected then.
    fn ensure_sandbox(&self, pod: &PodSandbox) -> Result<(), EventError> {
        let is_known = lock(&self.node).sandbox(&pod.id).is_some();
        match is_known {
            true => Ok(()),
            false => self.admit_sandbox(pod),
        }
    }

    /// Does what was pending: releases pods that ended, and admits pods whose spec has arrived.
    fn settle(&self) {
        let settled = {
            let mut node = lock(&self.node);
            let settled = node.release_pending((self.clock)());
            record_late_changes(&mut node, &*self.telemetry);
            settled
        };
        match settled {
            Ok(None) => {}
            Ok(Some(updates)) => {
                self.telemetry.node_changed();
                self.send_updates(updates);
            }
            Err(error) => self.telemetry.record_error(&error),
        }
    }

    /// Adds a container whose `CreateContainer` event did not arrive, because the agent connected while the runtime was
    /// creating it. One that `runs` cannot be rejected: it uses the shared pool instead.
    fn adopt_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
        runs: bool,
    ) -> Result<(), EventError> {
        if lock(&self.node).container(&container.id).is_some() {
            return Ok(());
        }
        self.settle();
        let uid = sandbox(pod).uid;
        let change = match self.ensure_sandbox(pod) {
            Ok(()) => SyncChange::Adopted(uid),
            Err(rejected) if runs => {
                lock(&self.node).add_pod_to_shared_pool(sandbox(pod));
                let why = rejected.reason().to_owned();
                SyncChange::UsesSharedPool { pod: uid, why }
            }
            Err(rejected) => return Err(rejected),
        };
        let managed = managed_container(container, &sandbox(pod));
        let now = (self.clock)();
        let adopted = {
            let mut node = lock(&self.node);
            let adopted = node.adopt_container(managed, runs, now);
            if runs && let Some(warning) = node.unpinned_start(&change) {
                self.telemetry.warn_pod(warning);
            }
            record_late_changes(&mut node, &*self.telemetry);
            adopted
        };
        let subject = subject(pod, Some(&container.name));
        self.telemetry
            .record_decision(&subject, adopted.as_ref().err(), Duration::ZERO);
        let updates = match adopted {
            Err(rejected) if self.pins => return Err(self.rejection(&rejected)),
            Err(_) => Vec::new(),
            Ok(updates) => updates,
        };
        self.telemetry.node_changed();
        self.send_updates(updates);
        Ok(())
    }

    fn rejection(&self, rejected: &AdmitError) -> EventError {
        if let AdmitError::Journal(error) = rejected {
            self.telemetry.record_error(error);
        }
        EventError::new(format!("Pinfold: {rejected}"))
    }
}

/// Measures the time until an NRI event is answered, when it is dropped.
struct EventTimer {
    telemetry: Arc<dyn Telemetry>,
    event: &'static str,
    start: Instant,
}

impl EventTimer {
    fn start(plugin: &NriPlugin, event: &'static str) -> Self {
        Self {
            telemetry: plugin.telemetry.clone(),
            event,
            start: Instant::now(),
        }
    }
}

impl Drop for EventTimer {
    fn drop(&mut self) {
        self.telemetry
            .record_event(self.event, self.start.elapsed());
    }
}

/// Reports differences to the journal that were resolved, and warns about pods that ran unpinned.
pub(crate) fn record_sync_changes(
    node: &ManagedNode,
    changes: &[SyncChange],
    telemetry: &dyn Telemetry,
) {
    for change in changes {
        telemetry.record_sync_change(change);
        if let Some(warning) = node.unpinned_start(change) {
            telemetry.warn_pod(warning);
        }
    }
}

/// As [`record_sync_changes`], for what was resolved after the list of the runtime.
pub(crate) fn record_late_changes(node: &mut ManagedNode, telemetry: &dyn Telemetry) {
    let changes = node.take_late_changes();
    record_sync_changes(node, &changes, telemetry);
}

/// Locks the node. After a panic in the middle of a change, the ledger is read from the journal again.
pub(crate) fn lock(node: &Mutex<ManagedNode>) -> MutexGuard<'_, ManagedNode> {
    node.lock().unwrap_or_else(|poisoned| {
        let mut locked = poisoned.into_inner();
        if let Err(error) = locked.journaled_mut().reload() {
            tracing::error!(%error, "reading the journal after a panic failed");
        }
        node.clear_poison();
        locked
    })
}

impl Plugin for NriPlugin {
    fn events(&self) -> Events {
        Events::of(&[
            Event::RunPodSandbox,
            Event::StopPodSandbox,
            Event::RemovePodSandbox,
            Event::CreateContainer,
            Event::PostCreateContainer,
            Event::StartContainer,
            Event::PostStartContainer,
            Event::UpdateContainer,
            Event::UpdatePodSandbox,
            Event::StopContainer,
            Event::RemoveContainer,
        ])
    }

    fn configure(&mut self, runtime: &RuntimeInfo) -> Result<(), EventError> {
        self.telemetry.runtime_connected(runtime);
        self.runtime_sends_pids = runtime.name == CONTAINERD;
        Ok(())
    }

    fn synchronize(
        &mut self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        let _timer = EventTimer::start(self, "Synchronize");
        let pids = self.runtime_sends_pids;
        let sandboxes: Vec<Sandbox> = pods.iter().map(|pod| listed_sandbox(pod, pids)).collect();
        self.pod_specs.wait_for_list(POD_LIST_TIMEOUT);
        let alive = |container: &&Container| container.state() != ContainerState::Stopped;
        let managed = containers.iter().filter(alive).filter_map(|container| {
            let is_parent = |sandbox: &&Sandbox| sandbox.id == container.pod_sandbox_id;
            Some(managed_container(
                container,
                sandboxes.iter().find(is_parent)?,
            ))
        });
        let managed: Vec<ManagedContainer> = managed.collect();
        let with_spec = |sandbox: Sandbox| {
            let pod = self.pod_specs.pod(&sandbox.identity(), Duration::ZERO);
            (sandbox, pod)
        };
        let pods: Vec<_> = sandboxes.into_iter().map(with_spec).collect();
        let kubelet_devices = self.kubelet_devices_of_new_pods(&pods);
        let now = (self.clock)();
        let (updates, sync_changes) = match &self.devices {
            DeviceSource::Agent(agent) => {
                lock(&self.node).synchronize(pods, managed, &mut agent.host.preferences(), now)
            }
            _ => lock(&self.node).synchronize_with_kubelet_devices(
                pods,
                managed,
                kubelet_devices,
                now,
            ),
        };
        self.telemetry.node_changed();
        record_sync_changes(&lock(&self.node), &sync_changes, &*self.telemetry);
        // The response cannot remove the quota of the pods' cgroups.
        let exclusive = updates
            .iter()
            .filter(|update| update.allowance.quota == Quota::Unlimited && !update.is_external());
        self.send_updates(exclusive.cloned().collect());
        Ok(self.update_response(updates))
    }

    fn run_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "RunPodSandbox");
        self.settle();
        self.admit_sandbox(pod)
    }

    fn stop_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "StopPodSandbox");
        let released = lock(&self.node).stop_pod(&pod.id, (self.clock)());
        self.forget_devices(pod);
        self.release_response(released)
    }

    fn remove_pod_sandbox(&mut self, pod: &PodSandbox) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "RemovePodSandbox");
        let uid = sandbox(pod).uid;
        let released = lock(&self.node).remove_pod(&pod.id, &uid, (self.clock)());
        self.forget_devices(pod);
        self.release_response(released)
    }

    fn create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<CreateContainerResponse, EventError> {
        let _timer = EventTimer::start(self, "CreateContainer");
        let start = Instant::now();
        self.settle();
        self.ensure_sandbox(pod)?;
        let managed = managed_container(container, &sandbox(pod));
        let (uid, name) = (managed.pod.clone(), managed.name.clone());
        let now = (self.clock)();
        let outcome = match &self.devices {
            DeviceSource::Agent(agent) => {
                lock(&self.node).add_container(managed, &mut agent.host.preferences(), now)
            }
            _ => lock(&self.node).add_container(managed, &mut NoPreference, now),
        };
        let subject = subject(pod, Some(&container.name));
        self.telemetry
            .record_decision(&subject, outcome.as_ref().err(), start.elapsed());
        let (allowance, others) = match outcome {
            Err(_) if !self.pins => (None, Vec::new()),
            outcome => outcome.map_err(|rejected| self.rejection(&rejected))?,
        };
        self.telemetry.node_changed();
        let mut adjust = ContainerAdjustment::new();
        if let Some(allowance) = allowance.filter(|_| self.pins) {
            adjust = adjust.resources(|resources| resources_of(resources, &allowance));
        }
        let adjust = match self.device_edits(adjust, &uid, &name) {
            Ok(adjust) => adjust,
            Err(rejection) => {
                // The runtime sends no RemoveContainer event for a container that it did not create.
                let removed = lock(&self.node).remove_container(&container.id, now);
                self.release_response(removed)?;
                return Err(rejection);
            }
        };
        Ok(CreateContainerResponse {
            adjust: Some(adjust),
            update: self.update_response(others),
            ..CreateContainerResponse::default()
        })
    }

    fn post_create_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "PostCreateContainer");
        self.adopt_container(pod, container, false)?;
        let update = lock(&self.node).container_created(&container.id);
        self.send_updates(update.into_iter().collect());
        Ok(())
    }

    fn start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "StartContainer");
        self.adopt_container(pod, container, false)?;
        if let DeviceSource::Agent(agent) = &self.devices {
            agent.pre_start(sandbox(pod).uid, container.name.as_str().into())?;
        }
        Ok(())
    }

    fn post_start_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "PostStartContainer");
        self.adopt_container(pod, container, true)?;
        let mut node = lock(&self.node);
        let started = node.container_started(&container.id, (self.clock)());
        // The quota of the pod's cgroup can only be removed now that the cgroup exists.
        let own = node.container_allowance(&container.id);
        drop(node);
        let unlimited = own.filter(|own| own.quota == Quota::Unlimited);
        let update = unlimited.map(|allowance| Update {
            container: container.id.clone(),
            allowance,
        });
        self.release_response(started.map(|others| others.into_iter().chain(update).collect()))
    }

    fn update_container(
        &mut self,
        pod: &PodSandbox,
        container: &Container,
        wanted: &LinuxResources,
    ) -> Result<UpdateContainerResponse, EventError> {
        let _timer = EventTimer::start(self, "UpdateContainer");
        let (id, wanted) = (&container.id, runtime_resources(wanted));
        let resized = lock(&self.node).resize_container(id, &wanted, (self.clock)());
        let allowance = match resized {
            Err(rejected) if self.pins => {
                let subject = subject(pod, Some(&container.name));
                self.telemetry.record_rejected_resize(&subject, &rejected);
                return Err(self.rejection(&rejected));
            }
            Err(_) => None,
            Ok(allowance) => allowance.filter(|_| self.pins),
        };
        let updates = allowance.map(|allowance| {
            let container = container.id.clone();
            update(&Update {
                container,
                allowance,
            })
            .ignore_failure()
        });
        Ok(updates.into_iter().collect::<Vec<_>>().into())
    }

    fn update_pod_sandbox(
        &mut self,
        pod: &PodSandbox,
        _: &LinuxResources,
        wanted: &LinuxResources,
    ) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "UpdatePodSandbox");
        let resized = lock(&self.node).resize_pod(&pod.id, &runtime_resources(wanted));
        match resized {
            Err(rejected) if self.pins => {
                let subject = subject(pod, None);
                self.telemetry.record_rejected_resize(&subject, &rejected);
                Err(self.rejection(&rejected))
            }
            _ => Ok(()),
        }
    }

    fn stop_container(
        &mut self,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, EventError> {
        let _timer = EventTimer::start(self, "StopContainer");
        // Its exclusive CPUs are released at once: it may be an init container whose CPUs the next one needs.
        let released = lock(&self.node).remove_container(&container.id, (self.clock)());
        self.release_response(released)?;
        Ok(Vec::new())
    }

    fn remove_container(
        &mut self,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), EventError> {
        let _timer = EventTimer::start(self, "RemoveContainer");
        let released = lock(&self.node).remove_container(&container.id, (self.clock)());
        self.release_response(released)
    }
}

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
