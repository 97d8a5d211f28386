//! The agent's podresources API compared with the kernel's cpusets.

use std::time::Duration;

use kubelet_api::pod_resources as api;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::node_set::NodeSet;
use pinfold_devices::pod_resources::PodResourcesClient;

use super::options::Options;
use super::pods::{ContainerPlan, Kind, PodPlan};
use super::rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::containerd::eventually;
use crate::report::{Report, Stop, equal};

/// Plays it.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    let mut scene = Scene::open(stage, &rules::kubelet("restricted", "container"))?;
    let reader = reader(&scene);
    let app = ContainerPlan::guaranteed;
    let steps = vec![
        app("first", 500, 16).of_kind(Kind::Init),
        app("main", 1000, 16),
        app("other", 300, 16),
    ];
    let plans = [
        (PodPlan::new("steps", steps), Known::Beforehand),
        (
            PodPlan::guaranteed("sharing", 200, 16),
            Known::FromTheRuntime,
        ),
    ];
    for (plan, known) in &plans {
        equal(&plan.name, scene.come(plan, *known)?, true)?;
    }
    report.check(
        "agent: List and Get say what the kernel says",
        agrees_soon(&scene, &reader),
    );
    report.check(
        "agent: GetAllocatableResources leaves out what is the system's",
        allocatable(&scene, &reader),
    );
    scene.go("steps")?;
    let outcome = agrees_soon(&scene, &reader);
    report.check("agent: a pod that left is not listed", outcome);
    Ok(scene.clear().inspect_err(|_| scene.abandon())?)
}

/// A client of the agent's pod resources.
pub(crate) fn reader(scene: &Scene<'_>) -> PodResourcesClient {
    PodResourcesClient::new(scene.agent.pod_resources(), Duration::from_secs(30))
}

/// Reports come soon, not at once.
fn agrees_soon(scene: &Scene<'_>, reader: &PodResourcesClient) -> Result<(), String> {
    let mut wrong = String::new();
    eventually("the report agrees", || match agrees(scene, reader) {
        Ok(()) => true,
        Err(problem) => {
            wrong = problem;
            false
        }
    })
    .map_err(|problem| format!("{problem}: {wrong}"))
}

fn agrees(scene: &Scene<'_>, reader: &PodResourcesClient) -> Result<(), String> {
    let listed = reader.list().map_err(|error| error.to_string())?;
    let mut names: Vec<&str> = listed.iter().map(|pod| pod.name.as_str()).collect();
    names.sort_unstable();
    let mut running: Vec<&str> = scene
        .running
        .iter()
        .map(|pod| pod.plan.name.as_str())
        .collect();
    running.sort_unstable();
    equal("pods", names, running)?;
    for pod in &scene.running {
        let got = reader.get("e2e", &pod.plan.name);
        let got = got.map_err(|error| error.to_string())?;
        let same = listed.iter().find(|one| one.name == pod.plan.name);
        equal("Get and List", Some(&got), same)?;
        for container in &pod.containers {
            let reported = got
                .containers
                .iter()
                .find(|one| one.name == container.name.as_str());
            let reported = reported.ok_or_else(|| format!("{} is not listed", container.name))?;
            let seen = scene.stage.groups.look(&container.group)?;
            let (_, own, _) = scene.oracle.expected(&container.resident, &container.name);
            let expected = if own { seen.cpus } else { CpuSet::new() };
            let name = format!("CPUs of {} {}", pod.plan.name, container.name);
            equal(&name, cpus(&reported.cpu_ids), expected)?;
            equal("memory nodes", memory_nodes(reported)?, seen.mems)?;
        }
        equal("containers", got.containers.len(), pod.containers.len())?;
    }
    Ok(())
}

fn cpus(ids: &[i64]) -> CpuSet {
    let ids = ids.iter().filter_map(|&id| u32::try_from(id).ok());
    ids.filter_map(CpuId::new).collect()
}

fn memory_nodes(container: &api::ContainerResources) -> Result<NodeSet, String> {
    let places = container
        .memory
        .iter()
        .filter_map(|block| block.topology.as_ref());
    let nodes = places.flat_map(|place| &place.nodes).map(|node| node.id);
    NodeSet::from_ids(nodes).map_err(|error| error.to_string())
}

fn allocatable(scene: &Scene<'_>, reader: &PodResourcesClient) -> Result<(), String> {
    let reported = reader.allocatable().map_err(|error| error.to_string())?;
    let rules = scene.oracle.ledger().rules();
    let expected = rules.machine().online() - &rules.reserved_cpus();
    equal("CPUs", cpus(&reported.cpu_ids), expected)?;
    let rows = scene.oracle.ledger().state().memory().nodes().values();
    let rows = rows.flat_map(|row| row.memory.values());
    let expected: u64 = rows.map(|amounts| amounts.allocatable).sum();
    let found: u64 = reported.memory.iter().map(|block| block.size).sum();
    equal("memory", found, expected)
}
