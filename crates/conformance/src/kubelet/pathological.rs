//! Replays the family `pathological`: inputs on which the real kubelet hangs, crashes or loses count.
//!
//! What it does there is not asked of us. What we promise instead is checked: a sound ledger answers every step, and
//! its books balance after each.

use pinfold_core::fidelity::Fidelity;

use super::Machines;
use super::admission::{play, play_soundly};
use super::machines;
use super::scenario::Scenario;
use crate::case::{Case, Outcome};

pub(super) fn replay(case: &Case, _: &Machines) -> Outcome {
    let outcome = machines::read(&case.input["machine"]).and_then(|machine| {
        let scenario = Scenario::read(&case.input["scenario"])?;
        play_soundly(&scenario, &machine)?;
        play(&scenario, &machine, Fidelity::Exact, &case.expect)
    });
    match outcome {
        Ok(Outcome::Passed) => Outcome::Passed,
        Ok(_) => Outcome::SetAside("pathological"),
        Err(problem) => Outcome::Failed(problem),
    }
}
