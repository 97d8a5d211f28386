//! Replays the family `amplify`.

use pinfold_cluster::koordinator::amplify::amplify;
use serde_json::json;

use crate::case::{Case, ReplayOutcome};

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let (origin, ratio) = (&case.input["origin"], &case.input["ratio"]);
    let (Some(origin), Some(ratio)) = (origin.as_i64(), ratio.as_f64()) else {
        return Err("origin or ratio is not a number".into());
    };
    case.compare(&json!({ "value": amplify(origin, ratio) }))
}
