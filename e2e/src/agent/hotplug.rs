//! CPUs that go offline and come back: their containers move, and the other containers are updated.

use std::path::PathBuf;

use pinfold_core::cpu_set::{CpuId, CpuSet};

use super::kernel::write;
use super::options::Options;
use super::pods::{ContainerPlan, PodPlan};
use super::rules::kubelet as rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::containerd::eventually;
use crate::report::{Report, Stop, equal};

/// Runs the theme.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    let mut scene = Scene::open(stage, &rules("restricted", "container"))?;
    let mut offline = Offline(None);
    let outcome = play(&mut scene, &mut offline);
    drop(offline);
    if outcome.is_err() {
        scene.abandon();
    }
    report.check(
        "agent: containers on a CPU that goes offline move, and pools shrink and grow",
        outcome,
    );
    Ok(())
}

/// A CPU that is offline as long as this value is there.
struct Offline(Option<CpuId>);

impl Offline {
    fn take(&mut self, cpu: CpuId) -> Result<(), String> {
        self.0 = Some(cpu);
        write(&switch(cpu), "0")
    }

    fn give_back(&mut self) -> Result<(), String> {
        match self.0.take() {
            Some(cpu) => write(&switch(cpu), "1"),
            None => Ok(()),
        }
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = self.give_back();
    }
}

fn switch(cpu: CpuId) -> PathBuf {
    format!("/sys/devices/system/cpu/cpu{cpu}/online").into()
}

fn play(scene: &mut Scene<'_>, offline: &mut Offline) -> Result<(), String> {
    let shares = ContainerPlan::between("main", (100, 200), (0, 0));
    for plan in [
        PodPlan::guaranteed("mover", 2000, 16),
        PodPlan::guaranteed("stays", 2000, 16),
        PodPlan::new("shares", vec![shares]),
    ] {
        equal("let in", scene.come(&plan, Known::Beforehand)?, true)?;
    }
    let stays = allowed(scene, "stays")?;
    let before = allowed(scene, "mover")?;
    let all = &(&allowed(scene, "shares")? | &before) | &stays;
    let victim = before.iter().last().ok_or("no CPU")?;
    let generation = scene.agent.status()?["generation"].as_u64();

    offline.take(victim)?;
    settles(scene, &(&all - &CpuSet::single(victim)), 2)?;
    equal("who was not there", allowed(scene, "stays")?, stays)?;
    let later = scene.agent.status()?["generation"].as_u64();
    equal("the journal has it", later > generation, true)?;
    let log = scene.agent.log();
    let logged = log
        .iter()
        .any(|line| line["message"] == "rules changed: pods were placed by the new rules");
    equal("the log has it", logged, true)?;

    offline.give_back()?;
    settles(scene, &all, 2)?;
    scene.clear()
}

/// What the kernel lets the container of a pod use.
fn allowed(scene: &Scene<'_>, pod: &str) -> Result<CpuSet, String> {
    let running = scene.running.iter().find(|one| one.plan.name == pod);
    let container = running.and_then(|one| one.containers.first());
    let group = &container.ok_or("no such container")?.group;
    Ok(scene.stage.groups.look(group)?.cpus)
}

/// Waits until two pods have as many exclusive CPUs as requested, the third all others, and the agent reports the same.
fn settles(scene: &Scene<'_>, online: &CpuSet, count: usize) -> Result<(), String> {
    let mut wrong = String::new();
    let is_so = || -> Result<(), String> {
        let [mover, stays] = [allowed(scene, "mover")?, allowed(scene, "stays")?];
        let shares = allowed(scene, "shares")?;
        equal("CPUs of one", mover.len(), count)?;
        equal("CPUs of the other", stays.len(), count)?;
        equal("in common", mover.is_disjoint(&stays), true)?;
        equal("shared", &shares, &(&(online - &mover) - &stays))?;
        let status = scene.agent.status()?;
        let logged = status["occupancy"]["shared"].as_str().unwrap_or_default();
        equal(
            "shared CPUs in the agent's status",
            logged,
            &shares.to_string(),
        )
    };
    let settled = eventually("every container is on CPUs that are online", || {
        let outcome = is_so();
        wrong = outcome.clone().err().unwrap_or_default();
        outcome.is_ok()
    });
    settled.map_err(|problem| {
        let log = scene.agent.log();
        let last: Vec<String> = log.iter().rev().take(8).map(ToString::to_string).collect();
        format!("{problem}: {wrong}\n{}", last.join("\n"))
    })
}
