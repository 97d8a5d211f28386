//! Compares the pods of the runtime with the journal, and repairs differences toward the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::GrantedCpus;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_devices::align::AlignedPod;
use pinfold_kube::pod::PodObject;

use super::managed_container::{ManagedContainer, Sandbox};
use super::{
    AdmitError, DevicePreference, ManagedNode, UnknownContainers, Update, pod_record,
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
    /// and the differences to the journal that were resolved.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn synchronize(
        &mut self,
        pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        containers: Vec<ManagedContainer>,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<(Vec<Update>, Vec<SyncChange>), JournaledLedgerError> {
        let mut changes = Vec::new();
        self.release_terminated(&pods, &containers, now, &mut changes)?;
        self.sync_all(pods, containers, preference, now, changes)
    }

    /// Like [`ManagedNode::synchronize`], where the kubelet assigns devices: the CPUs and memory of pods that are not in
    /// the journal yet are aligned to their `kubelet_devices`.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn synchronize_with_kubelet_devices(
        &mut self,
        mut pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        containers: Vec<ManagedContainer>,
        mut kubelet_devices: BTreeMap<PodUid, AlignedPod>,
        now: Timestamp,
    ) -> Result<(Vec<Update>, Vec<SyncChange>), JournaledLedgerError> {
        let mut changes = Vec::new();
        self.release_terminated(&pods, &containers, now, &mut changes)?;
        for (sandbox, pod) in &mut pods {
            let Some(aligned) = kubelet_devices.remove(&sandbox.uid) else {
                continue;
            };
            if let (Some(object), false) = (pod.as_deref(), self.has_pod(&sandbox.uid)) {
                for (resource, devices) in aligned.offers {
                    self.journaled.set_devices(&resource, Some(devices), now)?;
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
        let outcome = self.sync_all(pods, containers, &mut NoPreference, now, changes)?;
        for uid in &uids {
            if !self.has_pod(uid) {
                self.withdraw_devices(uid, now)?;
            }
        }
        Ok(outcome)
    }

    /// Replaces the sandboxes and containers by those of the runtime, after terminated pods were released.
    fn sync_all(
        &mut self,
        pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        containers: Vec<ManagedContainer>,
        preference: DevicePreference<'_>,
        now: Timestamp,
        mut changes: Vec<SyncChange>,
    ) -> Result<(Vec<Update>, Vec<SyncChange>), JournaledLedgerError> {
        self.sandboxes.clear();
        self.containers
            .retain(|_, container| container.is_external());
        // A pod that was rejected once stays in the shared pool until it restarts: it is not admitted again at every scan.
        let rejected_before = std::mem::take(&mut self.shared_sandboxes);
        self.pending_releases.clear();
        // Pods that the kubelet pinned come first, so that no other pod is assigned their CPUs.
        let (pinned, others): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .partition(|(sandbox, _)| self.pins.pods.contains_key(&sandbox.uid));
        for (sandbox, spec) in pinned.into_iter().chain(others) {
            let spec = spec.as_deref();
            if rejected_before.contains(&sandbox.id) && !self.has_pod(&sandbox.uid) {
                self.shared_sandboxes.insert(sandbox.id.clone());
                self.sandboxes.insert(sandbox.id.clone(), sandbox);
                continue;
            }
            self.sync_pod(&sandbox, spec, preference, now, &mut changes)?;
            self.sandboxes.insert(sandbox.id.clone(), sandbox);
        }
        for container in containers {
            let container = self.sync_container(container, preference, now, &mut changes)?;
            self.containers.insert(container.id.clone(), container);
        }
        Ok((self.updates(), changes))
    }

    /// Releases the pods of the ledger that the runtime does not have any more, except declared ones.
    fn release_terminated(
        &mut self,
        pods: &[(Sandbox, Option<Arc<PodObject>>)],
        containers: &[ManagedContainer],
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) -> Result<(), JournaledLedgerError> {
        let mut alive: BTreeSet<PodUid> = pods.iter().map(|(pod, _)| pod.uid.clone()).collect();
        alive.extend(
            containers
                .iter()
                .map(|container| standalone_uid(&container.pod, &container.name)),
        );
        let records = self.journaled.records();
        let is_declared = |pod: &PodUid| {
            let record = records.get(pod);
            record.is_some_and(|record| record.origin == PodOrigin::Api)
        };
        let residents = self.journaled.ledger().state().admitted_pods().keys();
        let terminated = residents.filter(|pod| !alive.contains(*pod) && !is_declared(pod));
        for pod in terminated.cloned().collect::<Vec<_>>() {
            self.journaled.release(&pod, now)?;
            self.withdraw_devices(&pod, now)?;
            changes.push(SyncChange::Released(pod));
        }
        Ok(())
    }

    /// Adds a running pod, and admits it if it is not in the journal.
    fn sync_pod(
        &mut self,
        sandbox: &Sandbox,
        spec: Option<&PodObject>,
        preference: DevicePreference<'_>,
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) -> Result<(), JournaledLedgerError> {
        let uid = &sandbox.uid;
        if self.has_pod(uid) || self.has_standalone_containers(uid) {
            return Ok(());
        }
        if let Some(cpus) = self.pins.pods.get(uid).cloned() {
            return self.keep_kubelet_cpus(sandbox, &cpus, now, changes);
        }
        if self.unknown_containers == UnknownContainers::UseSharedPool {
            let why = "unknownContainers is reject".to_owned();
            changes.push(SyncChange::UsesSharedPool {
                pod: uid.clone(),
                why,
            });
            self.shared_sandboxes.insert(sandbox.id.clone());
            return Ok(());
        }
        let outcome = self.admit_sandbox(sandbox, spec, preference, now);
        if outcome.is_err() {
            self.shared_sandboxes.insert(sandbox.id.clone());
        }
        self.record_admission(uid, outcome, changes)
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
    fn sync_container(
        &mut self,
        container: ManagedContainer,
        preference: DevicePreference<'_>,
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) -> Result<ManagedContainer, JournaledLedgerError> {
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
                Ok(container)
            }
            Err(rejected) => {
                self.record_admission(&standalone, Err(rejected), changes)?;
                Ok(unadmitted)
            }
        }
    }

    /// Adds the result of admitting a running pod to `changes`. Only a failed journal write is an error.
    fn record_admission(
        &self,
        pod: &PodUid,
        outcome: Result<(), AdmitError>,
        changes: &mut Vec<SyncChange>,
    ) -> Result<(), JournaledLedgerError> {
        match outcome {
            Ok(()) if self.has_pod(pod) => changes.push(SyncChange::Adopted(pod.clone())),
            Ok(()) => {}
            Err(AdmitError::Journal(error @ JournaledLedgerError::Journal(_))) => {
                return Err(error);
            }
            Err(rejected) => changes.push(SyncChange::UsesSharedPool {
                pod: pod.clone(),
                why: rejected.to_string(),
            }),
        }
        Ok(())
    }

    /// Grants a pod the CPUs that the kubelet assigned to it.
    fn keep_kubelet_cpus(
        &mut self,
        sandbox: &Sandbox,
        cpus: &GrantedCpus,
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) -> Result<(), JournaledLedgerError> {
        let mut all = CpuSet::new();
        cpus.values().for_each(|cpus| all |= cpus);
        let container = |name: &ContainerName| Container {
            name: name.clone(),
            restartable: false,
            requests: ResourceList::new(),
            limits: ResourceList::new(),
        };
        let pod = Arc::new(Pod {
            uid: sandbox.uid.clone(),
            name: sandbox.full_name(),
            init_containers: Vec::new(),
            containers: cpus.keys().map(container).collect(),
            pod_requests: None,
            pod_limits: None,
        });
        let record = pod_record::record(PodOrigin::Kubelet, &sandbox.labels, &sandbox.annotations);
        let message = format!("keeps CPUs {all}, assigned by the kubelet");
        match self.journaled.grant(&pod, cpus, record, message, now) {
            Ok(()) => changes.push(SyncChange::KeptKubeletCpus {
                pod: sandbox.uid.clone(),
                cpus: all,
            }),
            Err(error @ JournaledLedgerError::Journal(_)) => return Err(error),
            Err(error) => {
                self.shared_sandboxes.insert(sandbox.id.clone());
                changes.push(SyncChange::UsesSharedPool {
                    pod: sandbox.uid.clone(),
                    why: format!("the kubelet assigned CPUs {all}, but {error}"),
                });
            }
        }
        Ok(())
    }
}
