//! Replays the family `amplify`.

use pinfold_core::koordinator::amplify::amplify;
use serde_json::json;

use crate::case::{Case, Outcome, check};

pub(super) fn replay(case: &Case) -> Outcome {
    let (origin, ratio) = (&case.input["origin"], &case.input["ratio"]);
    let (Some(origin), Some(ratio)) = (origin.as_i64(), ratio.as_f64()) else {
        return Outcome::Failed("origin or ratio is not a number".into());
    };
    check(&case.expect, &json!({ "value": amplify(origin, ratio) }))
}
