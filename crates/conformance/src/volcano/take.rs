//! Replays the family `take`.

use pinfold_cluster::volcano::take::take;
use pinfold_core::fidelity::Fidelity;
use serde::Deserialize;
use serde_json::json;

use super::read::{CpusJson, DetailJson, cpus_json};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    cpus: DetailJson,
    available: CpusJson,
    needed: i64,
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let needed = usize::try_from(input.needed).unwrap_or(0);
    let found = match take(&input.cpus.0, &input.available.0, needed, Fidelity::Exact) {
        Ok(cpus) => json!({"cpus": cpus_json(&cpus)}),
        Err(error) => json!({"error": error.to_string()}),
    };
    case.compare(&found)
}
