//! Volcano's vectors: one module per family, named after its file.

use crate::case::{Case, ReplayOutcome};

mod allocate;
mod hints;
mod merge;
mod read;
mod score;
mod session;
mod take;

/// Replays one case of the named family.
#[must_use]
pub fn replay(family: &str, case: &Case) -> ReplayOutcome {
    let outcome = match family {
        "allocate" => allocate::replay(case),
        "hints" => hints::replay(case),
        "merge" => merge::replay(case),
        "score" => score::replay(case),
        "session" => session::replay(case),
        "take" => take::replay(case),
        "sort_dependent" => return replay(&case.family, case),
        _ => Err(format!("unknown family {family:?}")),
    };
    outcome.unwrap_or_else(ReplayOutcome::Failed)
}
