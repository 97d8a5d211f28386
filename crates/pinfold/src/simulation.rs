//! [`Simulation`]: steps played on a ledger, and what came of each.

use std::sync::Arc;

use pinfold_core::decision::{AdmissionResult, Assignment, Decision, Rejection};
use pinfold_core::device::{AdvertisedDevices, NoPreference};
use pinfold_core::ledger::{Ledger, LedgerError, LedgerState};
use pinfold_core::name::ResourceName;
use pinfold_core::pod::Pod;
use pinfold_render::text::count;
use pinfold_render::{explain, placement};
use serde::Serialize;

use crate::exit::Failure;
use crate::node::Node;
use crate::progress::Progress;

/// What happens. Pods are positions in the list of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A pod arrives.
    Add(usize),
    /// All containers of a pod start, one after the other.
    Start(usize),
    /// One container of a pod starts: the position among all its containers.
    StartOne {
        /// The pod.
        pod: usize,
        /// Its container.
        container: usize,
    },
    /// A pod leaves.
    Remove(usize),
    /// A device plugin comes, goes, or offers other devices: a position in the list of offers.
    Offer(usize),
    /// The kubelet restarts.
    Restart,
}

/// What came of one step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Event {
    /// `add`, `start`, `remove`, `devices` or `restart`.
    pub(crate) step: &'static str,
    /// The pod, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<String>,
    /// What the pod got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assignment: Option<Assignment>,
    /// Why the pod was rejected, in the kubelet's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rejection: Option<Rejection>,
    /// What happened, in one sentence.
    pub(crate) told: String,
}

/// How many pods came in and how many did not.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Counts {
    /// Admitted.
    pub(crate) admitted: usize,
    /// Rejected.
    pub(crate) rejected: usize,
}

/// A node after some steps.
pub(crate) struct Simulation {
    /// The node.
    pub(crate) ledger: Ledger,
    /// What came of each step, in order.
    pub(crate) events: Vec<Event>,
    /// Pods in and out.
    pub(crate) counts: Counts,
}

/// What to play.
pub(crate) struct Play<'a> {
    /// The pods that steps speak of.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The steps.
    pub(crate) steps: &'a [Step],
    /// How many times; every time with new pods.
    pub(crate) rounds: u32,
    /// Who holds what before the first step; nobody anything if `None`.
    pub(crate) start: Option<&'a LedgerState>,
    /// What device plugins offer, which steps speak of.
    pub(crate) offers: &'a [(ResourceName, Option<AdvertisedDevices>)],
}

impl<'a> Play<'a> {
    /// Each of these pods once, or what the steps say, on an empty node.
    pub(crate) fn new(pods: &'a [Arc<Pod>], steps: &'a [Step]) -> Self {
        Self {
            pods,
            steps,
            rounds: 1,
            start: None,
            offers: &[],
        }
    }

    /// Plays everything on a node.
    pub(crate) fn on(&self, node: &Node) -> Result<Simulation, Failure> {
        let ledger = match self.start {
            Some(state) => {
                Ledger::from_journal(node.rules.clone(), state.clone()).map_err(|finding| {
                    Failure::BadInput(format!(
                        "who runs already cannot stay under these rules: {finding}"
                    ))
                })?
            }
            None => node.ledger(),
        };
        let mut simulation = Simulation {
            ledger,
            events: Vec::new(),
            counts: Counts::default(),
        };
        let mut progress = Progress::on_stderr(self.steps.len() * self.rounds as usize);
        for round in 1..=self.rounds {
            let mut fresh: Vec<Option<Arc<Pod>>> = vec![None; self.pods.len()];
            for &step in self.steps {
                let pod = |index: usize| {
                    let pod =
                        fresh[index].get_or_insert_with(|| in_round(&self.pods[index], round));
                    pod.clone()
                };
                match step {
                    Step::Offer(index) => simulation.offer(self.offers.get(index)),
                    step => simulation.play(step, pod)?,
                }
                progress.advance();
            }
        }
        progress.end();
        Ok(simulation)
    }
}

/// The pod itself in the first round, a pod like it in later ones.
fn in_round(pod: &Arc<Pod>, round: u32) -> Arc<Pod> {
    match round {
        1 => pod.clone(),
        _ => Arc::new(Pod {
            uid: format!("{}#{round}", pod.uid).into(),
            name: format!("{}#{round}", pod.name),
            ..Pod::clone(pod)
        }),
    }
}

