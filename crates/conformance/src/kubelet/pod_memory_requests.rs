//! Replays the family `pod_memory_requests`.

use pinfold_core::demand::{MemoryDemand, NotWholeBytes, PodDemand, PodLevel};
use serde_json::{Map, Value, json};

use super::{Machines, pods};
use crate::case::{Case, ReplayOutcome};

pub(super) fn replay(case: &Case, _: &Machines) -> Result<ReplayOutcome, String> {
    let pod = pods::read(&case.input["pod"])?;
    let demand = PodDemand::new(&pod, PodLevel::Ignored);
    let containers: Map<String, Value> = pod
        .all_containers()
        .map(|container| {
            let memory = demand.container_memory(container);
            (container.name.to_string(), answer(memory))
        })
        .collect();
    let pod = answer(demand.pod_memory());
    case.compare(&json!({ "containers": containers, "pod": pod }))
}

fn answer(demand: Result<MemoryDemand, NotWholeBytes>) -> Value {
    match demand {
        Ok(demand) => json!(demand),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
