//! What must not end in wrong decisions: restarts, a Node that is made anew, and Volcano's definition instead of ours.

use std::path::Path;

use serde_json::Value;

use super::machines::{NUMATOPOLOGIES, Nodes};
use super::process::{MODULE, VOLCANO, VcScheduler};
use crate::cluster::stage::eventually;
use crate::peers::programs::sources;
use crate::peers::stage::Stage;
use crate::programs::workspace;
use crate::report::equal;

/// The definition that Volcano and Pinfold both have.
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/numatopologies.nodeinfo.volcano.sh";

/// Sessions of vc-scheduler after which it has done what follows from a deleted Node.
const SETTLED: usize = 10;

/// Plays the fault of a step, if it has one. The next step compares decisions.
pub(super) fn at(
    stage: &mut Stage,
    scheduler: &mut VcScheduler,
    nodes: &mut Nodes,
    step: u64,
) -> Result<(), String> {
    match step {
        10 => {
            for node in &mut nodes.nodes {
                node.restart_agent(stage)?;
            }
            Ok(())
        }
        16 => {
            let before = reads(scheduler, nodes)?;
            scheduler.restart(stage)?;
            are_read(scheduler, nodes, &before)
        }
        22 => {
            stage.plane.kill_api_server();
            stage.plane.start_api_server()
        }
        28 => made_anew(stage, scheduler, nodes),
        34 => {
            let folder = sources(MODULE, VOLCANO)?.join("config/crd/volcano/bases");
            let theirs = folder.join("nodeinfo.volcano.sh_numatopologies.yaml");
            replaced(stage, scheduler, nodes, &theirs)
        }
        40 => {
            let ours = workspace().join("deploy/crds/numatopologies.yaml");
            replaced(stage, scheduler, nodes, &ours)
        }
        _ => Ok(()),
    }
}

/// How often vc-scheduler read the object of each node.
fn reads(scheduler: &VcScheduler, nodes: &Nodes) -> Result<Vec<usize>, String> {
    let nodes = nodes.nodes.iter();
    nodes.map(|node| scheduler.reads(&node.name)).collect()
}

/// Waits until vc-scheduler has read every object again.
fn are_read(scheduler: &VcScheduler, nodes: &Nodes, before: &[usize]) -> Result<(), String> {
    for (node, before) in nodes.nodes.iter().zip(before) {
        eventually(&format!("vc-scheduler reads {} again", node.name), || {
            let is_read = scheduler.reads(&node.name)? > *before;
            equal("it is read", is_read, true)
        })?;
    }
    Ok(())
}

/// Every Node is deleted and made anew. Its pods end before: vc-scheduler knows none of them on the new Node.
fn made_anew(stage: &Stage, scheduler: &VcScheduler, nodes: &mut Nodes) -> Result<(), String> {
    nodes.leave_if(stage, || true)?;
    nodes.published(stage, scheduler)?;
    for node in &nodes.nodes {
        let before = scheduler.reads(&node.name)?;
        let path = format!("/api/v1/nodes/{}", node.name);
        stage.admin.expect("DELETE", &path, None)?;
        let object = node.kubelet.object();
        let made = stage.admin.expect("POST", "/api/v1/nodes", Some(&object))?;
        eventually("the object belongs to the new Node", || {
            let object = node.object(stage)?;
            let owner = &object["metadata"]["ownerReferences"][0]["uid"];
            equal("owner", owner, &made["metadata"]["uid"])?;
            equal("it is read", scheduler.reads(&node.name)? > before, true)
        })?;
    }
    // It may yet delete the object of the old Node, which is by now that of the new one.
    let sessions = scheduler.sessions()?;
    eventually("vc-scheduler knows the new Nodes", || {
        equal("sessions", scheduler.sessions()? > sessions + SETTLED, true)
    })
}

/// The definition is deleted with all objects, and another one takes its place.
fn replaced(
    stage: &Stage,
    scheduler: &VcScheduler,
    nodes: &Nodes,
    file: &Path,
) -> Result<(), String> {
    let before = reads(scheduler, nodes)?;
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let old: Result<Vec<Value>, String> = (nodes.nodes.iter())
        .map(|node| Ok(uid(&node.object(stage)?)))
        .collect();
    let old = old?;
    stage.admin.expect("DELETE", DEFINITION, None)?;
    eventually("the definition is gone", || {
        let (code, _) = stage.admin.ask("GET", DEFINITION, None)?;
        equal("code", code, 404)
    })?;
    stage.admin.create(file)?;
    eventually("the definition is served", || {
        stage.admin.expect("GET", NUMATOPOLOGIES, None)
    })?;
    for (node, old) in nodes.nodes.iter().zip(old) {
        eventually(&format!("{} is published again", node.name), || {
            let new = uid(&node.object(stage)?);
            equal("it is another object", new == old, false)
        })?;
    }
    are_read(scheduler, nodes, &before)
}
