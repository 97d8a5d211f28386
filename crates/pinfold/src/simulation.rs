//! [`Simulation`]: steps taken on the ledger of one node, with an event for each.

use std::sync::Arc;

use pinfold_core::decision::{AdmissionResult, Assignment, Decision};
use pinfold_core::device::{AdvertisedDevices, NoPreference};
use pinfold_core::ledger::{Ledger, LedgerError, LedgerState};
use pinfold_core::name::ResourceName;
use pinfold_core::pod::Pod;
use pinfold_render::text::count;
use pinfold_render::{explain, placement};
use pinfold_terminal::Rejected;
use serde::Serialize;

use crate::admission::{NodeAdmission, OutsideRejection, PodRejection, ignored_text};
use crate::as_pinfold::{AsPinfold, MOST_COMPARED, PodOutcome};
use crate::exit::Failure;
use crate::node::SimulatedNode;
use crate::progress::Progress;
use crate::starting_state::StartingState;

/// One step. Pods are positions in the list of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimulationStep {
    /// A pod is added.
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
    /// A pod is removed.
    Remove(usize),
    /// A device plugin registers, disconnects, or lists other devices: a position in the list of offers.
    Offer(usize),
    /// The kubelet restarts.
    Restart,
}

/// The result of one step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StepEvent {
    /// `add`, `start`, `remove`, `devices` or `restart`.
    pub(crate) step: &'static str,
    /// The pod, if the step is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<String>,
    /// The CPUs, memory and devices of an admitted pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) assignment: Option<Assignment>,
    /// Why the pod was rejected, with the message of the kubelet or of kube-scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rejection: Option<PodRejection>,
    /// Extended resources that the node does not list and the kubelet therefore ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ignored: Vec<ResourceName>,
    /// The result in one sentence.
    pub(crate) message: String,
}

impl StepEvent {
    /// The pod and the decision about it; `None` if the step decides nothing.
    fn outcome(&self) -> Option<(&str, PodOutcome)> {
        let outcome = match (&self.assignment, &self.rejection) {
            (Some(_), _) => PodOutcome::Admitted(self.message.clone()),
            (None, Some(_)) => PodOutcome::Rejected,
            (None, None) => return None,
        };
        Some((self.pod.as_deref()?, outcome))
    }
}

/// How many pods were admitted and rejected.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct PodCounts {
    /// Admitted pods.
    pub(crate) admitted: usize,
    /// Rejected pods.
    pub(crate) rejected: usize,
}

/// A node after some steps.
pub(crate) struct Simulation {
    /// The node's ledger.
    pub(crate) ledger: Ledger,
    /// The events of all steps, in order.
    pub(crate) events: Vec<StepEvent>,
    /// The events of the first [`MOST_COMPARED`] steps.
    compared_events: usize,
    /// Pods admitted and rejected.
    pub(crate) counts: PodCounts,
    /// kube-scheduler and the kubelet's predicates; `None` if only the managers decide.
    pub(crate) admission: Option<NodeAdmission>,
    /// A line for each pod that should run before the first step and does not.
    pub(crate) rejected_at_start: Vec<String>,
}

/// The steps of a simulation and what they refer to.
pub(crate) struct SimulationPlan<'a> {
    /// The pods that steps refer to.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The steps.
    pub(crate) steps: &'a [SimulationStep],
    /// How many times the steps are taken; every time with new pods.
    pub(crate) rounds: u32,
    /// The pods that run before the first step; none if `None`.
    pub(crate) start: Option<&'a StartingState<'a>>,
    /// The ledger's state at the beginning of a journal that is replayed.
    pub(crate) replayed: Option<&'a LedgerState>,
    /// The lists of devices that steps refer to; `None` for a device plugin that disconnects.
    pub(crate) offers: &'a [(ResourceName, Option<AdvertisedDevices>)],
    /// kube-scheduler and the kubelet's predicates; `None` to ask the managers only.
    pub(crate) admission: Option<NodeAdmission>,
}

impl<'a> SimulationPlan<'a> {
    /// These steps, once, on an empty node.
    pub(crate) fn new(pods: &'a [Arc<Pod>], steps: &'a [SimulationStep]) -> Self {
        Self {
            pods,
            steps,
            rounds: 1,
            start: None,
            replayed: None,
            offers: &[],
            admission: None,
        }
    }

    /// The number of steps in all rounds.
    fn len(&self) -> usize {
        self.steps.len() * self.rounds as usize
    }

    /// Takes all steps on a node.
    pub(crate) fn run_on(&self, node: &SimulatedNode) -> Result<Simulation, Failure> {
        let mut progress = Progress::on_stderr(self.len());
        let simulation = self.run_first_steps_on(node, usize::MAX, || progress.advance());
        progress.end();
        simulation
    }

    /// Takes at most this many steps on a node, without showing progress.
    pub(crate) fn run_first_on(
        &self,
        node: &SimulatedNode,
        most: usize,
    ) -> Result<Simulation, Failure> {
        self.run_first_steps_on(node, most, || {})
    }

