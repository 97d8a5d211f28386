//! The suite of the cluster: a real kube-scheduler with the plugin Pinfold, and kubelets.
//!
//! ```text
//! etcd ◄─ kube-apiserver ◄─┬─ kube-controller-manager
//!                          ├─ kube-scheduler "stock"
//!                          ├─ pinfold-kube-scheduler "pinfold" ──► engine: pinfold-scheduler ─┐
//!                          ◄──────────────────────────────────────────────────────────────────┘
//!                          ├─ played kubelets: ledgers of the core in exact mode
//!                          └─ a guest with two NUMA nodes: kubelet, containerd, pinfold-agent
//! ```

mod admission;
pub(crate) mod dialects;
mod engine;
mod engine_client;
mod faults;
mod filters;
mod in_flight;
mod kills;
pub(crate) mod kubelets;
mod machines;
pub(crate) mod node;
pub(crate) mod played;
pub(crate) mod pods;
mod preemption;
mod random;
mod real;
mod replicas;
mod scale;
pub(crate) mod stage;
mod stories;
mod watch;

use std::fs;
use std::path::Path;

use engine::Engine;
use replicas::Scene;
use stage::Stage;

use crate::control_plane::{Process, Scheduler};
use crate::programs;
use crate::report::{Report, Runs, Stop, say};

/// The name of the scheduler that is alone.
const STOCK: &str = "stock";
/// The name of the scheduler with the plugin.
const OURS: &str = "pinfold";

/// Names stories to play, separated by commas, instead of all.
const ONLY: &str = "PINFOLD_E2E_STORIES";

/// The size in which the suite shows that many nodes and pods work; `make bench-cluster` measures the full one.
const SMALL: scale::Size = scale::Size {
    nodes: 500,
    pods: 500,
};
/// What a cluster of Kubernetes may have at most.
const FULL: scale::Size = scale::Size {
    nodes: 5000,
    pods: 10_000,
};
/// Another size than the full one, for who looks for what takes time: `NODES,PODS`. It is not written down.
const SIZE: &str = "SIZE";

/// Runs the stories.
pub(crate) fn run(report: &mut Report) {
    on_stage(report, stories);
}

/// Measures the full size, and writes the page about it.
pub(crate) fn bench(report: &mut Report) {
    on_stage(report, |report, stage| {
        let size = size()?;
        let program = programs::release_program(programs::SCHEDULER)?;
        let measured = scale::measure(stage, &program, size)?;
        let text = measured.markdown();
        say(&text);
        report.check("cluster: measured", scale::check(&measured));
        match size == FULL {
            true => scale::page::write(&text),
            false => Ok(()),
        }
    });
}

fn size() -> Result<scale::Size, String> {
    let Ok(text) = std::env::var(SIZE) else {
        return Ok(FULL);
    };
    let numbers = text
        .split_once(',')
        .and_then(|(nodes, pods)| Some((nodes.parse().ok()?, pods.parse().ok()?)));
    let (nodes, pods) = numbers.ok_or(format!("{SIZE}={text}: expected NODES,PODS"))?;
    Ok(scale::Size { nodes, pods })
}

fn on_stage(report: &mut Report, play: impl Fn(&mut Report, &mut Stage) -> Result<(), String>) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-cluster-{}", std::process::id()));
    let outcome = Stage::build(&folder).and_then(|mut stage| play(report, &mut stage));
    if let Err(problem) = outcome {
        report.check("cluster", Err(problem));
    }
    keep_logs(&folder, "cluster-logs");
    let _ = fs::remove_dir_all(&folder);
}

