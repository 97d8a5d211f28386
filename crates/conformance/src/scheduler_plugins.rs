//! The NodeResourceTopologyMatch plugin's vectors: one module per family, named after its file.

use crate::case::{Case, ReplayOutcome};

mod nrt_filter;
mod nrt_score;
mod read;

/// Replays one case of the named family.
#[must_use]
pub fn replay(family: &str, case: &Case) -> ReplayOutcome {
    let outcome = match family {
        "nrt_filter" => nrt_filter::replay(case),
        "nrt_score" => nrt_score::replay(case),
        _ => Err(format!("unknown family {family:?}")),
    };
    outcome.unwrap_or_else(ReplayOutcome::Failed)
}
