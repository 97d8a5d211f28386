//! Replays the family `score`.

use pinfold_cluster::volcano::score::{scores, span};
use pinfold_core::fidelity::Fidelity;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::read::{CpusJson, DetailJson};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    nodes: Vec<NodeJson>,
    weight: i64,
}

#[derive(Deserialize)]
struct NodeJson {
    name: String,
    cpus: DetailJson,
    assigned: Option<CpusJson>,
}

/// Whole numbers are written without a fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "only whole numbers that survive the round trip are converted"
)]
fn number(score: f64) -> Value {
    let whole = score as i64;
    match whole as f64 == score {
        true => json!(whole),
        false => json!(score),
    }
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let span_of = |node: &NodeJson| {
        let assigned = node.assigned.as_ref();
        assigned.map_or(0, |cpus| span(&node.cpus.0, &cpus.0, Fidelity::Exact))
    };
    let spans: Vec<usize> = input.nodes.iter().map(span_of).collect();
    let names = || input.nodes.iter().map(|node| node.name.clone());
    let counts: Map<String, Value> = names().zip(spans.iter().map(|&span| json!(span))).collect();
    let scores = scores(&spans, input.weight).into_iter().map(number);
    let scores: Map<String, Value> = names().zip(scores).collect();
    case.compare(&json!({"numaCount": counts, "scores": scores}))
}
