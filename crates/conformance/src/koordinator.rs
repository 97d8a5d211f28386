//! Koordinator's vectors: one module per family, named after its file.

use crate::case::{Case, ReplayOutcome};

mod allocate;
mod amplify;
mod cpu_take;
mod hints;
mod hints_merge;
mod node_state;
mod schedule;
mod score;

/// Replays one case of the named family.
#[must_use]
pub fn replay(family: &str, case: &Case) -> ReplayOutcome {
    let answer = match family {
        "allocate" => allocate::answer(case),
        "amplify" => amplify::answer(case),
        "cpu_take" => cpu_take::answer(case),
        "hints" => hints::answer(case),
        "hints_merge" => hints_merge::answer(case),
        "schedule" | "schedule_numa" => schedule::answer(case),
        "score" => score::answer(case),
        _ => Err(format!("unknown family {family:?}")),
    };
    let outcome = answer.and_then(|found| case.compare(&found));
    outcome.unwrap_or_else(ReplayOutcome::Failed)
}
