//! Replays the family `config_errors`: settings that a kubelet does or does not start with.

use pinfold_core::fidelity::Fidelity;
use serde_json::json;

use super::Machines;
use super::scenario::Scenario;
use crate::case::{Case, Outcome, check};

pub(super) fn replay(case: &Case, machines: &Machines) -> Outcome {
    let found = Scenario::read(&case.input).and_then(|scenario| {
        let rules = scenario.rules(machines.get(&scenario.topology)?, Fidelity::Exact)?;
        Ok(rules.err().map(|error| error.to_string()))
    });
    match found {
        Ok(found) => check(&case.expect["init_error"], &json!(found)),
        Err(problem) => Outcome::Failed(problem),
    }
}
