//! Replays the family `nrt_score`.

use pinfold_cluster::node_topology::pod_demand::TopologyPodRequest;
use pinfold_cluster::node_topology::score::{ResourceWeights, ScoringStrategy, score};
use pinfold_core::fidelity::Fidelity;
use serde::Deserialize;
use serde_json::json;

use super::read;
use crate::case::{Case, ReplayOutcome, check};

#[derive(Deserialize)]
struct Input {
    #[serde(flatten)]
    common: read::Input,
    strategy: String,
    weights: ResourceWeights,
}

pub(super) fn replay(case: &Case) -> ReplayOutcome {
    let input = match Input::deserialize(&case.input) {
        Ok(input) => input,
        Err(error) => return ReplayOutcome::Failed(error.to_string()),
    };
    let Some(strategy) = ScoringStrategy::from_text(&input.strategy) else {
        return ReplayOutcome::Failed(format!("unknown strategy {:?}", input.strategy));
    };
    let (topology, pod, overhead) = input.common.parts();
    let request = TopologyPodRequest {
        pod: &pod,
        overhead: &overhead,
    };
    let score = score(
        topology.as_ref(),
        &request,
        strategy,
        &input.weights,
        Fidelity::Exact,
    );
    check(&case.expect, &json!({"score": score}))
}
