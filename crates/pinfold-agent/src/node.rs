//! [`ManagedNode`]: the pods and containers of this node, their allowances, and the ledger these come from.
//!
//! ```text
//! runtime ─► add_pod, add_container ──────► JournaledLedger (ledger, journal) ─► Allowance of the container,
//!            container_started, stop_pod,                               Updates of containers whose
//!            remove_container                                           shared pool changed
//!            synchronize: compares the runtime's pods with the journal
//! API     ─► admit, release
//! ```
//!
//! This module calls no runtime and writes no cgroup: the caller applies the returned updates. A change is in the journal
//! before it is returned.
//!
//! A pod whose spec is known (from the API server, or from a request on the API socket) is admitted as a whole when its
//! sandbox is created. Otherwise only the resources in the runtime's requests are known: under the kubelet's rules each
//! container is then admitted separately, as with scope `container`; under Koordinator's rules the sandbox's total
//! resources count as the pod's.

use pinfold_cluster::koordinator::pools::Pools;
use pinfold_core::decision::{AdmissionResult, Decision};
use pinfold_core::device::{DevicesByResource, NoPreference, PreferredAllocation};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_devices::align::{self, AlignedPod};
use pinfold_kube::pin;
use pinfold_kube::pod::PodObject;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::allowance::Allowance;
use crate::journaled_ledger::{JournaledLedger, JournaledLedgerError, RulesChange};
use pinfold_journal::Timestamp;
use pinfold_journal::{PinnedProcess, PodOrigin};

mod admission_counters;
mod admit;
mod allowances;
mod join;
mod koordinator;
mod kubelet_pins;
mod managed_container;
mod pending_releases;
mod pod_end;
mod pod_record;
mod pod_status;
mod pod_warnings;
mod resize;
mod synchronize;
#[cfg(test)]
mod tests;

pub use admission_counters::{AdmissionCounters, AlignmentKind};
pub use koordinator::{BestEffort, Koordinator};
pub use kubelet_pins::KubeletPins;
pub use managed_container::{ManagedContainer, RuntimeResources, Sandbox, SandboxState};
pub use pod_status::{NoPodStatus, PodStatus, PodStatusSource};
pub use pod_warnings::{PodWarning, moves};
pub use synchronize::SyncChange;

/// The rules by which pods are admitted and CPUs assigned.
#[derive(Clone, Debug)]
pub enum Rulebook {
    /// The kubelet's CPU, memory, device and topology managers, as the ledger implements them.
    Kubelet,
    /// Koordinator's NodeNUMAResource plugin and CPU pools.
    Koordinator(Box<Koordinator>),
}

/// How running containers are handled that are not in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownContainers {
    /// They are admitted like new ones. A rejected one keeps running in the shared pool.
    #[default]
    Adopt,
    /// They keep running in the shared pool.
    UseSharedPool,
}

/// The pods and containers of this node, with the ledger and journal of what they hold.
#[derive(Debug)]
pub struct ManagedNode {
    journaled: JournaledLedger,
    rulebook: Rulebook,
    unknown_containers: UnknownContainers,
    pins: KubeletPins,
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, ManagedContainer>,
    /// Sandboxes of pods that run without being admitted: their containers use the shared pool.
    shared_sandboxes: BTreeSet<String>,
    /// Sandboxes of running pods whose spec has not arrived yet: they are admitted when it does.
    awaiting_specs: BTreeSet<String>,
    /// Pods whose containers were admitted one by one and could not be joined when their spec arrived.
    unjoinable: BTreeSet<PodUid>,
    /// Differences to the journal that were resolved after the list of the runtime, and not reported yet.
    late_changes: Vec<SyncChange>,
    /// Pods that ended while the journal could not be written; they are released later.
    pending_releases: BTreeSet<PodUid>,
    /// Sequence number of the last update of any container.
    update_seq: u64,
    rejected: u64,
    counters: AdmissionCounters,
    observe_only: bool,
    pod_status: Arc<dyn PodStatusSource>,
}

