//! What must not end in wrong decisions: a Node that is made anew, and Koordinator's definition instead of ours.

use std::path::Path;

use serde_json::{Value, json};

use super::history::History;
use super::nodes::Nodes;
use super::prediction::{Counts, agreed, compare};
use super::process::{KOORDINATOR, KoordScheduler, MODULE, NAME, without_descriptions};
use super::random;
use crate::cluster::pods::{Dice, PODS};
use crate::cluster::stage::eventually;
use crate::peers::programs::sources;
use crate::peers::stage::Stage;
use crate::programs::workspace;
use crate::report::{Report, equal};

/// The definition that Koordinator and Pinfold both have.
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io";
/// Pods of one machine after each fault.
const AFTER: u64 = 6;

/// Plays all of them.
pub(crate) fn run(
    report: &mut Report,
    stage: &mut Stage,
    koordinator: &KoordScheduler,
    dice: &mut Dice,
) -> Result<(), String> {
    let mut machines = random::machines(dice, 200);
    machines.truncate(2);
    let nodes = Nodes::join(stage, koordinator, machines)?;
    report.check(
        "peers: koord-scheduler: a Node that is deleted and made anew is reported again, and decided about as predicted",
        node_made_anew(stage, &nodes).and_then(|()| decides(stage, koordinator, &nodes, dice, "anew")),
    );
    let theirs = sources(MODULE, KOORDINATOR)?
        .join("config/crd/bases/topology.node.k8s.io_noderesourcetopologies.yaml");
    let theirs = without_descriptions(stage, &theirs)?;
    let ours = workspace().join("deploy/crds/noderesourcetopologies.yaml");
    for (whose, file) in [("Koordinator's", theirs), ("our", ours)] {
        let outcome = replaced(stage, &nodes, &file)
            .and_then(|()| decides(stage, koordinator, &nodes, dice, &file_name(whose)));
        report.check(
            format_args!("peers: koord-scheduler: with {whose} definition of NodeResourceTopology instead of the other, nodes are reported again and decided about as predicted"),
            outcome,
        );
    }
    nodes.leave(stage)
}

fn file_name(whose: &str) -> String {
    whose.trim_end_matches("'s").to_lowercase()
}

/// The report of every node, by name: uid of the object, and of the Node that owns it.
fn uids(stage: &Stage, name: &str) -> Result<(String, String), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let report = stage.report(name)?;
    let meta = &report["metadata"];
    Ok((text(&meta["uid"]), text(&meta["ownerReferences"][0]["uid"])))
}

fn node_made_anew(stage: &Stage, nodes: &Nodes) -> Result<(), String> {
    for machine in &nodes.machines {
        let path = format!("/api/v1/nodes/{}", machine.name);
        stage.admin.expect("DELETE", &path, None)?;
        let made = stage
            .admin
            .expect("POST", "/api/v1/nodes", Some(&machine.node()))?;
        eventually("the report belongs to the new Node", || {
            let (_, owner) = uids(stage, &machine.name)?;
            equal("owner", json!(owner), made["metadata"]["uid"].clone())
        })?;
    }
    Ok(())
}

fn replaced(stage: &Stage, nodes: &Nodes, file: &Path) -> Result<(), String> {
    let before: Vec<(String, String)> = (nodes.machines.iter())
        .map(|machine| uids(stage, &machine.name))
        .collect::<Result<_, _>>()?;
    stage.admin.expect("DELETE", DEFINITION, None)?;
    eventually("the definition is gone", || {
        match stage.admin.ask("GET", DEFINITION, None)? {
            (404, _) => Ok(()),
            (code, _) => Err(code.to_string()),
        }
    })?;
    stage.admin.create(file)?;
    for (machine, (uid, _)) in nodes.machines.iter().zip(before) {
        eventually("the node is reported again", || {
            match uids(stage, &machine.name)?.0 == uid {
                true => Err("it is the object of before".to_owned()),
                false => Ok(()),
            }
        })?;
    }
    Ok(())
}

/// Some pods come to every node, and are decided about as the command line predicts from the present reports.
fn decides(
    stage: &Stage,
    koordinator: &KoordScheduler,
    nodes: &Nodes,
    dice: &mut Dice,
    word: &str,
) -> Result<(), String> {
    nodes.known(stage, koordinator)?;
    let mut history = History::new(nodes.state(stage)?);
    for step in 0..AFTER {
        for (number, machine) in nodes.machines.iter().enumerate() {
            let name = format!("{word}-{step}-{number}");
            let pod = random::random_pod(dice, &name, NAME, machine);
            history.came(&machine.name, stage.admin.expect("POST", PODS, Some(&pod))?);
        }
        history.decided(stage)?;
    }
    let mut counts = Counts::default();
    compare(stage, &history, &nodes.machines, &mut counts)?;
    for machine in &nodes.machines {
        let here = history.placed.iter().filter(|pod| pod.node == machine.name);
        let uids: Vec<String> = here.map(|pod| pod.uid.clone()).collect();
        stage.clear_pods()?;
        koordinator.has_noticed(&machine.name, &uids)?;
    }
    agreed(&counts)
}
