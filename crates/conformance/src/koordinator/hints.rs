//! Replays the family `hints`.

use pinfold_cluster::koordinator::allocate::Allocator;
use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::hints::HintLists;
use pinfold_cluster::koordinator::policy_values::NumaPolicy;
use pinfold_cluster::koordinator::rejection::KoordinatorReason;
use pinfold_cluster::koordinator::score::{ScoreKind, Scorer};
use pinfold_core::fidelity::Fidelity;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::node_state::{NodeInput, OptionsInput, hint_value};
use crate::case::Case;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    #[serde(flatten)]
    node: NodeInput,
    options: OptionsInput,
    policy: String,
    numa_scorer: Option<ScorerInput>,
}

#[derive(Deserialize)]
pub(super) struct ScorerInput {
    #[serde(rename = "type")]
    kind: ScoreKind,
    weights: Amounts,
}

pub(super) fn answer(case: &Case) -> Result<Value, String> {
    let input: Input = case.read()?;
    let node = input.node.build()?;
    let options = input.options.build()?;
    let allocator = Allocator::new(node.view(), options.ask());
    if allocator.zones().is_empty() {
        return Ok(json!({ "error": KoordinatorReason::NoNumaResources.to_string() }));
    }
    if allocator.lacks_topology() {
        return Ok(json!({ "error": KoordinatorReason::InvalidTopology.to_string() }));
    }
    let scorer = input.numa_scorer.map(|scorer| Scorer {
        kind: scorer.kind,
        weights: scorer.weights,
        fidelity: Fidelity::Exact,
    });
    let policy = NumaPolicy::parse(&input.policy);
    let lists = HintLists::complete(&allocator, policy.as_ref(), scorer.as_ref());
    let hints: Map<String, Value> = lists
        .lists
        .iter()
        .map(|list| {
            let hints = list.hints.iter().map(hint_value).collect();
            (list.name.to_string(), hints)
        })
        .collect();
    Ok(json!({ "hints": hints }))
}
