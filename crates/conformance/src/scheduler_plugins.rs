//! The NodeResourceTopologyMatch plugin's vectors: one module per family, named after its file.

use crate::case::{Case, Outcome};

mod nrt_filter;
mod nrt_score;
mod read;

/// Replays one case of the named family.
#[must_use]
pub fn replay(family: &str, case: &Case) -> Outcome {
    match family {
        "nrt_filter" => nrt_filter::replay(case),
        "nrt_score" => nrt_score::replay(case),
        _ => Outcome::Failed(format!("unknown family {family:?}")),
    }
}
