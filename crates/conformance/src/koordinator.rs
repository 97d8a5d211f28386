//! Koordinator's vectors: one module per family, named after its file.

use crate::case::{Case, ReplayOutcome};

mod allocate;
mod amplify;
mod cpu_take;
mod hints;
mod hints_merge;
mod node_objects;
mod node_state;
mod schedule;
mod score;

/// Replays one case of the named family.
#[must_use]
pub fn replay(family: &str, case: &Case) -> ReplayOutcome {
    let outcome = match family {
        "allocate" => allocate::replay(case),
        "amplify" => amplify::replay(case),
        "cpu_take" => cpu_take::replay(case),
        "hints" => hints::replay(case),
        "hints_merge" => hints_merge::replay(case),
        "schedule" | "schedule_numa" => schedule::replay(case),
        "score" => score::replay(case),
        _ => Err(format!("unknown family {family:?}")),
    };
    outcome.unwrap_or_else(ReplayOutcome::Failed)
}
