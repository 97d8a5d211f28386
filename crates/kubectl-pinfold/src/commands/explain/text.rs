//! The text of `explain pod`.

use std::collections::BTreeSet;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, paragraph};

use super::super::moves::{MovePlan, PodMove};
use super::{BoundLocation, CandidateNode, LocationEvidence, PodExplanation, RequestedMoves};
use pinfold_terminal::output;

/// The most nodes in the table; further ones are counted.
const MAX_ROWS: usize = 10;

/// The result as text.
pub(super) fn text(found: &PodExplanation) -> String {
    let width = output::width();
    let say = |sentence: &str| paragraph("", sentence, 2, width);
    let mut text = say(&head(found));
    if let Some(message) = &found.scheduler {
        text.push_str(&say(&format!("Scheduler: {message}")));
    }
    if let Some(message) = &found.start_failure {
        text.push_str(&say(&format!("Node: {message}")));
    }
    if !found.because.is_empty() {
        let counted = found
            .location
            .as_ref()
            .map(|home| found.is_counted(&home.node));
        text.push_str(match counted {
            Some(true) => "\nIf scheduled now (CPU and device ids are placeholders):\n",
            _ => "\nIf scheduled now:\n",
        });
        text.push_str(&found.because);
    }
    if !found.fits.is_empty() {
        text.push('\n');
        text.push_str(&candidates(found));
    }
    if !found.rejections.is_empty() {
        text.push_str("\nRejected by\n");
        for reason in &found.rejections {
            text.push_str(&paragraph("  ", &reason.text(), 4, width));
        }
    }
    let mut number = 0;
    let mut listed = |sentence: &str| {
        number += 1;
        paragraph(&format!("{number:>2}. "), sentence, 4, width)
    };
    let mut remedies = String::new();
    for change in &found.changes {
        let place = place(
            &change.cpus,
            change.numa_nodes,
            found.is_counted(&change.node),
        );
        let sentence = format!("{} ({}: {place})", change.change, change.node);
        remedies.push_str(&listed(&sentence));
    }
    for plan in &found.moves {
        remedies.push_str(&listed(&moving(plan, &found.counted)));
    }
    if !remedies.is_empty() {
        text.push_str("\nWhat would fit\n");
        text.push_str(&remedies);
    }
    if let Some(moves) = &found.if_moved {
        text.push('\n');
        text.push_str(&requested_moves(moves, found, width));
    }
    if !found.notes.is_empty() {
        text.push('\n');
        for note in &found.notes {
            text.push_str(&paragraph("Note: ", note, 6, width));
        }
    }
    text
}

impl PodExplanation {
    fn is_counted(&self, node: &NodeName) -> bool {
        self.counted.contains(node)
    }
}

fn head(found: &PodExplanation) -> String {
    let rejecting: usize = found.rejections.iter().map(|one| one.nodes.len()).sum();
    let all = found.fits.len() + rejecting;
    let of = |some: usize| match (some, all) {
        (0, 1) => "does not fit the only node".to_owned(),
        (0, _) => format!("fits none of {all} nodes"),
        (_, 1) => "fits the only node".to_owned(),
        (some, _) => format!("fits {some} of {all} nodes"),
    };
    let described = &found.described;
    match &found.location {
        Some(home) if found.start_failure.is_some() => format!(
            "Pod {} is bound to {}, which does not start it ({described}).",
            found.name, home.node
        ),
        Some(home) => format!("Pod {} is on {} ({described}).", found.name, location(home)),
        None if found.fits.is_empty() => {
            format!("Pod {} is pending: it {} ({described}).", found.name, of(0))
        }
        None => format!(
            "Pod {} is pending but {} ({described}): its scheduler has not bound it yet.",
            found.name,
            of(found.fits.len())
        ),
    }
}

fn location(home: &BoundLocation) -> String {
    let there = place(&home.cpus, home.numa_nodes, false);
    let node = &home.node;
    match home.evidence {
        LocationEvidence::Annotation => format!("{node}, {there} (from its annotation)"),
        LocationEvidence::Report => format!("{node}, {there} (from the node's report)"),
        LocationEvidence::Counts => {
            format!(
                "{node}, {there} (the only location that matches the counts in the node's report)"
            )
        }
        LocationEvidence::OneOf => format!("{node}, on one of {there}; nothing reports which"),
        LocationEvidence::Shared => format!("{node}, in the shared pool"),
        LocationEvidence::Unknown => format!("{node}; nothing reports its NUMA nodes"),
    }
}

