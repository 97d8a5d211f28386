//! Processes that no runtime knows: held to what a pod has while that changes, with what they start.

use std::fs;
use std::process::{Child, Command};

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::PodUid;

use super::options::Options;
use super::pods::PodPlan;
use super::rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::containerd::eventually;
use crate::programs::succeed;
use crate::report::{Report, Stop, equal};

/// Plays it.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    let mut scene = Scene::open(stage, &rules::kubelet("single-numa-node", "container"))?;
    let family = Family::start()?;
    let outcome = play(&mut scene, &family);
    if outcome.is_err() {
        scene.abandon();
    }
    report.check(
        "agent: a process and its children follow the shared CPUs after every change and restart",
        outcome,
    );
    Ok(())
}

fn play(scene: &mut Scene<'_>, family: &Family) -> Result<(), String> {
    let job = PodPlan::guaranteed("job", 200, 16);
    let uid = PodUid::from(job.uid().as_str());
    scene.oracle.admit(&job.object()?.pod)?;
    let (code, said) = scene.agent.ask("POST", "/v1/pods", &job.manifest())?;
    equal(&format!("job: {said}"), code, 201)?;
    let path = format!("/v1/pods/{uid}");
    let body = format!("{{\"pid\": {}}}", family.parent());
    let (code, said) = scene.agent.ask("POST", &format!("{path}/pin"), &body)?;
    equal(&format!("enforced: {said}"), code, 200)?;
    equal("method", said["method"].as_str(), Some("affinity"))?;
    family.is_on(&shared(scene))?;
    let is_in = scene.come(&PodPlan::guaranteed("own", 1000, 16), Known::Beforehand)?;
    equal("own is let in", is_in, true)?;
    family.is_on(&shared(scene))?;
    let online = scene.oracle.ledger().rules().machine().online().to_string();
    let mut other = Command::new("taskset");
    other.args(["-a", "-p", "-c", &online]);
    succeed(other.arg(family.parent().to_string()))?;
    family.is_on(&shared(scene))?;
    scene.start_again()?;
    scene.go("own")?;
    family.is_on(&shared(scene))?;
    let (code, said) = scene.agent.ask("DELETE", &path, "")?;
    equal(&format!("released: {said}"), code, 200)?;
    scene.oracle.release(&uid)?;
    scene.clear()
}

fn shared(scene: &Scene<'_>) -> CpuSet {
    scene.oracle.ledger().state().cpus().shared().clone()
}

/// A process with a child.
struct Family(Child);

impl Family {
    fn start() -> Result<Self, String> {
        let mut parent = Command::new("sh");
        parent.args(["-c", "sleep 1000000 & wait"]);
        let family = Self(parent.spawn().map_err(|error| error.to_string())?);
        eventually("it has a child", || !family.children().is_empty())?;
        Ok(family)
    }

    fn parent(&self) -> u32 {
        self.0.id()
    }

    fn children(&self) -> Vec<u32> {
        let parent = self.parent();
        let said = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let said = said.unwrap_or_default();
        said.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    }

    /// Waits until all of them may use these CPUs and no others.
    fn is_on(&self, cpus: &CpuSet) -> Result<(), String> {
        let mut found = Vec::new();
        eventually("the processes are where they should", || {
            let all = self.children().into_iter().chain([self.parent()]);
            found = all.map(allowed).collect();
            found.len() > 1 && found.iter().all(|one| one.as_ref() == Some(cpus))
        })
        .map_err(|problem| format!("{problem}: expected {cpus}, found {found:?}"))
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for child in self.children() {
            let _ = succeed(Command::new("kill").arg(child.to_string()));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The CPUs that a process may use, by the kernel's word.
fn allowed(pid: u32) -> Option<CpuSet> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let list = |line: &str| line.strip_prefix("Cpus_allowed_list:").map(str::to_owned);
    let list = status.lines().find_map(list)?;
    list.trim().parse().ok()
}
