//! Pods that still have the CPUs which the kubelet's CPU manager assigned before the agent took the node over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::GrantedCpus;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_journal::{PodOrigin, Timestamp};
use pinfold_kube::pod::PodIdentity;

use super::managed_container::{ManagedContainer, RuntimeResources, Sandbox, SandboxState};
use super::pod_end::identity;
use super::{ManagedNode, SyncChange, pod_record};
use crate::journaled_ledger::JournaledLedgerError;

/// CPUs that the kubelet's CPU manager assigned. Its pods keep them until they terminate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletPins {
    /// Exclusive CPUs by pod and container, from `cpu_manager_state`.
    pub pods: pinfold_core::cpu::ContainerCpus,
}

impl ManagedNode {
    /// Number of running pods that the kubelet pinned. 0: the takeover is complete.
    #[must_use]
    pub fn kubelet_pinned(&self) -> usize {
        let records = self.journaled.records().values();
        records
            .filter(|record| record.origin == PodOrigin::Kubelet)
            .count()
    }

    /// The running pods that the kubelet pinned, with their CPUs.
    #[must_use]
    pub fn pinned_by_kubelet(&self) -> BTreeMap<PodUid, CpuSet> {
        let records = self.journaled.records().iter();
        let pinned = records.filter(|(_, record)| record.origin == PodOrigin::Kubelet);
        let ledger = self.journaled.ledger();
        pinned
            .map(|(pod, _)| (pod.clone(), ledger.exclusive_cpus(pod)))
            .collect()
    }

    /// Whether the ledger has the CPUs of a pod as the kubelet's.
    pub(super) fn is_kept_for_kubelet(&self, uid: &PodUid) -> bool {
        let record = self.journaled.records().get(uid);
        record.is_some_and(|record| record.origin == PodOrigin::Kubelet)
    }

    /// Releases what the agent chose for these pods before the takeover, and other pods' choices on the CPUs that the kubelet
    /// assigned to them. A pod that is released and runs is admitted again.
    ///
    /// # Errors
    /// If the journal cannot be written. A pod that could not be released holds what it held.
    pub(super) fn clear_kubelet_cpus(
        &mut self,
        pinned: &BTreeSet<PodUid>,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let pinned = pinned.iter().filter(|uid| !self.is_kept_for_kubelet(uid));
        let mut own = BTreeSet::new();
        let mut cpus = CpuSet::new();
        for uid in pinned {
            own.extend(self.residents_of(uid));
            let containers = self.pins.pods.get(uid).into_iter().flatten();
            containers.for_each(|(_, assigned)| cpus |= assigned);
        }
        let ledger = self.journaled.ledger();
        let by_agent = |uid: &PodUid| {
            let record = self.journaled.records().get(uid);
            record.is_some_and(|record| record.origin == PodOrigin::Runtime)
        };
        let others = ledger.state().admitted_pods().iter().filter(|(uid, _)| {
            by_agent(uid) && !own.contains(*uid) && !ledger.exclusive_cpus(uid).is_disjoint(&cpus)
        });
        let others: Vec<(PodUid, PodUid)> = others
            .map(|(uid, admitted)| (uid.clone(), identity(uid, &admitted.pod.name).uid))
            .collect();
        for resident in own {
            self.release_unless_full(&resident, now)?;
        }
        for (resident, pod) in others {
            self.release_unless_full(&resident, now)?;
            let sandboxes = self.sandboxes.values();
            let sandboxes = sandboxes.filter(|sandbox| sandbox.uid == pod);
            self.awaiting_specs
                .extend(sandboxes.map(|sandbox| sandbox.id.clone()));
        }
        Ok(())
    }

    /// Releases a pod that goes on: if that cannot be journaled, it holds what it held.
    fn release_unless_full(
        &mut self,
        resident: &PodUid,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let released = self.release_resident(resident, now);
        self.pending_releases.remove(resident);
        released
    }

