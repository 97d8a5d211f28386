//! What may go wrong in a cluster, and that no pod is rejected by a kubelet for it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::OurScheduler;
use super::engine::Engine;
use super::machines;
use super::pods::{cpus, pod};
use super::stage::{Stage, eventually};
use super::stories::leave;
use crate::control_plane::{Process, Scheduler};
use crate::report::{Report, equal, say};

mod leadership;
mod objects;
mod requests;

/// Nodes of this machine hold four pods of three CPUs: two on each NUMA node, none across. One CPU is reserved.
const MACHINE: &str = "2 sockets, 8 cores, mem=16Gi";
const CPUS: u32 = 3;
const PODS_OF_A_NODE: usize = 4;

/// Plays everything that may go wrong.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, ours: &mut OurScheduler, program: &Path) {
    let name = super::OURS;
    let mut check = |stage: &Stage, name: &str, outcome: Result<(), String>| {
        let cleared = stage.clear().and_then(|()| leave(stage));
        report.check(format_args!("cluster: {name}"), outcome.and(cleared));
    };
    let outcome = killed(stage, &mut ours.engine, name);
    check(
        stage,
        "an engine killed between decisions loses nothing",
        outcome,
    );
    let outcome = restarted(stage, name);
    check(stage, "a restarted API server loses nothing", outcome);
    let outcome = gap(stage, &mut ours.engine, name);
    check(
        stage,
        "a gap in the watches is closed by a new list",
        outcome,
    );
    let outcome = two(stage, program);
    check(
        stage,
        "of two kube-schedulers one schedules, the other takes over, and both engines are ready",
        outcome,
    );
    let outcome = hurried(stage, program);
    check(
        stage,
        "an engine whose clock is an hour fast decides as others do",
        outcome,
    );
    let outcome = deleted(stage, name);
    check(
        stage,
        "a node that is deleted takes its reservations along",
        outcome,
    );
    let outcome = objects::reports(stage, name);
    check(
        stage,
        "a node with a malformed report is logged, and the other nodes are used",
        outcome,
    );
    let outcome = objects::annotations(stage, name);
    check(
        stage,
        "a pod with malformed annotations is logged, and other pods are scheduled",
        outcome,
    );
    let outcome = requests::other_users(&ours.engine);
    check(
        stage,
        "only the user of the engine can open its socket",
        outcome,
    );
    let outcome = Engine::start(&stage.plane, program, "calls")
        .and_then(|engine| requests::malformed(&engine));
    check(
        stage,
        "oversized and malformed calls are rejected with a reason",
        outcome,
    );
}

/// Fresh nodes for a story.
pub(super) fn nodes(stage: &Stage, prefix: &str, count: usize) -> Result<Vec<String>, String> {
    let mut nodes = Vec::new();
    for number in 0..count {
        let name = format!("{prefix}-{number}");
        nodes.push(machines::node(
            &name,
            MACHINE,
            "single-numa-node",
            "container",
        )?);
    }
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    stage.kubelets.join(&stage.admin, nodes)?;
    Ok(names)
}

/// No kubelet had to reject a pod.
pub(crate) fn none_rejected(stage: &Stage) -> Result<(), String> {
    let rejected = stage.kubelets.rejected();
    match rejected.first() {
        None => Ok(()),
        Some(first) => Err(format!(
            "{} pods were rejected, first {first}",
            rejected.len()
        )),
    }
}

/// Creates so many pods at once.
fn create(stage: &Stage, scheduler: &str, prefix: &str, count: usize) -> Result<(), String> {
    for number in 0..count {
        let name = format!("{prefix}-{number}");
        stage.create(&pod(&name, scheduler, &[cpus(CPUS)]))?;
    }
    Ok(())
}

fn running(pods: &BTreeMap<String, Value>) -> usize {
    let running = pods
        .values()
        .filter(|pod| pod["status"]["phase"] == "Running");
    running.count()
}

/// Waits until so many pods run.
fn run_all(stage: &Stage, count: usize) -> Result<(), String> {
    eventually("all pods run", || {
        equal("running", running(&stage.pods()?), count)
    })
}

fn killed(stage: &Stage, engine: &mut Engine, ours: &str) -> Result<(), String> {
    let nodes = nodes(stage, "killed", 6)?;
    let count = nodes.len() * PODS_OF_A_NODE;
    create(stage, ours, "killed", count)?;
    for share in [1, count / 3, 2 * count / 3] {
        eventually("some pods are bound", || {
            let pods = stage.pods()?;
            let bound = pods
                .values()
                .filter(|pod| pod["spec"]["nodeName"].is_string());
            equal("bound", bound.count() >= share, true)
        })?;
        // SIGKILL at any moment, as in a crash.
        engine.restart()?;
    }
    run_all(stage, count)?;
    none_rejected(stage)
}

