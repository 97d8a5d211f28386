//! [`Plan`]: what other rules would mean for everybody who runs, before anything is done. Nobody is ever stopped by it.
//!
//! If all pods can hold what they hold under the new rules, they stay; a pod whose place the new policy would not accept
//! moves only if that brings it onto fewer NUMA nodes and keeps its devices. Otherwise (CPUs are gone, reservations or
//! managers changed) everybody is placed anew in the order they came; who cannot be aligned then is placed without.

use std::sync::Arc;

use pinfold_agent_api::{FateReport, PlanReport};
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

use super::Keeper;

/// What becomes of everybody under other rules.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Pods in the order they came, each with what becomes of it.
    pub fates: Vec<(PodUid, Fate)>,
    ledger: Ledger,
    generation: u64,
}

/// What becomes of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It keeps what it has.
    Stays,
    /// It gets something else and stays aligned.
    Moves {
        /// What it will hold.
        to: Assignment,
        /// Devices are given to a container when it is created: it has to be started again to get these.
        restart: bool,
    },
    /// The new policy would not admit it so, for this reason; it runs on without being aligned.
    Unaligned {
        /// Why.
        reason: String,
        /// What it will hold.
        to: Assignment,
        /// Whether it has to be started again to get its devices.
        restart: bool,
    },
    /// There is no place for it at all, for this reason. Such a plan cannot be carried out.
    Homeless {
        /// Why.
        reason: String,
    },
}

/// Why a plan cannot be made or carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The ledger has changed since.
    #[error("the plan is for generation {planned}, but the node is at {found}; make it again")]
    Stale {
        /// When the plan was made.
        planned: u64,
        /// What the node is at.
        found: u64,
    },
    /// Somebody would have no place.
    #[error("there is no place for {}; remove them first, or reserve less", pods.join(", "))]
    Homeless {
        /// Who.
        pods: Vec<String>,
    },
    /// The settings do not fit the machine.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl Keeper {
    /// What `rules` would mean for everybody who runs. Nothing is changed.
    ///
    /// # Errors
    /// If the rules cannot be relaxed for those who cannot be aligned: the settings contradict themselves.
    pub fn plan(&self, rules: &Arc<Rules>) -> Result<Plan, PlanError> {
        let (fates, ledger) = match keep(&self.ledger, rules) {
            Some(kept) => kept,
            None => place_anew(&self.ledger, rules)?,
        };
        Ok(Plan {
            fates,
            ledger,
            generation: self.generation(),
        })
    }

    /// The same for other settings on the journal's machine.
    ///
    /// # Errors
    /// If the settings do not fit the machine.
    pub fn plan_settings(&self, settings: Settings) -> Result<Plan, PlanError> {
        let machine = self.ledger.rules().machine().clone();
        self.plan(&Arc::new(Rules::new(machine, settings)?))
    }
}

impl Plan {
    /// The plan as the API reports it. `ledger` is the one it was made for; it has the names of the pods.
    #[must_use]
    pub fn report(&self, ledger: &Ledger) -> PlanReport {
        let pods = self.fates.iter().map(|(uid, fate)| {
            let resident = ledger.state().admitted_pods().get(uid);
            let (word, restart, reason, to) = match fate {
                Fate::Stays => ("stays", false, "", None),
                Fate::Moves { to, restart } => ("moves", *restart, "", Some(to)),
                Fate::Unaligned {
                    reason,
                    to,
                    restart,
                } => ("unaligned", *restart, reason.as_str(), Some(to)),
                Fate::Homeless { reason } => ("homeless", false, reason.as_str(), None),
            };
            FateReport {
                uid: uid.clone(),
                name: resident.map_or_else(String::new, |resident| resident.pod.name.clone()),
                fate: word.to_owned(),
                restart,
                reason: reason.to_owned(),
                to: to.cloned(),
            }
        });
        PlanReport {
            applied: false,
            generation: self.generation,
            pods: pods.collect(),
        }
    }

    /// The plan in one sentence.
    pub(super) fn told(&self) -> String {
        let of = |is: fn(&Fate) -> bool| self.fates.iter().filter(|(_, fate)| is(fate)).count();
        let stay = of(|fate| matches!(fate, Fate::Stays));
        let moved = of(|fate| matches!(fate, Fate::Moves { .. }));
        let unaligned = of(|fate| matches!(fate, Fate::Unaligned { .. }));
        format!(
            "other rules: {}, {moved} moved, {unaligned} not aligned any more",
            count(stay, "pod stays", "pods stay")
        )
    }

