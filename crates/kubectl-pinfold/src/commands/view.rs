//! `kubectl pinfold view node`: a node with everybody on it, as text or as a picture.

use std::process::ExitCode;

use pinfold_core::name::NodeName;
use pinfold_core::occupancy::Occupancy;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::text::paragraph;
use pinfold_render::{grid, svg};
use serde::Serialize;

use super::cluster_state::ClusterState;
use super::occupancy;
use crate::args::{NodeViewArgs, ViewFormat};
use pinfold_terminal::{Failure, output};

/// A node for programs.
#[derive(Serialize)]
struct Report<'a> {
    node: &'a str,
    decider: String,
    /// Whether CPUs have their real numbers.
    numbered: bool,
    pods: usize,
    occupancy: &'a Occupancy,
    notes: &'a [String],
}

pub(crate) fn run(args: &NodeViewArgs) -> Result<ExitCode, Failure> {
    let state = ClusterState::open(&args.source, None)?;
    let sources = state.sources();
    let name = NodeName::from(args.name.as_str());
    let Some(found) = sources.get(&name) else {
        return Err(Failure::BadInput(format!(
            "no node {name} in this cluster of {}",
            sources.len()
        )));
    };
    if let Some(why) = state.unreadable.get(&name) {
        return Err(Failure::BadInput(format!(
            "what {name} reports cannot be understood: {why}"
        )));
    }
    let Some(portrait) = occupancy::portrait(&state, found) else {
        return Err(Failure::BadInput(format!(
            "nobody reports the NUMA nodes of {name}: run the agent there, or anything else that publishes a \
             NodeResourceTopology"
        )));
    };
    let pods = found.pods.len();
    let plan = MachineLayout::new(&portrait.machine, &portrait.occupancy);
    let report = Report {
        node: &args.name,
        decider: state.reading.decider.to_string(),
        numbered: !state.counted.contains(&name),
        pods,
        occupancy: &portrait.occupancy,
        notes: &state.notes,
    };
    match args.output {
        ViewFormat::Json => output::print_json(&report)?,
        ViewFormat::Yaml => output::print_yaml(&report)?,
        ViewFormat::Svg => {
            let title = match report.numbered {
                true => args.name.clone(),
                false => format!("{name} (numbers of CPUs and devices are stand-ins)"),
            };
            let picture = svg::draw(&plan, &portrait.occupancy, &title);
            output::print(&picture)?;
        }
        ViewFormat::Text => {
            let (width, colour) = (output::width(), output::colour());
            let mut text = format!("{name} ({})\n", state.described());
            text.push_str(&grid::draw(
                &plan,
                &portrait.occupancy,
                Legend::Holdings,
                width,
                colour,
            ));
            if !report.numbered {
                let note = "the numbers of CPUs and devices are stand-ins: the node reports counts";
                text.push('\n');
                text.push_str(&paragraph("Note: ", note, 6, width));
            }
            output::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
