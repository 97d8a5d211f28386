//! `pinfold simulate`: admits pods on one node, one after the other, and shows what is left.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use pinfold_core::decision::{Assignment, ContainerAssignment};
use pinfold_core::occupancy::Occupancy;
use pinfold_core::pod::Pod;
use pinfold_kube::admission::AdmissionRequest;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::Caption;
use pinfold_render::text::{count, grouped, paragraph};
use pinfold_render::{grid, palette, placement, svg};
use serde::Serialize;

use crate::admission::{self, NodeAdmission, NotSimulated};
use crate::args::{SimulateArgs, SimulateFormat};
use crate::as_pinfold::AsPinfold;
use crate::exit::{Failure, REJECTED};
use crate::journal_replay::JournalReplay;
use crate::node::SimulatedNode;
use crate::output::{self, remark, width};
use crate::script::ScriptPod;
use crate::simulation::{PodCounts, Simulation, SimulationPlan, SimulationStep, StepEvent};
use crate::starting_state::{OpenedNode, StartingState};
use crate::usage::{self, ResourceUsage};
use crate::{input, script};

pub(crate) mod cluster;
mod compare;

/// The most steps that are listed; further ones are counted.
const LISTED: usize = 50;

/// A step of a simulation, to be printed.
struct StepLine<'a> {
    step: &'static str,
    /// The pod, or the step if it is about none.
    name: &'a str,
    is_rejected: bool,
    message: &'a str,
    /// The assignment of an admitted pod, for lines about its containers.
    assignment: Option<&'a Assignment>,
}

/// The result as JSON and YAML, for terminals and for the page.
#[derive(Serialize)]
pub(crate) struct SimulationReport<'a> {
    machine: &'a str,
    decider: String,
    policy: &'static str,
    scope: &'static str,
    counts: PodCounts,
    events: &'a [StepEvent],
    usage: Vec<ResourceUsage>,
    occupancy: Occupancy,
    /// Fields of pods that kube-scheduler or the kubelet checks and the simulation does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_simulated: Vec<NotSimulated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_pinfold: Option<AsPinfold>,
}

impl<'a> SimulationReport<'a> {
    /// The report about a simulation of these steps, with the decisions in which `pinfold` differs.
    pub(crate) fn of(
        node: &'a SimulatedNode,
        pinfold: Option<&SimulatedNode>,
        plan: &SimulationPlan<'_>,
        simulation: &'a Simulation,
    ) -> Self {
        Self {
            machine: &node.name,
            decider: node.decider.to_string(),
            policy: node.rules.policy().name(),
            scope: node.rules.scope().name(),
            counts: simulation.counts,
            events: &simulation.events,
            usage: usage::of(&simulation.ledger),
            occupancy: simulation.ledger.occupancy(),
            not_simulated: not_simulated(plan, simulation),
            as_pinfold: pinfold.and_then(|pinfold| plan.compare(simulation, pinfold)),
        }
    }

    /// The machine with the pods after all steps as SVG. `machine` is its name if it has none of its own.
    pub(crate) fn draw(&self, node: &SimulatedNode, machine: &str) -> String {
        let layout = MachineLayout::new(node.machine(), &self.occupancy);
        let title = match node.name.as_str() {
            "" => machine,
            name => name,
        };
        let caption = Caption {
            title,
            subtitle: &node.described(),
            distances: None,
        };
        svg::draw(&layout, &self.occupancy, caption)
    }
}

pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    output::print_rejected(args.output.without_picture(), simulate(args))
}

fn simulate(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    let decider = args.node.decider.decider;
    if args.cluster.is_cluster(decider) {
        return cluster::run(args);
    }
    let has_pods = !args.pods.manifests.is_empty() || !args.pods.more.filename.is_empty();
    if let (Some(journal), false, None) = (&args.start.journal, has_pods, &args.start.script) {
        let replay = JournalReplay::read(journal)?;
        let node = replay.node.with(args.node.policy, args.node.scope)?;
        let plan = SimulationPlan {
            replayed: Some(&replay.start),
            offers: &replay.offers,
            ..SimulationPlan::new(&replay.pods, &replay.steps)
        };
        return run_on(args, &node, None, &plan);
    }
    let OpenedNode {
        node,
        pinfold,
        start,
    } = args.start.open(&args.node)?;
    let objects = input::pods(&args.pods)?;
    let running = running(&start, &node)?;
    let first = running.len();
    let names = running.iter().map(|(_, name)| name.clone());
    let names: Vec<ScriptPod> = names.chain(objects.iter().map(ScriptPod::from)).collect();
    let steps = match &args.start.script {
        Some(script) => script::read(script, &names)?,
        None => (first..names.len()).map(SimulationStep::Add).collect(),
    };
    let requests = running
        .iter()
        .map(|(pod, _)| AdmissionRequest::of_resources(pod));
    let requests = requests.chain(objects.iter().map(AdmissionRequest::of));
    let admission = NodeAdmission::new(&node, requests.collect(), args.bound);
    let objects = objects.into_iter().map(|object| Arc::new(object.pod));
    let pods = running.into_iter().map(|(pod, _)| pod);
    let pods: Vec<Arc<Pod>> = pods.chain(objects).collect();
    let plan = SimulationPlan {
        rounds: args.repeat,
        start: Some(&start),
        admission: Some(admission),
        ..SimulationPlan::new(&pods, &steps)
    };
    run_on(args, &node, pinfold.as_ref(), &plan)
}

/// The running pods, for steps of a script about them.
fn running(
    start: &StartingState<'_>,
    node: &SimulatedNode,
) -> Result<Vec<(Arc<Pod>, ScriptPod)>, Failure> {
    Ok(match start {
        StartingState::Manifests(objects) => {
            let pods = objects.iter();
            pods.map(|object| (Arc::new(object.pod.clone()), ScriptPod::from(object)))
                .collect()
        }
        _ => start.on(node, true)?.pods,
    })
}

