//! `kubectl pinfold view node`: a drawing of a node with the CPUs, memory and devices of its pods.

use std::process::ExitCode;

use pinfold_cluster::NodeView;
use pinfold_core::name::NodeName;
use pinfold_core::occupancy::Occupancy;
use pinfold_render::grid::Legend;
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::Caption;
use pinfold_render::text::paragraph;
use pinfold_render::{grid, svg};
use serde::Serialize;

use super::cluster_state::ClusterState;
use super::occupancy;
use crate::args::{NodeViewArgs, ViewFormat};
use pinfold_terminal::{Failure, output};

/// The result as JSON or YAML.
#[derive(Serialize)]
pub(super) struct NodeViewReport {
    node: String,
    decider: String,
    /// Whether CPU ids are real; otherwise they are placeholders.
    real_ids: bool,
    pods: usize,
    occupancy: Occupancy,
    notes: Vec<String>,
}

pub(crate) fn run(args: &NodeViewArgs) -> Result<ExitCode, Failure> {
    let state = ClusterState::open(&args.source, None)?;
    let (view, report) = report(&state, &args.name)?;
    let plan = MachineLayout::new(&view.machine, &view.occupancy);
    let name = &args.name;
    match args.output {
        ViewFormat::Json => output::print_json(&report)?,
        ViewFormat::Yaml => output::print_yaml(&report)?,
        ViewFormat::Svg => {
            output::print_raw(&report.draw(&view))?;
        }
        ViewFormat::Text => {
            let (width, colour) = (output::width(), output::colour());
            let mut text = format!("{name} ({})\n", state.described());
            text.push_str(&grid::draw(
                &plan,
                &view.occupancy,
                Legend::Holdings,
                width,
                colour,
            ));
            if !report.real_ids {
                let note = "CPU and device ids are placeholders: the node reports counts only";
                text.push('\n');
                text.push_str(&paragraph("Note: ", note, 6, width));
            }
            output::print(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A node with its pods, and the report about it.
pub(super) fn report(
    state: &ClusterState,
    node: &str,
) -> Result<(NodeView, NodeViewReport), Failure> {
    let sources = state.sources();
    let name = NodeName::from(node);
    let Some(found) = sources.get(&name) else {
        return Err(Failure::BadInput(format!(
            "no node {name} among the {} nodes of the cluster",
            sources.len()
        )));
    };
    if let Some(why) = state.unreadable.get(&name) {
        return Err(Failure::BadInput(format!(
            "{name} has an invalid report: {why}"
        )));
    }
    let Some(view) = occupancy::node_view(state, found) else {
        return Err(Failure::BadInput(format!(
            "{name} reports no NUMA topology: run pinfold-agent on it, or another publisher of \
             NodeResourceTopology objects"
        )));
    };
    let pods = found.pods.len();
    let report = NodeViewReport {
        node: node.to_owned(),
        decider: state.options.decider.to_string(),
        real_ids: !state.counted.contains(&name),
        pods,
        occupancy: view.occupancy.clone(),
        notes: state.notes.clone(),
    };
    Ok((view, report))
}

impl NodeViewReport {
    /// The node as SVG.
    pub(super) fn draw(&self, view: &NodeView) -> String {
        let title = match self.real_ids {
            true => self.node.clone(),
            false => format!("{} (CPU and device ids are placeholders)", self.node),
        };
        let caption = Caption {
            title: &title,
            ..Caption::default()
        };
        let plan = MachineLayout::new(&view.machine, &view.occupancy);
        svg::draw(&plan, &view.occupancy, caption)
    }
}
