//! The system's clock jumps: nothing that is decided, watched or kept depends on it.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::drift;
use super::options::Options;
use super::pods::{ContainerPlan, PodPlan};
use super::rules::kubelet as rules;
use super::scene::{Known, Scene};
use super::stage::Stage;
use crate::programs::succeed;
use crate::report::{Report, Stop, equal};

const DAY: i64 = 24 * 60 * 60;

/// Runs the theme.
pub(crate) fn run(report: &mut Report, stage: &mut Stage, _: &Options) -> Result<(), Stop> {
    let mut scene = Scene::open(stage, &rules("restricted", "container"))?;
    let outcome = play(&mut scene);
    if outcome.is_err() {
        scene.abandon();
    }
    report.check(
        "agent: a clock that jumps by days changes nothing, and the journal is read as before",
        outcome,
    );
    Ok(())
}

fn play(scene: &mut Scene<'_>) -> Result<(), String> {
    let shares = ContainerPlan::between("main", (100, 200), (0, 0));
    for plan in [
        PodPlan::guaranteed("own", 1000, 16),
        PodPlan::new("sharing", vec![shares]),
    ] {
        equal("let in", scene.come(&plan, Known::Beforehand)?, true)?;
    }
    // Ahead, back to before everything began, and home again.
    for (jump, days) in [("ahead", 1), ("back", -2), ("home", 1)] {
        set_ahead(days * DAY)?;
        let plan = PodPlan::guaranteed(jump, 1000, 16);
        equal("let in", scene.come(&plan, Known::FromTheRuntime)?, true)?;
        drift::overwritten(scene, "own")?;
        scene.start_again()?;
        scene.check()?;
        scene.go(jump)?;
        scene.check()?;
    }
    scene.clear()
}

/// Sets the clock so many seconds ahead, or back.
fn set_ahead(seconds: i64) -> Result<(), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_err(|error| error.to_string())?.as_secs();
    let then = now.saturating_add_signed(seconds);
    succeed(Command::new("date").arg("-s").arg(format!("@{then}")))
}