/// Logs stay in the folder of all logs.
pub(crate) fn keep_logs(folder: &Path, name: &str) {
    let kept = programs::folder().join(name);
    let _ = fs::remove_dir_all(&kept);
    let _ = fs::create_dir_all(&kept);
    for log in fs::read_dir(folder.join("logs"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let _ = fs::copy(log.path(), kept.join(log.file_name()));
    }
}

/// Our scheduler: the engine, and kube-scheduler with the plugin.
pub(crate) struct OurScheduler {
    pub(crate) engine: Engine,
    pub(crate) scheduler: Process,
}

impl OurScheduler {
    /// Starts both, for pods that ask for this name.
    pub(crate) fn start(stage: &Stage, program: &Path, name: &'static str) -> Result<Self, String> {
        let engine = Engine::start(&stage.plane, program, name)?;
        let scheduler = kube_scheduler(stage, &engine, name)?;
        Ok(Self { engine, scheduler })
    }

    /// Kills kube-scheduler and starts it again.
    pub(crate) fn restart_scheduler(
        &mut self,
        stage: &Stage,
        name: &'static str,
    ) -> Result<(), String> {
        self.scheduler.kill();
        self.scheduler = kube_scheduler(stage, &self.engine, name)?;
        Ok(())
    }
}

fn kube_scheduler(stage: &Stage, engine: &Engine, name: &'static str) -> Result<Process, String> {
    stage.plane.scheduler(&Scheduler {
        name,
        engine: Some(engine.socket.clone()),
        elects: false,
    })
}

/// Runs a story unless others were asked for.
fn story(report: &mut Report, name: &str, run: impl FnOnce(&mut Report) -> Result<(), String>) {
    let names = std::env::var(ONLY).unwrap_or_default();
    let is_wanted = names.is_empty() || names.split(',').any(|one| one == name);
    report.theme(
        format_args!("cluster: {name}"),
        Runs::Must,
        |report| match is_wanted {
            true => Ok(run(report)?),
            false => Err(Stop::Skip(format!("{ONLY} names others"))),
        },
    );
}

fn stories(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    let _stock = stage.plane.scheduler(&Scheduler {
        name: STOCK,
        engine: None,
        elects: false,
    })?;
    let program = programs::debug_program(programs::SCHEDULER)?;
    let mut ours = OurScheduler::start(stage, &program, OURS)?;
    story(report, "replicas", |report| played_replicas(report, stage));
    story(report, "random", |report| {
        random::run(report, stage, OURS);
        Ok(())
    });
    story(report, "stories", |report| {
        stories::run(report, stage, OURS);
        Ok(())
    });
    story(report, "preemption", |report| {
        preemption::run(report, stage, OURS);
        Ok(())
    });
    story(report, "in-flight", |report| {
        in_flight::run(report, stage, [STOCK, OURS]);
        Ok(())
    });
    story(report, "kills", |report| {
        kills::run(report, stage, &mut ours, OURS);
        Ok(())
    });
    story(report, "dialects", |report| {
        dialects::run(report, stage, OURS);
        Ok(())
    });
    story(report, "faults", |report| {
        faults::run(report, stage, &mut ours, &program);
        Ok(())
    });
    story(report, "real", |report| {
        real::run(report, stage, [STOCK, OURS]);
        Ok(())
    });
    story(report, "filters", |report| {
        filters::run(report, stage, STOCK)
    });
    story(report, "admission", |report| admission::run(report, stage));
    story(report, "scale", |report| {
        drop(ours);
        let measured = scale::measure(stage, &program, SMALL)?;
        say(measured.markdown());
        let outcome = scale::check(&measured);
        report.check(
            "cluster: 500 nodes and 500 pods, a full node, and pods that wait for one node",
            outcome,
        );
        Ok(())
    });
    Ok(())
}

/// Runaway replicas on a played kubelet, which shows what the real one is shown for.
fn played_replicas(report: &mut Report, stage: &Stage) -> Result<(), String> {
    let machine = "2 sockets, 4 cores, mem=16Gi";
    let node = machines::node("played", machine, "single-numa-node", "container")?;
    stage.kubelets.join(&stage.admin, vec![node])?;
    let scene = Scene {
        title: "cluster: played kubelet",
        node: "played",
        neighbours: 2,
        replica: 3,
    };
    replicas::run(report, stage, &scene, [STOCK, OURS]);
    stage.kubelets.forget_rejected();
    stage.kubelets.leave(&stage.admin, &["played"])
}
