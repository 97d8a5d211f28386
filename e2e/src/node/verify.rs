//! Comparing what was assigned with what the kernel enforces and what others list.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_core::cpu_set::CpuSet;
use serde_json::Value;

use super::holdings::{Held, Holdings, array, node_of, nodes_of, text_of};
use super::machine::{GPU, Machine};
use crate::cluster::stage::{Stage, eventually};
use crate::report::equal;

/// The first CPU of the second NUMA node.
const SECOND_NODE: u32 = 6;

/// The NUMA node of a CPU.
pub(super) fn node_of_cpu(cpu: u32) -> u32 {
    cpu / SECOND_NODE
}

/// A container that runs: pod, name, and id in the runtime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Running {
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) id: String,
}

/// The containers that run by the status of their pods.
pub(super) fn running(stage: &Stage) -> Result<Vec<Running>, String> {
    let pods = stage.pods()?;
    let statuses = pods.iter().flat_map(|(pod, object)| {
        let kinds = ["initContainerStatuses", "containerStatuses"];
        let all = kinds
            .into_iter()
            .flat_map(|kind| array(&object["status"][kind]));
        all.map(move |status| (pod, status))
    });
    let running = statuses.filter(|(_, status)| status["state"]["running"].is_object());
    Ok(running
        .map(|(pod, status)| Running {
            pod: pod.clone(),
            container: text_of(&status["name"]),
            id: text_of(&status["containerID"])
                .trim_start_matches("containerd://")
                .to_owned(),
        })
        .collect())
}

/// Waits until the kernel lets every container that runs use exactly its own CPUs and NUMA nodes, or else the shared
/// CPUs; the number of containers.
pub(super) fn enforced(
    stage: &Stage,
    machine: &Machine,
    named: &Holdings,
    shared: &CpuSet,
) -> Result<usize, String> {
    let running = running(stage)?;
    eventually("the kernel enforces what was assigned", || {
        let cpusets = machine.cpusets()?;
        let mut wrong = Vec::new();
        for one in &running {
            let held = named.get(&(one.pod.clone(), one.container.clone()));
            let held = held.cloned().unwrap_or_default();
            let found = cpusets
                .get(&one.id)
                .ok_or_else(|| format!("no control group of {one:?}"))?;
            let cpus = CpuSet::parse(&found.cpus).map_err(|error| error.to_string())?;
            let expected = if held.cpus.is_empty() {
                shared
            } else {
                &held.cpus
            };
            let nodes = held.memory_nodes();
            let nodes = if nodes.is_empty() {
                [0, 1].into()
            } else {
                nodes
            };
            if cpus != *expected || nodes_of(&found.mems)? != nodes {
                wrong.push(format!(
                    "{one:?}: expected CPUs {expected}, nodes {nodes:?}, found {found:?}"
                ));
            }
        }
        match wrong.is_empty() {
            true => Ok(running.len()),
            false => Err(wrong.join("; ")),
        }
    })
}

/// The podresources API lists exactly what containers hold, except init containers that end.
pub(super) fn lists(
    pods: &BTreeMap<String, Value>,
    listed: &Holdings,
    named: &Holdings,
) -> Result<(), String> {
    let ends = |pod: &str, container: &str| {
        let inits = pods
            .get(pod)
            .map(|pod| array(&pod["spec"]["initContainers"]));
        let mut inits = inits.into_iter().flatten();
        inits.any(|init| init["name"] == container && init["restartPolicy"] != "Always")
    };
    let expected = named
        .iter()
        .filter(|((pod, container), _)| !ends(pod, container));
    let expected: Holdings = expected
        .map(|(key, held)| (key.clone(), held.clone()))
        .collect();
    equal("podresources", listed, &expected)
}

/// The amount of a countable resource that containers hold on a NUMA node. Containers of a pod may have the same CPUs and
/// devices one after the other.
pub(super) fn held_on(named: &Holdings, node: u32, resource: &str) -> u64 {
    let mut cpus = CpuSet::new();
    let mut devices: BTreeSet<&String> = BTreeSet::new();
    for Held {
        cpus: own,
        devices: ids,
        ..
    } in named.values()
    {
        cpus = &cpus | own;
        devices.extend(ids);
    }
    let count = match resource {
        "cpu" => cpus
            .iter()
            .filter(|cpu| node_of_cpu(cpu.get()) == node)
            .count(),
        GPU => devices
            .iter()
            .filter(|id| node_of(id) == Some(node))
            .count(),
        _ => 0,
    };
    u64::try_from(count).unwrap_or(0)
}
