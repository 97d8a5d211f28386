//! `pinfold simulate`: pods on a machine, one after the other, and what is left.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::occupancy::Occupancy;
use pinfold_core::pod::Pod;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::text::{count, grouped, paragraph};
use pinfold_render::{grid, palette, svg};
use serde::Serialize;

use crate::args::SimulateArgs;
use crate::exit::{Failure, REJECTED};
use crate::node::Node;
use crate::output::{self, width};
use crate::recorded::Recorded;
use crate::simulation::{Counts, Event, Play, Simulation};
use crate::usage::{self, Usage};
use crate::{input, script};

pub(crate) mod cluster;
mod compare;

/// More steps than this are counted, not listed.
const LISTED: usize = 50;

/// The result for programs.
#[derive(Serialize)]
struct Report<'a> {
    machine: &'a str,
    policy: &'static str,
    scope: &'static str,
    counts: Counts,
    events: &'a [Event],
    usage: &'a [Usage],
    occupancy: &'a Occupancy,
}

pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    if args.cluster.is_cluster() {
        return cluster::run(args);
    }
    if let Some(journal) = &args.journal {
        let recorded = Recorded::read(journal)?;
        let node = recorded.node.with(args.node.policy, args.node.scope)?;
        let play = Play {
            start: Some(&recorded.start),
            offers: &recorded.offers,
            ..Play::new(&recorded.pods, &recorded.steps)
        };
        return run_on(args, &node, &play);
    }
    let node = Node::open(&args.node)?;
    let objects = input::pods(&args.pods)?;
    let steps = script::steps(args.script.as_ref(), &objects)?;
    let pods: Vec<Arc<Pod>> = objects
        .into_iter()
        .map(|object| Arc::new(object.pod))
        .collect();
    let play = Play {
        rounds: args.repeat,
        ..Play::new(&pods, &steps)
    };
    run_on(args, &node, &play)
}

/// Plays it, and shows what came of it.
fn run_on(args: &SimulateArgs, node: &Node, play: &Play<'_>) -> Result<ExitCode, Failure> {
    if args.compare {
        return compare::run(node, play, args.output);
    }
    let simulation = play.on(node)?;
    let usages = usage::of(&simulation.ledger);
    let occupancy = simulation.ledger.occupancy();
    let report = Report {
        machine: &node.name,
        policy: node.rules.policy().name(),
        scope: node.rules.scope().name(),
        counts: simulation.counts,
        events: &simulation.events,
        usage: &usages,
        occupancy: &occupancy,
    };
    output::print_as(args.output, &report, || {
        text(node, &simulation, &occupancy, &usages)
    })?;
    if let Some(path) = &args.svg {
        let plan = MachineLayout::new(node.machine(), &occupancy);
        let picture = svg::draw(&plan, &occupancy, &node.described());
        output::write_file(path, picture.as_bytes())?;
    }
    Ok(match simulation.counts.rejected {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REJECTED),
    })
}

/// The whole report for people.
pub(crate) fn text(
    node: &Node,
    simulation: &Simulation,
    occupancy: &Occupancy,
    usages: &[Usage],
) -> String {
    let mut text = match node.name.as_str() {
        "" => String::new(),
        name => paragraph("", name, 2, width()),
    };
    text.push_str(&paragraph("", &node.described(), 2, width()));
    text.push('\n');
    text.push_str(&events(&simulation.events, occupancy));
    text.push('\n');
    let plan = MachineLayout::new(node.machine(), occupancy);
    let colour = output::colour();
    text.push_str(&grid::draw(
        &plan,
        occupancy,
        Legend::Names,
        width(),
        colour,
    ));
    if !usages.is_empty() {
        let _ = write!(text, "\n{}", usage::table(usages));
    }
    let Counts { admitted, rejected } = simulation.counts;
    let _ = writeln!(
        text,
        "\n{} admitted, {} rejected",
        count(admitted, "pod", "pods"),
        grouped(rejected)
    );
    text
}

/// One line per step, with the sign that the pod has in the picture.
fn events(events: &[Event], occupancy: &Occupancy) -> String {
    let holders = occupancy.holders.iter().enumerate();
    let signs: BTreeMap<&str, char> = holders
        .map(|(index, holder)| (holder.name.as_str(), palette::sign(index)))
        .collect();
    let listed = &events[..events.len().min(LISTED)];
    let names = listed.iter().filter_map(|event| event.pod.as_deref());
    let widest = names.map(|name| name.chars().count()).max();
    let widest = widest.unwrap_or(0).clamp(7, 24);
    let mut text = String::new();
    for event in listed {
        let name = event.pod.as_deref().unwrap_or(event.step);
        let mark = match (event.step, &event.rejection) {
            (_, Some(_)) => '✗',
            ("add", _) => *signs.get(name).unwrap_or(&'+'),
            ("remove", _) => '-',
            _ => ' ',
        };
        let lead = format!("{mark} {name:<widest$}  ");
        text.push_str(&paragraph(&lead, &event.told, widest + 4, width()));
    }
    let rest = &events[listed.len()..];
    if !rest.is_empty() {
        let rejected = rest
            .iter()
            .filter(|event| event.rejection.is_some())
            .count();
        let _ = writeln!(
            text,
            "  ... {}, {} of them rejected (-o json lists all)",
            count(rest.len(), "more step", "more steps"),
            grouped(rejected)
        );
    }
    text
}
