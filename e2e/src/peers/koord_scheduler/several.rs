//! Pods that may go to any of several nodes: a node that koord-scheduler chose is predicted with its decision, and a pod
//! that it leaves pending is left pending, also where only its Score or its Reserve fails on the best node.

use conformance::peers::Outcome;
use serde_json::Value;

use super::nodes::Nodes;
use super::prediction::{Counts, agreed, simulate};
use super::process::{KoordScheduler, NAME};
use super::random;
use crate::cluster::pods::{Dice, PODS, on};
use crate::cluster::stage::eventually;
use crate::peers::stage::Stage;
use crate::report::say;

const DECISIONS: u64 = 60;

/// Plays it.
pub(crate) fn run(
    stage: &Stage,
    koordinator: &KoordScheduler,
    dice: &mut Dice,
) -> Result<(), String> {
    let mut machines = random::machines(dice, 300);
    // What koord-scheduler remembers of released pods on an amplified node is in no object.
    machines.truncate(4);
    let nodes = Nodes::join(stage, koordinator, machines)?;
    let mut counts = Counts::default();
    let mut here: Vec<(String, String, String)> = Vec::new();
    for number in 0..DECISIONS {
        if !here.is_empty() && dice.says(25) {
            let (name, uid, node) = here.remove(dice.index(here.len()));
            stage.delete(&name)?;
            koordinator.has_noticed(&node, &[uid])?;
        }
        let machine = &nodes.machines[dice.index(nodes.machines.len())];
        let name = format!("any-{number}");
        let mut pod = random::random_pod(dice, &name, NAME, machine);
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.remove("nodeSelector");
        }
        let before = nodes.state_with_pods(stage)?;
        let created = stage.admin.expect("POST", PODS, Some(&pod))?;
        let decided = eventually(&format!("koord-scheduler decides about {name}"), || {
            let pod = stage.admin.expect("GET", &format!("{PODS}/{name}"), None)?;
            let outcome = Outcome::of(&pod).ok_or_else(|| pod["status"].to_string())?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            Ok((
                outcome,
                text(&pod["spec"]["nodeName"]),
                text(&pod["metadata"]["uid"]),
            ))
        })?;
        let (outcome, node, uid) = decided;
        let asked = match &outcome {
            Outcome::Bound(_) => on(created, &node),
            Outcome::Pending(_) => created,
        };
        let answer = simulate(stage, &before, &[asked], None)?;
        let event = &answer["events"][0];
        let differs = match &outcome {
            Outcome::Bound(_) => {
                counts.bound += 1;
                here.push((name.clone(), uid, node.clone()));
                outcome.difference(event, &node)
            }
            Outcome::Pending(message) => {
                counts.pending += 1;
                stage.delete(&name)?;
                let placed = event["node"].is_string();
                placed.then(|| format!("koord-scheduler: {message}\n    pinfold: {event}"))
            }
        };
        counts
            .differences
            .extend(differs.map(|text| format!("{name}: {text}\n    pod: {}", pod["metadata"])));
    }
    say(format_args!(
        "        {} bound to one of several nodes, {} pending",
        counts.bound, counts.pending
    ));
    nodes.leave(stage)?;
    agreed(&counts)
}