fn restarted(stage: &mut Stage, ours: &str) -> Result<(), String> {
    let nodes = nodes(stage, "restarted", 4)?;
    let count = nodes.len() * PODS_OF_A_NODE;
    create(stage, ours, "before", count / 2)?;
    stage.plane.kill_api_server();
    stage.plane.start_api_server()?;
    create(stage, ours, "after", count - count / 2)?;
    run_all(stage, count)?;
    none_rejected(stage)
}

/// The engine sleeps while the server is new, its history is gone, and pods come and go.
fn gap(stage: &mut Stage, engine: &mut Engine, ours: &str) -> Result<(), String> {
    let nodes = nodes(stage, "gap", 2)?;
    let count = nodes.len() * PODS_OF_A_NODE;
    create(stage, ours, "old", count)?;
    run_all(stage, count)?;
    engine.process.signal("STOP")?;
    stage.plane.kill_api_server();
    stage.plane.start_api_server()?;
    for number in 0..count {
        stage.delete(&format!("old-{number}"))?;
    }
    stage.plane.compact()?;
    engine.process.signal("CONT")?;
    create(stage, ours, "new", count)?;
    run_all(stage, count)?;
    none_rejected(stage)
}

/// Two kube-schedulers of one name elect a leader, each beside an engine of its own.
fn two(stage: &Stage, program: &Path) -> Result<(), String> {
    const NAME: &str = "elected";
    nodes(stage, "two", 2)?;
    let start = |engine: &str| -> Result<(Engine, Process), String> {
        let engine = Engine::start(&stage.plane, program, engine)?;
        let scheduler = stage.plane.scheduler(&Scheduler {
            name: NAME,
            engine: Some(engine.socket.clone()),
            elects: true,
        })?;
        Ok((engine, scheduler))
    };
    let (first, mut leader) = start("elected-first")?;
    create(stage, NAME, "first", PODS_OF_A_NODE)?;
    run_all(stage, PODS_OF_A_NODE)?;
    let (second, standby) = start("elected-second")?;
    for engine in [&first, &second] {
        let ready = matches!(engine.ask("/readyz"), Ok((200, _)));
        equal("the engine is ready", ready, true)?;
    }
    create(stage, NAME, "second", PODS_OF_A_NODE / 2)?;
    // As soon as pods may be reserved and not bound.
    leader.kill();
    drop(first);
    create(stage, NAME, "third", PODS_OF_A_NODE / 2)?;
    run_all(stage, 2 * PODS_OF_A_NODE)?;
    let seconds = leadership::first_decision(&standby.said())?;
    say(format_args!(
        "        the first pod was bound {seconds:.2} s after the new leader was elected"
    ));
    none_rejected(stage)
}

/// Times of other machines are never compared with the engine's own.
fn hurried(stage: &Stage, program: &Path) -> Result<(), String> {
    const NAME: &str = "hurried";
    nodes(stage, "hurried", 2)?;
    let mut engine = Engine::hurried(&stage.plane, program, NAME)?;
    engine.wait()?;
    let _scheduler = stage.plane.scheduler(&Scheduler {
        name: NAME,
        engine: Some(engine.socket.clone()),
        elects: false,
    })?;
    create(stage, NAME, "hurried", 2 * PODS_OF_A_NODE)?;
    run_all(stage, 2 * PODS_OF_A_NODE)?;
    none_rejected(stage)
}

fn deleted(stage: &Stage, ours: &str) -> Result<(), String> {
    let nodes = nodes(stage, "deleted", 3)?;
    let (gone, stay) = nodes.split_at(1);
    let count = stay.len() * PODS_OF_A_NODE;
    create(stage, ours, "deleted", count)?;
    stage.kubelets.leave(&stage.admin, &[&gone[0]])?;
    // Pods that were bound to it never run; the controllers of a cluster delete them, as is done here.
    eventually("what is left runs", || {
        for (name, pod) in stage.pods()? {
            if pod["spec"]["nodeName"] == gone[0].as_str() {
                stage.delete(&name)?;
                stage.create(&self::pod(&format!("{name}-again"), ours, &[cpus(CPUS)]))?;
            }
        }
        equal("running", running(&stage.pods()?), count)
    })?;
    none_rejected(stage)
}
