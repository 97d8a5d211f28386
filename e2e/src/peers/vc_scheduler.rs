//! vc-scheduler with its plugin numa-aware decides on the Numatopology objects of our agents, and `pinfold simulate
//! --as volcano` predicts every decision.
//!
//! The agents mirror played kubelets: a bound pod gets the CPUs that vc-scheduler chose in the kubelet's state file, and
//! the agent publishes what is left.

mod chance;
mod faults;
mod groups;
mod machines;
mod process;

use self::groups::{Counts, Groups};
use self::machines::Nodes;
use self::process::VcScheduler;
use super::stage::Stage;
use crate::cluster::pods::Dice;
use crate::report::{Report, equal, say};

/// Groups of pods come to every machine so many times.
const STEPS: u64 = 44;
/// The fewest decisions of a run.
const DECISIONS: usize = 300;

/// Runs the theme.
pub(crate) fn run(report: &mut Report, stage: &mut Stage) -> Result<(), String> {
    let mut scheduler = VcScheduler::start(stage)?;
    let mut dice = Dice::new(stage.seed);
    let mut nodes = Nodes::join(stage)?;
    report.check(
        "peers: vc-scheduler: CPUs reserved by number and by list are free in no Numatopology",
        nodes.published(stage, &scheduler),
    );
    let mut counts = Counts::default();
    let played = play(stage, &mut scheduler, &mut nodes, &mut dice, &mut counts);
    say(format_args!(
        "        {} pods bound, {} of them with CPUs, {} pending; {} of {} groups are gangs; {} pods beside bound ones without CPUs, {} ended unstarted; {} groups differ by chance",
        counts.bound,
        counts.with_cpus,
        counts.pending,
        counts.gangs,
        counts.groups,
        counts.beside_bookings,
        counts.unstarted,
        counts.by_chance
    ));
    let decisions = counts.bound + counts.pending;
    report.check(
        "peers: vc-scheduler: every decision on our Numatopology is that of simulate --as volcano, also after restarts of agents, scheduler and API server, with Nodes made anew and with either definition, and no CPU is given twice",
        played
            .and_then(|()| equal("differences", counts.differences.join("\n"), String::new()))
            .and_then(|()| match decisions >= DECISIONS {
                true => Ok(()),
                false => Err(format!("{decisions} decisions, fewer than {DECISIONS}")),
            }),
    );
    report.check(
        "peers: vc-scheduler: no agent writes its Numatopology between a decision and the kubelet's start of the pod",
        equal("writes", counts.writes.join("\n"), String::new()),
    );
    nodes.leave(stage)
}

fn play(
    stage: &mut Stage,
    scheduler: &mut VcScheduler,
    nodes: &mut Nodes,
    dice: &mut Dice,
    counts: &mut Counts,
) -> Result<(), String> {
    for step in 0..STEPS {
        faults::at(stage, scheduler, nodes, step)?;
        nodes.published(stage, scheduler)?;
        nodes.some_leave(stage, dice)?;
        nodes.published(stage, scheduler)?;
        let mut groups = Groups::come(stage, nodes, dice, &format!("group-{step}"), None)?;
        groups.decided(stage, scheduler)?;
        groups.compare(stage, nodes, counts)?;
        let mut all = vec![groups];
        if dice.says(40) {
            // Kubelets are slow: pods end and others come while bound ones have no CPUs yet.
            let booked = &all[0];
            nodes.some_leave_meanwhile(stage, dice, |node| booked.has_bookings(&node.name))?;
            nodes.published(stage, scheduler)?;
            let name = format!("beside-{step}");
            let mut beside = Groups::come(stage, nodes, dice, &name, Some(booked))?;
            beside.decided(stage, scheduler)?;
            beside.compare(stage, nodes, counts)?;
            all.push(beside);
        }
        Groups::start(&all, stage, nodes, scheduler, dice, counts)?;
    }
    Ok(())
}
