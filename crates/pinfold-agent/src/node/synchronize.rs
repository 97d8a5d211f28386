//! Compares the pods of the runtime with the journal, and repairs differences toward the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::name::PodUid;
use pinfold_devices::align::AlignedPod;
use pinfold_kube::pod::PodObject;

use super::managed_container::{ManagedContainer, Sandbox, SandboxState};
use super::pod_end::identity;
use super::{
    AdmitError, DevicePreference, ManagedNode, PodStatus, Rulebook, UnknownContainers, Update,
    standalone_uid,
};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::PodOrigin;
use pinfold_journal::Timestamp;

/// A difference between the runtime and the journal, and how it was resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncChange {
    /// A pod of the journal does not run any more: its resources were released.
    Released(PodUid),
    /// A running pod or container that was not in the journal was admitted.
    Adopted(PodUid),
    /// A running pod or container that was not in the journal uses the shared pool.
    UsesSharedPool {
        /// UID of the pod, or of the container in the ledger.
        pod: PodUid,
        /// Why it was not admitted.
        why: String,
    },
    /// A pod that the kubelet pinned keeps its CPUs until it terminates.
    KeptKubeletCpus {
        /// UID of the pod.
        pod: PodUid,
        /// Its CPUs.
        cpus: CpuSet,
    },
}

impl fmt::Display for SyncChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncChange::Released(pod) => {
                write!(
                    f,
                    "pod {pod} terminated while the agent was not connected; its resources were released"
                )
            }
            SyncChange::Adopted(pod) => write!(
                f,
                "running pod {pod} was not in the journal and was admitted"
            ),
            SyncChange::UsesSharedPool { pod, why } => {
                write!(
                    f,
                    "running pod {pod} was not in the journal and uses the shared pool: {why}"
                )
            }
            SyncChange::KeptKubeletCpus { pod, cpus } => {
                write!(
                    f,
                    "pod {pod} keeps CPUs {cpus}, assigned by the kubelet, until it terminates"
                )
            }
        }
    }
}