/// A new allowance of a running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The runtime's container id, or the path of an external cgroup or process.
    pub container: String,
    /// The new allowance.
    pub allowance: Allowance,
}

impl Update {
    /// Whether the target is an external cgroup or process, which the runtime does not know.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.container.starts_with('/')
    }
}

/// Why a pod or container was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The rules reject it.
    #[error("{reason}")]
    Rules {
        /// The reason, in one sentence.
        reason: String,
        /// The ledger's decision; `None` if the pod was rejected before the ledger was consulted.
        decision: Option<Box<Decision>>,
    },
    /// The ledger or the journal failed.
    #[error(transparent)]
    Journal(#[from] JournaledLedgerError),
    /// A container was created in a sandbox for which no `RunPodSandbox` event arrived.
    #[error(
        "the runtime sent no RunPodSandbox event for sandbox {0}; did another NRI plugin fail?"
    )]
    UnknownSandbox(String),
}

impl AdmitError {
    /// The reason for the pod's status and metrics: the kubelet's, if the ledger decided.
    #[must_use]
    pub fn status_reason(&self) -> &'static str {
        match self {
            AdmitError::Rules {
                decision: Some(decision),
                ..
            } => match &decision.result {
                AdmissionResult::Rejected(rejection) => rejection.reason.name(),
                AdmissionResult::Admitted(_) => REJECTED,
            },
            _ => REJECTED,
        }
    }
}

/// The status reason of a pod that was rejected by other rules than the kubelet's.
const REJECTED: &str = "PinfoldRejected";

/// The device plugins' `GetPreferredAllocation`, consulted when devices are assigned.
pub type DevicePreference<'a> = &'a mut dyn PreferredAllocation;

impl ManagedNode {
    /// A node with the state of its journal: external cgroups and processes in it are confined again.
    #[must_use]
    pub fn new(
        journaled: JournaledLedger,
        rulebook: Rulebook,
        unknown_containers: UnknownContainers,
        pins: KubeletPins,
    ) -> Self {
        let mut containers = BTreeMap::new();
        for (pod, record) in journaled.records() {
            let groups = record.cgroups.iter();
            let groups =
                groups.map(|(group, container)| ManagedContainer::external(group, pod, container));
            let processes = record.processes.iter();
            let processes = processes.map(|held| ManagedContainer::external_process(held, pod));
            let external = groups.chain(processes);
            containers.extend(external.map(|container| (container.id.clone(), container)));
        }
        let mut node = Self {
            journaled,
            rulebook,
            unknown_containers,
            pins,
            sandboxes: BTreeMap::new(),
            containers,
            shared_sandboxes: BTreeSet::new(),
            awaiting_specs: BTreeSet::new(),
            unjoinable: BTreeSet::new(),
            late_changes: Vec::new(),
            pending_releases: BTreeSet::new(),
            update_seq: 0,
            rejected: 0,
            counters: AdmissionCounters::default(),
            observe_only: false,
            pod_status: Arc::new(NoPodStatus),
        };
        // Drift detection compares with these allowances. No update is sent: the cgroups have them already.
        drop(node.updates());
        node
    }

    /// Turns off pinning, because another program sets the CPUs of containers: pods are still admitted and journaled,
    /// but containers get no allowance.
    #[must_use]
    pub fn observe_only(mut self) -> Self {
        self.observe_only = true;
        self
    }

    /// Sets the source of the state of pods.
    #[must_use]
    pub fn with_pod_status(mut self, source: Arc<dyn PodStatusSource>) -> Self {
        self.pod_status = source;
        self
    }

    /// The ledger with its journal.
    #[must_use]
    pub fn journaled(&self) -> &JournaledLedger {
        &self.journaled
    }

    /// Mutable access to the ledger, to change its rules or the devices that plugins offer.
    pub fn journaled_mut(&mut self) -> &mut JournaledLedger {
        &mut self.journaled
    }

