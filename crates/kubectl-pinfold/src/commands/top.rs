//! `kubectl pinfold top`: how full every NUMA node is, in bars that need no colour and 80 columns.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use pinfold_core::name::NodeName;
use pinfold_render::amount;
use pinfold_render::text::{count, paragraph};
use serde::Serialize;

use super::cluster_state::ClusterState;
use super::occupancy::{NumaUse, Share, uses};
use crate::args::{Sort, TopArgs};
use pinfold_terminal::{Failure, output};

/// How many signs a bar has.
const BAR: usize = 12;
/// The longest that names of nodes get.
const LONGEST: usize = 20;

/// All nodes.
#[derive(Serialize)]
struct Report {
    decider: String,
    nodes: Vec<NodeUse>,
    /// The NUMA node with the most free CPUs, where a pod aligned to one would still go.
    #[serde(skip_serializing_if = "Option::is_none")]
    roomiest: Option<Roomiest>,
    notes: Vec<String>,
}

/// One node.
#[derive(Serialize)]
struct NodeUse {
    node: NodeName,
    pods: i64,
    numa: Vec<NumaUse>,
}

/// The NUMA node with the most free CPUs.
#[derive(Clone, Debug, Serialize)]
struct Roomiest {
    node: NodeName,
    numa_node: u32,
    free_cpus: u64,
    /// In bytes; `None` if nobody reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_memory: Option<u64>,
}

pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let mut state = ClusterState::open(&args.source, None)?;
    let mut notes = std::mem::take(&mut state.notes);
    for (node, why) in &state.unreadable {
        notes.push(format!(
            "{node} is left out: what it reports cannot be understood: {why}"
        ));
    }
    let mut nodes = Vec::new();
    for (name, found) in state.sources() {
        let labels = &found.node.meta.labels;
        let Some(member) = state.cluster.node(&name) else {
            continue;
        };
        if selected(args.selector.as_deref(), labels) {
            nodes.push(NodeUse {
                pods: member.pods(),
                numa: uses(&state, &found),
                node: name,
            });
        }
    }
    // Stable: equally full nodes stay in the order of their names.
    match args.sort {
        Sort::Name => {}
        Sort::Cpus => nodes.sort_by_key(|node| Reverse(node.fullness(|numa| numa.cpus))),
        Sort::Memory => nodes.sort_by_key(|node| Reverse(node.fullness(|numa| numa.memory))),
        Sort::Devices => nodes.sort_by_key(|node| Reverse(node.fullness(NumaUse::all_devices))),
    }
    let report = Report {
        decider: state.reading.decider.to_string(),
        roomiest: roomiest(&nodes),
        nodes,
        notes,
    };
    output::print_as(args.output, &report, || text(&report, &state.described()))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a node has the labels that were asked for: `KEY=VALUE` or `KEY`, with commas.
fn selected(selector: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
    let mut wanted = selector.iter().flat_map(|text| text.split(','));
    wanted.all(|one| match one.split_once('=') {
        Some((key, value)) => labels
            .get(key)
            .is_some_and(|own| own == value.trim_start_matches('=')),
        None => labels.contains_key(one),
    })
}

impl NumaUse {
    fn all_devices(&self) -> Share {
        let mut sum = Share::default();
        self.devices.values().for_each(|share| sum.add(*share));
        sum
    }
}

impl NodeUse {
    /// The share that is taken, in thousandths.
    fn fullness(&self, of: impl Fn(&NumaUse) -> Share) -> u64 {
        let mut sum = Share::default();
        self.numa.iter().for_each(|numa| sum.add(of(numa)));
        let full = u128::from(sum.kept.saturating_add(sum.held)) * 1000;
        u64::try_from(full / u128::from(sum.total.max(1))).unwrap_or(u64::MAX)
    }
}

fn roomiest(nodes: &[NodeUse]) -> Option<Roomiest> {
    let mut best: Option<Roomiest> = None;
    for node in nodes {
        for numa in &node.numa {
            let Some(numa_node) = numa.numa_node else {
                continue;
            };
            let memory = (numa.memory.total > 0).then_some(numa.memory.free);
            let room = (numa.cpus.free, memory);
            if best
                .as_ref()
                .is_none_or(|best| room > (best.free_cpus, best.free_memory))
            {
                best = Some(Roomiest {
                    node: node.node.clone(),
                    numa_node,
                    free_cpus: room.0,
                    free_memory: room.1,
                });
            }
        }
    }
    best
}

