//! Replays the family `amplify`.

use pinfold_cluster::koordinator::amplify::amplify;
use serde_json::{Value, json};

use crate::case::Case;

pub(super) fn answer(case: &Case) -> Result<Value, String> {
    let (origin, ratio) = (&case.input["origin"], &case.input["ratio"]);
    let (Some(origin), Some(ratio)) = (origin.as_i64(), ratio.as_f64()) else {
        return Err("origin or ratio is not a number".into());
    };
    Ok(json!({ "value": amplify(origin, ratio) }))
}
