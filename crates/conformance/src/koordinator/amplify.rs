//! Replays the family `amplify`.

use pinfold_cluster::koordinator::amplify::amplify;
use serde_json::json;

use crate::case::{Case, ReplayOutcome, check};

pub(super) fn replay(case: &Case) -> ReplayOutcome {
    let (origin, ratio) = (&case.input["origin"], &case.input["ratio"]);
    let (Some(origin), Some(ratio)) = (origin.as_i64(), ratio.as_f64()) else {
        return ReplayOutcome::Failed("origin or ratio is not a number".into());
    };
    check(&case.expect, &json!({ "value": amplify(origin, ratio) }))
}
