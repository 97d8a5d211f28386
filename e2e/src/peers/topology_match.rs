//! NodeResourceTopologyMatch of scheduler-plugins decides on the NodeResourceTopology of our agents, and `pinfold simulate
//! --as scheduler-plugins` predicts every decision.
//!
//! The agents mirror played kubelets, which reject what a kubelet would. With the cache of the plugin a pod may have to
//! wait until the plugin takes over an object: then it is compared with what the object allows.

mod machines;
mod process;
mod story;

use self::machines::Nodes;
use self::process::{Reads, Scheduler, WAYS};
use self::story::Counts;
use super::stage::Stage;
use crate::cluster::pods::Dice;
use crate::report::{Report, equal, say};

/// Pods come to every machine so many times, in every way of reading the objects.
const STEPS: u64 = 14;
/// The fewest decisions of a run.
const DECISIONS: usize = 300;

/// Runs the theme.
pub(crate) fn run(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    let mut dice = Dice::new(stage.seed);
    let mut decisions = 0;
    for (name, reads) in WAYS {
        let mut counts = Counts::default();
        let played = play(stage, reads, &mut dice, &mut counts);
        say(format_args!("        {name}: {counts}"));
        decisions += counts.bound + counts.pending;
        let agreed = played
            .and_then(|()| equal("differences", counts.differences.join("\n"), String::new()));
        report.check(
            format_args!("peers: topology-match: {name}, every decision is that of simulate --as scheduler-plugins, and kubelets reject only what the differences name"),
            agreed,
        );
    }
    report.check(
        "peers: topology-match: enough decisions",
        match decisions >= DECISIONS {
            true => Ok(()),
            false => Err(format!("{decisions} decisions, fewer than {DECISIONS}")),
        },
    );
    Ok(())
}

fn play(
    stage: &mut Stage,
    reads: Reads,
    dice: &mut Dice,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut nodes = Nodes::join(stage, reads.fingerprint())?;
    nodes.published(stage)?;
    let mut scheduler = Scheduler::start(stage, reads)?;
    for step in 0..STEPS {
        match step {
            5 => {
                for node in &mut nodes.nodes {
                    node.restart_agent(stage)?;
                }
            }
            // The plugin's watch of objects does not outlive its API server.
            8 if !reads.has_cache() => {
                stage.plane.kill_api_server();
                stage.plane.start_api_server()?;
            }
            10 => scheduler.restart(stage)?,
            _ => {}
        }
        nodes.some_leave(stage, dice)?;
        if reads.has_cache() {
            story::foreign(stage, &mut nodes, dice, step, counts)?;
        }
        nodes.published(stage)?;
        story::step(stage, &mut nodes, reads, dice, step, counts)?;
    }
    nodes.leave(stage)
}