fn text(report: &Report, described: &str) -> String {
    let width = output::width();
    let mut cpus = Share::default();
    let numa = report.nodes.iter().flat_map(|node| &node.numa);
    numa.for_each(|numa| cpus.add(numa.cpus));
    let reported = report.nodes.iter().flat_map(|node| &node.numa);
    let reported = reported.filter(|numa| numa.numa_node.is_some()).count();
    let head = format!(
        "{}, {} ({described}): {} of {} CPUs held by pods, {} free.",
        count(report.nodes.len(), "node", "nodes"),
        count(reported, "NUMA node", "NUMA nodes"),
        cpus.held,
        cpus.total,
        cpus.free,
    );
    let mut text = paragraph("", &head, 2, width);
    if let Some(room) = &report.roomiest {
        let cpus = usize::try_from(room.free_cpus).unwrap_or(usize::MAX);
        let memory = room.free_memory.map(amount::bytes);
        let sentence = format!(
            "Roomiest: {} NUMA node {}, {}{} free.",
            room.node,
            room.numa_node,
            count(cpus, "CPU", "CPUs"),
            memory.map_or_else(String::new, |memory| format!(" and {memory}"))
        );
        text.push_str(&paragraph("", &sentence, 2, width));
    }
    text.push('\n');
    text.push_str(&rows(&report.nodes));
    if !report.nodes.is_empty() {
        text.push_str("\n# held by pods   = kept for the system   . free\n");
    }
    if !report.notes.is_empty() {
        text.push('\n');
        for note in &report.notes {
            text.push_str(&paragraph("Note: ", note, 6, width));
        }
    }
    text
}

/// One line per NUMA node; devices that do not fit get lines of their own.
fn rows(nodes: &[NodeUse]) -> String {
    let names = nodes.iter().map(|node| node.node.as_str().chars().count());
    let wide = names.max().unwrap_or(0).clamp(4, LONGEST);
    let mut text = format!(
        "{:<wide$} NUMA {:<18} {:<22} devices free\n",
        "node", "CPUs free", "memory free"
    );
    for node in nodes {
        for (line, numa) in node.numa.iter().enumerate() {
            let name = match line {
                0 => shortened(node.node.as_str(), wide),
                _ => String::new(),
            };
            let id = numa.numa_node.map_or("-".to_owned(), |id| id.to_string());
            let lead = format!(
                "{name:<wide$} {id:>4} {} {:<5} {} {:<9} ",
                bar(numa.cpus),
                format!("{}/{}", numa.cpus.free, numa.cpus.total),
                bar(numa.memory),
                short_bytes(numa.memory),
            );
            let lead_width = lead.chars().count();
            let devices: Vec<String> = numa.devices.iter().map(device).collect();
            let mut line = lead;
            let mut column = lead_width;
            for (index, device) in devices.iter().enumerate() {
                let own = device.chars().count();
                if index > 0 && column + 1 + own > output::width() {
                    let _ = write!(text, "{}\n{:lead_width$}", line.trim_end(), "");
                    line = String::new();
                    column = lead_width;
                } else if index > 0 {
                    line.push(' ');
                    column += 1;
                }
                line.push_str(device);
                column += own;
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    text
}

/// `####==......`: what pods hold, what is kept, what is free.
fn bar(share: Share) -> String {
    let total = u128::from(share.total);
    if total == 0 {
        return format!("{:<BAR$}", "-");
    }
    let signs = |amount: u64| {
        let exact = u128::from(amount) * BAR as u128;
        // A little is never nothing.
        let rounded = (exact + total / 2) / total;
        usize::try_from(rounded.max(u128::from(amount > 0))).unwrap_or(BAR)
    };
    let kept = signs(share.kept).min(BAR);
    let room = usize::from(share.free > 0);
    let held = signs(share.held).min(BAR.saturating_sub(kept + room));
    let held = match (share.held > 0, held) {
        (true, 0) => 1,
        (_, held) => held,
    };
    let free = BAR.saturating_sub(held + kept);
    format!(
        "{}{}{}",
        "#".repeat(held),
        "=".repeat(kept),
        ".".repeat(free)
    )
}

/// `60/64G`.
fn short_bytes(share: Share) -> String {
    if share.total == 0 {
        return String::new();
    }
    const GIB: u64 = 1 << 30;
    match share.total {
        0..GIB => format!("{}/{}M", share.free >> 20, share.total >> 20),
        _ => format!("{}/{}G", share.free / GIB, share.total.div_ceil(GIB)),
    }
}

/// `gpu 1/4`.
fn device((name, share): (&String, &Share)) -> String {
    let kind = name.rsplit('/').next().unwrap_or_default();
    format!("{} {}/{}", shortened(kind, 14), share.free, share.total)
}

fn shortened(name: &str, wide: usize) -> String {
    match name.chars().count() > wide {
        true => name.chars().take(wide - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(total: u64, kept: u64, held: u64) -> Share {
        Share {
            total,
            kept,
            held,
            free: total - kept - held,
        }
    }

    #[test]
    fn a_bar_is_always_as_long_and_shows_the_least_of_everything() {
        for (share, drawn) in [
            (share(16, 0, 0), "............"),
            (share(16, 0, 16), "############"),
            (share(16, 2, 14), "##########=="),
            (share(16, 4, 4), "###===......"),
            (share(1000, 1, 998), "##########=."),
            (share(1000, 0, 1), "#..........."),
            (share(0, 0, 0), "-           "),
        ] {
            assert_eq!(bar(share), drawn, "{share:?}");
        }
    }

    #[test]
    fn nodes_are_selected_by_all_of_their_labels() {
        let labels = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
        for (selector, expected) in [
            (None, true),
            (Some("zone=a"), true),
            (Some("zone==a"), true),
            (Some("zone"), true),
            (Some("zone=b"), false),
            (Some("zone=a,rack"), false),
        ] {
            assert_eq!(selected(selector, &labels), expected, "{selector:?}");
        }
    }
}
