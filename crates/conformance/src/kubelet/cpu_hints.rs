//! Replays the family `cpu_hints`: the static CPU policy's hints, and one allocation after them.
//!
//! In every case sound mode must assign exactly the requested number of CPUs, none of them held by another container.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::cpu::{
    ContainerCpus, CpuGrant, CpuOptions, CpuPolicyError, CpuReservation, CpuState, OptionGates,
    PodCpus, StaticCpus, StaticSettings,
};
use pinfold_core::cpu_set::{CpuList, CpuSet};
use pinfold_core::demand::{PodDemand, PodLevel};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::cpus::CpuTopology;
use pinfold_core::name::ContainerName;
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::Pod;
use pinfold_core::policy::TopologyPolicy;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Machines, hints, pods};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    topology: String,
    options: BTreeMap<String, String>,
    topology_policy: TopologyPolicy,
    num_reserved: usize,
    reserved_cpus: Option<String>,
    #[serde(default)]
    default_cpuset: CpuSet,
    #[serde(default)]
    assignments: ContainerCpus,
    #[serde(default)]
    reusable: CpuSet,
    #[serde(default)]
    pod: Value,
    allocate: Option<Allocate>,
}

#[derive(Deserialize)]
struct Allocate {
    container: ContainerName,
    affinity: Option<NodeSet>,
}

impl Input {
    fn state(&self) -> CpuState {
        let (shared, containers) = (self.default_cpuset.clone(), self.assignments.clone());
        CpuState::restored(shared, containers, BTreeMap::new())
    }
}

pub(super) fn replay(
    case: &Case,
    machines: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let topology = Arc::new(CpuTopology::of(machines.get(&input.topology)?));
    if fidelity.is_exact() {
        check_promise(&input, Arc::clone(&topology))?;
    }
    if case.expect["hang"] == json!(true) || case.expect["allocate"]["hang"] == json!(true) {
        return Ok(ReplayOutcome::SetAside("the real code never returns"));
    }
    let found = match policy(&input, topology, fidelity)? {
        Ok(policy) => answer(&input, &policy)?,
        Err(error) => json!({ "policy_error": error.to_string() }),
    };
    case.compare(&found)
}

fn answer(input: &Input, policy: &StaticCpus) -> Result<Value, String> {
    let pod = pods::read(&input.pod)?;
    let state = input.state();
    let demand = PodDemand::new(&pod, PodLevel::Ignored);
    let own = PodCpus::new(&state, &pod.uid, input.reusable.clone());
    let mut container_hints = Map::new();
    for container in pod.all_containers() {
        let found = policy.container_hints(&state, &own, &demand, container);
        container_hints.insert(container.name.to_string(), hints::to_json(&found));
    }
    let pod_hints = policy.pod_hints(&state, &own, &demand);
    Ok(json!({
        "reserved": policy.reserved(),
        "reserved_physical": policy.reserved_physical(),
        "container_hints": container_hints,
        "pod_hints": hints::to_json(&pod_hints),
        "allocate": allocate(input, policy, state, &pod)?,
    }))
}

fn check_promise(input: &Input, topology: Arc<CpuTopology>) -> Result<(), String> {
    let (Ok(policy), Some(allocate)) = (policy(input, topology, Fidelity::Sound)?, &input.allocate)
    else {
        return Ok(());
    };
    let (pod, state) = (pods::read(&input.pod)?, input.state());
    let container = pod
        .container(&allocate.container)
        .ok_or(NO_SUCH_CONTAINER)?;
    let held = state.container(&pod.uid, &container.name);
    let demand = PodDemand::new(&pod, PodLevel::Ignored);
    let own = PodCpus::new(&state, &pod.uid, input.reusable.clone());
    let grant = policy.allocate(&state, &own, allocate.affinity, &demand, container);
    let (
        Ok(CpuGrant {
            cpus: Some(cpus), ..
        }),
        None,
    ) = (grant, held)
    else {
        return Ok(());
    };
    let own = &(state.shared() - policy.reserved()) | &state.containers_of(&pod.uid);
    let requested = demand.container_cpus(container);
    match cpus.is_subset(&own) && cpus.len() == requested {
        true => Ok(()),
        false => Err(format!(
            "sound fidelity gave {cpus} of {own} to a request for {requested}"
        )),
    }
}

const NO_SUCH_CONTAINER: &str = "the pod has no such container";

fn policy(
    input: &Input,
    topology: Arc<CpuTopology>,
    fidelity: Fidelity,
) -> Result<Result<StaticCpus, CpuPolicyError>, String> {
    let gates = OptionGates {
        alpha: true,
        beta: true,
        version: fidelity.version(),
    };
    let options = match CpuOptions::parse(&input.options, gates) {
        Ok(options) => options,
        Err(error) => return Ok(Err(error.into())),
    };
    let reserved_cpus = input.reserved_cpus.as_deref().unwrap_or_default();
    let settings = StaticSettings {
        options,
        reservation: CpuReservation {
            count: input.num_reserved,
            cpus: CpuList::parse(reserved_cpus).map_err(|error| error.to_string())?,
        },
        topology_policy: input.topology_policy,
        pod_level: PodLevel::Ignored,
        fidelity,
    };
    Ok(StaticCpus::new(topology, settings))
}

fn allocate(
    input: &Input,
    policy: &StaticCpus,
    mut state: CpuState,
    pod: &Pod,
) -> Result<Value, String> {
    let Some(Allocate {
        container,
        affinity,
    }) = &input.allocate
    else {
        return Ok(Value::Null);
    };
    let container = pod.container(container).ok_or(NO_SUCH_CONTAINER)?;
    let demand = PodDemand::new(pod, PodLevel::Ignored);
    let mut reusable = input.reusable.clone();
    let own = PodCpus::new(&state, &pod.uid, reusable.clone());
    let error = match policy.allocate(&state, &own, *affinity, &demand, container) {
        Ok(grant) => {
            for edit in &grant.edits {
                state.apply(edit).map_err(|conflict| conflict.to_string())?;
            }
            reusable = grant.reusable.unwrap_or(reusable);
            Value::Null
        }
        Err(error) => json!(error.to_string()),
    };
    Ok(json!({
        "cpus": state.container(&pod.uid, &container.name),
        "default_cpuset": state.shared(),
        "reusable": reusable,
        "error": error,
    }))
}
