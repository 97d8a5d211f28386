//! Exclusive CPUs as a cpuset partition, on which the kernel schedules no other process.

use std::fs;
use std::path::Path;

use pinfold_core::cpu_set::CpuSet;

use super::options::Options;
use super::pods::{ContainerPlan, PodPlan};
use super::rules::kubelet as rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::containerd::eventually;
use crate::report::{Report, Stop, equal};

const ROOT: &str = "/sys/fs/cgroup";

/// Runs the theme on a machine with cgroup v2.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    if !Path::new(ROOT).join("cgroup.controllers").exists() {
        return Err(Stop::Skip("cpuset partitions need cgroup v2".to_owned()));
    }
    let folder = stage.fresh();
    let mut setup = stage.setup(&folder, &rules("restricted", "container"));
    setup.more = "cgroups: {checkInterval: 1s, partitions: isolated}".to_owned();
    let mut scene = Scene::with(stage, &setup, &folder)?;
    let outcome = play(&mut scene);
    if outcome.is_err() {
        scene.abandon();
    }
    report.check(
        "agent: exclusive CPUs are isolated from all other processes until the container ends",
        outcome,
    );
    Ok(())
}

fn play(scene: &mut Scene<'_>) -> Result<(), String> {
    let before = effective(ROOT)?;
    let shares = ContainerPlan::between("main", (100, 200), (0, 0));
    for plan in [
        PodPlan::new("shares", vec![shares]),
        PodPlan::guaranteed("first", 2000, 16),
        PodPlan::guaranteed("second", 3000, 16),
    ] {
        equal("let in", scene.come(&plan, Known::Beforehand)?, true)?;
    }
    let groups: Vec<(String, String)> = scene
        .running
        .iter()
        .flat_map(|pod| {
            pod.containers
                .iter()
                .map(|one| (pod.plan.name.clone(), one))
        })
        .map(|(pod, one)| (pod, format!("{ROOT}{}", one.group)))
        .collect();
    let mut found = Vec::new();
    let isolated = eventually("both are partitions", || {
        found = groups
            .iter()
            .map(|(pod, group)| (pod, kind(group)))
            .collect();
        found.iter().all(|(pod, kind)| match pod.as_str() {
            "shares" => kind == "member",
            _ => kind == "isolated",
        })
    });
    let problems = scene.agent.status()?["problems"].to_string();
    isolated.map_err(|problem| format!("{problem}: {found:?}, {problems}"))?;
    equal("problems", problems.as_str(), "[]")?;
    let mut rest = before.clone();
    for (_, group) in groups.iter().filter(|(pod, _)| pod != "shares") {
        rest = &rest - &effective(group)?;
    }
    equal("CPUs of all other processes", effective(ROOT)?, rest)?;
    scene.check()?;
    for name in ["first", "second", "shares"] {
        scene.go(name)?;
    }
    eventually("all CPUs are shared again", || {
        effective(ROOT).is_ok_and(|now| now == before)
    })?;
    let kubepods = format!("{ROOT}{}/kubepods", scene.stage.runtime.cgroup());
    eventually("nothing is claimed", || {
        let claims = fs::read_to_string(format!("{kubepods}/cpuset.cpus.exclusive"));
        claims.is_ok_and(|claims| claims.trim().is_empty())
    })?;
    scene.clear()
}

fn kind(group: &str) -> String {
    let text = fs::read_to_string(format!("{group}/cpuset.cpus.partition"));
    text.unwrap_or_else(|error| error.to_string())
        .trim()
        .to_owned()
}

fn effective(group: &str) -> Result<CpuSet, String> {
    let path = format!("{group}/cpuset.cpus.effective");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    text.trim()
        .parse()
        .map_err(|error| format!("{path}: {error}"))
}