    /// Changes how running containers are handled that are not in the journal.
    pub fn set_unknown_containers(&mut self, unknown_containers: UnknownContainers) {
        self.unknown_containers = unknown_containers;
    }

    /// Replaces the CPUs that the kubelet has pinned. Pods that are already in the ledger keep theirs.
    pub fn set_kubelet_pins(&mut self, pins: KubeletPins) {
        self.pins = pins;
    }

    /// The running containers, including external cgroups and processes.
    pub fn containers(&self) -> impl Iterator<Item = &ManagedContainer> {
        self.containers.values()
    }

    /// The running container with this id.
    #[must_use]
    pub fn container(&self, id: &str) -> Option<&ManagedContainer> {
        self.containers.get(id)
    }

    /// The sandbox with this id of the runtime.
    #[must_use]
    pub fn sandbox(&self, id: &str) -> Option<&Sandbox> {
        self.sandboxes.get(id)
    }

    /// Counters of admission requests by result.
    #[must_use]
    pub fn counters(&self) -> &AdmissionCounters {
        &self.counters
    }

    /// Whether the ledger has this pod.
    #[must_use]
    pub fn has_pod(&self, pod: &PodUid) -> bool {
        self.journaled
            .ledger()
            .state()
            .admitted_pods()
            .contains_key(pod)
    }

    /// Whether a pod of the ledger opted out of pinning.
    #[must_use]
    pub fn has_opted_out(&self, pod: &PodUid) -> bool {
        let record = self.journaled.records().get(pod);
        record.is_some_and(|record| pin::is_wanted(&record.annotations) == Ok(false))
    }

    /// Whether the runtime has a sandbox of a pod.
    #[must_use]
    pub fn has_sandbox_of(&self, pod: &PodUid) -> bool {
        self.sandboxes.values().any(|sandbox| sandbox.uid == *pod)
    }

    /// Number of rejected pods and containers.
    #[must_use]
    pub fn rejections(&self) -> u64 {
        self.rejected
    }

    /// Koordinator's current CPU pools; `None` under the kubelet's rules.
    pub fn koordinator_pools(&mut self) -> Option<Pools> {
        self.pools()
    }

    /// Adds the sandbox of a pod that was rejected and runs anyway: its containers use the shared pool.
    pub fn add_pod_to_shared_pool(&mut self, sandbox: Sandbox) {
        self.shared_sandboxes.insert(sandbox.id.clone());
        self.sandboxes.insert(sandbox.id.clone(), sandbox);
    }

