//! The NodeResourceTopologyMatch plugin's vectors: one module per family, named after its file.

use crate::case::{Case, ReplayOutcome};

mod nrt_filter;
mod nrt_score;
mod read;

/// Replays one case of the named family.
#[must_use]
pub fn replay(family: &str, case: &Case) -> ReplayOutcome {
    match family {
        "nrt_filter" => nrt_filter::replay(case),
        "nrt_score" => nrt_score::replay(case),
        _ => ReplayOutcome::Failed(format!("unknown family {family:?}")),
    }
}
