//! Replays the family `merge`.

use std::collections::BTreeMap;

use pinfold_cluster::volcano::policy::{decide, policy_of};
use pinfold_core::hint::{Hint, ProviderHints, ResourceHints};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;
use serde::Deserialize;
use serde_json::json;

use super::read::{HintJson, hint_json};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    policy: String,
    numa_nodes: NodeSet,
    providers: Vec<Option<BTreeMap<ResourceName, Option<Vec<HintJson>>>>>,
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let row = |(resource, list): (ResourceName, Option<Vec<HintJson>>)| {
        let hints = match list {
            None => ResourceHints::DontCare,
            Some(list) if list.is_empty() => ResourceHints::Unsatisfiable,
            Some(list) => ResourceHints::List(list.into_iter().map(Hint::from).collect()),
        };
        (resource, hints)
    };
    let providers: Vec<ProviderHints> = input
        .providers
        .into_iter()
        .map(|provider| ProviderHints {
            rows: provider.into_iter().flatten().map(row).collect(),
        })
        .collect();
    let verdict = decide(policy_of(&input.policy), input.numa_nodes, &providers);
    let found = json!({"hint": hint_json(&verdict.hint), "admit": verdict.admit});
    case.compare(&found)
}
