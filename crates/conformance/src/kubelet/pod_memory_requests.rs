//! Replays the family `pod_memory_requests`.

use pinfold_core::demand::{MemoryDemand, NotWholeBytes, PodDemand, PodLevel};
use serde_json::{Map, Value, json};

use super::{Machines, pods};
use crate::case::{Case, ReplayOutcome, check};

pub(super) fn replay(case: &Case, _: &Machines) -> ReplayOutcome {
    let pod = match pods::read(&case.input["pod"]) {
        Err(problem) => return ReplayOutcome::Failed(problem),
        Ok(pod) => pod,
    };
    let demand = PodDemand::new(&pod, PodLevel::Ignored);
    let containers: Map<String, Value> = pod
        .all_containers()
        .map(|container| {
            let memory = demand.container_memory(container);
            (container.name.to_string(), answer(memory))
        })
        .collect();
    let pod = answer(demand.pod_memory());
    check(
        &case.expect,
        &json!({ "containers": containers, "pod": pod }),
    )
}

fn answer(demand: Result<MemoryDemand, NotWholeBytes>) -> Value {
    match demand {
        Ok(demand) => json!(demand),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
