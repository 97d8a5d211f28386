//! Thousands of pods wait for one node, and a place for one of them becomes free.

use std::path::Path;
use std::thread;
use std::time::Duration;

use super::super::engine::Engine;
use super::super::machines;
use super::super::pods::{PODS, cpus, pod};
use super::super::stage::{Stage, eventually};
use super::by_hands;
use crate::control_plane::Scheduler;
use crate::report::equal;

const NAME: &str = "waiting";
const REQUEUED: &str = "pinfold_requeued_pods_total";
/// The most pods that may be woken for one place.
pub(super) const MOST_WOKEN: f64 = 64.0;

/// What it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    pub(crate) waiting: usize,
    /// Pods that the engine moved to the active queue.
    pub(crate) requeued: f64,
    /// How often kube-scheduler asked about a pod after that.
    pub(crate) attempts: f64,
}

pub(super) fn measure(stage: &Stage, program: &Path, count: usize) -> Result<Woken, String> {
    let text = "2 sockets, 8 cores, mem=16Gi";
    let node = machines::node("wanted", text, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    let engine = Engine::start(&stage.plane, program, NAME)?;
    let _scheduler = stage.plane.scheduler(&Scheduler {
        name: NAME,
        engine: Some(engine.socket.clone()),
        elects: false,
    })?;
    // Three and four CPUs are left: in sum enough for one of those that wait.
    for name in ["left", "right"] {
        stage.create(&pod(name, NAME, &[cpus(4)]))?;
        stage.runs(name)?;
    }
    let before = engine.count("PreFilter")?;
    by_hands(stage, count, |admin, number| {
        let mut pod = pod(&format!("waits-{number}"), NAME, &[cpus(5)]);
        pod["spec"]["hostNetwork"] = false.into();
        admin.expect("POST", PODS, Some(&pod)).map(drop)
    })?;
    let all = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    eventually("all pods were tried", || {
        let tried = engine.count("PreFilter")? - before;
        equal("all tried", tried >= all, true)
    })?;
    // Until nothing is tried any more.
    let mut last = -1.0;
    eventually("the queue is calm", || {
        thread::sleep(Duration::from_secs(2));
        let now = engine.count("PreFilter")?;
        let is_calm = now <= last;
        last = now;
        equal("calm", is_calm, true)
    })?;
    let requeued = || Ok::<_, String>(engine.metrics()?.get(REQUEUED).copied().unwrap_or(0.0));
    let requeued_before = requeued()?;
    stage.delete("left")?;
    eventually("one of them runs", || {
        equal("pods", stage.kubelets.settled().0, 2)
    })?;
    // Later seconds would wake others, if they did.
    thread::sleep(Duration::from_secs(5));
    let woken = Woken {
        waiting: count,
        requeued: requeued()? - requeued_before,
        attempts: engine.count("PreFilter")? - last,
    };
    super::super::faults::none_rejected(stage)?;
    stage.clear()?;
    stage.kubelets.leave(&stage.admin, &["wanted"])?;
    Ok(woken)
}
