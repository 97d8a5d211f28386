//! koord-scheduler decides on the reports of our agents, and `pinfold simulate --as koordinator` predicts every decision.

mod faults;
mod history;
mod nodes;
mod prediction;
pub(crate) mod process;
mod random;
mod several;
mod turns;

use self::history::History;
use self::nodes::Nodes;
use self::prediction::{Counts, agreed, compare};
use self::process::{KoordScheduler, NAME};
use super::stage::Stage;
use crate::cluster::pods::{Dice, PODS};
use crate::report::{Report, equal, say};

/// New machines come with every round.
const ROUNDS: u64 = 4;
/// Pods come and go on every machine so many times in a round.
const STEPS: u64 = 34;
/// The fewest decisions of a run.
const DECISIONS: usize = 500;

/// Runs the theme.
pub(crate) fn run(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    let mut koordinator = KoordScheduler::start(stage)?;
    let mut dice = Dice::new(stage.seed);
    let mut counts = Counts::default();
    for round in 0..ROUNDS {
        play(stage, &mut koordinator, &mut dice, round, &mut counts)?;
        say(format_args!(
            "        round {round}: {} bound, {} of them with CPUs, {} pending so far",
            counts.bound, counts.with_cpus, counts.pending
        ));
    }
    let compared = counts.compared;
    say(format_args!("        {compared} decisions compared"));
    report.check(
        "peers: koord-scheduler: every decision on our reports is that of simulate --as koordinator, also after restarts of agents, scheduler and API server, and no CPU is given twice",
        agreed(&counts).and_then(|()| match compared >= DECISIONS {
            true => Ok(()),
            false => Err(format!("{compared} decisions, fewer than {DECISIONS}")),
        }),
    );
    report.check(
        "peers: koord-scheduler and pinfold-scheduler: 200 pods in turns on the same nodes, no CPU twice, and every pod is bound",
        turns::run(stage, &koordinator, &mut dice),
    );
    stage.clear_pods()?;
    report.check(
        "peers: koord-scheduler: with several nodes, its decision on the chosen one is predicted, and so is a pod that no node gets",
        several::run(stage, &koordinator, &mut dice),
    );
    stage.clear_pods()?;
    faults::run(report, stage, &koordinator, &mut dice)?;
    let complaints = koordinator.complaints();
    report.check(
        "peers: koord-scheduler: it reads our reports without a warning",
        equal("warnings", complaints, Vec::new()),
    );
    Ok(())
}

/// A round: pods come and go on all machines, one at a time on each.
fn play(
    stage: &mut Stage,
    koordinator: &mut KoordScheduler,
    dice: &mut Dice,
    round: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    let mut machines = random::machines(dice, round);
    let is_last = round + 1 == ROUNDS;
    if is_last {
        // What koord-scheduler remembers of released pods on an amplified node ends with it.
        machines.truncate(4);
    }
    let mut nodes = Nodes::join(stage, koordinator, machines)?;
    let mut history = History::new(nodes.state(stage)?);
    for step in 0..STEPS {
        match step {
            8 if is_last => nodes.restart_agents(stage)?,
            16 if is_last => {
                koordinator.restart()?;
                nodes.known(stage, koordinator)?;
                nodes.alive(stage, koordinator, step)?;
            }
            24 if is_last => {
                stage.plane.kill_api_server();
                stage.plane.start_api_server()?;
                nodes.alive(stage, koordinator, step)?;
            }
            _ => {}
        }
        for (number, machine) in nodes.machines.iter().enumerate() {
            if let Some(pod) = history.leaving(dice, &machine.name) {
                stage.delete(&pod.name)?;
                koordinator.has_noticed(&machine.name, &[pod.uid])?;
            }
            let name = format!("pod-{round}-{step}-{number}");
            let pod = random::random_pod(dice, &name, NAME, machine);
            let created = stage.admin.expect("POST", PODS, Some(&pod))?;
            history.came(&machine.name, created);
        }
        history.decided(stage)?;
    }
    compare(stage, &history, &nodes.machines, counts)?;
    stage
        .recorder
        .add("koord-scheduler", &history.session.to_json());
    nodes.leave(stage)
}
