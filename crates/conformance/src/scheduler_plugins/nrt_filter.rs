//! Replays the family `nrt_filter`.

use std::error::Error;

use pinfold_cluster::node_topology::filter::{TopologyRejection, filter};
use pinfold_cluster::node_topology::pod_demand::TopologyPodRequest;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::pod::ResourceList;
use serde::Deserialize;
use serde_json::json;

use super::read;
use crate::case::{Case, ReplayOutcome, check};

#[derive(Deserialize)]
struct Input {
    #[serde(flatten)]
    common: read::Input,
    #[serde(rename = "nodeAllocatable")]
    allocatable: ResourceList,
}

pub(super) fn replay(case: &Case) -> ReplayOutcome {
    let input = match Input::deserialize(&case.input) {
        Ok(input) => input,
        Err(error) => return ReplayOutcome::Failed(error.to_string()),
    };
    let (topology, pod, overhead) = input.common.parts();
    let request = TopologyPodRequest {
        pod: &pod,
        overhead: &overhead,
    };
    let outcome = filter(
        topology.as_ref(),
        &input.allocatable,
        &request,
        Fidelity::Exact,
    );
    let code = match &outcome {
        Ok(()) => "Success",
        Err(TopologyRejection::CannotAlign { .. }) => "Unschedulable",
        Err(TopologyRejection::Inconsistent(_)) => "Error",
    };
    let mut reasons = Vec::new();
    if let Err(rejection) = &outcome {
        reasons.push(rejection.to_string());
        reasons.extend(rejection.source().map(ToString::to_string));
    }
    let found = json!({
        "code": code, "reasons": reasons, "markedMaybeOverReserved": outcome.is_err(),
    });
    check(&case.expect, &found)
}
