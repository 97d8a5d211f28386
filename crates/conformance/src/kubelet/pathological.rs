//! Replays the family `pathological`: inputs on which the real kubelet hangs, crashes or loses count.
//!
//! The behaviour of the kubelet is not compared. Instead the replay checks that a ledger in sound mode returns from
//! every step and that its audit passes after each.

use pinfold_core::fidelity::Fidelity;

use super::Machines;
use super::admission::{play, play_soundly};
use super::machines;
use super::scenario::Scenario;
use crate::case::{Case, ReplayOutcome};

pub(super) fn replay(
    case: &Case,
    _: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    let machine = machines::read(&case.input["machine"])?;
    let scenario = Scenario::read(&case.input["scenario"])?;
    if fidelity.is_exact() {
        play_soundly(&scenario, &machine)?;
    }
    Ok(match play(&scenario, &machine, fidelity, &case.expect)? {
        ReplayOutcome::Failed(_) | ReplayOutcome::SetAside(_) if fidelity.is_exact() => {
            ReplayOutcome::SetAside("pathological")
        }
        outcome => outcome,
    })
}
