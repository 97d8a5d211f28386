//! Replays the family `nrt_score`.

use pinfold_cluster::node_topology::args::TopologyMatchArgs;
use pinfold_cluster::node_topology::score::{ResourceWeights, ScoringStrategy};
use pinfold_core::pod::ResourceList;
use serde::Deserialize;
use serde_json::json;

use super::read;
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    #[serde(flatten)]
    common: read::Input,
    strategy: String,
    weights: ResourceWeights,
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let Some(strategy) = ScoringStrategy::from_text(&input.strategy) else {
        return Err(format!("unknown strategy {:?}", input.strategy));
    };
    let args = TopologyMatchArgs {
        strategy,
        weights: input.weights,
        ..TopologyMatchArgs::default()
    };
    let (node, pod) = input.common.node_and_pod(ResourceList::new(), args);
    case.compare(&json!({"score": node.score(&pod)}))
}
