//! Replays the family `pod_cpu_requests`.

use pinfold_core::demand::{PodDemand, PodLevel};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::pod::Pod;
use pinfold_core::qos::QosClass;
use serde_json::{Map, Value, json};

use super::{Machines, pods};
use crate::case::{Case, ReplayOutcome};

pub(super) fn replay(
    case: &Case,
    _: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let pod = pods::read(&case.input["pod"])?;
    if !fidelity.sees_pod_level_resources() {
        return case.compare(&json!({
            "qos": QosClass::of_containers(&pod),
            "gate_off": cpus(&pod, PodLevel::Unknown),
        }));
    }
    let mut found = json!({
        "qos": QosClass::of(&pod),
        "gate_off": cpus(&pod, PodLevel::Ignored),
    });
    // Versions without the gate PodLevelResourceManagers.
    if case.expect.get("gate_on").is_some() {
        found["gate_on"] = cpus(&pod, PodLevel::Managed);
    }
    case.compare(&found)
}

fn cpus(pod: &Pod, pod_level: PodLevel) -> Value {
    let demand = PodDemand::new(pod, pod_level);
    let containers: Map<String, Value> = pod
        .all_containers()
        .map(|container| {
            let cpus = demand.container_cpus(container);
            (container.name.to_string(), cpus.into())
        })
        .collect();
    json!({ "container_cpus": containers, "pod_cpus": demand.pod_cpus() })
}
