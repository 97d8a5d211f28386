//! Replays the family `pod_memory_requests`.

use pinfold_core::demand::{self, MemoryDemand, NotWholeBytes, PodLevel};
use serde_json::{Map, Value, json};

use super::{Machines, pods};
use crate::case::{Case, ReplayOutcome, check};

pub(super) fn replay(case: &Case, _: &Machines) -> ReplayOutcome {
    let pod = match pods::read(&case.input["pod"]) {
        Err(problem) => return ReplayOutcome::Failed(problem),
        Ok(pod) => pod,
    };
    let containers: Map<String, Value> = pod
        .all_containers()
        .map(|container| {
            let demand = demand::container_memory(&pod, container, PodLevel::Ignored);
            (container.name.to_string(), answer(demand))
        })
        .collect();
    let pod = answer(demand::pod_memory(&pod, PodLevel::Ignored));
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
