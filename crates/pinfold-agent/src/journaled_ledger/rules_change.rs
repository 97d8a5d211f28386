//! [`RulesChange`]: the planned effect of a new machine or new settings on the pods of a node. No pod is ever stopped.
//!
//! A pod that can keep its CPUs, memory and devices under the new rules keeps them, even if the new policy would reject it
//! where it is; it then moves only if the settings change and the move puts it on fewer NUMA nodes. The other pods (their CPUs are missing or reserved,
//! or their memory does not suffice) are placed again in the order of their admission, with the devices that they hold; a
//! pod that cannot be aligned is placed without alignment. CPUs that the ledger did not choose itself stay as they are,
//! as far as the machine still has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pinfold_agent_api::{PodOutcomeReport, RulesChangeReport};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{AdmissionResult, Assignment};
use pinfold_core::device::{AdvertisedDevices, NoPreference};
use pinfold_core::ledger::{GrantedCpus, Ledger, LedgerState, Rules, SettingsError};
use pinfold_core::name::{DeviceId, PodUid, ResourceName};
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::Pod;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};
use pinfold_journal::{JournalPodRecord, PodOrigin};
use pinfold_kube::koordinator::keys;
use pinfold_render::explain;
use pinfold_render::text::count;

use super::JournaledLedger;

/// A planned change of the machine or the settings, with its outcome for each pod.
#[derive(Clone, Debug)]
pub struct RulesChange {
    /// The outcome for each pod, in the order of admission.
    pub outcomes: Vec<(PodUid, PodOutcome)>,
    ledger: Ledger,
    records: BTreeMap<PodUid, JournalPodRecord>,
    generation: u64,
}

/// The outcome of a rules change for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodOutcome {
    /// The pod keeps its assignment.
    Unchanged,
    /// The pod gets another assignment and stays aligned.
    Moved {
        /// The new assignment.
        to: Assignment,
        /// Whether its devices change: devices are added when a container is created, so the pod must be restarted.
        needs_restart: bool,
    },
    /// The new policy would reject the pod; it keeps running without alignment.
    Unaligned {
        /// The reason for which the policy would reject it.
        reason: String,
        /// The new assignment.
        to: Assignment,
        /// Whether its devices change, so that the pod must be restarted.
        needs_restart: bool,
    },
    /// The pod does not fit under the new rules at all. Such a change cannot be applied.
    Unplaceable {
        /// The reason for the rejection.
        reason: String,
    },
}

/// Errors of planning and applying a rules change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesChangeError {
    /// The ledger has changed since the plan was made.
    #[error("the plan is for generation {planned}, but the node is at {found}; plan again")]
    Stale {
        /// Generation of the plan.
        planned: u64,
        /// Generation of the ledger.
        found: u64,
    },
    /// Pods do not fit under the new rules.
    #[error("pods {} do not fit; remove them first, or reserve less", pods.join(", "))]
    Unplaceable {
        /// UIDs of the pods.
        pods: Vec<String>,
    },
    /// The settings do not fit the machine.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl JournaledLedger {
    /// Plans the change to `rules`. Neither the ledger nor the journal changes.
    ///
    /// # Errors
    /// If the settings are not valid under the policy `best-effort`, with which unaligned pods are placed.
    pub fn plan_rules_change(&self, rules: &Arc<Rules>) -> Result<RulesChange, RulesChangeError> {
        let mut plan = Plan::new(&self.ledger, &self.records, rules)?;
        let mut outcomes: BTreeMap<PodUid, PodOutcome> = BTreeMap::new();
        let pods = pods(&self.ledger);
        let (kept, others): (Vec<_>, Vec<_>) =
            pods.iter().partition(|pod| plan.kept.contains(&pod.uid));
        for pod in kept {
            outcomes.insert(pod.uid.clone(), plan.improve(pod));
        }
        for pod in others {
            outcomes.insert(pod.uid.clone(), plan.place(pod));
        }
        let outcomes = pods
            .iter()
            .filter_map(|pod| outcomes.remove_entry(&pod.uid));
        Ok(RulesChange {
            outcomes: outcomes.collect(),
            ledger: plan.new,
            records: plan.records,
            generation: self.generation(),
        })
    }
}