/// Takes the steps on a node and prints the result, with the decisions in which `pinfold` differs.
fn run_on(
    args: &SimulateArgs,
    node: &SimulatedNode,
    pinfold: Option<&SimulatedNode>,
    plan: &SimulationPlan<'_>,
) -> Result<ExitCode, Failure> {
    if args.compare {
        if args.output == SimulateFormat::Svg {
            return Err(Failure::BadInput(
                "-o svg draws one simulation: leave --compare out, and name one --policy"
                    .to_owned(),
            ));
        }
        return compare::run(node, plan, args.output.without_picture());
    }
    let simulation = plan.run_on(node)?;
    simulation
        .rejected_at_start
        .iter()
        .for_each(|line| remark(line));
    let report = SimulationReport::of(node, pinfold, plan, &simulation);
    let draw = || report.draw(node, &args.node.machine.machine);
    let as_text = || {
        let mut text = text(node, &simulation, &report.occupancy, &report.usage);
        text.push_str(&admission::not_simulated_text(&report.not_simulated));
        if let Some(as_pinfold) = &report.as_pinfold {
            text.push_str(&as_pinfold.text());
        }
        text
    };
    match args.output {
        SimulateFormat::Svg => output::print_raw(&draw())?,
        format => output::print_as(format.without_picture(), &report, as_text)?,
    }
    if let Some(path) = &args.svg {
        output::write_file(path, draw().as_bytes())?;
    }
    Ok(match simulation.counts.rejected {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REJECTED),
    })
}

/// What is not simulated about the pods of the steps and the running pods.
fn not_simulated(plan: &SimulationPlan<'_>, simulation: &Simulation) -> Vec<NotSimulated> {
    let Some(admission) = &simulation.admission else {
        return Vec::new();
    };
    let mut found = admission.not_simulated(plan.pods);
    if plan.start.is_some_and(StartingState::is_directory) {
        found.push(NotSimulated::of_state_files());
    }
    found
}

/// The result as text: the steps, the machine with its pods, and what is left.
pub(crate) fn text(
    node: &SimulatedNode,
    simulation: &Simulation,
    occupancy: &Occupancy,
    usages: &[ResourceUsage],
) -> String {
    let mut text = match node.name.as_str() {
        "" => String::new(),
        name => paragraph("", name, 2, width()),
    };
    text.push_str(&paragraph("", &node.described(), 2, width()));
    text.push('\n');
    text.push_str(&events(&simulation.events, occupancy));
    text.push('\n');
    let layout = MachineLayout::new(node.machine(), occupancy);
    let colour = output::colour();
    text.push_str(&grid::draw(
        &layout,
        occupancy,
        Legend::Names,
        width(),
        colour,
    ));
    if !usages.is_empty() {
        let _ = write!(text, "\n{}", usage::table(usages));
    }
    let PodCounts { admitted, rejected } = simulation.counts;
    let _ = writeln!(
        text,
        "\n{} admitted, {} rejected",
        count(admitted, "pod", "pods"),
        grouped(rejected)
    );
    text
}

/// One line per container of a pod with several containers, unless all of them are in the shared pool.
fn containers(assignment: Option<&Assignment>, indent: usize) -> String {
    let containers = assignment.map(|one| one.containers.as_slice());
    let Some(containers @ [_, _, ..]) = containers else {
        return String::new();
    };
    let is_shared = |one: &ContainerAssignment| placement::container(one) == placement::SHARED;
    if containers.iter().all(is_shared) {
        return String::new();
    }
    let line = |container: &ContainerAssignment| {
        let lead = format!("{:indent$}{}: ", "", container.name);
        let place = placement::container(container);
        paragraph(&lead, &place, indent + 2, width())
    };
    containers.iter().map(line).collect()
}

/// One line per step, with the letter of the pod in the picture.
fn events(events: &[StepEvent], occupancy: &Occupancy) -> String {
    let holders = occupancy.holders.iter().enumerate();
    let signs: BTreeMap<&str, char> = holders
        .map(|(index, holder)| (holder.name.as_str(), palette::sign(index)))
        .collect();
    let lines = events.iter().map(|event| StepLine {
        step: event.step,
        name: event.pod.as_deref().unwrap_or(event.step),
        is_rejected: event.rejection.is_some(),
        message: &event.message,
        assignment: event.assignment.as_ref(),
    });
    step_lines(lines.collect(), &signs)
}

/// One line per step with the letter of its pod, and the number of those that are not listed.
fn step_lines(mut lines: Vec<StepLine<'_>>, signs: &BTreeMap<&str, char>) -> String {
    let rest = lines.split_off(lines.len().min(LISTED));
    let widest = lines.iter().map(|line| line.name.chars().count()).max();
    let widest = widest.unwrap_or(0).clamp(7, 24);
    let mut text = String::new();
    for line in lines {
        let mark = match (line.step, line.is_rejected) {
            (_, true) => '✗',
            ("add", _) => *signs.get(line.name).unwrap_or(&'+'),
            ("remove", _) => '-',
            _ => ' ',
        };
        let lead = format!("{mark} {:<widest$}  ", line.name);
        text.push_str(&paragraph(&lead, line.message, widest + 4, width()));
        text.push_str(&containers(line.assignment, widest + 4));
    }
    if !rest.is_empty() {
        let rejected = rest.iter().filter(|line| line.is_rejected).count();
        let _ = writeln!(
            text,
            "  ... {}, {} of them rejected (-o json lists all)",
            count(rest.len(), "more step", "more steps"),
            grouped(rejected)
        );
    }
    text
}
