//! Three thousand random pods on kubelets of all policies and scopes: none is rejected, and none waits that any kubelet
//! would let in.

use std::collections::BTreeMap;

use serde_json::Value;

use super::faults::none_rejected;
use super::machines;
use super::pods::{Dice, PODS};
use super::stage::{Stage, eventually};
use crate::report::{Report, equal, say};

const SEED: u64 = 20_260_816;
const WAVES: u64 = 24;
const PODS_OF_A_WAVE: u64 = 125;

/// Plays the story with the pods of a scheduler.
pub(crate) fn run(report: &mut Report, stage: &Stage, scheduler: &str) {
    say(format_args!("seed {SEED}"));
    let outcome = waves(stage, scheduler);
    report.check(
        "cluster: 3,000 random pods, none rejected, none kept waiting that fits",
        outcome,
    );
}

fn waves(stage: &Stage, scheduler: &str) -> Result<(), String> {
    let nodes = machines::all()?;
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    stage.kubelets.join(&stage.admin, nodes)?;
    let mut dice = Dice::new(SEED);
    for wave in 0..WAVES {
        for number in 0..PODS_OF_A_WAVE {
            let pod = dice.pod(&format!("random-{wave}-{number}"), scheduler);
            stage.admin.expect("POST", PODS, Some(&pod))?;
        }
        calm(stage)?;
        let pods = stage.pods()?;
        let running = pods
            .values()
            .filter(|pod| pod["status"]["phase"] == "Running");
        say(format_args!(
            "        wave {wave}: {} pods run, {} wait",
            running.count(),
            waiting(&pods).len()
        ));
        end_some(stage, &mut dice)?;
        calm(stage)?;
    }
    say(format_args!("        {} pods ran", stage.kubelets.ran()));
    none_rejected(stage)?;
    stage.clear()?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.kubelets.leave(&stage.admin, &names)
}

/// Two of five pods that run end, so that what is free is in pieces.
pub(super) fn end_some(stage: &Stage, dice: &mut Dice) -> Result<(), String> {
    for (name, pod) in &stage.pods()? {
        if pod["spec"]["nodeName"].is_string() && dice.says(40) {
            let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
            stage.admin.expect("DELETE", &path, None)?;
        }
    }
    Ok(())
}

/// The pods that no node was found for.
fn waiting(pods: &BTreeMap<String, Value>) -> Vec<&Value> {
    let unbound = |pod: &&Value| !pod["spec"]["nodeName"].is_string();
    pods.values().filter(unbound).collect()
}

/// Waits until no pod waits that any kubelet would let in.
pub(super) fn calm(stage: &Stage) -> Result<(), String> {
    eventually("no pod waits for nothing", || {
        let pods = stage.pods()?;
        for pod in waiting(&pods) {
            let nodes = stage.kubelets.would_admit(pod)?;
            if !nodes.is_empty() {
                let conditions = &pod["status"]["conditions"];
                let name = &pod["metadata"]["name"];
                return Err(format!("{name} would run on {nodes:?}, but {conditions}"));
            }
        }
        let bound = pods
            .values()
            .filter(|pod| pod["spec"]["nodeName"].is_string());
        equal(
            "pods that kubelets have",
            stage.kubelets.settled().0,
            bound.count(),
        )
    })
}
