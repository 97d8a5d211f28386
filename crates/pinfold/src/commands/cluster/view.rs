//! `pinfold cluster view node`: a node with everybody on it, as text or as a picture.

use std::process::ExitCode;

use pinfold_core::name::NodeName;
use pinfold_core::occupancy::Occupancy;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::text::paragraph;
use pinfold_render::{grid, svg};
use serde::Serialize;

use super::scene::Scene;
use super::{NodeViewArgs, View, occupancy};
use crate::exit::Failure;
use crate::output;

/// A node for programs.
#[derive(Serialize)]
struct Report<'a> {
    node: &'a str,
    dialect: &'static str,
    /// Whether CPUs have their real numbers.
    numbered: bool,
    pods: usize,
    occupancy: &'a Occupancy,
    notes: &'a [String],
}

pub(super) fn run(args: &NodeViewArgs) -> Result<ExitCode, Failure> {
    let scene = Scene::open(&args.source, None)?;
    let sources = scene.sources();
    let name = NodeName::from(args.name.as_str());
    let Some(found) = sources.get(&name) else {
        return Err(Failure::BadInput(format!(
            "no node {name} in this cluster of {}",
            sources.len()
        )));
    };
    if let Some(why) = scene.unreadable.get(&name) {
        return Err(Failure::BadInput(format!(
            "what {name} reports cannot be understood: {why}"
        )));
    }
    let Some(portrait) = occupancy::portrait(&scene, found) else {
        return Err(Failure::BadInput(format!(
            "nobody reports the NUMA nodes of {name}: run the agent there, or anything else that publishes a \
             NodeResourceTopology"
        )));
    };
    let pods = found.pods.len();
    let plan = MachineLayout::new(&portrait.machine, &portrait.occupancy);
    let report = Report {
        node: &args.name,
        dialect: scene.nodes.reading.dialect.name(),
        numbered: !scene.counted.contains(&name),
        pods,
        occupancy: &portrait.occupancy,
        notes: &scene.notes,
    };
    match args.output {
        View::Json => output::print_json(&report)?,
        View::Yaml => output::print_yaml(&report)?,
        View::Svg => {
            let title = match report.numbered {
                true => args.name.clone(),
                false => format!("{name} (numbers of CPUs and devices are stand-ins)"),
            };
            let picture = svg::draw(&plan, &portrait.occupancy, &title);
            output::print(&picture)?;
        }
        View::Text => {
            let (width, colour) = (output::width(), output::colour());
            let mut text = format!("{name} ({})\n", scene.described());
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
