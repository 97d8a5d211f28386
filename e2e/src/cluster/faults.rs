//! What may go wrong in a cluster, and that no pod is rejected by a kubelet for it.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::extender::Extender;
use super::machines;
use super::pods::{cpus, pod};
use super::stage::{Stage, eventually};
use super::stories::leave;
use crate::control_plane::{Admin, Process, Queries, Scheduler};
use crate::report::{Report, equal};

mod objects;
mod requests;

/// Nodes of this machine hold four pods of three CPUs: two on each NUMA node, none across. One CPU is reserved.
const MACHINE: &str = "2 sockets, 8 cores, mem=16Gi";
const CPUS: u32 = 3;
const PODS_OF_A_NODE: usize = 4;

/// Plays everything that may go wrong.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, extender: &mut Extender, ours: &str) {
    let mut check = |stage: &Stage, name: &str, outcome: Result<(), String>| {
        let cleared = stage.clear().and_then(|()| leave(stage));
        report.check(format_args!("cluster: {name}"), outcome.and(cleared));
    };
    let outcome = killed(stage, extender, ours);
    check(
        stage,
        "an extender killed between decisions loses nothing",
        outcome,
    );
    let outcome = restarted(stage, ours);
    check(stage, "a restarted API server loses nothing", outcome);
    let outcome = gap(stage, extender, ours);
    check(
        stage,
        "a gap in the watches is closed by a new list",
        outcome,
    );
    let outcome = two(stage, extender, ours);
    check(
        stage,
        "of two extenders one decides, and the other takes over",
        outcome,
    );
    let outcome = skewed(stage, extender, ours);
    check(
        stage,
        "an extender whose clock is an hour fast neither takes over early nor is taken over from",
        outcome,
    );
    let outcome = deleted(stage, ours);
    check(
        stage,
        "a node that is deleted takes its reservations along",
        outcome,
    );
    let outcome = objects::reports(stage, ours);
    check(
        stage,
        "a node with a malformed report is logged, and the other nodes are used",
        outcome,
    );
    let outcome = objects::annotations(stage, ours);
    check(
        stage,
        "a pod with malformed annotations is logged, and other pods are scheduled",
        outcome,
    );
    let outcome = requests::without_certificate(stage, extender);
    check(
        stage,
        "a client without a certificate is not heard",
        outcome,
    );
    let outcome = requests::malformed(stage, extender);
    check(
        stage,
        "oversized and malformed requests are rejected with a reason",
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

fn killed(stage: &Stage, extender: &mut Extender, ours: &str) -> Result<(), String> {
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
        extender.restart()?;
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

/// The extender sleeps while the server is new, its history is gone, and pods come and go.
fn gap(stage: &mut Stage, extender: &mut Extender, ours: &str) -> Result<(), String> {
    let nodes = nodes(stage, "gap", 2)?;
    let count = nodes.len() * PODS_OF_A_NODE;
    create(stage, ours, "old", count)?;
    run_all(stage, count)?;
    extender.process.signal("STOP")?;
    stage.plane.kill_api_server();
    stage.plane.start_api_server()?;
    for number in 0..count {
        stage.delete(&format!("old-{number}"))?;
    }
    stage.plane.compact()?;
    extender.process.signal("CONT")?;
    create(stage, ours, "new", count)?;
    run_all(stage, count)?;
    none_rejected(stage)
}

fn two(stage: &Stage, extender: &mut Extender, ours: &str) -> Result<(), String> {
    nodes(stage, "two", 2)?;
    let second = Extender::standby(&stage.plane, extender, "second")?;
    let _scheduler = taken_over(stage, extender, &second, ours, PODS_OF_A_NODE)?;
    drop(second);
    extender.restart()?;
    none_rejected(stage)
}

/// Pods wait for the second extender until the first is gone.
fn taken_over(
    stage: &Stage,
    first: &mut Extender,
    second: &Extender,
    ours: &str,
    half: usize,
) -> Result<Process, String> {
    let scheduler = stage.plane.scheduler(&Scheduler {
        name: "by-the-second",
        extender: Some(second.entry(&stage.plane)),
        queries: Queries::Unlimited,
    })?;
    create(stage, "by-the-second", "second", half)?;
    create(stage, ours, "first", half)?;
    let decided = eventually("the first decides", || {
        let pods = stage.pods()?;
        let first = pods
            .iter()
            .filter(|(name, pod)| name.starts_with("first") && pod["status"]["phase"] == "Running");
        equal("running", first.count(), half)
    });
    decided.map_err(|problem| {
        let leads = |extender: &Extender| (is_ready(extender), extender.process.last_words());
        format!(
            "{problem}; whether it leads, and its last words: the first {:?}, the second {:?}",
            leads(first),
            leads(second)
        )
    })?;
    let pods = stage.pods()?;
    let bound = |name: &str| pods[name]["spec"]["nodeName"].is_string();
    equal("pods of the second are bound", bound("second-0"), false)?;
    first.process.kill();
    run_all(stage, 2 * half)?;
    Ok(scheduler)
}

/// Longer than the duration of a lease that is not renewed.
const LEASE_AND_MORE: Duration = Duration::from_secs(20);

/// The clocks of two extenders are an hour apart. Times that the first writes look long past to the second, and those of
/// the second far ahead to the first.
fn skewed(stage: &Stage, extender: &mut Extender, ours: &str) -> Result<(), String> {
    nodes(stage, "skewed", 3)?;
    let half = PODS_OF_A_NODE;
    let second = Extender::hurried(&stage.plane, extender, "hurried")?;
    // Time enough to take the first for dead, if its times were believed.
    thread::sleep(LEASE_AND_MORE);
    let _scheduler = taken_over(stage, extender, &second, ours, half)?;
    extender.start_again()?;
    thread::sleep(LEASE_AND_MORE);
    equal("the first leads again", is_ready(extender), false)?;
    equal("the second still leads", is_ready(&second), true)?;
    drop(second);
    extender.wait()?;
    create(stage, ours, "third", half)?;
    run_all(stage, 3 * half)?;
    none_rejected(stage)
}

fn is_ready(extender: &Extender) -> bool {
    matches!(extender.ask("/readyz"), Ok((200, _)))
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

/// A client of the extender that sends the requests of kube-scheduler.
pub(crate) fn client(stage: &Stage, extender: &Extender, user: &Value) -> Result<Admin, String> {
    let folder = stage.plane.folder();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
        "clusters": [{ "name": "e2e", "cluster": {
            "server": format!("https://127.0.0.1:{}", extender.port),
            "certificate-authority": folder.join("ca.crt"),
        } }],
        "users": [{ "name": "e2e", "user": user }],
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
    });
    let path = folder.join("extender-client.kubeconfig");
    let written = std::fs::write(&path, config.to_string());
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Admin::new(&path)
}

/// The credentials of kube-scheduler.
pub(crate) fn as_scheduler(stage: &Stage) -> Value {
    let folder = stage.plane.folder();
    json!({
        "client-certificate": folder.join("admin.crt"), "client-key": folder.join("admin.key"),
    })
}