impl RulesChange {
    /// The numbers of pods by outcome, in one sentence.
    pub(super) fn summary(&self) -> String {
        let of = |is: fn(&PodOutcome) -> bool| {
            let outcomes = self.outcomes.iter();
            outcomes.filter(|(_, outcome)| is(outcome)).count()
        };
        let unchanged = of(|outcome| matches!(outcome, PodOutcome::Unchanged));
        let moved = of(|outcome| matches!(outcome, PodOutcome::Moved { .. }));
        let unaligned = of(|outcome| matches!(outcome, PodOutcome::Unaligned { .. }));
        format!(
            "rules changed: {}, {moved} moved, {unaligned} no longer aligned",
            count(unchanged, "pod unchanged", "pods unchanged")
        )
    }

    /// The plan as the API reports it. `ledger` has the names of the pods.
    #[must_use]
    pub fn report(&self, ledger: &Ledger) -> RulesChangeReport {
        let pods = self.outcomes.iter().map(|(uid, outcome)| {
            let resident = ledger.state().admitted_pods().get(uid);
            let (name, needs_restart, reason, to) = match outcome {
                PodOutcome::Unchanged => ("unchanged", false, "", None),
                PodOutcome::Moved { to, needs_restart } => ("moved", *needs_restart, "", Some(to)),
                PodOutcome::Unaligned {
                    reason,
                    to,
                    needs_restart,
                } => ("unaligned", *needs_restart, reason.as_str(), Some(to)),
                PodOutcome::Unplaceable { reason } => ("unplaceable", false, reason.as_str(), None),
            };
            PodOutcomeReport {
                uid: uid.clone(),
                name: resident.map_or_else(String::new, |resident| resident.pod.name.clone()),
                outcome: name.to_owned(),
                needs_restart,
                reason: reason.to_owned(),
                assignment: to.cloned(),
            }
        });
        RulesChangeReport {
            applied: false,
            generation: self.generation,
            pods: pods.collect(),
        }
    }

    /// The ledger and the records of its pods after the change.
    ///
    /// # Errors
    /// If `generation` is not the one that the change was planned for, or a pod does not fit.
    pub(super) fn into_ledger(
        self,
        generation: u64,
    ) -> Result<(Ledger, BTreeMap<PodUid, JournalPodRecord>), RulesChangeError> {
        if self.generation != generation {
            return Err(RulesChangeError::Stale {
                planned: self.generation,
                found: generation,
            });
        }
        let unplaceable = |(pod, outcome): &(PodUid, PodOutcome)| {
            matches!(outcome, PodOutcome::Unplaceable { .. }).then(|| pod.to_string())
        };
        let pods: Vec<String> = self.outcomes.iter().filter_map(unplaceable).collect();
        match pods.is_empty() {
            true => Ok((self.ledger, self.records)),
            false => Err(RulesChangeError::Unplaceable { pods }),
        }
    }
}

/// A rules change while it is planned.
struct Plan<'a> {
    old: &'a Ledger,
    new: Ledger,
    /// The new rules with the policy `best-effort`, for pods that cannot be aligned.
    relaxed: Arc<Rules>,
    records: BTreeMap<PodUid, JournalPodRecord>,
    /// Pods that keep what they hold, at first.
    kept: BTreeSet<&'a PodUid>,
    /// Whether the settings change, and not only the machine.
    changes_settings: bool,
    /// Whether the new rules manage resources that the old ones did not.
    manages_more: bool,
}

