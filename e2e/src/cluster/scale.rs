//! Many nodes and many pods: what the plugin and its engine cost a real kube-scheduler.
//!
//! The pods are there before the scheduler starts, so that nothing but scheduling is measured. The same pods are
//! scheduled twice, without and with the plugin. Kubelets are not played: a bound pod stays where it is.

mod churn;
mod fill;
mod markdown;
mod one_of_many;
pub(crate) mod page;
mod waiting;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::engine::Engine;
use super::kubelets::TOPOLOGIES;
use super::machines;
use super::pods::{PODS, guaranteed, pod};
use super::stage::{Stage, eventually};
use super::watch::{News, Watch};
use crate::control_plane::{Admin, Credentials, Process, Scheduler};
use crate::report::{equal, say};

/// A common machine: 64 CPUs on two NUMA nodes.
const MACHINE: &str = "2 sockets, 16 cores, smt2, mem=128Gi";
/// How many ask the API server at a time while objects are made.
const HANDS: usize = 4;
/// How many pods the engine is asked about.
const QUESTIONS: usize = 500;
/// The number of pod shapes of them.
const SHAPES: usize = 16;

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
}

/// One run of a scheduler over all pods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// From the first binding to the last.
    pub(crate) time: Duration,
    /// CPU time of kube-scheduler.
    pub(crate) scheduler: Duration,
    /// CPU time of the engine.
    pub(crate) engine: Duration,
    /// Bytes of all watch events that the API server sent.
    pub(crate) watched: f64,
}

/// The same pods by kube-scheduler alone and with the plugin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) alone: Run,
    pub(crate) plugged: Run,
}

/// What the pods of a run need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Whole CPUs and memory of NUMA nodes.
    Numa,
    /// Shares of CPUs: no NUMA rule applies to them.
    Shares,
}

/// Everything that was measured.
pub(crate) struct Measured {
    pub(crate) size: Size,
    /// Pods with NUMA needs.
    pub(crate) numa: Pair,
    /// Pods without.
    pub(crate) shares: Pair,
    /// Upper bounds of the time that a call took, in seconds: by call, the median and one in a hundred.
    pub(crate) calls: BTreeMap<String, (f64, f64)>,
    /// The same for pods that are asked about one by one.
    pub(crate) all_names: AllNames,
    /// The most memory that the engine had.
    pub(crate) memory: u64,
    /// The reports of nodes on which pods come.
    pub(crate) churn: churn::Churn,
    /// One node that is filled.
    pub(crate) full: fill::Filled,
    /// Many pods that wait for one node.
    pub(crate) woken: waiting::Woken,
}

/// How long `PreFilter` takes for pods asked about one by one: bounds for the median and one in a hundred, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllNames {
    /// For shapes of pods that come again and again.
    pub(crate) known: (f64, f64),
    /// For pod shapes that were not asked for before.
    pub(crate) new: (f64, f64),
}

/// Measures on a stage without other nodes: those that earlier stories left are deleted.
pub(crate) fn measure(stage: &Stage, program: &Path, size: Size) -> Result<Measured, String> {
    say(format_args!(
        "        {} nodes, {} pods",
        size.nodes, size.pods
    ));
    stage.admin.expect("DELETE", "/api/v1/nodes", None)?;
    nodes(stage, size.nodes)?;
    let mut engine = Engine::start(&stage.plane, program, "scale")?;
    // The pods without needs first: those with needs stay for the requests.
    let shares = pair(stage, size, Needs::Shares, &mut engine)?;
    stage.clear_pods()?;
    let numa = pair(stage, size, Needs::Numa, &mut engine)?;
    let calls = engine.durations()?;
    let all_names = ask_all(&engine, size.nodes)?;
    stage.clear_pods()?;
    one_of_many::check(stage, &engine, size.nodes)?;
    let memory = engine.process.most_memory()?;
    drop(engine);
    stage.clear_pods()?;
    stage.admin.expect("DELETE", "/api/v1/nodes", None)?;
    stage.admin.expect("DELETE", TOPOLOGIES, None)?;
    let churn = churn::measure(stage)?;
    let full = fill::measure(stage, program)?;
    let woken = waiting::measure(stage, program, size.pods / 2)?;
    Ok(Measured {
        size,
        numa,
        shares,
        calls,
        all_names,
        memory,
        churn,
        full,
        woken,
    })
}