    /// Admits the pod of a new sandbox. Returns the updates of other containers.
    ///
    /// # Errors
    /// If the pod is rejected.
    pub fn add_pod(
        &mut self,
        sandbox: Sandbox,
        spec: Option<&PodObject>,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<Vec<Update>, AdmitError> {
        let outcome = self.admit_sandbox(&sandbox, spec, preference, now);
        self.rejected += u64::from(outcome.is_err());
        outcome?;
        self.awaiting_specs.remove(&sandbox.id);
        self.sandboxes.insert(sandbox.id.clone(), sandbox);
        Ok(self.updates())
    }

    /// Like [`ManagedNode::add_pod`], for a pod to which the kubelet assigned devices: its CPUs and memory are aligned to
    /// them.
    ///
    /// # Errors
    /// If the pod is rejected.
    pub fn add_pod_with_kubelet_devices(
        &mut self,
        sandbox: Sandbox,
        spec: &PodObject,
        kubelet_devices: AlignedPod,
        now: Timestamp,
    ) -> Result<Vec<Update>, AdmitError> {
        for (resource, devices) in kubelet_devices.offers {
            self.journaled.set_devices(&resource, Some(devices), now)?;
        }
        let aligned = PodObject {
            pod: kubelet_devices.pod,
            ..spec.clone()
        };
        let uid = sandbox.uid.clone();
        let outcome = self.add_pod(sandbox, Some(&aligned), &mut NoPreference, now);
        if outcome.is_err() {
            self.withdraw_devices(&uid, now)?;
        }
        outcome
    }

    /// Removes the devices that the kubelet assigned to a pod from the ledger.
    fn withdraw_devices(
        &mut self,
        pod: &PodUid,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let pool = self.journaled.ledger().state().pool();
        let of_pod = |resource: &&ResourceName| align::is_own_resource(resource, pod);
        let offered: Vec<ResourceName> = pool.resources().filter(of_pod).cloned().collect();
        for resource in offered {
            self.journaled.set_devices(&resource, None, now)?;
        }
        Ok(())
    }

    /// The devices that the ledger assigned to a container.
    #[must_use]
    pub fn devices(&self, pod: &PodUid, container: &ContainerName) -> DevicesByResource {
        let devices = self.journaled.ledger().state().devices();
        devices
            .container(pod, container)
            .cloned()
            .unwrap_or_default()
    }

    /// Admits a container that the runtime is creating. Returns its allowance (`None`: it is not pinned) and the updates
    /// of other containers.
    ///
    /// # Errors
    /// If the container is rejected.
    pub fn add_container(
        &mut self,
        container: ManagedContainer,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<(Option<Allowance>, Vec<Update>), AdmitError> {
        let outcome = self.admit_container(container, preference, now);
        self.rejected += u64::from(outcome.is_err());
        let container = outcome?;
        let allowance = self.creation_allowance(&container);
        self.containers.insert(container.id.clone(), container);
        Ok((allowance, self.updates()))
    }

    /// Adds a container whose creation the agent missed. One that `runs` and is rejected uses the shared pool. Returns the
    /// updates of all containers that changed, with its own.
    ///
    /// # Errors
    /// If the container is rejected and does not run yet.
    pub fn adopt_container(
        &mut self,
        container: ManagedContainer,
        runs: bool,
        now: Timestamp,
    ) -> Result<Vec<Update>, AdmitError> {
        let mut container = match runs {
            true => {
                let mut changes = Vec::new();
                let synced = self.sync_container(container, &mut NoPreference, now, &mut changes);
                self.late_changes.append(&mut changes);
                synced
            }
            false => self.admit_container(container, &mut NoPreference, now)?,
        };
        container.sent_allowance = None;
        self.containers.insert(container.id.clone(), container);
        Ok(self.updates())
    }

    /// The allowance to restore when another client changes a container through the runtime; `None` if the container is
    /// not pinned.
    pub fn container_allowance(&mut self, id: &str) -> Option<Allowance> {
        self.containers.get(id)?.sent_allowance.clone()
    }

    /// The update to send when the runtime has created a container: it ignored updates while it was creating it. `None` if
    /// the allowance has not changed meanwhile.
    #[must_use]
    pub fn container_created(&self, id: &str) -> Option<Update> {
        let container = self.containers.get(id)?;
        let was_updated = container.update_seq > 0 && !container.started;
        let allowance = container.sent_allowance.clone().filter(|_| was_updated)?;
        Some(Update {
            container: id.to_owned(),
            allowance,
        })
    }

    /// Records that a container started, which releases what earlier init containers held. Returns the updates of other
    /// containers.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn container_started(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        let Some(container) = self.containers.get_mut(id) else {
            return Ok(Vec::new());
        };
        self.update_seq = self.update_seq.saturating_add(1);
        container.update_seq = self.update_seq;
        container.started = true;
        let residents = self.journaled.ledger().state().admitted_pods();
        let resident = residents.get(&container.resident);
        let is_in_spec = resident.is_some_and(|here| here.pod.container(&container.name).is_some());
        if !is_in_spec {
            return Ok(Vec::new());
        }
        let (pod, name) = (container.resident.clone(), container.name.clone());
        self.journaled.start_container(&pod, &name, now)?;
        Ok(self.updates())
    }

