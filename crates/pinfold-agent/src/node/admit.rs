//! Letting pods and containers in, by the rulebook in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::decision::Decision;
use pinfold_core::ledger::GrantedCpus;
use pinfold_core::name::PodUid;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_kube::koordinator::{ResourceStatus, keys};
use pinfold_kube::meta::ObjectMeta;
use pinfold_kube::pod::PodObject;
use pinfold_render::explain;

use super::guest::{Guest, Sandbox};
use super::{Node, Plugins, Rejected, Rulebook, stand_in};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::Timestamp;
use pinfold_journal::{PodOrigin, PodRecord};
use pinfold_kube::generation::GENERATION;

/// The container that stands for all containers of a pod whose specification nobody knows.
pub(super) const EVERY_CONTAINER: &str = "*";

impl Node {
    /// Lets the pod of a sandbox in, if there is anything to decide yet.
    pub(super) fn take_in(
        &mut self,
        sandbox: &Sandbox,
        specification: Option<&PodObject>,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<(), Rejected> {
        if self.lives_here(&sandbox.uid) {
            self.owed.remove(&sandbox.uid);
            return Ok(());
        }
        match (specification, &self.rulebook) {
            (Some(pod), _) => self.take_in_pod(pod, PodOrigin::Runtime, plugins, now),
            (None, Rulebook::Koordinator(_)) => {
                self.take_in_pod(&whole(sandbox), PodOrigin::Runtime, plugins, now)
            }
            (None, Rulebook::Kubelet) => Ok(None),
        }
        .map(drop)
    }

    /// Lets a pod in whose specification is known. With the decision, if the ledger made one.
    pub(super) fn take_in_pod(
        &mut self,
        pod: &PodObject,
        origin: PodOrigin,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<Option<Decision>, Rejected> {
        let mut note = note(origin, &pod.meta.labels, &pod.meta.annotations);
        let core = Arc::new(pod.pod.clone());
        let mut told = String::new();
        if let Some(status) = self.scheduled(pod, &core, now)? {
            let followed = match self.rulebook {
                Rulebook::Kubelet => self.follow_by_rules(&core, &status, &note, plugins, now),
                Rulebook::Koordinator(_) => self.follow(&core, &status, &note, now),
            };
            match followed {
                Ok(decision) => return Ok(decision),
                Err(error @ JournaledLedgerError::Journal(_)) => return Err(error.into()),
                Err(why) => told = self.not_followed(pod, &status, &why.to_string()),
            }
            note.annotations.remove(keys::RESOURCE_STATUS);
        }
        if matches!(self.rulebook, Rulebook::Koordinator(_)) {
            let outcome = self.take_in_by_koordinator(pod, &core, note, &told, now);
            if matches!(outcome, Err(Rejected::Rules { .. })) {
                self.tally.count_given(false);
            } else if !self.journaled.ledger().exclusive_cpus(&core.uid).is_empty() {
                self.tally.count_given(true);
            }
            return outcome.map(|()| None);
        }
        self.decide(&core, note, &told, plugins, now).map(Some)
    }

    /// Asks the ledger. `told` is what has been said about the pod so far.
    fn decide(
        &mut self,
        pod: &Arc<Pod>,
        note: PodRecord,
        told: &str,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<Decision, Rejected> {
        let decision = self
            .journaled
            .admit_with_context(pod, note, told, plugins, now)?;
        let rules = self.journaled.ledger().rules();
        self.tally.count(pod, &decision, rules);
        match decision.is_admitted() {
            true => Ok(decision),
            false => Err(Rejected::Rules {
                told: explain::one_line(&decision),
                decision: Some(Box::new(decision)),
            }),
        }
    }

    /// What a scheduler chose for the pod, if it bound CPUs.
    fn scheduled(
        &mut self,
        pod: &PodObject,
        core: &Arc<Pod>,
        now: Timestamp,
    ) -> Result<Option<ResourceStatus>, Rejected> {
        let fidelity = self.journaled.ledger().rules().fidelity();
        match ResourceStatus::read(pod, fidelity) {
            Ok(read) => Ok(read.value.filter(|status| !status.cpus.is_empty())),
            Err(findings) => self.reject(core, findings.to_string(), now),
        }
    }

    /// Gives a pod the CPUs its scheduler chose, which its containers share.
    fn follow(
        &mut self,
        core: &Arc<Pod>,
        status: &ResourceStatus,
        note: &PodRecord,
        now: Timestamp,
    ) -> Result<Option<Decision>, JournaledLedgerError> {
        let told = format!("CPUs {}, as its scheduler chose", status.cpus);
        let granted = every_container(core, status);
        self.journaled
            .grant(core, &granted, note.clone(), told, now)?;
        self.tally.count_given(true);
        Ok(None)
    }

    /// The same by the kubelet's rules: every container has its own of them, and memory and devices are aligned to
    /// them.
    fn follow_by_rules(
        &mut self,
        core: &Arc<Pod>,
        status: &ResourceStatus,
        note: &PodRecord,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<Option<Decision>, JournaledLedgerError> {
        let chosen = &status.cpus;
        let note = note.clone();
        let decision = self
            .journaled
            .admit_with_cpus(core, chosen, note, plugins, now)?;
        let rules = self.journaled.ledger().rules();
        self.tally.count(core, &decision, rules);
        Ok(Some(decision))
    }

    /// Why what a scheduler chose was not followed.
    fn not_followed(&self, pod: &PodObject, status: &ResourceStatus, why: &str) -> String {
        let chosen = &status.cpus;
        let made_for = pod.meta.annotations.get(GENERATION);
        let at = self.journaled.generation();
        let age = made_for.map_or_else(String::new, |then| {
            format!(" for generation {then} of the node, which is at {at}")
        });
        format!("its scheduler chose CPUs {chosen}{age}: {why}; decided here instead")
    }

    /// Lets a container in that is being created.
    pub(super) fn take_in_container(
        &mut self,
        mut guest: Guest,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<Guest, Rejected> {
        let Some(sandbox) = self.sandboxes.get(&guest.sandbox) else {
            return Err(Rejected::UnknownSandbox(guest.sandbox));
        };
        let decided = self.lives_here(&guest.pod) || self.sharing.contains(&guest.sandbox);
        if !decided && matches!(self.rulebook, Rulebook::Kubelet) {
            let (pod, note) = alone(sandbox, &guest);
            guest.resident.clone_from(&pod.uid);
            self.owed.remove(&pod.uid);
            if !self.lives_here(&pod.uid) {
                self.decide(&pod, note, "", plugins, now)?;
            }
        }
        guest.told = self.allowance(&guest);
        Ok(guest)
    }

    pub(super) fn lives_here(&self, pod: &PodUid) -> bool {
        self.journaled
            .ledger()
            .state()
            .residents()
            .contains_key(pod)
    }

    /// Turns a pod away before the ledger was asked, and writes that down.
    pub(super) fn reject<T>(
        &mut self,
        pod: &Arc<Pod>,
        why: String,
        now: Timestamp,
    ) -> Result<T, Rejected> {
        self.journaled.reject(pod, why.clone(), now)?;
        let (told, decision) = (why, None);
        Err(Rejected::Rules { told, decision })
    }
}

/// The chosen CPUs for every container: they share them.
pub(super) fn every_container(pod: &Pod, status: &ResourceStatus) -> GrantedCpus {
    let of = |container: &Container| (container.name.clone(), status.cpus.clone());
    match status.cpus.is_empty() {
        true => GrantedCpus::new(),
        false => pod.all_containers().map(of).collect(),
    }
}

/// What is worth remembering about a pod.
pub(super) fn note(
    origin: PodOrigin,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> PodRecord {
    let decides = |key: &str| key.contains("koordinator.sh/") || key.starts_with("pinfold.dev/");
    let some = |texts: &BTreeMap<String, String>| {
        let texts = texts.iter().filter(|(key, _)| decides(key));
        texts
            .map(|(key, text)| (key.clone(), text.clone()))
            .collect()
    };
    PodRecord {
        origin,
        labels: some(labels),
        annotations: some(annotations),
        cgroups: BTreeMap::new(),
        processes: Vec::new(),
    }
}

/// A container by itself, as a pod.
fn alone(sandbox: &Sandbox, guest: &Guest) -> (Arc<Pod>, PodRecord) {
    let container = guest
        .asked
        .container(guest.name.clone(), sandbox.class_by_place());
    let pod = Pod {
        uid: stand_in(&guest.pod, &guest.name),
        name: format!("{}/{}", sandbox.full_name(), guest.name),
        init_containers: Vec::new(),
        containers: vec![container],
        pod_requests: None,
        pod_limits: None,
    };
    let note = note(PodOrigin::Runtime, &sandbox.labels, &sandbox.annotations);
    (Arc::new(pod), note)
}

/// A pod as far as its sandbox tells: all its containers as one.
fn whole(sandbox: &Sandbox) -> PodObject {
    let container = sandbox
        .total
        .container(EVERY_CONTAINER.into(), sandbox.class_by_place());
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
        owner: None,
        at: None,
    }
}
