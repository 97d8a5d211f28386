//! The agent is killed again and again while containers come and go, and nothing is lost, doubled or left behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pinfold_core::cpu_set::CpuSet;
use pinfold_journal::FILE;
use pinfold_journal::JournalHistory;
use serde_json::Value;

use super::chance::Chance;
use super::kernel::Groups;
use super::options::Options;
use super::oracle;
use super::pods::{ContainerPlan, PodPlan};
use super::process::{Agent, Setup, journal};
use super::rules;
use super::stage::Stage;
use crate::containerd::cri::{Cri, FOREVER, Pod};
use crate::containerd::eventually;
use crate::report::{Report, Stop, equal, say};

/// Kills between two looks at everything.
const BATCH: u32 = 25;
/// The longest that an agent lives in this story, in milliseconds: long enough to be connected and work, now and then.
const LIFE: u64 = 350;
/// How long an agent lives at most that is killed at its next journal write.
const LONG_LIFE: Duration = Duration::from_secs(5);
/// Pods at a time.
const CROWD: usize = 4;

/// Plays it.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, options: &Options) -> Result<(), Stop> {
    let folder = stage.fresh();
    let setup = stage.setup(&folder, &rules::kubelet("single-numa-node", "container"));
    say(format_args!("agent: crashes with seed {}", options.seed));
    let mut chance = Chance::new(options.seed);
    let mut crowd = Crowd::new(stage)?;
    let mut left = options.kills;
    let mut outcome = Ok(());
    while left > 0 && outcome.is_ok() {
        let kills = left.min(BATCH);
        left -= kills;
        outcome = batch(stage, &setup, &folder, &mut crowd, &mut chance, kills);
    }
    let outcome = outcome.and_then(|()| the_end(stage, &setup, &folder, &mut crowd));
    crowd.leave();
    report.check(
        format_args!(
            "agent: after {} kills at random moments no CPU is held twice, none is lost, every container is in place",
            options.kills - left
        ),
        outcome,
    );
    report.check(
        "agent: containers came and went meanwhile",
        match crowd.came {
            0 => Err("none did".to_owned()),
            came => {
                say(format_args!("agent: {came} containers came meanwhile"));
                Ok(())
            }
        },
    );
    Ok(())
}

/// When an agent is killed.
#[derive(Clone, Copy, Debug)]
enum End {
    /// After a time.
    After(Duration),
    /// As soon as it has written to its journal: the runtime has not got the answer yet, or just so.
    AtWrite,
}

impl End {
    fn random(chance: &mut Chance) -> Self {
        match chance.below(2) {
            0 => Self::After(Duration::from_millis(chance.below(LIFE))),
            _ => Self::AtWrite,
        }
    }