    /// Removes a container that was stopped or deleted. Returns the updates of other containers.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn remove_container(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        if let Some(container) = self.containers.remove(id)
            && container.resident != container.pod
        {
            let same_resident = |other: &ManagedContainer| other.resident == container.resident;
            if !self.containers.values().any(same_resident) {
                self.release_resident(&container.resident, now)?;
            }
        }
        Ok(self.updates())
    }

    /// Admits a pod that a client of the API declared. It holds its resources until [`ManagedNode::release`].
    ///
    /// # Errors
    /// If it is rejected, or the ledger or the journal fails.
    pub fn admit(
        &mut self,
        pod: &PodObject,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<(Option<Decision>, Vec<Update>), AdmitError> {
        let outcome = self.admit_pod(pod, PodOrigin::Api, preference, now);
        self.rejected += u64::from(matches!(outcome, Err(AdmitError::Rules { .. })));
        Ok((outcome?, self.updates()))
    }

    /// Assigns the resources of a pod's container to an external cgroup, also after a restart of the agent. Returns its
    /// allowance; `None` if it is not pinned.
    ///
    /// # Errors
    /// If there is no such container, or the journal cannot be written.
    pub fn hold(
        &mut self,
        group: &str,
        pod: &PodUid,
        name: &ContainerName,
        now: Timestamp,
    ) -> Result<Option<Allowance>, JournaledLedgerError> {
        self.journaled.pin_cgroup(pod, name, group, now)?;
        Ok(self.add_external(ManagedContainer::external(group, pod, name)))
    }

    /// Like [`ManagedNode::hold`], for a process and its children. Removes the pod's processes that are not `alive` any
    /// more.
    ///
    /// # Errors
    /// If there is no such container, or the journal cannot be written.
    pub fn hold_process(
        &mut self,
        held: &PinnedProcess,
        pod: &PodUid,
        alive: &dyn Fn(&PinnedProcess) -> bool,
        now: Timestamp,
    ) -> Result<Option<Allowance>, JournaledLedgerError> {
        self.journaled.pin_process(pod, held, alive, now)?;
        self.containers.retain(|_, container| {
            let process = container.process().filter(|_| container.pod == *pod);
            process.is_none_or(alive)
        });
        Ok(self.add_external(ManagedContainer::external_process(held, pod)))
    }

    fn add_external(&mut self, mut container: ManagedContainer) -> Option<Allowance> {
        container.sent_allowance = self.allowance(&container);
        let allowance = container.sent_allowance.clone();
        self.containers.insert(container.id.clone(), container);
        allowance
    }

    /// The allowance of a pod's container, whether it runs or not; `None` if it is not pinned.
    pub fn allowed(&mut self, pod: &PodUid, name: &ContainerName) -> Option<Allowance> {
        self.allowance(&ManagedContainer::external("", pod, name))
    }

    /// Changes the node's rules and moves pods as planned. Returns the updates of all containers that changed.
    ///
    /// # Errors
    /// If the plan does not fit the ledger any more, or the journal cannot be written.
    pub fn apply_plan(
        &mut self,
        plan: RulesChange,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        self.journaled.apply_rules_change(plan, now)?;
        if let Rulebook::Koordinator(koordinator) = &mut self.rulebook {
            **koordinator = koordinator.with_rules(self.journaled.ledger().rules());
        }
        Ok(self.updates())
    }

    /// Releases a pod. Returns the updates of other containers.
    ///
    /// # Errors
    /// If the ledger does not have the pod, or the journal cannot be written.
    pub fn release(
        &mut self,
        pod: &PodUid,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        self.journaled.release(pod, now)?;
        let external =
            |container: &ManagedContainer| container.is_external() && container.pod == *pod;
        self.containers.retain(|_, container| !external(container));
        Ok(self.updates())
    }
}

/// The ledger's UID of a container that was admitted without its pod's spec.
fn standalone_uid(pod: &PodUid, container: &ContainerName) -> PodUid {
    format!("{pod}/{container}").into()
}