impl<'a> Plan<'a> {
    /// A plan in which every pod that can keep what it holds does so, and the others have no place yet.
    fn new(
        old: &'a Ledger,
        records: &BTreeMap<PodUid, JournalPodRecord>,
        rules: &Arc<Rules>,
    ) -> Result<Self, RulesChangeError> {
        let residents = old.admitted_pods();
        let mut kept: BTreeSet<&PodUid> = residents.iter().map(|one| &one.pod.uid).collect();
        let mut new = old.keeping(rules, &kept);
        if new.is_none() {
            kept.clear();
            for resident in residents {
                kept.insert(&resident.pod.uid);
                match old.keeping(rules, &kept) {
                    Some(more) => new = Some(more),
                    None => drop(kept.remove(&resident.pod.uid)),
                }
            }
        }
        let new = new.or_else(|| old.keeping(rules, &kept));
        let new = new.unwrap_or_else(|| Ledger::new(rules.clone()));
        let relaxed = Settings {
            topology_policy: TopologyPolicy::BestEffort,
            ..rules.settings().clone()
        };
        let relaxed = match rules.policy() {
            TopologyPolicy::None => rules.clone(),
            _ => Arc::new(Rules::new(rules.machine().clone(), relaxed)?),
        };
        let (before, after) = (old.rules().settings(), rules.settings());
        let turns_on_cpus =
            before.cpu_policy != after.cpu_policy && after.cpu_policy != CpuManagerPolicy::None;
        let turns_on_memory = before.memory_policy != after.memory_policy
            && after.memory_policy != MemoryManagerPolicy::None;
        let manages_more = turns_on_cpus
            || turns_on_memory
            || before.pod_level_resources != after.pod_level_resources
            || before.fidelity != after.fidelity;
        Ok(Self {
            old,
            new,
            relaxed,
            records: records.clone(),
            kept,
            changes_settings: before != after,
            manages_more,
        })
    }

    fn is_granted(&self, pod: &PodUid) -> bool {
        self.records.get(pod).is_some_and(|record| record.granted)
    }

    /// The outcome for a pod that keeps what it holds, unless the policy rejects it there and another place is better, or
    /// the new rules manage more of it.
    fn improve(&mut self, pod: &Arc<Pod>) -> PodOutcome {
        let has = self.old.assignment(&pod.uid).unwrap_or_default();
        let keeps = self.new.assignment(&pod.uid).unwrap_or_default();
        let unchanged = match same(&has, &keeps) {
            true => PodOutcome::Unchanged,
            false => PodOutcome::Moved {
                to: keeps.clone(),
                needs_restart: false,
            },
        };
        if self.is_granted(&pod.uid) || !self.changes_settings {
            return unchanged;
        }
        let mut trial = self.new.clone();
        if trial.release(&pod.uid).is_err() {
            return unchanged;
        }
        let own = self.new.exclusive_cpus(&pod.uid);
        let rules = self.new.rules().clone();
        if !own.is_empty() {
            let mut there = trial.clone();
            match admit_with_devices(&mut there, pod, &keeps, Some(&own)) {
                Ok(_) if !self.manages_more => return unchanged,
                // Only what the new rules manage as well is added.
                Ok(to) if same_cpus(&keeps, &to) && same_devices(&keeps, &to) => {
                    self.new = there;
                    return match same(&has, &to) {
                        true => PodOutcome::Unchanged,
                        false => PodOutcome::Moved {
                            to,
                            needs_restart: false,
                        },
                    };
                }
                Ok(_) | Err(_) => {}
            }
        }
        match admit_with_devices(&mut trial, pod, &keeps, None) {
            Err(reason) => PodOutcome::Unaligned {
                reason,
                to: keeps,
                needs_restart: false,
            },
            Ok(to) => {
                let is_better = nodes(&rules, &to).len() < nodes(&rules, &keeps).len();
                if same_devices(&keeps, &to) && (self.manages_more || is_better) {
                    self.new = trial;
                    match same(&has, &to) {
                        true => PodOutcome::Unchanged,
                        false => PodOutcome::Moved {
                            to,
                            needs_restart: false,
                        },
                    }
                } else {
                    unchanged
                }
            }
        }
    }