/// `NUMA node 0, CPUs 4-7`, or `NUMA node 0, 4 CPUs` where CPU ids are placeholders.
pub(super) fn place(cpus: &CpuSet, numa: NodeSet, counted: bool) -> String {
    let mut words = Vec::new();
    match numa.len() {
        0 => {}
        1 => words.push(format!("NUMA node {numa}")),
        _ => words.push(format!("NUMA nodes {numa}")),
    }
    match (cpus.len(), counted) {
        (0, _) if numa.is_empty() => words.push("shared pool".to_owned()),
        (0, _) => {}
        (number, true) => words.push(count(number, "CPU", "CPUs")),
        (1, false) => words.push(format!("CPU {cpus}")),
        (_, false) => words.push(format!("CPUs {cpus}")),
    }
    words.join(", ")
}

fn candidates(found: &PodExplanation) -> String {
    let mut table = Table::new([
        ("node", Align::Left),
        ("score", Align::Right),
        ("placement", Align::Left),
    ]);
    for CandidateNode {
        node,
        score,
        cpus,
        numa_nodes,
    } in found.fits.iter().take(MAX_ROWS)
    {
        table.row([
            node.to_string(),
            score.to_string(),
            place(cpus, *numa_nodes, found.is_counted(node)),
        ]);
    }
    let mut text = table.draw();
    if let Some(more @ 1..) = found.fits.len().checked_sub(MAX_ROWS) {
        let rest = count(more, "more node", "more nodes");
        text.push_str(&format!("... {rest} (-o json lists all)\n"));
    }
    text
}

/// `moving a from n1 to NUMA node 0 of n2 (n1: NUMA node 1, 4 CPUs)`.
fn moving(plan: &MovePlan, counted: &BTreeSet<NodeName>) -> String {
    let there = place(&plan.cpus, plan.numa_nodes, counted.contains(&plan.node));
    let moves: Vec<String> = plan.moves.iter().map(pod_move).collect();
    format!("moving {} ({}: {there})", moves.join(" and "), plan.node)
}

fn pod_move(moved: &PodMove) -> String {
    let PodMove { pod, from, to, .. } = moved;
    let place = match moved.numa_nodes.len() {
        0 => String::new(),
        1 => format!("NUMA node {} of ", moved.numa_nodes),
        _ => format!("NUMA nodes {} of ", moved.numa_nodes),
    };
    match to {
        Some(to) if to == from => format!("{pod} to {place}{to}"),
        Some(to) => format!("{pod} from {from} to {place}{to}"),
        None => format!("{pod} away from {from}"),
    }
}

/// The result of `--if-moved`.
fn requested_moves(moves: &RequestedMoves, found: &PodExplanation, width: usize) -> String {
    let pods = moves.pods.join(" and ");
    let mut text = String::new();
    for result in &moves.results {
        let assuming = match result.assuming.is_empty() {
            true => String::new(),
            false => format!(" (if {})", result.assuming.join(" and ")),
        };
        let sentence = match &result.plan {
            None => format!(
                "If {pods} moved{assuming}: {} would still fit no node.",
                found.name
            ),
            Some(plan) => {
                let there = place(&plan.cpus, plan.numa_nodes, found.is_counted(&plan.node));
                let unplaced: Vec<&str> = plan
                    .moves
                    .iter()
                    .filter(|one| one.to.is_none())
                    .map(|one| one.pod.as_str())
                    .collect();
                let rest = match unplaced.is_empty() {
                    true => {
                        let moves: Vec<String> = plan.moves.iter().map(pod_move).collect();
                        format!(", after moving {}", moves.join(" and "))
                    }
                    false => format!("; but no node would admit {}", unplaced.join(", ")),
                };
                format!(
                    "If {pods} moved{assuming}: {} would fit on {}, {there}{rest}.",
                    found.name, plan.node
                )
            }
        };
        text.push_str(&paragraph("", &sentence, 2, width));
    }
    text
}