    fn wait(self, state: &Path) {
        match self {
            Self::After(life) => thread::sleep(life),
            Self::AtWrite => {
                let begin = Instant::now();
                let written = || journal(state).unwrap_or_default().len();
                let before = written();
                while written() == before && begin.elapsed() < LONG_LIFE {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

/// Some kills while the crowd moves, and then a look at everything.
fn batch(
    stage: &Stage,
    setup: &Setup,
    folder: &Path,
    crowd: &mut Crowd,
    chance: &mut Chance,
    kills: u32,
) -> Result<(), String> {
    let ends: Vec<End> = (0..kills).map(|_| End::random(chance)).collect();
    let killed = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            for end in ends {
                let mut agent = Agent::spawn(&stage.agent_program, setup, folder)?;
                end.wait(&setup.state);
                agent.kill();
            }
            Ok::<_, String>(())
        });
        while !killer.is_finished() {
            crowd.moves(chance);
        }
        killer
            .join()
            .unwrap_or_else(|_| Err("the killer fell".to_owned()))
    });
    killed?;
    let agent = stage.agent(setup, folder)?;
    settled(&agent, setup, &stage.groups, crowd)
}

/// Stops all pods, and checks that every CPU is free.
fn the_end(stage: &Stage, setup: &Setup, folder: &Path, crowd: &mut Crowd) -> Result<(), String> {
    let agent = stage.agent(setup, folder)?;
    crowd.leave();
    settled(&agent, setup, &stage.groups, crowd)?;
    let pods = agent.ask("GET", "/v1/pods", "")?.1;
    equal("pods at the end", pods, Value::Array(Vec::new()))
}

/// Waits until everything is as it should be.
pub(crate) fn settled(
    agent: &Agent,
    setup: &Setup,
    groups: &Groups,
    crowd: &Crowd,
) -> Result<(), String> {
    let mut problem = String::new();
    eventually("everything is in place", || {
        match in_place(agent, setup, groups, crowd) {
            Ok(()) => true,
            Err(found) => {
                problem = found;
                false
            }
        }
    })
    .map_err(|waited| format!("{waited}: {problem}"))
}

/// Whether journal, API and kernel agree.
pub(crate) fn in_place(
    agent: &Agent,
    setup: &Setup,
    groups: &Groups,
    crowd: &Crowd,
) -> Result<(), String> {
    let status = agent.status()?;
    let shared = set(&status["occupancy"]["shared"])?;
    let pods = agent.ask("GET", "/v1/pods", "")?.1;
    let path = setup.state.join(FILE);
    let history = JournalHistory::read(&path).map_err(|error| error.to_string())?;
    let ledger = history.ledger(&path).map_err(|error| error.to_string())?;
    if let Some(finding) = ledger.audit().first() {
        return Err(format!("the books do not balance: {finding}"));
    }
    equal(
        "shared CPUs in the journal",
        ledger.state().cpus().shared(),
        &shared,
    )?;
    let mut held = shared.clone();
    let mut own = BTreeMap::new();
    for pod in pods.as_array().into_iter().flatten() {
        let uid = pod["uid"].as_str().unwrap_or_default().to_owned();
        for container in pod["containers"].as_array().into_iter().flatten() {
            if container["exclusiveCpus"] != true {
                continue;
            }
            let cpus = set(&container["cpus"])?;
            if !held.is_disjoint(&cpus) {
                return Err(format!("CPUs {cpus} of {uid} are held twice: {pods}"));
            }
            held |= &cpus;
            own.insert(uid.clone(), cpus);
        }
    }
    let (machine, _) = oracle::machine()?;
    equal("CPUs that are shared or held", &held, machine.online())?;
    for here in &crowd.here {
        let seen = groups.look(&here.group)?;
        let expected = own.remove(&format!("{}/main", here.plan.uid()));
        let expected = expected.as_ref().unwrap_or(&shared);
        equal(&format!("CPUs of {}", here.plan.name), &seen.cpus, expected)?;
    }
    match own.first_key_value() {
        None => Ok(()),
        Some((uid, cpus)) => Err(format!("{uid} holds CPUs {cpus} and does not run")),
    }
}

fn set(list: &Value) -> Result<CpuSet, String> {
    let list = list.as_str().unwrap_or_default();
    list.parse().map_err(|error| format!("{list:?}: {error}"))
}

/// Pods that start and stop while the agent is killed.
pub(crate) struct Crowd {
    cri: Cri,
    root: String,
    prefix: &'static str,
    pub(crate) here: Vec<Here>,
    made: u32,
    pub(crate) came: u32,
    /// How often the runtime or the agent rejected a pod.
    pub(crate) turned_away: u32,
}

/// A pod with one container.
pub(crate) struct Here {
    plan: PodPlan,
    pod: Pod,
    group: String,
}

impl Crowd {
    /// No pod yet.
    pub(crate) fn new(stage: &Stage) -> Result<Self, String> {
        Ok(Self {
            cri: stage.runtime.connect()?,
            root: stage.runtime.cgroup().to_owned(),
            prefix: stage.runtime.prefix(),
            here: Vec::new(),
            made: 0,
            came: 0,
            turned_away: 0,
        })
    }

    /// Starts or stops a pod.
    pub(crate) fn moves(&mut self, chance: &mut Chance) {
        if self.here.len() >= CROWD || (!self.here.is_empty() && chance.below(3) == 0) {
            let at = chance.below(u64::try_from(self.here.len()).unwrap_or(1));
            let gone = self.here.remove(usize::try_from(at).unwrap_or(0));
            let _ = self.cri.remove(&gone.pod);
            return;
        }
        let milli = chance.one_of(&[1000, 1000, 2000, 300, 0]);
        if self.comes(milli).is_err() {
            self.turned_away += 1;
        }
    }

    /// A pod comes that asks for so much CPU, guaranteed; a best-effort one if for none.
    pub(crate) fn comes(&mut self, milli: i64) -> Result<(), String> {
        self.made += 1;
        let name = format!("crowd-{}", self.made);
        let memory = if milli > 0 { 8 } else { 0 };
        let main = ContainerPlan::guaranteed("main", milli, memory);
        let resources = main.resources();
        let plan = PodPlan::new(&name, vec![main]);
        let pod = self.cri.run(plan.sandbox(&self.root, 0)?)?;
        let started = self
            .cri
            .create_as(&pod, "main", 0, resources, &FOREVER)
            .and_then(|id| self.cri.start_container(&id).map(|()| id));
        match started {
            Ok(id) => {
                self.came += 1;
                let group = format!("{}/{}{id}", plan.group(&self.root)?, self.prefix);
                self.here.push(Here { plan, pod, group });
                Ok(())
            }
            Err(problem) => {
                let _ = self.cri.remove(&pod);
                Err(problem)
            }
        }
    }

    /// Stops all pods.
    pub(crate) fn leave(&mut self) {
        for gone in self.here.drain(..) {
            let _ = self.cri.remove(&gone.pod);
        }
    }
}