    /// Grants a pod the CPUs that the kubelet assigned to it, instead of those that the agent chose while it pinned no
    /// containers. Reserved CPUs and those of other pods are not granted; the pod runs there all the same.
    pub(super) fn keep_kubelet_cpus(
        &mut self,
        sandbox: &Sandbox,
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) {
        let cleared = self.clear_kubelet_cpus(&[sandbox.uid.clone()].into(), now);
        if cleared.is_err() {
            self.awaiting_specs.insert(sandbox.id.clone());
            return;
        }
        let cpus: GrantedCpus = self
            .pins
            .pods
            .get(&sandbox.uid)
            .cloned()
            .unwrap_or_default();
        let mut all = CpuSet::new();
        cpus.values().for_each(|cpus| all |= cpus);
        let names: Vec<ContainerName> = cpus.keys().cloned().collect();
        let ledger = self.journaled.ledger();
        let free = ledger.state().cpus().shared() - &ledger.rules().reserved_cpus();
        let cpus: GrantedCpus = match ledger.rules().has_exclusive_cpus() {
            true => cpus
                .iter()
                .map(|(name, cpus)| (name.clone(), cpus & &free))
                .collect(),
            false => GrantedCpus::new(),
        };
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
            containers: names.iter().map(container).collect(),
            pod_requests: None,
            pod_limits: None,
        });
        let record = pod_record::record(PodOrigin::Kubelet, &sandbox.labels, &sandbox.annotations);
        let message = format!("keeps CPUs {all}, assigned by the kubelet");
        match self.journaled.grant(&pod, &cpus, record, message, now) {
            Ok(()) => changes.push(SyncChange::KeptKubeletCpus {
                pod: sandbox.uid.clone(),
                cpus: all,
            }),
            Err(JournaledLedgerError::Journal(_)) => {
                self.awaiting_specs.insert(sandbox.id.clone());
            }
            Err(error) => {
                self.shared_sandboxes.insert(sandbox.id.clone());
                changes.push(SyncChange::UsesSharedPool {
                    pod: sandbox.uid.clone(),
                    why: format!("the kubelet assigned CPUs {all}, but {error}"),
                });
            }
        }
    }

    /// As [`ManagedNode::keep_kubelet_cpus`], for pods that go on and whose sandbox is being made anew. `running` have one.
    pub(super) fn keep_kubelet_cpus_without_sandbox(
        &mut self,
        running: &BTreeSet<PodUid>,
        now: Timestamp,
        changes: &mut Vec<SyncChange>,
    ) {
        let pods = self.pins.pods.keys();
        let pods = pods.filter(|uid| !running.contains(*uid) && !self.is_kept_for_kubelet(uid));
        let active = pods.filter_map(|uid| {
            let residents = self.residents_of(uid);
            let resident = residents.iter().find(|one| self.is_active(one))?;
            let admitted = self.journaled.ledger().state().admitted_pods();
            Some(identity(resident, &admitted.get(resident)?.pod.name))
        });
        let active: Vec<PodIdentity> = active.collect();
        for pod in active {
            let spec = self.pod_status.spec(&pod);
            let meta = spec.map(|spec| spec.meta.clone()).unwrap_or_default();
            let (namespace, name) = pod.name.split_once('/').unwrap_or(("", &pod.name));
            let sandbox = Sandbox {
                id: String::new(),
                uid: pod.uid.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                labels: meta.labels,
                annotations: meta.annotations,
                cgroup_parent: String::new(),
                total: RuntimeResources::default(),
                state: SandboxState::NotReady,
            };
            self.keep_kubelet_cpus(&sandbox, now, changes);
            // It has no sandbox to wait for; the next check tries again.
            self.awaiting_specs.remove(&sandbox.id);
            self.shared_sandboxes.remove(&sandbox.id);
        }
    }

    /// Grants a pod whose sandbox is made anew the CPUs that the kubelet assigned to it before the takeover, if no other pod
    /// has them. Returns whether it did; otherwise the agent decides from now on.
    pub(super) fn keep_free_kubelet_cpus(&mut self, sandbox: &Sandbox, now: Timestamp) -> bool {
        let uid = &sandbox.uid;
        let Some(assigned) = self.pins.pods.get(uid).filter(|_| !self.observe_only) else {
            return false;
        };
        if self.is_kept_for_kubelet(uid) {
            return false;
        }
        let mut cpus = CpuSet::new();
        assigned.values().for_each(|own| cpus |= own);
        let ledger = self.journaled.ledger();
        let mut free = ledger.state().cpus().shared() - &ledger.rules().reserved_cpus();
        for resident in self.residents_of(uid) {
            free |= &ledger.exclusive_cpus(&resident);
        }
        if !cpus.is_subset(&free) {
            self.pins.pods.remove(uid);
            return false;
        }
        let mut changes = Vec::new();
        self.keep_kubelet_cpus(sandbox, now, &mut changes);
        self.awaiting_specs.remove(&sandbox.id);
        self.shared_sandboxes.remove(&sandbox.id);
        self.late_changes.append(&mut changes);
        self.is_kept_for_kubelet(uid)
    }

    /// Whether the kubelet pinned a container that runs since before the agent took the node over: its CPUs are not changed.
    /// A container that a kubelet without CPU manager made, while the agent was down, has no CPUs of its own.
    pub(super) fn is_kubelet_pinned(&self, container: &ManagedContainer) -> bool {
        let resources = &container.resources;
        if resources.cpus.is_empty() && *resources != RuntimeResources::default() {
            return false;
        }
        let assigned = self.pins.pods.get(&container.pod);
        let is_awaited = self.awaiting_specs.contains(&container.sandbox)
            && assigned.is_some_and(|assigned| assigned.contains_key(&container.name));
        let pods = self.journaled.ledger().state().admitted_pods();
        let admitted = pods.get(&container.resident);
        let is_kept = self.is_kept_for_kubelet(&container.resident)
            && admitted.is_some_and(|one| one.pod.container(&container.name).is_some());
        is_awaited || is_kept
    }
}
