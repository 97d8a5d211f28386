//! Replays the family `checkpoint_restore`: state files, some of them damaged, as a starting kubelet reads them.

use pinfold_core::demand::PodLevel;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::memory::MemoryAmounts;
use pinfold_kube::state::cpu::{CpuRestore, RunningContainers};
use pinfold_kube::state::memory::MemoryRestore;
use pinfold_kube::state::{CpuManagerState, MemoryManagerState};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Machines, memory};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    file: String,
    content: String,
    policy: String,
}

pub(super) fn replay(
    case: &Case,
    _machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let found = match input.file.as_str() {
        "cpu_manager_state" => restore_cpu(&input, fidelity),
        "memory_manager_state" => restore_memory(&input, fidelity),
        other => return Err(format!("unknown file {other:?}")),
    };
    case.compare(&found)
}

fn restore_cpu(input: &Input, fidelity: Fidelity) -> Value {
    let known =
        |id: &str, pod: &str, container: &str| (id.to_owned(), (pod.into(), container.into()));
    let running: RunningContainers =
        [known("cid1", "podA", "c0"), known("cid2", "podB", "c1")].into();
    let how = CpuRestore {
        file: &input.file,
        policy: Some(&input.policy),
        pod_level: PodLevel::Ignored,
        running: &running,
        fidelity,
    };
    match CpuManagerState::restore(input.content.as_bytes(), &how) {
        Err(error) => json!({"error": error.to_string()}),
        Ok((state, _)) => json!({
            "error": null,
            "default_cpuset": state.default_cpus,
            "assignments": state.containers,
        }),
    }
}

fn restore_memory(input: &Input, fidelity: Fidelity) -> Value {
    let how = MemoryRestore {
        file: &input.file,
        policy: Some(&input.policy),
        pod_level: PodLevel::Ignored,
        fidelity,
    };
    let state = match MemoryManagerState::restore(input.content.as_bytes(), &how) {
        Err(error) => return json!({"error": error.to_string()}),
        Ok((state, _)) => state,
    };
    let table = |table: &MemoryAmounts| json!([table.allocatable, table.reserved, table.free]);
    let nodes: Vec<Value> = state
        .nodes
        .iter()
        .map(|(id, node)| {
            let memory: Map<String, Value> = node
                .memory
                .iter()
                .map(|(kind, memory)| (kind.to_string(), table(memory)))
                .collect();
            json!({
                "node": id,
                "assignments": node.assignments,
                "cells": node.cells.iter().collect::<Vec<_>>(),
                "memory": memory,
            })
        })
        .collect();
    let mut assignments = Map::new();
    for (pod, containers) in &state.containers {
        let of_pod: Map<String, Value> = containers
            .iter()
            .map(|(container, blocks)| (container.to_string(), memory::blocks(blocks)))
            .collect();
        assignments.insert(pod.to_string(), Value::from(of_pod));
    }
    json!({"error": null, "machine_state": nodes, "assignments": assignments})
}
