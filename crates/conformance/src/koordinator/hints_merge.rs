//! Replays the family `hints_merge`.

use crate::case::{Case, Outcome};

pub(super) fn replay(case: &Case) -> Outcome {
    let _ = case;
    Outcome::Failed("not replayed yet".into())
}
