//! Decisions of koord-scheduler beside those of `pinfold simulate --as koordinator` on the same state.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use pinfold_core::cpu_set::CpuSet;
use serde_json::{Value, json};

use super::history::History;
use super::random::Machine;
use crate::cluster::dialects::DECISION;
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
    pub(super) not_compared: usize,
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

/// What koord-scheduler did with a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Bound, with this decision.
    Bound(Value),
    /// Pending, with this message.
    Pending(String),
}

/// What happened to a pod so far, if anything.
pub(super) fn outcome(pod: &Value) -> Option<Outcome> {
    if pod["spec"]["nodeName"].is_string() {
        let decision = pod["metadata"]["annotations"][DECISION].as_str();
        let decision = decision.and_then(|text| serde_json::from_str(text).ok());
        return Some(Outcome::Bound(decision.unwrap_or_else(|| json!({}))));
    }
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let waits = conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
    let message = waits["message"].as_str().unwrap_or_default();
    Some(Outcome::Pending(message.to_owned()))
}

/// Compares the session with the answer of the command line on the same state and steps.
pub(super) fn compare(
    stage: &Stage,
    state: &Value,
    history: &History,
    machines: &[Machine],
    counts: &mut Counts,
) -> Result<(), String> {
    let answer = simulate(stage, state, &history.pods, Some(&history.steps))?;
    let mut differs: BTreeMap<&str, bool> = BTreeMap::new();
    let events = answer["events"].as_array().ok_or("no events")?;
    for event in events.iter().filter(|event| event["step"] == "add") {
        let name = event["pod"].as_str().unwrap_or_default();
        let name = name.rsplit('/').next().unwrap_or_default();
        let (node, outcome) = history
            .outcomes
            .get(name)
            .ok_or_else(|| format!("no pod {name}"))?;
        match outcome {
            Outcome::Bound(decision) => {
                counts.bound += 1;
                counts.with_cpus += usize::from(decision["cpuset"].is_string());
            }
            Outcome::Pending(_) => counts.pending += 1,
        }
        if differs.contains_key(node.as_str()) {
            counts.not_compared += 1;
            continue;
        }
        if let Some(difference) = difference(event, node, outcome) {
            differs.insert(node, true);
            let pod = history
                .pods
                .iter()
                .find(|pod| pod["metadata"]["name"] == name);
            let meta = pod.map(|pod| {
                let resources = &pod["spec"]["containers"][0]["resources"];
                format!(
                    "{} {} {resources}",
                    pod["metadata"]["labels"], pod["metadata"]["annotations"]
                )
            });
            let labels = machines.iter().find(|machine| machine.name == *node);
            let labels = labels.map(|machine| machine.node()["metadata"].to_string());
            counts.differences.push(format!(
                "{name}: {difference}\n    pod: {}\n    node: {}",
                meta.unwrap_or_default(),
                labels.unwrap_or_default()
            ));
        }
    }
    for machine in machines {
        let reserved = CpuSet::parse(machine.reserved).map_err(|error| error.to_string())?;
        for (name, (node, outcome)) in &history.outcomes {
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

/// How the answer of the command line differs from what happened.
pub(super) fn difference(event: &Value, node: &str, outcome: &Outcome) -> Option<String> {
    let shown = || format!("koord-scheduler: {outcome:?}\n    pinfold: {event}");
    match outcome {
        Outcome::Bound(decision) => {
            let ours = event["annotations"][DECISION].as_str();
            let ours: Value = ours
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_else(|| json!({}));
            (event["node"] != node || ours != *decision).then(shown)
        }
        Outcome::Pending(message) => {
            let groups = event["rejections"].as_array();
            let mut groups = groups.into_iter().flatten();
            let own = groups.find(|group| {
                let nodes = group["nodes"].as_array();
                nodes.into_iter().flatten().any(|one| one == node)
            });
            let reason = own.and_then(|group| group["reason"].as_str());
            let is_said = reason.is_some_and(|reason| is_counted(message, reason));
            (event["node"].is_string() || !is_said).then(shown)
        }
    }
}

/// Whether the message of a scheduler counts one node with every part of this reason. It has no amounts.
fn is_counted(message: &str, reason: &str) -> bool {
    let reason = reason.split_once(" (").map_or(reason, |(words, _)| words);
    let (summary, _) = message.split_once(" preemption: ").unwrap_or((message, ""));
    (reason.split(", ")).all(|part| summary.contains(&format!("1 {part}")))
}
