//! Replays the family `memory`: the static memory policy, step by step.

use std::collections::BTreeMap;

use pinfold_core::demand::{PodDemand, PodLevel};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::hint::Hint;
use pinfold_core::memory::{
    MemoryBasis, MemoryBlock, MemoryHints, MemoryState, PodMemory, StaticMemory, SystemReserved,
};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::pod::{Container, Pod};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Machines, hints, pods};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    topology: String,
    system_reserved: BTreeMap<String, BTreeMap<ResourceName, u64>>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    op: String,
    #[serde(default)]
    pod: Value,
    #[serde(default)]
    pod_uid: Option<PodUid>,
    #[serde(default)]
    container: Option<ContainerName>,
    #[serde(default)]
    affinity: Option<NodeSet>,
    #[serde(default)]
    preferred: bool,
}

pub(super) fn replay(
    case: &Case,
    machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let results = results(case, machines, fidelity)?;
    case.compare(&json!({ "results": results }))
}

fn results(case: &Case, machines: &Machines, fidelity: Fidelity) -> Result<Vec<Value>, String> {
    let input: Input = case.read()?;
    let mut by_node = BTreeMap::new();
    for (node, amounts) in input.system_reserved {
        let id = node.parse().map_err(|_| format!("node {node:?}"))?;
        let id = NodeId::new(id).map_err(|error| error.to_string())?;
        by_node.insert(id, amounts);
    }
    let policy = StaticMemory::new(
        machines.get(&input.topology)?,
        &SystemReserved::from_bytes(by_node),
        PodLevel::Ignored,
        fidelity,
    )
    .map_err(|error| error.to_string())?;
    let mut node = Node {
        state: policy.initial_state(),
        policy,
        pods: BTreeMap::new(),
    };
    let mut results = vec![json!({ "machine_state": machine_state(&node.state) })];
    for step in &input.steps {
        results.push(node.step(step)?);
    }
    Ok(results)
}

struct Node {
    policy: StaticMemory,
    state: MemoryState,
    pods: BTreeMap<PodUid, Pod>,
}

impl Node {
    fn step(&mut self, step: &Step) -> Result<Value, String> {
        let pod = match (&step.pod, &step.pod_uid) {
            (Value::Null, Some(uid)) => self.pods.get(uid).ok_or("a pod never seen")?.clone(),
            (pod, _) => pods::read(pod)?,
        };
        self.pods.insert(pod.uid.clone(), pod.clone());
        let container = || -> Result<&Container, String> {
            let name = step.container.as_ref().ok_or("no container named")?;
            pod.container(name)
                .ok_or_else(|| format!("no container {name}"))
        };
        let demand = PodDemand::new(&pod, PodLevel::Ignored);
        let before =
            |container: &Container| PodMemory::before(&self.state, &demand, &container.name);
        match step.op.as_str() {
            "pod_hints" => {
                let hints = self.policy.pod_hints(&self.state, &demand);
                Ok(json!({ "hints": hints_json(&hints) }))
            }
            "hints" => {
                let (policy, container) = (&self.policy, container()?);
                let own = before(container);
                let hints = policy.container_hints(&self.state, &own, &demand, container);
                Ok(json!({ "hints": hints_json(&hints) }))
            }
            "allocate" => {
                let affinity = Hint {
                    mask: step.affinity,
                    preferred: step.preferred,
                };
                let (policy, container) = (&self.policy, container()?);
                let mut own = before(container);
                let grant = policy.allocate(&self.state, &mut own, affinity, &demand, container);
                let error = match grant {
                    Ok(grant) => {
                        self.apply(&grant.edits)?;
                        Value::Null
                    }
                    Err(error) => Value::from(error.to_string()),
                };
                Ok(json!({
                    "error": error,
                    "blocks": blocks_of_pod(&self.state, &pod.uid),
                    "machine_state": machine_state(&self.state),
                }))
            }
            "remove" => {
                let name = step.container.as_ref().ok_or("no container named")?;
                let edits = self.policy.remove_container(&self.state, &pod.uid, name);
                self.apply(&edits)?;
                Ok(json!({ "machine_state": machine_state(&self.state) }))
            }
            op => Err(format!("unknown step {op:?}")),
        }
    }

    /// Applies edits, and checks that undoing them restores the table.
    fn apply(&mut self, edits: &[pinfold_core::memory::MemoryEdit]) -> Result<(), String> {
        let before = self.state.clone();
        self.state.apply(edits).map_err(|error| error.to_string())?;
        let mut back = self.state.clone();
        back.revert(edits).map_err(|error| error.to_string())?;
        match back == before {
            true => Ok(()),
            false => Err("taking the change back gave another table".to_owned()),
        }
    }
}

/// The table in the format of the vectors.
pub(super) fn machine_state(state: &MemoryState) -> Value {
    let node = |(id, node): (&NodeId, &pinfold_core::memory::NodeMemory)| {
        let amounts: Map<String, Value> = node
            .memory
            .iter()
            .map(|(resource, amounts)| {
                let row = json!([amounts.allocatable, amounts.reserved, amounts.free]);
                (resource.to_string(), row)
            })
            .collect();
        json!({
            "node": id,
            "assignments": node.assignments,
            "cells": node.cells,
            "memory": amounts,
        })
    };
    state.nodes().iter().map(node).collect()
}

/// Blocks in the format of the vectors: sorted by type.
pub(super) fn blocks(blocks: &[MemoryBlock]) -> Value {
    let mut blocks: Vec<&MemoryBlock> = blocks.iter().collect();
    blocks.sort_by(|a, b| a.resource.cmp(&b.resource));
    let block = |block: &MemoryBlock| {
        json!({
            "type": block.resource,
            "size": block.size,
            "numa": block.nodes,
        })
    };
    blocks.into_iter().map(block).collect()
}

fn blocks_of_pod(state: &MemoryState, pod: &PodUid) -> Value {
    let containers = state.assignments().get(pod).into_iter().flatten();
    containers
        .map(|(container, held)| (container.to_string(), blocks(held)))
        .collect()
}

/// No map if the policy has no preference; an empty map if nothing fits.
fn hints_json(hints: &MemoryHints) -> Value {
    match hints.basis {
        MemoryBasis::Unmanaged | MemoryBasis::HeldDiffers => return Value::Null,
        MemoryBasis::Held | MemoryBasis::EmptySharedPool(_) | MemoryBasis::Searched { .. } => {}
    }
    hints::rows(&hints.hints)
}
