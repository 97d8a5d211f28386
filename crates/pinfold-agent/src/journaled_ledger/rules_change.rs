//! [`RulesChange`]: the planned effect of a new machine or new settings on the pods of a node. No pod is ever stopped.
//!
//! If all pods can keep their resources under the new rules, they do; a pod that the new policy would reject where it is
//! moves only if that puts it on fewer NUMA nodes and keeps its devices. Otherwise (CPUs are missing, reservations or
//! managers changed) all pods are placed again in the order of their admission, and a pod that cannot be aligned is
//! placed without alignment.

use std::sync::Arc;

use pinfold_agent_api::{PodOutcomeReport, RulesChangeReport};
use pinfold_core::decision::{AdmissionResult, Assignment};
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::{Ledger, LedgerState, Rules, SettingsError};
use pinfold_core::name::PodUid;
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::Pod;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::Settings;
use pinfold_render::explain;
use pinfold_render::text::count;

use super::JournaledLedger;

/// A planned change of the machine or the settings, with its outcome for each pod.
#[derive(Clone, Debug)]
pub struct RulesChange {
    /// The outcome for each pod, in the order of admission.
    pub outcomes: Vec<(PodUid, PodOutcome)>,
    ledger: Ledger,
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
        let (outcomes, ledger) = match keep(&self.ledger, rules) {
            Some(kept) => kept,
            None => place_all(&self.ledger, rules)?,
        };
        Ok(RulesChange {
            outcomes,
            ledger,
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

    /// The ledger after the change.
    ///
    /// # Errors
    /// If `generation` is not the one that the change was planned for, or a pod does not fit.
    pub(super) fn into_ledger(self, generation: u64) -> Result<Ledger, RulesChangeError> {
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
            true => Ok(self.ledger),
            false => Err(RulesChangeError::Unplaceable { pods }),
        }
    }
}

type PodOutcomes = Vec<(PodUid, PodOutcome)>;

/// The outcomes if every pod keeps its resources or moves to fewer NUMA nodes; `None` if a pod cannot keep them.
fn keep(ledger: &Ledger, rules: &Arc<Rules>) -> Option<(PodOutcomes, Ledger)> {
    let (old, new) = (ledger.rules().settings(), rules.settings());
    let same_managers = ledger.rules().machine() == rules.machine()
        && old.fidelity == new.fidelity
        && old.cpu_policy == new.cpu_policy
        && old.memory_policy == new.memory_policy
        && old.reserved_memory == new.reserved_memory
        && old.node_reservation == new.node_reservation
        && old.pod_level_resources == new.pod_level_resources;
    if !same_managers {
        return None;
    }
    let mut kept = ledger.with_rules(rules.clone())?;
    let mut outcomes = Vec::new();
    for pod in pods(ledger) {
        let has = ledger.assignment(&pod.uid)?;
        let mut trial = kept.clone();
        trial.release(&pod.uid).ok()?;
        let decision = trial.admit(&pod, &mut NoPreference).ok()?.decision;
        let outcome = match &decision.result {
            AdmissionResult::Rejected(_) => PodOutcome::Unaligned {
                reason: explain::one_line(&decision),
                to: has,
                needs_restart: false,
            },
            AdmissionResult::Admitted(to)
                if nodes(rules, to).len() < nodes(rules, &has).len() && same_devices(&has, to) =>
            {
                let to = to.clone();
                kept = trial;
                let needs_restart = false;
                PodOutcome::Moved { to, needs_restart }
            }
            AdmissionResult::Admitted(_) => PodOutcome::Unchanged,
        };
        outcomes.push((pod.uid.clone(), outcome));
    }
    Some((outcomes, kept))
}

/// Places all pods again in the order of admission: first those that can be aligned, then the others without alignment.
fn place_all(
    ledger: &Ledger,
    rules: &Arc<Rules>,
) -> Result<(PodOutcomes, Ledger), RulesChangeError> {
    let mut new = Ledger::new(rules.clone());
    let pool = ledger.state().pool();
    for resource in pool.resources() {
        new.set_devices(resource.clone(), pool.devices(resource).cloned());
    }
    let relaxed = Settings {
        topology_policy: TopologyPolicy::BestEffort,
        ..rules.settings().clone()
    };
    let relaxed = match rules.policy() {
        TopologyPolicy::None => rules.clone(),
        _ => Arc::new(Rules::new(rules.machine().clone(), relaxed)?),
    };
    let pods = pods(ledger);
    let mut aligned: Vec<Option<PodOutcome>> = Vec::new();
    let mut reasons = Vec::new();
    for pod in &pods {
        let has = ledger.assignment(&pod.uid).unwrap_or_default();
        let (outcome, reason) = match admit(&mut new, pod) {
            Ok(to) if same(&has, &to) => (Some(PodOutcome::Unchanged), String::new()),
            Ok(to) => {
                let needs_restart = !same_devices(&has, &to);
                (Some(PodOutcome::Moved { to, needs_restart }), String::new())
            }
            Err(reason) => (None, reason),
        };
        aligned.push(outcome);
        reasons.push(reason);
    }
    let mut outcomes = Vec::new();
    for ((pod, outcome), reason) in pods.iter().zip(aligned).zip(reasons) {
        let has = ledger.assignment(&pod.uid).unwrap_or_default();
        let outcome = match outcome {
            Some(outcome) => outcome,
            None => match admit_unaligned(&mut new, &relaxed, pod) {
                Ok(to) => {
                    let needs_restart = !same_devices(&has, &to);
                    PodOutcome::Unaligned {
                        reason,
                        to,
                        needs_restart,
                    }
                }
                Err(reason) => PodOutcome::Unplaceable { reason },
            },
        };
        outcomes.push((pod.uid.clone(), outcome));
    }
    Ok((outcomes, new))
}

fn admit(ledger: &mut Ledger, pod: &Arc<Pod>) -> Result<Assignment, String> {
    let admission = ledger.admit(pod, &mut NoPreference);
    let decision = admission.map_err(|error| error.to_string())?.decision;
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
) -> Result<Assignment, String> {
    let resume = |rules: &Arc<Rules>, state: &LedgerState| {
        Ledger::from_journal(rules.clone(), state.clone()).map_err(|finding| finding.to_string())
    };
    let mut other = resume(relaxed, ledger.state())?;
    let assignment = admit(&mut other, pod)?;
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
fn same(one: &Assignment, other: &Assignment) -> bool {
    let held = |all: &Assignment| -> Vec<_> {
        let all = all.containers.iter().cloned();
        all.map(|one| (one.name, one.cpus, one.memory, one.devices))
            .collect()
    };
    held(one) == held(other)
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
