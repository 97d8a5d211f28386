//! Replays the family `allocate`.

use pinfold_cluster::koordinator::allocate::Allocator;
use serde::Deserialize;
use serde_json::{Value, json};

use super::node_state::{NodeInput, OptionsInput, numa_value};
use crate::case::Case;

#[derive(Deserialize)]
struct Input {
    #[serde(flatten)]
    node: NodeInput,
    options: OptionsInput,
}

pub(super) fn answer(case: &Case) -> Result<Value, String> {
    let input: Input = case.read()?;
    let node = input.node.build()?;
    let options = input.options.build()?;
    let allocator = Allocator::new(node.view(), options.ask());
    Ok(match allocator.allocate(options.affinity()) {
        Ok(allocation) => json!({
            "code": "Success",
            "cpuset": allocation.cpus.iter().collect::<Vec<_>>(),
            "numaNodeResources": numa_value(&allocation.numa),
        }),
        Err(rejection) => {
            let mut reasons: Vec<String> =
                rejection.reasons.iter().map(ToString::to_string).collect();
            reasons.sort();
            json!({ "code": rejection.code, "reasons": reasons })
        }
    })
}