    /// Places a pod that cannot keep what it holds.
    fn place(&mut self, pod: &Arc<Pod>) -> PodOutcome {
        let has = self.old.assignment(&pod.uid).unwrap_or_default();
        if self.is_granted(&pod.uid) {
            return self.grant_rest(pod);
        }
        let reason = match admit_with_devices(&mut self.new, pod, &has, None) {
            Ok(to) => {
                let needs_restart = !same_devices(&has, &to);
                return PodOutcome::Moved { to, needs_restart };
            }
            Err(reason) => reason,
        };
        match admit_unaligned(&mut self.new, &self.relaxed, pod, &has) {
            Ok(to) => PodOutcome::Unaligned {
                reason,
                needs_restart: !same_devices(&has, &to),
                to,
            },
            Err(reason) => PodOutcome::Unplaceable { reason },
        }
    }

    /// Grants a pod the rest of the CPUs that were granted to it. For each one that is missing it gets a free one, of the
    /// same NUMA nodes if possible; a pod that the kubelet pinned gets none, because the agent does not change its CPUs.
    fn grant_rest(&mut self, pod: &Arc<Pod>) -> PodOutcome {
        let rules = self.new.rules().clone();
        let free = self.new.state().cpus().shared() - &rules.reserved_cpus();
        let held = self.old.exclusive_cpus(&pod.uid);
        let rest = &held & &free;
        let by_kubelet = |record: &JournalPodRecord| record.origin == PodOrigin::Kubelet;
        let missing = match self.records.get(&pod.uid).is_some_and(by_kubelet) {
            true => 0,
            false => held.len() - rest.len(),
        };
        let mut near = CpuSet::new();
        for cpu in &held {
            if let Some(place) = self.old.rules().topology().cpu_info(cpu) {
                near |= &rules.topology().cpus_of_node(place.node);
            }
        }
        let others = &free - &rest;
        let (near, far) = (&others & &near, &others - &near);
        let more: CpuSet = near.iter().chain(far.iter()).take(missing).collect();
        if more.len() < missing {
            let reason = format!("CPUs {} are gone, and too few are free", &held - &rest);
            return PodOutcome::Unplaceable { reason };
        }
        let mut granted = GrantedCpus::new();
        let containers = self.old.state().cpus().containers().get(&pod.uid);
        for (name, cpus) in containers.into_iter().flatten() {
            granted.insert(name.clone(), &(cpus & &rest) | &more);
        }
        if let Err(error) = self.new.grant(pod, &granted) {
            let reason = error.to_string();
            return PodOutcome::Unplaceable { reason };
        }
        if let Some(record) = self.records.get_mut(&pod.uid) {
            set_status_cpus(record, &(&rest | &more));
        }
        PodOutcome::Moved {
            to: self.new.assignment(&pod.uid).unwrap_or_default(),
            needs_restart: false,
        }
    }
}

/// Sets the CPUs in the `resource-status` of a record, from which Koordinator's rules read them.
fn set_status_cpus(record: &mut JournalPodRecord, cpus: &CpuSet) {
    let Some(text) = record.annotations.get_mut(keys::RESOURCE_STATUS) else {
        return;
    };
    let status = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text);
    if let Ok(mut status) = status {
        status.insert("cpuset".to_owned(), cpus.to_string().into());
        *text = serde_json::Value::Object(status).to_string();
    }
}

