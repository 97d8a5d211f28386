//! The suite of the agent with CRI-O: themes of the suite with containerd, and what CRI-O does otherwise.
//!
//! CRI-O does not block requests while a plugin connects, leaves containers that it is creating out of its list, and lists
//! stopped pods with the pid of a running one: 0.

mod daemon;

use std::fs;
use std::path::Path;
use std::thread;

use daemon::{Crio, VERSION};

use crate::agent::chance::Chance;
use crate::agent::crashes::{self, Crowd};
use crate::agent::options::Options;
use crate::agent::pods::{ContainerPlan, PodPlan};
use crate::agent::process::{Agent, Setup, journal};
use crate::agent::stage::{Stage, end_of};
use crate::agent::{self, programs, rules};
use crate::containerd::cri::{FOREVER, Pod, Resources};
use crate::containerd::eventually;
use crate::report::{Report, equal, say};

/// How often the agent is killed while a container is created.
const KILLS: u32 = 40;

/// Runs everything on this machine. `PINFOLD_E2E_AGENT_SEED=N` repeats the kills of a seed.
pub(crate) fn run(report: &mut Report) {
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-crio-{}", std::process::id()));
    let outcome = stage(&folder).and_then(|mut stage| {
        stories(report, &mut stage)?;
        // Cleaned up after every failure too.
        stage.cri.remove_everything()
    });
    if let Err(problem) = outcome {
        let log = end_of(&folder.join("crio.log"));
        report.check("crio", Err(format!("{problem}\n{log}")));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn stage(folder: &Path) -> Result<Stage, String> {
    let programs = programs::folder()?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (crio, cri) = Crio::start(folder, &programs.join("runc"))?;
    Ok(Stage::with(Box::new(crio), cri, &programs, folder))
}

fn stories(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    let seed = match std::env::var("PINFOLD_E2E_AGENT_SEED") {
        Ok(seed) => seed,
        Err(_) => agent::fresh_seed()?.to_string(),
    };
    report.check(
        format_args!("crio: the agent registers with CRI-O {VERSION} at the first attempt"),
        registers(stage),
    );
    report.check(
        "crio: an agent killed while a container is created gives no CPU twice and leaves nothing unpinned",
        killed_during_creations(stage, &seed),
    );
    for dialect in ["kubelet", "koordinator"] {
        report.check(
            format_args!("crio: in dialect {dialect} a stopped pod takes nothing back when the agent or CRI-O restarts"),
            stopped_pods_hold_nothing(stage, dialect),
        );
    }
    report.check(
        "crio: a resize of exclusive CPUs is rejected, and another one changes no CPUs",
        resizes(stage),
    );
    let words = [
        "only=koordinator,drift,crashes".to_owned(),
        "kills=50".to_owned(),
        format!("seed={seed}"),
    ];
    agent::play(report, stage, &Options::read(&words)?);
    Ok(())
}

fn registers(stage: &mut Stage) -> Result<(), String> {
    let (agent, _, _) = started(stage, "kubelet")?;
    let connected: Vec<String> = agent
        .log()
        .iter()
        .filter(|line| line["message"] == "container runtime connected")
        .map(|line| format!("{} {}", line["runtime"], line["version"]))
        .map(|text| text.replace('"', ""))
        .collect();
    equal("connections", connected, vec![format!("cri-o {VERSION}")])?;
    let log = fs::read_to_string(stage.runtime.log()).map_err(|error| error.to_string())?;
    equal(
        "events that CRI-O lacks",
        log.contains("invalid plugin events"),
        false,
    )
}

/// An agent that begins with nothing, its setup and its folder.
fn started(
    stage: &mut Stage,
    dialect: &'static str,
) -> Result<(Agent, Setup, std::path::PathBuf), String> {
    let folder = stage.fresh();
    let mut setup = stage.setup(&folder, &rules::kubelet("single-numa-node", "container"));
    setup.dialect = dialect;
    let agent = stage.agent(&setup, &folder)?;
    Ok((agent, setup, folder))
}

/// The agent is killed as soon as it has journaled a container that CRI-O creates, and starts while CRI-O goes on.
fn killed_during_creations(stage: &mut Stage, seed: &str) -> Result<(), String> {
    say(format_args!("crio: kills with seed {seed}"));
    let seed = seed
        .parse()
        .map_err(|_| format!("{seed}: expected a number"))?;
    let mut chance = Chance::new(seed);
    let (mut agent, setup, folder) = started(stage, "kubelet")?;
    let mut crowd = Crowd::new(stage)?;
    let mut outcome = Ok(());
    for _ in 0..KILLS {
        let before = journal(&setup.state)?.len();
        let killed = thread::scope(|scope| {
            let moves = scope.spawn(|| {
                for _ in 0..3 {
                    crowd.moves(&mut chance);
                }
            });
            while !moves.is_finished() && journal(&setup.state)?.len() == before {
                thread::yield_now();
            }
            agent.kill();
            agent = Agent::spawn(&stage.agent_program, &setup, &folder)?;
            moves.join().map_err(|_| "the client fell".to_owned())
        });
        outcome = killed
            .and_then(|()| agent.wait_until_connected())
            .and_then(|()| crashes::settled(&agent, &setup, &stage.groups, &crowd));
        if outcome.is_err() {
            break;
        }
    }
    crowd.leave();
    let came = crowd.came;
    say(format_args!("crio: {came} containers came"));
    outcome.and_then(|()| match came {
        0 => Err("no container came".to_owned()),
        _ => Ok(()),
    })
}

/// A pod of one container with an exclusive CPU.
fn own_cpu(name: &str) -> PodPlan {
    PodPlan::new(name, vec![ContainerPlan::guaranteed("main", 1000, 16)])
        .label("koordinator.sh/qosClass", "LSR")
}

/// Runs a pod. Returns it with its container's id and control group.
fn runs(stage: &Stage, plan: &PodPlan) -> Result<(Pod, String, String), String> {
    let root = stage.runtime.cgroup();
    let pod = stage.cri.run(plan.sandbox(root, 0)?)?;
    let main = plan.containers.first().ok_or("no container")?;
    let started = stage
        .cri
        .create_as(&pod, "main", 0, main.resources(), &FOREVER)
        .and_then(|id| stage.cri.start_container(&id).map(|()| id));
    let id = started.inspect_err(|_| drop(stage.cri.remove(&pod)))?;
    let group = stage.runtime.group(&plan.group(root)?, &id);
    Ok((pod, id, group))
}

/// The machine has one CPU for each of the pods, or two: all are taken, and the pods are stopped and not removed.
fn stopped_pods_hold_nothing(stage: &mut Stage, dialect: &'static str) -> Result<(), String> {
    let (mut agent, setup, folder) = started(stage, dialect)?;
    let mut pods = Vec::new();
    let outcome = (|| {
        let mut number = 0;
        loop {
            number += 1;
            match runs(stage, &own_cpu(&format!("stopped-{dialect}-{number}"))) {
                Ok((pod, ..)) => pods.push(pod),
                Err(problem) if problem.contains("Pinfold") && !pods.is_empty() => break,
                Err(problem) => return Err(problem),
            }
        }
        for pod in &pods {
            stage.cri.stop_pod(&pod.id)?;
        }
        agent.kill();
        agent = stage.agent(&setup, &folder)?;
        holds_nothing(&agent)?;
        stage.runtime.stop();
        eventually("the agent misses its runtime", || {
            let status = agent.status();
            status.is_ok_and(|status| status["runtimeConnected"] == false)
        })?;
        stage.runtime.start_again()?;
        stage.runtime.wait_for(&stage.cri)?;
        agent.wait_until_connected()?;
        holds_nothing(&agent)?;
        for number in 0..pods.len() {
            pods.push(runs(stage, &own_cpu(&format!("next-{dialect}-{number}")))?.0);
        }
        Ok(())
    })();
    for pod in &pods {
        let _ = stage.cri.remove(pod);
    }
    outcome
}

fn holds_nothing(agent: &Agent) -> Result<(), String> {
    let mut left = String::new();
    eventually("nothing is held", || {
        let pods = agent.ask("GET", "/v1/pods", "");
        left = format!("{pods:?}");
        pods.is_ok_and(|(_, pods)| pods.as_array().is_some_and(Vec::is_empty))
    })
    .map_err(|problem| format!("{problem}: {left}"))
}

fn resizes(stage: &mut Stage) -> Result<(), String> {
    let (_agent, _, _) = started(stage, "kubelet")?;
    let (own, own_id, own_group) = runs(stage, &own_cpu("resized"))?;
    let shared = PodPlan::new(
        "sharing",
        vec![ContainerPlan::between("main", (100, 200), (16, 16))],
    );
    let shared = runs(stage, &shared);
    let (shared, shared_id, shared_group) = shared.inspect_err(|_| drop(stage.cri.remove(&own)))?;
    let outcome = (|| {
        let before = stage.groups.look(&own_group)?.cpus;
        let more = Resources {
            cpu_period: 100_000,
            cpu_quota: 200_000,
            cpu_shares: 2048,
            ..Resources::default()
        };
        let rejected = stage.cri.update_resources(&own_id, more);
        let problem = rejected
            .err()
            .ok_or("a resize of exclusive CPUs was accepted")?;
        equal(&problem, problem.contains("exclusive CPUs"), true)?;
        equal("CPUs", stage.groups.look(&own_group)?.cpus, before)?;
        let before = stage.groups.look(&shared_group)?.cpus;
        let more = Resources {
            cpu_period: 100_000,
            cpu_quota: 50_000,
            cpu_shares: 512,
            ..Resources::default()
        };
        stage.cri.update_resources(&shared_id, more)?;
        equal(
            "shared CPUs",
            stage.groups.look(&shared_group)?.cpus,
            before,
        )
    })();
    stage.cri.remove(&own)?;
    stage.cri.remove(&shared)?;
    outcome
}
