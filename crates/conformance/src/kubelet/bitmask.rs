//! Replays the family `bitmask`: sets of NUMA nodes, their order and the order of their subsets.

use pinfold_core::node_set::{NodeId, NodeIdOutOfRange, NodeSet, SubsetsByWidth};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Machines;
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Input {
    Pair { a: NodeSet, b: NodeSet },
    New { a: Vec<i64> },
    Iterate { bits: Vec<i64> },
}

pub(super) fn replay(case: &Case, _: &Machines) -> Result<ReplayOutcome, String> {
    let found = answer(case.read()?).map_err(|error| error.to_string())?;
    case.compare(&found)
}

fn answer(input: Input) -> Result<Value, NodeIdOutOfRange> {
    Ok(match input {
        Input::Pair { a, b } => json!({
            "a_bits": a,
            "a_count": a.len(),
            "a_empty": a.is_empty(),
            "a_string": a.binary().to_string(),
            "b_string": b.binary().to_string(),
            "and": a & b,
            "or": a | b,
            "equal": a == b,
            "a_narrower_than_b": a.is_narrower_than(b),
            "a_less_than_b": a < b,
            "a_greater_than_b": a > b,
            "a_any_set_of_b": a.intersects(b),
        }),
        Input::New { a } => match NodeSet::from_ids(a) {
            Ok(set) => json!({ "bits": set, "error": null }),
            Err(error) => json!({ "bits": null, "error": error.to_string() }),
        },
        Input::Iterate { bits } => {
            let nodes: Result<Vec<NodeId>, _> = bits.into_iter().map(NodeId::new).collect();
            json!({ "sequence": SubsetsByWidth::of(nodes?).collect::<Vec<NodeSet>>() })
        }
    })
}
