//! Replays the family `cpuset`: reading, writing and combining CPU sets.

use pinfold_core::cpu_set::{CpuList, CpuSet};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Machines;
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Input {
    Parse { text: String },
    Ops { a: CpuSet, b: CpuSet },
}

pub(super) fn replay(case: &Case, _: &Machines) -> Result<ReplayOutcome, String> {
    case.compare(&answer(&case.read()?))
}

fn answer(input: &Input) -> Value {
    match input {
        Input::Parse { text } => match CpuList::parse(text) {
            Ok(list) => json!({ "canonical": list.to_string(), "size": list.len(), "error": null }),
            Err(error) => json!({ "canonical": null, "size": null, "error": error.to_string() }),
        },
        Input::Ops { a, b } => json!({
            "union": a | b,
            "intersection": a & b,
            "difference": a - b,
            "equals": a == b,
            "b_subset_of_a": b.is_subset(a),
            "size_a": a.len(),
            "list_b": b.iter().collect::<Vec<_>>(),
        }),
    }
}