/// The same pods without and with the plugin. Those of the second run stay.
fn pair(stage: &Stage, size: Size, needs: Needs, engine: &mut Engine) -> Result<Pair, String> {
    create(stage, size.pods, "alone", needs)?;
    let alone = run(stage, size.pods, "alone", None)?;
    stage.clear_pods()?;
    create(stage, size.pods, "plugged", needs)?;
    engine.wait()?;
    let plugged = run(stage, size.pods, "plugged", Some(engine))?;
    Ok(Pair { alone, plugged })
}

/// Does something for many numbers, some at a time.
fn by_hands(
    stage: &Stage,
    count: usize,
    act: impl Fn(&Admin, usize) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let kubeconfig = stage
        .plane
        .kubeconfig("hands", &Credentials::Certificate("admin"))?;
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for hand in 0..HANDS {
            let (act, failed, kubeconfig) = (&act, &failed, &kubeconfig);
            scope.spawn(move || {
                let all = Admin::new(kubeconfig).and_then(|admin| {
                    (hand..count)
                        .step_by(HANDS)
                        .try_for_each(|number| act(&admin, number))
                });
                if let Err(problem) = all {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), Err)
}

fn node_name(number: usize) -> String {
    format!("scale-{number:05}")
}

/// Nodes of all policies, each with its report.
fn nodes(stage: &Stage, count: usize) -> Result<(), String> {
    let policies = ["none", "best-effort", "restricted", "single-numa-node"];
    let mut kinds = Vec::new();
    for policy in policies {
        let node = machines::node("kind", MACHINE, policy, "container")?;
        kinds.push((node.node(), node.topology()));
    }
    let large = one_of_many::node()?;
    by_hands(stage, count, |admin, number| {
        let (mut node, mut topology) = match number == one_of_many::number(count) {
            true => large.clone(),
            false => kinds[number % kinds.len()].clone(),
        };
        let name = node_name(number);
        node["metadata"]["name"] = json!(name);
        node["metadata"]["labels"] = json!({ "kubernetes.io/hostname": name });
        node["metadata"]["labels"][one_of_many::LABEL] = json!(policies[number % kinds.len()]);
        topology["metadata"]["name"] = json!(name);
        admin.expect("POST", "/api/v1/nodes", Some(&node))?;
        admin.expect("POST", TOPOLOGIES, Some(&topology)).map(drop)
    })?;
    // The controllers take the taint of new nodes away.
    eventually("all nodes are ready", || {
        let nodes = stage.admin.expect("GET", "/api/v1/nodes", None)?;
        let nodes = nodes["items"].as_array().ok_or("no nodes")?;
        let tainted = nodes
            .iter()
            .filter(|node| node["spec"]["taints"].is_array());
        equal("tainted nodes", tainted.count(), 0)
    })
}

/// Pods of a few shapes.
fn create(stage: &Stage, count: usize, scheduler: &str, needs: Needs) -> Result<(), String> {
    by_hands(stage, count, |admin, number| {
        let cpus = ["4", "8", "2", "500m"][number % 4];
        let mut main = guaranteed("main", &[("cpu", cpus), ("memory", "4Gi")]);
        if needs == Needs::Shares {
            main["resources"]["limits"] = json!({});
        }
        let mut pod = pod(&format!("scale-{number:05}"), scheduler, &[main]);
        // All pods have ports of their own; host ports are not tested here.
        pod["spec"]["hostNetwork"] = false.into();
        admin.expect("POST", PODS, Some(&pod)).map(drop)
    })
}

/// Starts a scheduler and waits until it has bound all pods.
fn run(
    stage: &Stage,
    count: usize,
    name: &'static str,
    engine: Option<&Engine>,
) -> Result<Run, String> {
    let bound = Arc::new(AtomicUsize::new(0));
    let times: Arc<Mutex<Option<(Instant, Instant)>>> = Arc::default();
    let (counting, clock) = (Arc::clone(&bound), Arc::clone(&times));
    let kubeconfig = stage
        .plane
        .kubeconfig("watcher", &Credentials::Certificate("admin"))?;
    let _watch = Watch::start(&kubeconfig, move |news| {
        let News::Is(pod) = news else { return };
        if pod["spec"]["nodeName"].is_string() {
            counting.fetch_add(1, Ordering::Relaxed);
            let mut times = clock.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let first = times.map_or(now, |(first, _)| first);
            *times = Some((first, now));
        }
    })?;
    let watched = watched(stage)?;
    let before = cpu_time(engine.map(|engine| &engine.process))?;
    let scheduler = stage.plane.scheduler(&Scheduler {
        name,
        engine: engine.map(|engine| engine.socket.clone()),
        elects: false,
    })?;
    let deadline = Instant::now() + Duration::from_secs(3600);
    // A pod's status changes after it is bound, too, but never before.
    while bound.load(Ordering::Relaxed) < count {
        if Instant::now() > deadline {
            return Err(format!(
                "{} of {count} pods were bound",
                bound.load(Ordering::Relaxed)
            ));
        }
        thread::sleep(Duration::from_millis(100));
    }
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let time = times.map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(Run {
        time,
        scheduler: scheduler.cpu_time()?,
        engine: cpu_time(engine.map(|engine| &engine.process))? - before,
        watched: self::watched(stage)? - watched,
    })
}

fn cpu_time(process: Option<&Process>) -> Result<Duration, String> {
    process.map_or(Ok(Duration::ZERO), Process::cpu_time)
}

/// Bytes of watch events so far.
fn watched(stage: &Stage) -> Result<f64, String> {
    let text = stage.admin.text("/metrics")?;
    let lines = text.lines();
    let lines = lines.filter(|line| line.starts_with("apiserver_watch_events_sizes_sum"));
    let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    Ok(values.sum())
}

/// Asks about pods as the plugin does.
fn ask_all(engine: &Engine, count: usize) -> Result<AllNames, String> {
    let mut client = engine.client()?;
    client.session()?;
    let mut ask = |number: usize, memory: usize| {
        let cpus = (1 + number % SHAPES).to_string();
        let memory = format!("{memory}Mi");
        let main = guaranteed("main", &[("cpu", &cpus), ("memory", &memory)]);
        let mut pod = pod(&format!("question-{number}"), "none", &[main]);
        pod["metadata"]["uid"] = json!(format!("question-{number}-{memory}"));
        pod["metadata"]["resourceVersion"] = json!("1");
        let answer = client
            .pre_filter(&pod)
            .map_err(|status| status.to_string())?;
        equal("nodes", answer.nodes.len(), count)
    };
    let mut measured = |memory: &dyn Fn(usize) -> usize| {
        let before = engine.buckets("PreFilter")?;
        (0..QUESTIONS).try_for_each(|number| ask(number, memory(number)))?;
        let asked = super::engine::difference(&engine.buckets("PreFilter")?, &before);
        Ok::<_, String>(super::engine::quantiles(&asked))
    };
    // More than are remembered.
    let new = measured(&|number| 1024 + number)?;
    measured(&|_| 512)?;
    let known = measured(&|_| 512)?;
    Ok(AllNames { known, new })
}

/// What must hold however slow the machine is: everything was bound, the engine stayed small, and few pods were woken.
pub(crate) fn check(measured: &Measured) -> Result<(), String> {
    let small = measured.memory < 300 << 20;
    equal("the engine stays below 300 MiB", small, true)?;
    let few = measured.woken.requeued <= waiting::MOST_WOKEN;
    equal("few pods are woken for one node", few, true)
}