    /// The ledger after the plan, if it is still the one it was made for.
    pub(super) fn into_ledger(self, generation: u64) -> Result<Ledger, PlanError> {
        if self.generation != generation {
            return Err(PlanError::Stale {
                planned: self.generation,
                found: generation,
            });
        }
        let homeless = |(pod, fate): &(PodUid, Fate)| {
            matches!(fate, Fate::Homeless { .. }).then(|| pod.to_string())
        };
        let pods: Vec<String> = self.fates.iter().filter_map(homeless).collect();
        match pods.is_empty() {
            true => Ok(self.ledger),
            false => Err(PlanError::Homeless { pods }),
        }
    }
}

type Fates = Vec<(PodUid, Fate)>;

/// Everybody keeps what they have; `None` if that is not possible.
fn keep(ledger: &Ledger, rules: &Arc<Rules>) -> Option<(Fates, Ledger)> {
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
    let mut fates = Vec::new();
    for pod in pods(ledger) {
        let has = ledger.assignment(&pod.uid)?;
        let mut trial = kept.clone();
        trial.release(&pod.uid).ok()?;
        let decision = trial.admit(&pod, &mut NoPreference).ok()?.decision;
        let fate = match &decision.result {
            AdmissionResult::Rejected(_) => Fate::Unaligned {
                reason: explain::one_line(&decision),
                to: has,
                restart: false,
            },
            AdmissionResult::Admitted(to)
                if nodes(rules, to).len() < nodes(rules, &has).len() && same_devices(&has, to) =>
            {
                let to = to.clone();
                kept = trial;
                Fate::Moves { to, restart: false }
            }
            AdmissionResult::Admitted(_) => Fate::Stays,
        };
        fates.push((pod.uid.clone(), fate));
    }
    Some((fates, kept))
}

/// Everybody is placed anew: first aligned, in the order they came, then the rest as well as can be.
fn place_anew(ledger: &Ledger, rules: &Arc<Rules>) -> Result<(Fates, Ledger), PlanError> {
    let mut anew = Ledger::new(rules.clone());
    let pool = ledger.state().pool();
    for resource in pool.resources() {
        anew.set_devices(resource.clone(), pool.devices(resource).cloned());
    }
    let relaxed = Settings {
        topology_policy: TopologyPolicy::BestEffort.name().to_owned(),
        ..rules.settings().clone()
    };
    let relaxed = match rules.policy() {
        TopologyPolicy::None => rules.clone(),
        _ => Arc::new(Rules::new(rules.machine().clone(), relaxed)?),
    };
    let pods = pods(ledger);
    let mut fates: Vec<Option<Fate>> = Vec::new();
    let mut reasons = Vec::new();
    for pod in &pods {
        let has = ledger.assignment(&pod.uid).unwrap_or_default();
        let (fate, reason) = match admit(&mut anew, pod) {
            Ok(to) if same(&has, &to) => (Some(Fate::Stays), String::new()),
            Ok(to) => {
                let restart = !same_devices(&has, &to);
                (Some(Fate::Moves { to, restart }), String::new())
            }
            Err(reason) => (None, reason),
        };
        fates.push(fate);
        reasons.push(reason);
    }
    let mut told = Vec::new();
    for ((pod, fate), reason) in pods.iter().zip(fates).zip(reasons) {
        let has = ledger.assignment(&pod.uid).unwrap_or_default();
        let fate = match fate {
            Some(fate) => fate,
            None => match unaligned(&mut anew, &relaxed, pod) {
                Ok(to) => {
                    let restart = !same_devices(&has, &to);
                    Fate::Unaligned {
                        reason,
                        to,
                        restart,
                    }
                }
                Err(reason) => Fate::Homeless { reason },
            },
        };
        told.push((pod.uid.clone(), fate));
    }
    Ok((told, anew))
}

fn admit(ledger: &mut Ledger, pod: &Arc<Pod>) -> Result<Assignment, String> {
    let admission = ledger.admit(pod, &mut NoPreference);
    let decision = admission.map_err(|error| error.to_string())?.decision;
    match &decision.result {
        AdmissionResult::Admitted(assignment) => Ok(assignment.clone()),
        AdmissionResult::Rejected(_) => Err(explain::one_line(&decision)),
    }
}

/// Places a pod by relaxed rules on a ledger that is kept by others.
fn unaligned(
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

/// The NUMA nodes that a pod's own CPUs and memory are on.
fn nodes(rules: &Rules, assignment: &Assignment) -> NodeSet {
    let mut nodes = NodeSet::EMPTY;
    for container in &assignment.containers {
        for cpu in container.cpus.iter().flat_map(|cpus| cpus.iter()) {
            if let Some(place) = rules.topology().location(cpu) {
                nodes = nodes | NodeSet::single(place.node);
            }
        }
        for block in container.memory.iter().flatten() {
            nodes = nodes | block.nodes;
        }
    }
    nodes
}

/// Whether a pod holds the same, wherever it was to be aligned to.
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