impl Simulation {
    fn play(&mut self, step: Step, mut pod: impl FnMut(usize) -> Arc<Pod>) -> Result<(), Failure> {
        match step {
            Step::Add(index) => {
                let pod = pod(index);
                match self.ledger.admit(&pod, &mut NoPreference) {
                    Ok(admission) => self.decided("add", &pod.name, admission.decision),
                    Err(error) => self.happened("add", &pod.name, &nothing(&error)),
                }
            }
            Step::Start(index) => {
                let pod = pod(index);
                let told = self.start(&pod).unwrap_or_else(|error| nothing(&error));
                self.happened("start", &pod.name, &told);
            }
            Step::StartOne {
                pod: index,
                container,
            } => {
                let pod = pod(index);
                let told = match pod.all_containers().nth(container) {
                    Some(container) => match self.ledger.start(&pod.uid, &container.name) {
                        Ok(_) => format!("container {} started", container.name),
                        Err(error) => nothing(&error),
                    },
                    None => "has no such container".to_owned(),
                };
                self.happened("start", &pod.name, &told);
            }
            Step::Offer(_) => {}
            Step::Remove(index) => {
                let pod = pod(index);
                let released = self.ledger.release(&pod.uid);
                let told = released.map_or_else(|error| nothing(&error), |_| "left".to_owned());
                self.happened("remove", &pod.name, &told);
            }
            Step::Restart => {
                let residents = self.ledger.admitted_pods();
                let pods: Vec<Arc<Pod>> = residents.iter().map(|one| one.pod.clone()).collect();
                let restarted = self.ledger.restart(&mut NoPreference).map_err(|error| {
                    Failure::BadInput(format!("the kubelet would not start again: {error}"))
                })?;
                let mut kept = 0;
                for (pod, decision) in pods.iter().zip(restarted.decisions) {
                    match decision.is_admitted() {
                        true => kept += 1,
                        false => self.decided("restart", &pod.name, decision),
                    }
                }
                let told = count(kept, "pod stays", "pods stay");
                self.happened("restart", "", &told);
            }
        }
        Ok(())
    }

    /// What a device plugin offers changes.
    fn offer(&mut self, offer: Option<&(ResourceName, Option<AdvertisedDevices>)>) {
        let Some((resource, devices)) = offer else {
            return;
        };
        let told = match devices {
            Some(devices) => format!("{resource}: {} devices on offer", devices.len()),
            None => format!("{resource}: its plugin is gone"),
        };
        self.ledger.set_devices(resource.clone(), devices.clone());
        self.happened("devices", "", &told);
    }

    /// Starts all containers of a pod, in order.
    fn start(&mut self, pod: &Pod) -> Result<String, LedgerError> {
        let mut freed = false;
        for container in pod.all_containers() {
            freed |= self.ledger.start(&pod.uid, &container.name)?.is_some();
        }
        Ok(match freed {
            true => "started; what its init containers held is free again".to_owned(),
            false => "started".to_owned(),
        })
    }

    fn decided(&mut self, step: &'static str, pod: &str, decision: Decision) {
        match decision.is_admitted() {
            true => self.counts.admitted += 1,
            false => self.counts.rejected += 1,
        }
        let told = match &decision.result {
            AdmissionResult::Admitted(assignment) => placement::placement(assignment),
            AdmissionResult::Rejected(_) => explain::one_line(&decision),
        };
        let (assignment, rejection) = match decision.result {
            AdmissionResult::Admitted(assignment) => (Some(assignment), None),
            AdmissionResult::Rejected(rejection) => (None, Some(rejection)),
        };
        self.events.push(Event {
            step,
            pod: Some(pod.to_owned()),
            assignment,
            rejection,
            told,
        });
    }

    fn happened(&mut self, step: &'static str, pod: &str, told: &str) {
        self.events.push(Event {
            step,
            pod: (!pod.is_empty()).then(|| pod.to_owned()),
            assignment: None,
            rejection: None,
            told: told.to_owned(),
        });
    }
}

/// A step that changes nothing: a pod that was rejected under one policy may have been let in under another, so scripts
/// go on.
fn nothing(error: &LedgerError) -> String {
    match error {
        LedgerError::NotAdmitted(_) => "is not here".to_owned(),
        LedgerError::AlreadyAdmitted(_) => "is here already".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
