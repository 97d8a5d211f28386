//! Replays the families `admission` and `admission_podlevel`: a whole node and a sequence of events.

use std::sync::Arc;

use pinfold_core::decision::{AdmissionResult, ContainerAssignment, Decision};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::machine::Machine;
use serde_json::{Map, Value, json};

use super::devices::Plugins;
use super::memory::machine_state;
use super::scenario::{Scenario, Step};
use super::{Machines, memory};
use crate::case::{Case, ReplayOutcome, check};

pub(super) fn replay(
    case: &Case,
    machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let scenario = Scenario::read(&case.input)?;
    let machine = machines.get(&scenario.topology)?;
    play(&scenario, machine, fidelity, &case.expect)
}

/// Replays a scenario and compares with `expect` after every step.
pub(super) fn play(
    scenario: &Scenario,
    machine: &Machine,
    fidelity: Fidelity,
    expect: &Value,
) -> Result<ReplayOutcome, String> {
    let rules = match scenario.rules(machine, fidelity)? {
        Ok(rules) => rules,
        Err(error) => return Ok(check(&expect["init_error"], &json!(error.to_string()))),
    };
    if expect["init_error"].is_string() {
        return Ok(ReplayOutcome::Failed(format!(
            "expected {}, found no error",
            expect["init_error"]
        )));
    }
    let mut node = Node::new(Ledger::new(Arc::new(rules)), scenario);
    let mut found = node.picture(&expect["initial"]);
    let mut outcome = check(&expect["initial"], &Value::Object(found));
    if let (ReplayOutcome::Passed, Some(reserved)) = (&outcome, expect["reserved_cpuset"].as_str())
    {
        outcome = check(
            &json!(reserved),
            &json!(node.ledger.rules().reserved_cpus().to_string()),
        );
    }
    let expected = expect["steps"]
        .as_array()
        .ok_or("the case expects no steps")?;
    for (index, (step, expect)) in scenario.steps.iter().zip(expected).enumerate() {
        if let ReplayOutcome::Failed(difference) = outcome {
            return Ok(ReplayOutcome::Failed(format!(
                "before step {index}:\n{difference}"
            )));
        }
        if expect["hang"] == true || expect["panic"].is_string() {
            // The behaviour of the kubelet here cannot be reproduced; the invariants of sound mode are checked instead.
            play_soundly(scenario, machine)?;
            let reason = if expect["hang"] == true {
                "hang"
            } else {
                "panic"
            };
            return Ok(ReplayOutcome::SetAside(reason));
        }
        found = node.step(step);
        if expect["start_error"].is_string() {
            let error = found.get("start_error").cloned().unwrap_or_default();
            return Ok(check(&expect["start_error"], &error));
        }
        found.extend(node.picture(expect));
        outcome = match check(expect, &Value::Object(found)) {
            ReplayOutcome::Failed(difference) => {
                ReplayOutcome::Failed(format!("step {index}:\n{difference}"))
            }
            other => other,
        };
    }
    Ok(outcome)
}

/// Replays a scenario in sound mode: every step returns, and the audit of the ledger passes after each.
pub(super) fn play_soundly(scenario: &Scenario, machine: &Machine) -> Result<(), String> {
    let Ok(rules) = scenario.rules(machine, Fidelity::Sound)? else {
        return Ok(());
    };
    let mut node = Node::new(Ledger::new(Arc::new(rules)), scenario);
    for (index, step) in scenario.steps.iter().enumerate() {
        let found = node.step(step);
        if let Some(error) = found.get("start_error") {
            return Err(format!(
                "step {index}: a sound node does not come back: {error}"
            ));
        }
        if let Some(finding) = node.ledger.audit().first() {
            return Err(format!("step {index}: {finding}"));
        }
    }
    Ok(())
}

/// A ledger with the device plugins of the case.
struct Node {
    ledger: Ledger,
    plugins: Plugins,
}

impl Node {
    fn new(mut ledger: Ledger, scenario: &Scenario) -> Self {
        for resource in &scenario.devices {
            ledger.set_devices(resource.name.clone(), Some(resource.offer()));
        }
        Self {
            ledger,
            plugins: Plugins::new(&scenario.devices),
        }
    }

    /// Replays one step and returns its result.
    fn step(&mut self, step: &Step) -> Map<String, Value> {
        let mut found = Map::new();
        match step {
            Step::Add { pod } => match self.ledger.admit(pod, &mut self.plugins) {
                Ok(admission) => drop(found.insert("admit".into(), decision(&admission.decision))),
                Err(error) => drop(found.insert("admit".into(), json!(error.to_string()))),
            },
            Step::Remove { uid } => {
                // A pod that was rejected has nothing to release.
                let _ = self.ledger.release(uid);
            }
            Step::Start { uid } => {
                let admitted = self
                    .ledger
                    .state()
                    .admitted_pods()
                    .get(uid)
                    .map(|admitted| admitted.pod.clone());
                for container in admitted.iter().flat_map(|pod| pod.all_containers()) {
                    let _ = self.ledger.start(uid, &container.name);
                }
            }
            Step::Restart => match self.ledger.restart(&mut self.plugins) {
                Ok(restarted) => {
                    let decisions: Vec<Value> = restarted.decisions.iter().map(decision).collect();
                    // The vectors do not list a restart without pods.
                    if !decisions.is_empty() {
                        found.insert("readmit".into(), Value::Array(decisions));
                    }
                }
                Err(error) => drop(found.insert("start_error".into(), json!(error.to_string()))),
            },
        }
        found
    }

    /// The state after a step, as far as the case records it.
    fn picture(&self, expect: &Value) -> Map<String, Value> {
        let state = self.ledger.state();
        let mut found = Map::new();
        found.insert(
            "default_cpuset".into(),
            json!(state.cpus().shared().to_string()),
        );
        if expect.get("memory_state").is_some() {
            found.insert("memory_state".into(), machine_state(state.memory()));
        }
        found.insert("devices_in_use".into(), json!(state.devices().in_use()));
        found
    }
}

fn decision(decision: &Decision) -> Value {
    match &decision.result {
        AdmissionResult::Rejected(rejection) => json!({
            "uid": decision.pod,
            "admit": false,
            "reason": rejection.reason.name(),
            "message": rejection.message,
        }),
        AdmissionResult::Admitted(assignment) => {
            let containers: Map<String, Value> = assignment
                .containers
                .iter()
                .map(|container| (container.name.to_string(), holding(container)))
                .collect();
            json!({
                "uid": decision.pod,
                "admit": true,
                "reason": "",
                "message": "",
                "containers": containers,
            })
        }
    }
}

fn holding(container: &ContainerAssignment) -> Value {
    let blocks = container.memory.as_deref().map(memory::blocks);
    json!({
        "affinity": container.affinity,
        "cpus": container.cpus.as_ref().map(ToString::to_string),
        "memory": blocks,
        "devices": container.devices,
    })
}
