//! Admits pods and containers by the kubelet's or Koordinator's rules.

use std::sync::Arc;

use pinfold_core::decision::Decision;
use pinfold_core::ledger::GrantedCpus;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_kube::koordinator::{ResourceStatus, keys};
use pinfold_kube::meta::ObjectMeta;
use pinfold_kube::pod::PodObject;
use pinfold_render::explain;

use super::managed_container::{ManagedContainer, Sandbox};
use super::{AdmitError, DevicePreference, ManagedNode, Rulebook, pod_record, standalone_uid};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::Timestamp;
use pinfold_journal::{JournalPodRecord, PodOrigin};
use pinfold_kube::generation::GENERATION;
use pinfold_kube::pin::{self, PIN};

/// Name of the single container that represents all containers of a pod without a known spec.
pub(super) const EVERY_CONTAINER: &str = "*";

impl ManagedNode {
    /// Admits the pod of a sandbox. Does nothing if the ledger has the pod already, or if its containers will be admitted
    /// one by one.
    pub(super) fn admit_sandbox(
        &mut self,
        sandbox: &Sandbox,
        spec: Option<&PodObject>,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<(), AdmitError> {
        if self.keep_free_kubelet_cpus(sandbox, now) || self.has_pod(&sandbox.uid) {
            self.pending_releases.remove(&sandbox.uid);
            return Ok(());
        }
        match (spec, &self.rulebook) {
            (Some(pod), _) => self.admit_pod(pod, PodOrigin::Runtime, preference, now),
            (None, Rulebook::Koordinator(_)) => self.admit_pod(
                &pod_of_sandbox(sandbox),
                PodOrigin::Runtime,
                preference,
                now,
            ),
            (None, Rulebook::Kubelet) => Ok(None),
        }
        .map(drop)
    }

    /// Admits a pod with a known spec. Returns the ledger's decision, if it made one.
    pub(super) fn admit_pod(
        &mut self,
        pod: &PodObject,
        origin: PodOrigin,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<Option<Decision>, AdmitError> {
        let mut record = pod_record::record(origin, &pod.meta.labels, &pod.meta.annotations);
        let core = Arc::new(pod.pod.clone());
        if let Some(why) = pod_record::too_long(&pod.meta) {
            return self.reject(&core, why, now);
        }
        match pin::is_wanted(&pod.meta.annotations) {
            Ok(true) => {}
            Ok(false) => return self.admit_unpinned(core, record, preference, now),
            Err(why) => return self.reject(&core, why, now),
        }
        let mut prior = String::new();
        if let Some(status) = self.scheduler_choice(pod, &core, now)? {
            let followed = match &self.rulebook {
                Rulebook::Kubelet => self
                    .admit_on_scheduler_choice(&core, &status, &record, preference, now)
                    .map_err(|error| (error.to_string(), Some(error))),
                Rulebook::Koordinator(koordinator) => {
                    let ledger = self.journaled.ledger();
                    match koordinator.reject_choice(pod, &status, ledger) {
                        Some(why) => Err((why, None)),
                        None => self
                            .grant_scheduler_choice(&core, &status, &record, now)
                            .map_err(|error| (error.to_string(), Some(error))),
                    }
                }
            };
            match followed {
                Ok(decision) => return Ok(decision),
                Err((_, Some(error @ JournaledLedgerError::Journal(_)))) => {
                    return Err(error.into());
                }
                Err((why, _)) => prior = self.choice_not_used(pod, &status, &why),
            }
            record.annotations.remove(keys::RESOURCE_STATUS);
        }
        if matches!(self.rulebook, Rulebook::Koordinator(_)) {
            let outcome = self.admit_by_koordinator(pod, &core, record, &prior, now);
            if matches!(outcome, Err(AdmitError::Rules { .. })) {
                self.counters.count_grant(false);
            } else if !self.journaled.ledger().exclusive_cpus(&core.uid).is_empty() {
                self.counters.count_grant(true);
            }
            return outcome.map(|()| None);
        }
        self.decide(&core, record, &prior, preference, now)
            .map(Some)
    }

    /// Admits a pod that opts out of pinning: its containers run in the shared pool.
    fn admit_unpinned(
        &mut self,
        pod: Arc<Pod>,
        mut record: JournalPodRecord,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<Option<Decision>, AdmitError> {
        let pod = Arc::new(unpinned(Arc::unwrap_or_clone(pod)));
        let why = format!("annotation {PIN} is false: shared pool");
        record.annotations.remove(keys::RESOURCE_STATUS);
        match self.rulebook {
            Rulebook::Kubelet => self.decide(&pod, record, &why, preference, now).map(Some),
            Rulebook::Koordinator(_) => {
                // Its class would have it wait for CPUs of its own.
                record.labels.remove(keys::QOS_CLASS);
                self.journaled
                    .grant(&pod, &GrantedCpus::new(), record, why, now)?;
                Ok(None)
            }
        }
    }

    /// Admits a pod by the ledger's rules. The journal entry begins with `prior`, the reason why the scheduler's choice
    /// was not used.
    fn decide(
        &mut self,
        pod: &Arc<Pod>,
        record: JournalPodRecord,
        prior: &str,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<Decision, AdmitError> {
        let decision = self
            .journaled
            .admit_with_context(pod, record, prior, preference, now)?;
        let rules = self.journaled.ledger().rules();
        self.counters.count(pod, &decision, rules);
        match decision.is_admitted() {
            true => Ok(decision),
            false => Err(AdmitError::Rules {
                reason: explain::one_line(&decision),
                decision: Some(Box::new(decision)),
            }),
        }
    }

    /// The pod's `resource-status` annotation; `None` if a scheduler chose nothing that the rules follow: the kubelet's
    /// have no shared pools of NUMA nodes.
    fn scheduler_choice(
        &mut self,
        pod: &PodObject,
        core: &Arc<Pod>,
        now: Timestamp,
    ) -> Result<Option<ResourceStatus>, AdmitError> {
        let fidelity = self.journaled.ledger().rules().fidelity();
        match ResourceStatus::read(pod, fidelity) {
            Ok(read) => {
                let has_pools = matches!(self.rulebook, Rulebook::Koordinator(_));
                let is_choice = |status: &ResourceStatus| {
                    !status.cpus.is_empty() || has_pools && !status.nodes().is_empty()
                };
                Ok(read.value.filter(is_choice))
            }
            Err(findings) => self.reject(core, findings.to_string(), now),
        }
    }

    /// Assigns the CPUs that the scheduler chose to the pod, which all its containers share, or the shared pools.
    fn grant_scheduler_choice(
        &mut self,
        core: &Arc<Pod>,
        status: &ResourceStatus,
        record: &JournalPodRecord,
        now: Timestamp,
    ) -> Result<Option<Decision>, JournaledLedgerError> {
        let message = format!("{}, chosen by the scheduler", described(status));
        let granted = grant_to_all(core, status);
        self.journaled
            .grant(core, &granted, record.clone(), message, now)?;
        if !granted.is_empty() {
            self.counters.count_grant(true);
        }
        Ok(None)
    }

    /// Admits a pod by the kubelet's rules on the CPUs that the scheduler chose: each container gets its own part of them,
    /// and memory and devices are aligned to them.
    fn admit_on_scheduler_choice(
        &mut self,
        core: &Arc<Pod>,
        status: &ResourceStatus,
        record: &JournalPodRecord,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<Option<Decision>, JournaledLedgerError> {
        let chosen = &status.cpus;
        let record = record.clone();
        let decision = self
            .journaled
            .admit_with_cpus(core, chosen, record, preference, now)?;
        let rules = self.journaled.ledger().rules();
        self.counters.count(core, &decision, rules);
        Ok(Some(decision))
    }

    /// The journal text that says why the scheduler's CPUs were not used.
    fn choice_not_used(&self, pod: &PodObject, status: &ResourceStatus, why: &str) -> String {
        let chosen = described(status);
        let made_for = pod.meta.annotations.get(GENERATION);
        let at = self.journaled.generation();
        let age = made_for.map_or_else(String::new, |then| {
            format!(" for generation {then} of the node, which is at {at}")
        });
        format!("the scheduler chose {chosen}{age}: {why}; the agent decided instead")
    }

    /// Admits a container that the runtime is creating, unless its pod was admitted as a whole.
    pub(super) fn admit_container(
        &mut self,
        mut container: ManagedContainer,
        preference: DevicePreference<'_>,
        now: Timestamp,
    ) -> Result<ManagedContainer, AdmitError> {
        let Some(sandbox) = self.sandboxes.get(&container.sandbox) else {
            return Err(AdmitError::UnknownSandbox(container.sandbox));
        };
        let decided = self.has_pod(&container.pod)
            || self.shared_sandboxes.contains(&container.sandbox)
            || self.awaiting_specs.contains(&container.sandbox);
        if !decided && matches!(self.rulebook, Rulebook::Kubelet) {
            let (pod, record) = single_container_pod(sandbox, &container);
            container.resident.clone_from(&pod.uid);
            self.pending_releases.remove(&pod.uid);
            if !self.has_pod(&pod.uid) {
                self.decide(&pod, record, "", preference, now)?;
            }
        }
        container.sent_allowance = self.allowance(&container);
        Ok(container)
    }

    /// Rejects a pod without consulting the ledger, and journals the rejection.
    pub(super) fn reject<T>(
        &mut self,
        pod: &Arc<Pod>,
        why: String,
        now: Timestamp,
    ) -> Result<T, AdmitError> {
        self.journaled.reject(pod, why.clone(), now)?;
        let (reason, decision) = (why, None);
        Err(AdmitError::Rules { reason, decision })
    }
}

/// What a scheduler chose, in a few words.
fn described(status: &ResourceStatus) -> String {
    match status.cpus.is_empty() {
        true => format!("shared pools of NUMA nodes {}", status.nodes()),
        false => format!("CPUs {}", status.cpus),
    }
}

/// Grants the scheduler's CPUs to every container of the pod, which share them.
pub(super) fn grant_to_all(pod: &Pod, status: &ResourceStatus) -> GrantedCpus {
    let of = |container: &Container| (container.name.clone(), status.cpus.clone());
    match status.cpus.is_empty() {
        true => GrantedCpus::new(),
        false => pod.all_containers().map(of).collect(),
    }
}

/// The same pod without CPU limits, so that it is not Guaranteed: it has neither exclusive CPUs nor memory of its own.
pub(super) fn unpinned(mut pod: Pod) -> Pod {
    let containers = pod.init_containers.iter_mut().chain(&mut pod.containers);
    for container in containers {
        container.limits.remove("cpu");
    }
    if let Some(limits) = &mut pod.pod_limits {
        limits.remove("cpu");
    }
    pod
}

/// A pod with only this container, for a container that is admitted without its pod's spec.
fn single_container_pod(
    sandbox: &Sandbox,
    managed: &ManagedContainer,
) -> (Arc<Pod>, JournalPodRecord) {
    let container = managed
        .resources
        .container(managed.name.clone(), sandbox.qos_by_cgroup());
    let is_pinned = pin::is_wanted(&sandbox.annotations) != Ok(false);
    let pod = Pod {
        uid: standalone_uid(&managed.pod, &managed.name),
        name: format!("{}/{}", sandbox.full_name(), managed.name),
        init_containers: Vec::new(),
        containers: vec![container],
        pod_requests: None,
        pod_limits: None,
    };
    let pod = if is_pinned { pod } else { unpinned(pod) };
    let record = pod_record::record(PodOrigin::Runtime, &sandbox.labels, &sandbox.annotations);
    (Arc::new(pod), record)
}

/// A pod made from the sandbox alone: one container with the total resources of all.
fn pod_of_sandbox(sandbox: &Sandbox) -> PodObject {
    let container = sandbox
        .total
        .container(EVERY_CONTAINER.into(), sandbox.qos_by_cgroup());
    PodObject {
        meta: ObjectMeta {
            namespace: sandbox.namespace.clone(),
            name: sandbox.name.clone(),
            uid: Some(sandbox.uid.to_string()),
            labels: sandbox.labels.clone(),
            annotations: sandbox.annotations.clone(),
            ..ObjectMeta::default()
        },
        pod: Pod {
            uid: sandbox.uid.clone(),
            name: sandbox.full_name(),
            init_containers: Vec::new(),
            containers: vec![container],
            pod_requests: None,
            pod_limits: None,
        },
        node_name: None,
        scheduler_name: None,
        priority: None,
        overhead: ResourceList::new(),
        constraints: Arc::default(),
        owner: None,
        at: None,
    }
}
