//! Replays the family `score`.

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::score::{ScoreKind, Scorer};
use pinfold_core::fidelity::Fidelity;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::case::Case;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    strategy: ScoreKind,
    weights: Amounts,
    allocatable: Option<Amounts>,
    requested: Option<Amounts>,
    pod_requests: Option<Amounts>,
}

pub(super) fn answer(case: &Case) -> Result<Value, String> {
    let input: Input = case.read()?;
    let scorer = Scorer {
        kind: input.strategy,
        weights: input.weights,
        fidelity: Fidelity::Exact,
    };
    let score = scorer.score(
        &input.requested.unwrap_or_default(),
        &input.allocatable.unwrap_or_default(),
        &input.pod_requests.unwrap_or_default(),
    );
    Ok(json!({ "score": score }))
}
