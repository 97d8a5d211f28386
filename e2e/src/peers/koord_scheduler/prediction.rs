//! Decisions of koord-scheduler beside those of `pinfold simulate --as koordinator` on the same state.

use std::fs;
use std::process::Command;

use conformance::peers::Outcome;
use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::history::History;
use super::random::Machine;
use crate::peers::stage::Stage;

/// The most differences that are printed.
const PRINTED: usize = 12;

/// What koord-scheduler did.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) bound: usize,
    pub(super) pending: usize,
    pub(super) with_cpus: usize,
    /// Pods after the first difference on a node are not compared: what they find there differs.
    pub(super) compared: usize,
    pub(super) differences: Vec<String>,
}

pub(super) fn agreed(counts: &Counts) -> Result<(), String> {
    let different = counts.differences.len();
    let printed: Vec<&str> = counts.differences.iter().map(String::as_str).collect();
    match different {
        0 => Ok(()),
        _ => Err(format!(
            "{different} differ:\n  {}",
            printed[..different.min(PRINTED)].join("\n  ")
        )),
    }
}

/// Compares the session with the answer of the command line on the same state and steps.
pub(super) fn compare(
    stage: &Stage,
    history: &History,
    machines: &[Machine],
    counts: &mut Counts,
) -> Result<(), String> {
    let session = &history.session;
    let answer = simulate(stage, &session.state, &session.pods, Some(&session.steps))?;
    for (_, outcome) in session.outcomes.values() {
        match outcome {
            Outcome::Bound(decision) => {
                counts.bound += 1;
                counts.with_cpus += usize::from(decision["cpuset"].is_string());
            }
            Outcome::Pending(_) => counts.pending += 1,
        }
    }
    let comparison = session.compare(&answer)?;
    counts.compared += comparison.compared;
    for (name, difference) in comparison.differences {
        let pod = (session.pods.iter()).find(|pod| pod["metadata"]["name"] == *name);
        let pod = pod.map(|pod| {
            let resources = &pod["spec"]["containers"][0]["resources"];
            format!(
                "{} {} {resources}",
                pod["metadata"]["labels"], pod["metadata"]["annotations"]
            )
        });
        let node = session.outcomes.get(&name).map(|(node, _)| node);
        let node = machines
            .iter()
            .find(|machine| Some(&machine.name) == node)
            .map(|machine| machine.node()["metadata"].to_string());
        counts.differences.push(format!(
            "{name}: {difference}\n    pod: {}\n    node: {}",
            pod.unwrap_or_default(),
            node.unwrap_or_default()
        ));
    }
    for machine in machines {
        let reserved = CpuSet::parse(machine.reserved).map_err(|error| error.to_string())?;
        for (name, (node, outcome)) in &session.outcomes {
            let Outcome::Bound(decision) = outcome else {
                continue;
            };
            let cpus = CpuSet::parse(decision["cpuset"].as_str().unwrap_or_default());
            let cpus = cpus.map_err(|error| error.to_string())?;
            if *node == machine.name && !cpus.is_disjoint(&reserved) {
                counts
                    .differences
                    .push(format!("{name}: {cpus} has reserved CPUs of {reserved}"));
            }
        }
    }
    counts.differences.extend(
        history
            .twice
            .iter()
            .map(|both| format!("given twice: {both}")),
    );
    Ok(())
}

/// The answer of the command line: what happens to the pods in these steps, or one after the other.
pub(super) fn simulate(
    stage: &Stage,
    state: &Value,
    pods: &[Value],
    steps: Option<&[Value]>,
) -> Result<Value, String> {
    let folder = stage.plane.folder();
    let file = |name: &str, value: &Value| {
        let path = folder.join(name);
        let written = fs::write(&path, value.to_string());
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, String>(path)
    };
    let mut asked = Command::new(&stage.pinfold);
    asked.args(["simulate", "--as", "koordinator", "-o", "json", "--nodes"]);
    asked.arg(file("koordinator-state.json", state)?);
    if let Some(steps) = steps {
        asked
            .arg("--script")
            .arg(file("koordinator-steps.json", &json!(steps))?);
    }
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": pods });
    asked.arg(file("koordinator-pods.json", &pods)?);
    let output = asked.output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{asked:?}: {error}: {errors}")
    })
}
