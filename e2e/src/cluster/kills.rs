//! Random pods while the engine and kube-scheduler are killed at random: none is bound to a node that rejects it, and
//! none is lost.

use std::thread;
use std::time::Duration;

use super::OurScheduler;
use super::faults::none_rejected;
use super::machines;
use super::pods::{Dice, PODS};
use super::random::{calm, end_some};
use super::stage::Stage;
use super::stories::leave;
use crate::report::{Report, say};

const SEED: u64 = 20_261_118;
const WAVES: u64 = 10;
const PODS_OF_A_WAVE: u64 = 200;

/// Plays the story.
pub(crate) fn run(report: &mut Report, stage: &Stage, ours: &mut OurScheduler, name: &'static str) {
    say(format_args!("seed {SEED}"));
    let outcome = killed(stage, ours, name);
    let cleared = stage.clear().and_then(|()| leave(stage));
    report.check(
        "cluster: 2,000 random pods while engine, kube-scheduler or both are killed, none rejected, none lost",
        outcome.and(cleared),
    );
}

fn killed(stage: &Stage, ours: &mut OurScheduler, name: &'static str) -> Result<(), String> {
    stage.kubelets.join(&stage.admin, machines::all()?)?;
    let mut dice = Dice::new(SEED);
    let mut kills = [0, 0, 0];
    for wave in 0..WAVES {
        for number in 0..PODS_OF_A_WAVE {
            let pod = dice.pod(&format!("killed-{wave}-{number}"), name);
            stage.admin.expect("POST", PODS, Some(&pod))?;
            match dice.below(80) {
                0..=2 => {
                    // Not waited for: pods arrive while it starts.
                    ours.engine.start_again()?;
                    kills[0] += 1;
                }
                3 | 4 => {
                    ours.restart_scheduler(stage, name)?;
                    kills[1] += 1;
                }
                5 => {
                    ours.engine.process.kill();
                    ours.restart_scheduler(stage, name)?;
                    ours.engine.start_again()?;
                    kills[2] += 1;
                }
                _ => thread::sleep(Duration::from_millis(dice.below(60))),
            }
        }
        // Pods end while some wait for a restart.
        end_some(stage, &mut dice)?;
    }
    ours.engine.wait()?;
    say(format_args!(
        "        the engine was killed {} times, kube-scheduler {} times, both {} times",
        kills[0], kills[1], kills[2]
    ));
    calm(stage)?;
    none_rejected(stage)
}