    /// Compares a kubelet's simulation of these steps with the decisions of Pinfold's agent on the same node.
    pub(crate) fn compare(
        &self,
        simulation: &Simulation,
        pinfold: &SimulatedNode,
    ) -> Option<AsPinfold> {
        let other = self
            .run_first_steps_on(pinfold, MOST_COMPARED, || {})
            .ok()?;
        let kubelet = simulation.events.iter().take(simulation.compared_events);
        let found = AsPinfold::compare(
            kubelet.filter_map(StepEvent::outcome),
            other.events.iter().filter_map(StepEvent::outcome),
        );
        Some(match self.len() > MOST_COMPARED {
            true => found.of_first_steps(MOST_COMPARED),
            false => found,
        })
    }

    /// The node before the first step.
    fn begin(&self, node: &SimulatedNode) -> Result<Simulation, Failure> {
        let mut admission = self.admission.clone();
        let (ledger, rejected) = match (self.start, self.replayed) {
            (Some(start), _) => {
                let bound = admission.as_ref().is_some_and(NodeAdmission::is_bound);
                let started = start.on(node, bound)?;
                if let Some(admission) = &mut admission {
                    admission.node = started.sums;
                }
                (started.ledger, started.rejected)
            }
            (None, Some(state)) => {
                let ledger = Ledger::from_journal(node.rules.clone(), state.clone());
                let ledger = ledger.map_err(|finding| {
                    Failure::BadInput(format!(
                        "the running pods cannot stay under these rules: {finding}"
                    ))
                })?;
                (ledger, Vec::new())
            }
            (None, None) => (node.ledger(), Vec::new()),
        };
        Ok(Simulation {
            admission,
            rejected_at_start: rejected,
            ..Simulation::new(ledger)
        })
    }

    /// Takes at most this many steps on a node.
    fn run_first_steps_on(
        &self,
        node: &SimulatedNode,
        most: usize,
        mut advance: impl FnMut(),
    ) -> Result<Simulation, Failure> {
        let mut simulation = self.begin(node)?;
        let mut taken = 0;
        for round in 1..=self.rounds {
            let mut fresh: Vec<Option<Arc<Pod>>> = vec![None; self.pods.len()];
            for &step in self.steps.iter().take(most - taken) {
                let pod = |index: usize| {
                    let pod =
                        fresh[index].get_or_insert_with(|| in_round(&self.pods[index], round));
                    pod.clone()
                };
                match step {
                    SimulationStep::Offer(index) => simulation.offer(self.offers.get(index)),
                    step => simulation.take(step, pod)?,
                }
                taken += 1;
                if taken <= MOST_COMPARED {
                    simulation.compared_events = simulation.events.len();
                }
                advance();
            }
        }
        Ok(simulation)
    }
}