/// Admits a pod with the devices of `has` and no others: a container cannot get other devices while it runs. With `cpus` it
/// gets exactly these.
fn admit_with_devices(
    ledger: &mut Ledger,
    pod: &Arc<Pod>,
    has: &Assignment,
    cpus: Option<&CpuSet>,
) -> Result<Assignment, String> {
    let mut held: BTreeMap<ResourceName, BTreeSet<DeviceId>> = BTreeMap::new();
    for container in &has.containers {
        for (resource, devices) in &container.devices {
            held.entry(resource.clone())
                .or_default()
                .extend(devices.iter().cloned());
        }
    }
    if held.is_empty() {
        return admit(ledger, pod, cpus);
    }
    let mut trial = ledger.clone();
    let mut offered = Vec::new();
    for (resource, devices) in held {
        let all = trial.state().pool().devices(&resource).cloned();
        let only = all.clone().unwrap_or_default().into_iter();
        let only: AdvertisedDevices = only.filter(|(id, _)| devices.contains(id)).collect();
        trial.set_devices(resource.clone(), Some(only));
        offered.push((resource, all));
    }
    let assignment = admit(&mut trial, pod, cpus)?;
    for (resource, all) in offered {
        trial.set_devices(resource, all);
    }
    *ledger = trial;
    Ok(assignment)
}

fn admit(ledger: &mut Ledger, pod: &Arc<Pod>, cpus: Option<&CpuSet>) -> Result<Assignment, String> {
    let admission = match cpus {
        Some(cpus) => ledger
            .admit_with_cpus(pod, cpus, &mut NoPreference)
            .map_err(|error| error.to_string()),
        None => ledger
            .admit(pod, &mut NoPreference)
            .map_err(|error| error.to_string()),
    };
    let decision = admission?.decision;
    match &decision.result {
        AdmissionResult::Admitted(assignment) => Ok(assignment.clone()),
        AdmissionResult::Rejected(_) => Err(explain::one_line(&decision)),
    }
}

/// Admits a pod with the `relaxed` rules to a ledger that keeps its own rules.
fn admit_unaligned(
    ledger: &mut Ledger,
    relaxed: &Arc<Rules>,
    pod: &Arc<Pod>,
    has: &Assignment,
) -> Result<Assignment, String> {
    let resume = |rules: &Arc<Rules>, state: &LedgerState| {
        Ledger::from_journal(rules.clone(), state.clone()).map_err(|finding| finding.to_string())
    };
    let mut other = resume(relaxed, ledger.state())?;
    let assignment = admit_with_devices(&mut other, pod, has, None)?;
    *ledger = resume(ledger.rules(), other.state())?;
    Ok(assignment)
}

fn pods(ledger: &Ledger) -> Vec<Arc<Pod>> {
    let residents = ledger.admitted_pods().into_iter();
    residents.map(|resident| resident.pod.clone()).collect()
}

/// The NUMA nodes of a pod's exclusive CPUs and assigned memory.
fn nodes(rules: &Rules, assignment: &Assignment) -> NodeSet {
    let mut nodes = NodeSet::EMPTY;
    for container in &assignment.containers {
        for cpu in container.cpus.iter().flat_map(|cpus| cpus.iter()) {
            if let Some(place) = rules.topology().cpu_info(cpu) {
                nodes = nodes | NodeSet::single(place.node);
            }
        }
        for block in container.memory.iter().flatten() {
            nodes = nodes | block.nodes;
        }
    }
    nodes
}

/// Whether two assignments have the same CPUs, memory and devices, whatever the hints were.
pub(super) fn same(one: &Assignment, other: &Assignment) -> bool {
    let held = |all: &Assignment| -> Vec<_> {
        let all = all.containers.iter().cloned();
        all.map(|one| (one.name, one.cpus, one.memory, one.devices))
            .collect()
    };
    held(one) == held(other)
}

fn same_cpus(one: &Assignment, other: &Assignment) -> bool {
    let cpus = |all: &Assignment| -> Vec<_> {
        let all = all.containers.iter();
        all.map(|one| (one.name.clone(), one.cpus.clone()))
            .collect()
    };
    cpus(one) == cpus(other)
}

fn same_devices(one: &Assignment, other: &Assignment) -> bool {
    let devices = |all: &Assignment| -> Vec<_> {
        all.containers
            .iter()
            .map(|one| one.devices.clone())
            .collect()
    };
    devices(one) == devices(other)
}
