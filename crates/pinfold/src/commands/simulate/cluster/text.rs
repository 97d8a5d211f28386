//! The result of a simulation on a cluster as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use pinfold_cluster::{ClusterNode, Dialect};
use pinfold_core::name::NodeName;
use pinfold_render::grid::{self, Legend};
use pinfold_render::layout::MachineLayout;
use pinfold_render::palette;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, grouped, paragraph};

use super::{ClusterSimulationReport, NodeReport};
use crate::admission;
use crate::as_pinfold::AsPinfold;
use crate::cluster::SimulatedCluster;
use crate::commands::simulate::{LISTED, StepLine, step_lines};
use crate::output;
use crate::simulation::PodCounts;

/// The most nodes that are drawn.
const DRAWN: usize = 8;

/// The steps, the nodes with their pods, and the pods of each node.
pub(super) fn text(nodes: &SimulatedCluster, report: &ClusterSimulationReport) -> String {
    let number = nodes.cluster.nodes().count();
    let head = format!("{}, {}", count(number, "node", "nodes"), nodes.described());
    let mut text = paragraph("", &head, 2, output::width());
    text.push('\n');
    text.push_str(&events(report));
    for (name, _) in nodes.cluster.nodes().take(DRAWN) {
        let _ = write!(text, "\n{name}\n");
        let Some(portrait) = nodes.node_view(name) else {
            text.push_str(&zones(nodes, name));
            continue;
        };
        let layout = MachineLayout::new(&portrait.machine, &portrait.occupancy);
        let (width, colour) = (output::width(), output::colour());
        let names = Legend::Names;
        text.push_str(&grid::draw(
            &layout,
            &portrait.occupancy,
            names,
            width,
            colour,
        ));
    }
    if number > DRAWN {
        let rest = count(number - DRAWN, "more node", "more nodes");
        let _ = writeln!(text, "\n... {rest} (-o json lists all, --svg draws all)");
    }
    if number > 1 {
        let _ = write!(text, "\n{}", table(&report.nodes));
    }
    let PodCounts { admitted, rejected } = report.counts;
    let pods = count(admitted, "pod", "pods");
    let _ = writeln!(text, "\n{pods} placed, {} rejected", grouped(rejected));
    text.push_str(&admission::not_simulated_text(&report.not_simulated));
    text.extend(report.as_pinfold.as_ref().map(AsPinfold::text));
    text
}

/// The NUMA zones of a node's NodeResourceTopology as NodeResourceTopologyMatch sees them.
fn zones(nodes: &SimulatedCluster, name: &NodeName) -> String {
    let topology = match nodes.cluster.node(name).map(ClusterNode::dialect) {
        Some(Dialect::SchedulerPlugins(node)) => node.topology(),
        _ => None,
    };
    let Some(topology) = topology else {
        return "  reports no NUMA topology\n".to_owned();
    };
    let mut text = String::new();
    for zone in topology.zones.iter().filter(|zone| zone.kind == "Node") {
        let available = zone.resources.iter();
        let available: Vec<String> = available
            .map(|resource| format!("{} {}", resource.name, resource.available))
            .collect();
        let _ = writeln!(text, "  {}: available {}", zone.name, available.join(", "));
    }
    text
}

/// One line per step, with the letter of the pod in the picture of its node.
fn events(report: &ClusterSimulationReport) -> String {
    let mut signs = BTreeMap::new();
    for node in &report.nodes {
        let holders = node.occupancy.iter().flat_map(|node| &node.holders);
        for (index, holder) in holders.enumerate() {
            signs.insert(holder.name.as_str(), palette::sign(index));
        }
    }
    let lines = report.events.iter().map(|event| StepLine {
        step: event.step,
        name: &event.pod,
        is_rejected: !event.rejections.is_empty(),
        message: &event.message,
        assignment: None,
    });
    step_lines(lines.collect(), &signs)
}

/// Pods and CPUs of each node.
fn table(nodes: &[NodeReport]) -> String {
    let mut table = Table::new([
        ("node", Align::Left),
        ("pods", Align::Right),
        ("with exclusive CPUs", Align::Right),
        ("exclusive CPUs", Align::Right),
        ("shared CPUs", Align::Right),
    ]);
    for node in nodes.iter().take(LISTED) {
        let unknown = || "-".to_owned();
        let occupancy = node.occupancy.as_ref();
        let owners = occupancy.map(|node| {
            let owners = node.holders.iter();
            let owners: Vec<_> = owners.filter(|owner| !owner.cpus.is_empty()).collect();
            let held: usize = owners.iter().map(|owner| owner.cpus.len()).sum();
            (owners.len(), held)
        });
        table.row([
            node.node.to_string(),
            node.pods.to_string(),
            owners.map_or_else(unknown, |(owners, _)| owners.to_string()),
            owners.map_or_else(unknown, |(_, held)| held.to_string()),
            occupancy.map_or_else(unknown, |node| node.shared.len().to_string()),
        ]);
    }
    table.draw()
}