/// The pod itself in the first round, a copy with another name and uid in later ones.
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
    /// A node on which no step was taken yet.
    fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            events: Vec::new(),
            compared_events: 0,
            counts: PodCounts::default(),
            admission: None,
            rejected_at_start: Vec::new(),
        }
    }

    /// Takes one step and records its events.
    fn take(
        &mut self,
        step: SimulationStep,
        mut pod: impl FnMut(usize) -> Arc<Pod>,
    ) -> Result<(), Failure> {
        match step {
            SimulationStep::Add(index) => self.add(index, &pod(index)),
            SimulationStep::Start(index) => {
                let pod = pod(index);
                let message = self.start(&pod).unwrap_or_else(|error| no_effect(&error));
                self.record("start", &pod.name, message);
            }
            SimulationStep::StartOne {
                pod: index,
                container,
            } => {
                let pod = pod(index);
                let message = match pod.all_containers().nth(container) {
                    Some(container) => match self.ledger.start(&pod.uid, &container.name) {
                        Ok(_) => format!("container {} started", container.name),
                        Err(error) => no_effect(&error),
                    },
                    None => "has no such container".to_owned(),
                };
                self.record("start", &pod.name, message);
            }
            SimulationStep::Offer(_) => {}
            SimulationStep::Remove(index) => {
                let pod = pod(index);
                let released = self.ledger.release(&pod.uid);
                if let Some(admission) = &mut self.admission {
                    admission.node.remove(&pod.uid);
                }
                let message =
                    released.map_or_else(|error| no_effect(&error), |_| "removed".to_owned());
                self.record("remove", &pod.name, message);
            }
            SimulationStep::Restart => self.restart()?,
        }
        Ok(())
    }

    /// Adds a pod: kube-scheduler binds it, the kubelet's managers and then its predicates admit it.
    fn add(&mut self, index: usize, pod: &Arc<Pod>) {
        let is_new = !self.ledger.state().admitted_pods().contains_key(&pod.uid);
        if let Some(admission) = self.admission.as_ref().filter(|_| is_new) {
            if admission.has_ended(index) {
                return self.record("add", &pod.name, "has ended: it holds nothing".to_owned());
            }
            if let Err(rejection) = admission.schedule(index) {
                return self.record_rejection(&pod.name, rejection);
            }
        }
        let decision = match self.ledger.admit(pod, &mut NoPreference) {
            Ok(admission) => admission.decision,
            Err(error) => return self.record("add", &pod.name, no_effect(&error)),
        };
        let Some(admission) = self.admission.as_mut().filter(|_| decision.is_admitted()) else {
            return self.record_decision("add", &pod.name, decision);
        };
        match admission.confirm(index, &pod.uid, &self.ledger, &decision) {
            Ok(ignored) => {
                self.record_decision("add", &pod.name, decision);
                if let Some(event) = self.events.last_mut().filter(|_| !ignored.is_empty()) {
                    event.message.push_str(&ignored_text(&ignored));
                    event.ignored = ignored;
                }
            }
            Err(rejection) => {
                // The kubelet's next clean-up gives back what its managers assigned.
                let released = self.ledger.release(&pod.uid);
                match released {
                    Ok(_) => self.record_rejection(&pod.name, rejection),
                    Err(error) => self.record("add", &pod.name, no_effect(&error)),
                }
            }
        }
    }

    /// Records a rejection by kube-scheduler or by the kubelet's predicates.
    fn record_rejection(&mut self, pod: &str, rejection: OutsideRejection) {
        self.counts.rejected += 1;
        self.events.push(StepEvent {
            step: "add",
            pod: Some(pod.to_owned()),
            assignment: None,
            message: rejection.to_string(),
            rejection: Some(PodRejection::Outside(rejection)),
            ignored: Vec::new(),
        });
    }

    /// Restarts the kubelet, which admits its pods again.
    fn restart(&mut self) -> Result<(), Failure> {
        let residents = self.ledger.admitted_pods();
        let pods: Vec<Arc<Pod>> = residents.iter().map(|one| one.pod.clone()).collect();
        let restarted = self.ledger.restart(&mut NoPreference).map_err(|error| {
            let text = format!("not valid: the kubelet does not start again: {error}\n");
            let value = serde_json::json!({"valid": false, "message": error.to_string()});
            Failure::Rejected(Box::new(Rejected { text, value }))
        })?;
        let mut kept = 0;
        for (pod, decision) in pods.iter().zip(restarted.decisions) {
            match decision.is_admitted() {
                true => kept += 1,
                false => {
                    if let Some(admission) = &mut self.admission {
                        admission.node.remove(&pod.uid);
                    }
                    self.record_decision("restart", &pod.name, decision);
                }
            }
        }
        self.record("restart", "", count(kept, "pod stays", "pods stay"));
        Ok(())
    }

    /// Changes the devices of a device plugin.
    fn offer(&mut self, offer: Option<&(ResourceName, Option<AdvertisedDevices>)>) {
        let Some((resource, devices)) = offer else {
            return;
        };
        let message = match devices {
            Some(devices) => format!("{resource}: {} devices", devices.len()),
            None => format!("{resource}: device plugin disconnected"),
        };
        if let Some(admission) = &mut self.admission {
            let healthy = devices.iter().flat_map(|devices| devices.values());
            let healthy = healthy.filter(|device| device.healthy).count();
            admission.node.set_devices(resource, healthy);
        }
        self.ledger.set_devices(resource.clone(), devices.clone());
        self.record("devices", "", message);
    }

    /// Starts all containers of a pod, in order.
    fn start(&mut self, pod: &Pod) -> Result<String, LedgerError> {
        let mut freed = false;
        for container in pod.all_containers() {
            freed |= self.ledger.start(&pod.uid, &container.name)?.is_some();
        }
        Ok(match freed {
            true => "started; the resources of its init containers are released".to_owned(),
            false => "started".to_owned(),
        })
    }

    fn record_decision(&mut self, step: &'static str, pod: &str, decision: Decision) {
        match decision.is_admitted() {
            true => self.counts.admitted += 1,
            false => self.counts.rejected += 1,
        }
        let message = match &decision.result {
            AdmissionResult::Admitted(assignment) => placement::placement(assignment),
            AdmissionResult::Rejected(_) => explain::one_line(&decision),
        };
        let (assignment, rejection) = match decision.result {
            AdmissionResult::Admitted(assignment) => (Some(assignment), None),
            AdmissionResult::Rejected(rejection) => (None, Some(PodRejection::Managers(rejection))),
        };
        self.events.push(StepEvent {
            step,
            pod: Some(pod.to_owned()),
            assignment,
            rejection,
            message,
            ignored: Vec::new(),
        });
    }

    fn record(&mut self, step: &'static str, pod: &str, message: String) {
        self.events.push(StepEvent {
            step,
            pod: (!pod.is_empty()).then(|| pod.to_owned()),
            assignment: None,
            rejection: None,
            message,
            ignored: Vec::new(),
        });
    }
}

/// The message of a step without effect. Scripts go on after it: a pod that is rejected under one policy may be
/// admitted under another.
fn no_effect(error: &LedgerError) -> String {
    match error {
        LedgerError::NotAdmitted(_) => "is not on the node".to_owned(),
        LedgerError::AlreadyAdmitted(_) => "is on the node already".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
