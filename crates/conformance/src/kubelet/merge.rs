//! Replays the family `merge`, twice: over the lists as they are, and with each list as a family of
//! fixed masks. Both must return the kubelet's result.

use std::collections::BTreeMap;

use pinfold_core::hint::{Hint, ProviderHints, ResourceHints};
use pinfold_core::merge::{
    Budgets, Distances, MergeRequest, MergeResult, merge, merge_by_families,
};
use pinfold_core::node_set::NodeId;
use pinfold_core::policy::TopologyPolicy;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Machines;
use crate::case::{Case, ReplayOutcome, check};

#[derive(Deserialize)]
struct Input {
    policy: TopologyPolicy,
    prefer_closest: bool,
    numa_nodes: Vec<i64>,
    distances: Option<Vec<Vec<u64>>>,
    providers: Option<Vec<Option<Provider>>>,
}

type Provider = BTreeMap<String, Option<Vec<Hint>>>;

pub(super) fn replay(case: &Case, _: &Machines) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    input.replay(case)
}

impl Input {
    fn replay(&self, case: &Case) -> Result<ReplayOutcome, String> {
        let providers: Vec<ProviderHints> = self.providers.iter().flatten().map(hints).collect();
        let distances = self.distances()?;
        let request = MergeRequest {
            nodes: nodes(&self.numa_nodes)?.into_iter().collect(),
            policy: self.policy,
            closest: distances.as_ref().filter(|_| self.prefer_closest),
            providers: &providers,
            budgets: Budgets::default(),
        };
        Ok(match check(&case.expect, &answer(&merge(&request))) {
            ReplayOutcome::Passed => check(&case.expect, &answer(&merge_by_families(&request))),
            failed => failed,
        })
    }

    /// Row i belongs to the i-th node, columns are indexed by node id.
    fn distances(&self) -> Result<Option<Distances>, String> {
        let Some(rows) = &self.distances else {
            return Ok(None);
        };
        let narrow = |row: &Vec<u64>| -> Vec<u32> {
            let cells = row.iter();
            cells
                .map(|&cell| cell.try_into().unwrap_or(u32::MAX))
                .collect()
        };
        let rows: Vec<Vec<u32>> = rows.iter().map(narrow).collect();
        let ids = nodes(&self.numa_nodes)?;
        let rows = ids.into_iter().zip(rows.iter().map(Vec::as_slice));
        Ok(Some(Distances::from_rows(rows)))
    }
}

fn nodes(ids: &[i64]) -> Result<Vec<NodeId>, String> {
    let nodes = ids.iter().map(|&id| NodeId::new(id));
    nodes
        .collect::<Result<_, _>>()
        .map_err(|problem| problem.to_string())
}

fn hints(provider: &Option<Provider>) -> ProviderHints {
    let rows = provider.iter().flatten().map(|(name, list)| {
        let hints = match list {
            None => ResourceHints::DontCare,
            Some(list) if list.is_empty() => ResourceHints::Unsatisfiable,
            Some(list) => ResourceHints::List(list.clone()),
        };
        (name.as_str().into(), hints)
    });
    ProviderHints {
        rows: rows.collect(),
    }
}

fn answer(merged: &MergeResult) -> Value {
    json!({ "hint": merged.hint, "admit": merged.admit })
}
