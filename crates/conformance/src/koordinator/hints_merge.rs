//! Replays the family `hints_merge`.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::ledger::NumaOccupancy;
use pinfold_cluster::koordinator::merge::{
    HintList, MergeContext, MergePolicy, ProviderHintLists, ScoredHint, merge,
};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::{NodeId, NodeSet};
use serde::Deserialize;
use serde_json::{Value, json};

use super::node_state::{HintInput, hint_value};
use crate::case::Case;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    policy: String,
    numa_nodes: NodeSet,
    providers: Vec<Option<BTreeMap<ResourceName, Option<Vec<HintInput>>>>>,
    exclusive_policy: String,
    numa_node_status: Vec<String>,
}

pub(super) fn answer(case: &Case) -> Result<Value, String> {
    let input: Input = case.read()?;
    let policy = match input.policy.as_str() {
        "none" => MergePolicy::None,
        "best-effort" => MergePolicy::BestEffort,
        "restricted" => MergePolicy::Restricted,
        "single-numa-node" => MergePolicy::SingleNumaNode,
        other => return Err(format!("unknown policy {other:?}")),
    };
    let mut occupancy = NumaOccupancy::default();
    for (id, status) in (0..).zip(&input.numa_node_status) {
        let node = NodeId::new(id).map_err(|error| error.to_string())?;
        match status.as_str() {
            "single" => occupancy.single.insert(node),
            "shared" => occupancy.spanning.insert(node),
            _ => {}
        }
    }
    let lists: Vec<Vec<Row<'_>>> = input
        .providers
        .iter()
        .map(|provider| provider.iter().flatten().map(read_row).collect())
        .collect();
    let providers: Vec<ProviderHintLists<'_>> = lists
        .iter()
        .map(|rows| {
            rows.iter()
                .map(|(name, list)| (*name, opinion(list)))
                .collect()
        })
        .collect();
    let context = MergeContext {
        nodes: input.numa_nodes,
        numa_exclusive: input.exclusive_policy == "Required",
        occupancy,
    };
    let merged = merge(policy, &context, &providers);
    let mut reasons: Vec<String> = merged.reasons.iter().map(ToString::to_string).collect();
    reasons.sort();
    Ok(json!({
        "hint": hint_value(&merged.hint),
        "admit": merged.admit,
        "reasons": reasons,
    }))
}

/// One resource and the hints of a provider for it.
type Row<'a> = (&'a ResourceName, Option<Vec<ScoredHint>>);

fn read_row<'a>((name, list): (&'a ResourceName, &Option<Vec<HintInput>>)) -> Row<'a> {
    let hints = list
        .as_ref()
        .map(|list| list.iter().map(ScoredHint::from).collect());
    (name, hints)
}

fn opinion(list: &Option<Vec<ScoredHint>>) -> HintList<'_> {
    list.as_deref().map_or(HintList::Any, HintList::Hints)
}