impl ManagedNode {
    /// Replaces the node's sandboxes and containers by all those of the runtime. Returns the updates of all containers,
    /// and the differences to the journal that were resolved. What cannot be journaled now is retried later: see
    /// [`ManagedNode::release_pending`].
    pub fn synchronize(
        &mut self,
        pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        containers: Vec<ManagedContainer>,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> (Vec<Update>, Vec<SyncChange>) {
        let mut changes = Vec::new();
        // The runtime waits for the answer, and there may be hundreds of pods.
        self.journaled.begin_batch();
        self.release_terminated(&pods, &containers, now, &mut changes);
        let outcome = self.sync_all(pods, containers, preference, now, changes);
        self.end_sync(outcome)
    }

    /// Syncs the journal. Without that, no container is updated: see [`JournaledLedger::end_batch`].
    fn end_sync(
        &mut self,
        (updates, changes): (Vec<Update>, Vec<SyncChange>),
    ) -> (Vec<Update>, Vec<SyncChange>) {
        match self.journaled.end_batch() {
            Ok(()) => (updates, changes),
            Err(error) => {
                tracing::error!(%error, "journal write failed");
                (Vec::new(), changes)
            }
        }
    }

    /// Like [`ManagedNode::synchronize`], where the kubelet assigns devices: the CPUs and memory of pods that are not in
    /// the journal yet are aligned to their `kubelet_devices`.
    pub fn synchronize_with_kubelet_devices(
        &mut self,
        mut pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        containers: Vec<ManagedContainer>,
        mut kubelet_devices: BTreeMap<PodUid, AlignedPod>,
        now: Timestamp,
    ) -> (Vec<Update>, Vec<SyncChange>) {
        let mut changes = Vec::new();
        self.journaled.begin_batch();
        self.release_terminated(&pods, &containers, now, &mut changes);
        for (sandbox, pod) in &mut pods {
            let Some(aligned) = kubelet_devices.remove(&sandbox.uid) else {
                continue;
            };
            if let (Some(object), false) = (pod.as_deref(), self.has_pod(&sandbox.uid)) {
                let offers = aligned.offers.into_iter();
                let mut offered = offers.map(|(resource, devices)| {
                    self.journaled.set_devices(&resource, Some(devices), now)
                });
                if offered.any(|offered| offered.is_err()) {
                    continue;
                }
                *pod = Some(Arc::new(PodObject {
                    pod: aligned.pod,
                    ..object.clone()
                }));
            }
        }
        let uids: Vec<PodUid> = pods
            .iter()
            .map(|(sandbox, _)| sandbox.uid.clone())
            .collect();
        let outcome = self.sync_all(pods, containers, &mut NoPreference, now, changes);
        for uid in &uids {
            if !self.has_pod(uid) && self.withdraw_devices(uid, now).is_err() {
                self.pending_releases.insert(uid.clone());
            }
        }
        self.end_sync(outcome)
    }

    /// Replaces the sandboxes and containers by those of the runtime, after terminated pods were released.
    fn sync_all(
        &mut self,
        pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        containers: Vec<ManagedContainer>,
        preference: DevicePreference<'_>,
        now: Timestamp,
        mut changes: Vec<SyncChange>,
    ) -> (Vec<Update>, Vec<SyncChange>) {
        self.sandboxes.clear();
        self.awaiting_specs.clear();
        self.containers
            .retain(|_, container| container.is_external());
        // A pod that was rejected once stays in the shared pool until it restarts: it is not admitted again at every scan.
        let rejected_before = std::mem::take(&mut self.shared_sandboxes);
        let runs = |sandbox: &Sandbox| {
            let of_sandbox = |one: &ManagedContainer| one.sandbox == sandbox.id;
            let has_container = || containers.iter().any(of_sandbox);
            match sandbox.state {
                SandboxState::Ready => true,
                SandboxState::NotReady => has_container(),
                // A pod that holds nothing yet is admitted when the runtime creates a container for it.
                SandboxState::Unknown => {
                    let uid = &sandbox.uid;
                    self.has_pod(uid) || self.has_standalone_containers(uid) || has_container()
                }
            }
        };
        let running = pods.into_iter().filter(|(sandbox, _)| runs(sandbox));
        let running: Vec<_> = running.collect();
        // Pods that the kubelet pinned come first, so that no other pod is assigned their CPUs.
        let (pinned, others): (Vec<_>, Vec<_>) = running
            .into_iter()
            .partition(|(sandbox, _)| self.pins.pods.contains_key(&sandbox.uid));
        let uids = pinned.iter().map(|(sandbox, _)| sandbox.uid.clone());
        let uids: BTreeSet<PodUid> = uids.collect();
        self.keep_kubelet_cpus_without_sandbox(&uids, now, &mut changes);
        // What cannot be journaled is retried for each pod.
        let _ = self.clear_kubelet_cpus(&uids, now);
        for (sandbox, spec) in pinned.into_iter().chain(others) {
            let spec = spec.as_deref();
            if rejected_before.contains(&sandbox.id) && !self.has_pod(&sandbox.uid) {
                self.shared_sandboxes.insert(sandbox.id.clone());
                self.sandboxes.insert(sandbox.id.clone(), sandbox);
                continue;
            }
            self.sync_pod(&sandbox, spec, preference, now, &mut changes);
            self.sandboxes.insert(sandbox.id.clone(), sandbox);
        }
        for container in containers {
            let container = self.sync_container(container, preference, now, &mut changes);
            self.containers.insert(container.id.clone(), container);
        }
        (self.updates(), changes)
    }

    /// Releases the pods of the ledger that ended, except declared ones. The runtime may leave containers that it is
    /// creating out of its list, so that those of a sandbox that runs are kept.
    fn release_terminated(
        &mut self,
        pods: &[(Sandbox, Option<Arc<PodObject>>)],
        containers: &[ManagedContainer],
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) {
        self.pending_releases.clear();
        let may_run = |sandbox: &Sandbox| sandbox.state != SandboxState::NotReady;
        let running = pods.iter().filter(|(sandbox, _)| may_run(sandbox));
        let mut alive: BTreeSet<PodUid> = running.map(|(pod, _)| pod.uid.clone()).collect();
        alive.extend(containers.iter().map(|container| container.pod.clone()));
        let records = self.journaled.records();
        let is_declared = |pod: &PodUid| {
            let record = records.get(pod);
            record.is_some_and(|record| record.origin == PodOrigin::Api)
        };
        let pods = self.journaled.ledger().state().admitted_pods().iter();
        let terminated = pods.filter(|(resident, admitted)| {
            let pod = identity(resident, &admitted.pod.name);
            !alive.contains(&pod.uid) && !is_declared(resident) && !self.is_active(resident)
        });
        let terminated: Vec<PodUid> = terminated.map(|(resident, _)| resident.clone()).collect();
        for resident in terminated {
            // A release that cannot be journaled stays pending.
            if self.release_resident(&resident, now).is_ok() {
                changes.push(SyncChange::Released(resident));
            }
        }
    }

    /// Adds a running pod, and admits it if it is not in the journal.
    fn sync_pod(
        &mut self,
        sandbox: &Sandbox,
        spec: Option<&PodObject>,
        preference: DevicePreference<'_>,
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) {
        let uid = &sandbox.uid;
        if self.pins.pods.contains_key(uid) && !self.is_kept_for_kubelet(uid) {
            self.keep_kubelet_cpus(sandbox, now, changes);
            return;
        }
        if self.has_pod(uid) || self.has_standalone_containers(uid) {
            return;
        }
        if self.unknown_containers == UnknownContainers::UseSharedPool {
            let why = "unknownContainers is reject".to_owned();
            changes.push(SyncChange::UsesSharedPool {
                pod: uid.clone(),
                why,
            });
            self.shared_sandboxes.insert(sandbox.id.clone());
            return;
        }
        let status = self.pod_status.status(&sandbox.identity());
        if spec.is_none() && status == PodStatus::NotListed {
            // Admitted container by container, it would have another identity than the API server's.
            self.awaiting_specs.insert(sandbox.id.clone());
            return;
        }
        if status == PodStatus::Terminated {
            // Its containers ended; only the sandbox still runs.
            return;
        }
        match self.admit_sandbox(sandbox, spec, preference, now) {
            Ok(()) if self.has_pod(uid) => changes.push(SyncChange::Adopted(uid.clone())),
            Ok(()) => {}
            Err(AdmitError::Journal(JournaledLedgerError::Journal(_))) => {
                self.awaiting_specs.insert(sandbox.id.clone());
            }
            Err(rejected) => {
                self.shared_sandboxes.insert(sandbox.id.clone());
                changes.push(SyncChange::UsesSharedPool {
                    pod: uid.clone(),
                    why: rejected.to_string(),
                });
            }
        }
    }

    /// Admits running pods whose spec, or space on the disk, was missing until now. Returns whether there were any.
    pub(super) fn admit_awaiting(&mut self, now: Timestamp) -> bool {
        let mut any = self.admit_awaiting_once(now);
        // A pod that gets the kubelet's CPUs may have released others, which are admitted again at once.
        if any && !self.awaiting_specs.is_empty() {
            any |= self.admit_awaiting_once(now);
        }
        any
    }

    fn admit_awaiting_once(&mut self, now: Timestamp) -> bool {
        let mut any = false;
        let running = self.sandboxes.values().map(|sandbox| sandbox.uid.clone());
        let running: BTreeSet<PodUid> = running.collect();
        let mut changes = Vec::new();
        self.keep_kubelet_cpus_without_sandbox(&running, now, &mut changes);
        any |= !changes.is_empty();
        self.late_changes.append(&mut changes);
        for id in std::mem::take(&mut self.awaiting_specs) {
            let Some(sandbox) = self.sandboxes.get(&id).cloned() else {
                continue;
            };
            let spec = self.pod_status.spec(&sandbox.identity());
            let mut changes = Vec::new();
            self.sync_pod(
                &sandbox,
                spec.as_deref(),
                &mut NoPreference,
                now,
                &mut changes,
            );
            if self.awaiting_specs.contains(&id) {
                continue;
            }
            any = true;
            let of_sandbox = |_: &String, one: &mut ManagedContainer| one.sandbox == id;
            let containers: Vec<_> = self.containers.extract_if(.., of_sandbox).collect();
            for (_, container) in containers {
                let sent = container.sent_allowance.clone();
                let mut container =
                    self.sync_container(container, &mut NoPreference, now, &mut changes);
                container.sent_allowance = sent;
                self.containers.insert(container.id.clone(), container);
            }
            self.late_changes.append(&mut changes);
        }
        any
    }

    /// The differences to the journal that were resolved since the last call, after the list of the runtime.
    pub fn take_late_changes(&mut self) -> Vec<SyncChange> {
        std::mem::take(&mut self.late_changes)
    }

    /// Whether containers of the pod were admitted without its spec.
    fn has_standalone_containers(&self, pod: &PodUid) -> bool {
        let prefix = standalone_uid(pod, &"".into());
        let mut after = self
            .journaled
            .ledger()
            .state()
            .admitted_pods()
            .range(prefix.clone()..);
        let next = after.next();
        next.is_some_and(|(resident, _)| resident.as_str().starts_with(prefix.as_str()))
    }

    /// Adds a running container, and admits it if it is not in the journal.
    pub(super) fn sync_container(
        &mut self,
        container: ManagedContainer,
        preference: DevicePreference<'_>,
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) -> ManagedContainer {
        let standalone = standalone_uid(&container.pod, &container.name);
        let known = self.has_pod(&standalone);
        let unadmitted = container.clone();
        match self.admit_container(container, preference, now) {
            Ok(mut container) => {
                if !known && container.resident == standalone {
                    changes.push(SyncChange::Adopted(standalone));
                }
                // The runtime may have lost earlier updates: the allowance is sent again.
                container.sent_allowance = None;
                let sandbox = self.sandboxes.get(&container.sandbox);
                let class = sandbox.and_then(Sandbox::qos_by_cgroup);
                container.found_allowance = match self.rulebook {
                    Rulebook::Kubelet => container.listed_allowance(class),
                    Rulebook::Koordinator(_) => None,
                };
                container
            }
            Err(AdmitError::Journal(JournaledLedgerError::Journal(_))) => {
                self.awaiting_specs.insert(unadmitted.sandbox.clone());
                unadmitted
            }
            Err(rejected) => {
                changes.push(SyncChange::UsesSharedPool {
                    pod: standalone,
                    why: rejected.to_string(),
                });
                unadmitted
            }
        }
    }
}
