//! Replays the family `allocate`.

use pinfold_cluster::volcano::allocate::allocate;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::hint::Hint;
use serde::Deserialize;
use serde_json::json;

use super::hints::Input;
use super::read::{HintJson, cpus_json};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct WithHint {
    #[serde(flatten)]
    input: Input,
    hint: HintJson,
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let WithHint { input, hint } = case.read()?;
    let chosen = allocate(
        input.detail(),
        &input.available().unwrap_or_default(),
        Hint::from(hint).mask,
        usize::try_from(input.whole_cpus()).unwrap_or(0),
        Fidelity::Exact,
    );
    let found = match chosen {
        Ok(cpus) => json!({"assign": {"cpu": cpus_json(&cpus)}}),
        Err(error) => json!({"error": error.to_string()}),
    };
    case.compare(&found)
}
