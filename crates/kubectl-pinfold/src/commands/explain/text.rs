//! An explanation for people.

use std::collections::BTreeSet;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_render::table::{Align, Table};
use pinfold_render::text::{count, paragraph};

use super::super::moves::{Moved, Plan};
use super::{Candidate, Explanation, IfMoved, Knowledge, Place};
use pinfold_terminal::output;

/// More nodes than this are counted, not listed.
const LISTED: usize = 10;

/// The whole answer.
pub(super) fn text(found: &Explanation) -> String {
    let width = output::width();
    let say = |sentence: &str| paragraph("", sentence, 2, width);
    let mut text = say(&head(found));
    if let Some(said) = &found.scheduler {
        text.push_str(&say(&format!("Its scheduler says: {said}")));
    }
    if !found.because.is_empty() {
        let counted = found
            .place
            .as_ref()
            .map(|home| found.is_counted(&home.node));
        text.push_str(match counted {
            Some(true) => {
                "\nWere it placed there now (the numbers of CPUs and devices are stand-ins):\n"
            }
            _ => "\nWere it placed there now:\n",
        });
        text.push_str(&found.because);
    }
    if !found.fits.is_empty() {
        text.push('\n');
        text.push_str(&candidates(found));
    }
    if !found.rejections.is_empty() {
        text.push_str("\nrejected by\n");
        for reason in &found.rejections {
            text.push_str(&paragraph("  ", &reason.told(), 4, width));
        }
    }
    let mut number = 0;
    let mut listed = |sentence: &str| {
        number += 1;
        paragraph(&format!("{number:>2}. "), sentence, 4, width)
    };
    let mut ways = String::new();
    for change in &found.changes {
        let place = place(
            &change.cpus,
            change.numa_nodes,
            found.is_counted(&change.node),
        );
        let sentence = format!("{} ({}: {place})", change.change, change.node);
        ways.push_str(&listed(&sentence));
    }
    for plan in &found.moves {
        ways.push_str(&listed(&moving(plan, &found.counted)));
    }
    if !ways.is_empty() {
        text.push_str("\nWhat would fit\n");
        text.push_str(&ways);
    }
    if let Some(moved) = &found.if_moved {
        text.push('\n');
        text.push_str(&asked(moved, found, width));
    }
    if !found.notes.is_empty() {
        text.push('\n');
        for note in &found.notes {
            text.push_str(&paragraph("Note: ", note, 6, width));
        }
    }
    text
}

impl Explanation {
    fn is_counted(&self, node: &NodeName) -> bool {
        self.counted.contains(node)
    }
}

fn head(found: &Explanation) -> String {
    let rejecting: usize = found.rejections.iter().map(|one| one.nodes.len()).sum();
    let all = found.fits.len() + rejecting;
    let of = |some: usize| match (some, all) {
        (0, 1) => "does not fit the only node".to_owned(),
        (0, _) => format!("fits none of {all} nodes"),
        (_, 1) => "fits the only node".to_owned(),
        (some, _) => format!("fits {some} of {all} nodes"),
    };
    let described = &found.described;
    match &found.place {
        Some(home) => format!(
            "Pod {} is on {} ({described}).",
            found.name,
            node_of_pod(home)
        ),
        None if found.fits.is_empty() => {
            format!("Pod {} waits: it {} ({described}).", found.name, of(0))
        }
        None => format!(
            "Pod {} waits, though it {} ({described}): its scheduler has not bound it yet.",
            found.name,
            of(found.fits.len())
        ),
    }
}

fn node_of_pod(home: &Place) -> String {
    let there = place(&home.cpus, home.numa_nodes, false);
    let node = &home.node;
    match home.known_by {
        Knowledge::Annotation => format!("{node}, {there}, as its annotation says"),
        Knowledge::Report => format!("{node}, {there}, as its node reports"),
        Knowledge::Counts => {
            format!("{node}, {there}: what is in use there adds up in no other way")
        }
        Knowledge::OneOf => format!("{node}, on one of the {there}; nobody says which"),
        Knowledge::Shared => format!("{node}, in the shared pool"),
        Knowledge::Nobody => format!("{node}; nobody says on which NUMA nodes"),
    }
}

/// `NUMA node 0, CPUs 4-7`; where CPUs have no numbers, `NUMA node 0, 4 CPUs`.
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

fn candidates(found: &Explanation) -> String {
    let mut table = Table::new([
        ("node", Align::Left),
        ("score", Align::Right),
        ("it would get", Align::Left),
    ]);
    for Candidate {
        node,
        score,
        cpus,
        numa_nodes,
    } in found.fits.iter().take(LISTED)
    {
        table.row([
            node.to_string(),
            score.to_string(),
            place(cpus, *numa_nodes, found.is_counted(node)),
        ]);
    }
    let mut text = table.draw();
    if let Some(more @ 1..) = found.fits.len().checked_sub(LISTED) {
        let rest = count(more, "more node", "more nodes");
        text.push_str(&format!("... {rest} (-o json lists all)\n"));
    }
    text
}

/// `moving a from n1 to NUMA node 0 of n2 (n1: NUMA node 1, 4 CPUs)`.
fn moving(plan: &Plan, counted: &BTreeSet<NodeName>) -> String {
    let there = place(&plan.cpus, plan.numa_nodes, counted.contains(&plan.node));
    let movers: Vec<String> = plan.moves.iter().map(mover).collect();
    format!("moving {} ({}: {there})", movers.join(" and "), plan.node)
}

fn mover(moved: &Moved) -> String {
    let Moved { pod, from, to, .. } = moved;
    let place = match moved.numa_nodes.len() {
        0 => String::new(),
        1 => format!("NUMA node {} of ", moved.numa_nodes),
        _ => format!("NUMA nodes {} of ", moved.numa_nodes),
    };
    match to {
        Some(to) if to == from => format!("{pod} to {place}{to} itself"),
        Some(to) => format!("{pod} from {from} to {place}{to}"),
        None => format!("{pod} away from {from}"),
    }
}

/// What comes of the moves that were asked about.
fn asked(moved: &IfMoved, found: &Explanation, width: usize) -> String {
    let who = moved.pods.join(" and ");
    let mut text = String::new();
    for outcome in &moved.outcomes {
        let assuming = match outcome.assuming.is_empty() {
            true => String::new(),
            false => format!(" (if {})", outcome.assuming.join(" and ")),
        };
        let sentence = match &outcome.plan {
            None => format!(
                "If {who} moved{assuming}: {} would still fit nowhere.",
                found.name
            ),
            Some(plan) => {
                let there = place(&plan.cpus, plan.numa_nodes, found.is_counted(&plan.node));
                let stranded: Vec<&str> = plan
                    .moves
                    .iter()
                    .filter(|one| one.to.is_none())
                    .map(|one| one.pod.as_str())
                    .collect();
                let rest = match stranded.is_empty() {
                    true => {
                        let movers: Vec<String> = plan.moves.iter().map(mover).collect();
                        format!(", with {}", movers.join(" and "))
                    }
                    false => format!("; but then no node takes {}", stranded.join(", ")),
                };
                format!(
                    "If {who} moved{assuming}: {} would go to {}, {there}{rest}.",
                    found.name, plan.node
                )
            }
        };
        text.push_str(&paragraph("", &sentence, 2, width));
    }
    text
}
