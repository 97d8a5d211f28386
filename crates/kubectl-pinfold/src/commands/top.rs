//! `kubectl pinfold top`: the usage of every NUMA node as bars, without colour and within 80 columns.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use pinfold_core::name::NodeName;
use pinfold_render::amount;
use pinfold_render::text::{count, paragraph};
use serde::Serialize;

use super::cluster_state::ClusterState;
use super::occupancy::{NumaUsage, ResourceUsage, numa_usage};
use crate::args::{Sort, TopArgs};
use pinfold_terminal::{Failure, output};

/// The length of a bar.
const BAR: usize = 12;
/// The most columns for the names of nodes.
const MAX_NAME: usize = 20;

/// The result as JSON or YAML.
#[derive(Serialize)]
pub(super) struct TopReport {
    decider: String,
    pub(super) nodes: Vec<NodeUsage>,
    /// The NUMA node with the most free CPUs: the largest request that can still be aligned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) largest_free: Option<LargestFree>,
    pub(super) notes: Vec<String>,
}

/// The usage of one node.
#[derive(Serialize)]
pub(super) struct NodeUsage {
    pub(super) node: NodeName,
    pods: i64,
    numa: Vec<NumaUsage>,
}

/// The NUMA node with the most free CPUs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LargestFree {
    node: NodeName,
    numa_node: u32,
    free_cpus: u64,
    /// In bytes; `None` if the node does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_memory: Option<u64>,
}

pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let state = ClusterState::open(&args.source, None)?;
    let mut report = TopReport::of(&state, args.selector.as_deref());
    let nodes = &mut report.nodes;
    // The sort is stable: nodes of equal usage stay sorted by name.
    match args.sort {
        Sort::Name => {}
        Sort::Cpus => nodes.sort_by_key(|node| Reverse(node.utilization(|numa| numa.cpus))),
        Sort::Memory => nodes.sort_by_key(|node| Reverse(node.utilization(|numa| numa.memory))),
        Sort::Devices => {
            nodes.sort_by_key(|node| Reverse(node.utilization(NumaUsage::all_devices)));
        }
    }
    report.largest_free = largest_free(&report.nodes);
    output::print_as(args.output, &report, || text(&report, &state.described()))?;
    Ok(ExitCode::SUCCESS)
}

impl TopReport {
    /// The nodes with these labels, by name.
    pub(super) fn of(state: &ClusterState, selector: Option<&str>) -> Self {
        let mut notes = state.notes.clone();
        for (node, why) in &state.unreadable {
            notes.push(format!("{node} is left out: invalid report: {why}"));
        }
        let mut nodes = Vec::new();
        for (name, found) in state.sources() {
            let labels = &found.node.meta.labels;
            let Some(member) = state.cluster.node(&name) else {
                continue;
            };
            if selected(selector, labels) {
                nodes.push(NodeUsage {
                    pods: member.pods(),
                    numa: numa_usage(state, &found),
                    node: name,
                });
            }
        }
        Self {
            decider: state.options.decider.to_string(),
            largest_free: largest_free(&nodes),
            nodes,
            notes,
        }
    }
}

/// Whether labels match a selector: `KEY=VALUE` or `KEY`, separated by commas.
fn selected(selector: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
    let mut requirements = selector.iter().flat_map(|text| text.split(','));
    requirements.all(|one| match one.split_once('=') {
        Some((key, value)) => labels
            .get(key)
            .is_some_and(|own| own == value.trim_start_matches('=')),
        None => labels.contains_key(one),
    })
}

impl NumaUsage {
    fn all_devices(&self) -> ResourceUsage {
        let mut sum = ResourceUsage::default();
        self.devices.values().for_each(|share| sum.add(*share));
        sum
    }
}

impl NodeUsage {
    /// The part of a resource that is in use or reserved, in thousandths.
    fn utilization(&self, of: impl Fn(&NumaUsage) -> ResourceUsage) -> u64 {
        let mut sum = ResourceUsage::default();
        self.numa.iter().for_each(|numa| sum.add(of(numa)));
        let full = u128::from(sum.reserved.saturating_add(sum.used)) * 1000;
        u64::try_from(full / u128::from(sum.total.max(1))).unwrap_or(u64::MAX)
    }
}

fn largest_free(nodes: &[NodeUsage]) -> Option<LargestFree> {
    let mut best: Option<LargestFree> = None;
    for node in nodes {
        for numa in &node.numa {
            let Some(numa_node) = numa.numa_node else {
                continue;
            };
            let memory = (numa.memory.total > 0).then_some(numa.memory.free);
            let free = (numa.cpus.free, memory);
            if best
                .as_ref()
                .is_none_or(|best| free > (best.free_cpus, best.free_memory))
            {
                best = Some(LargestFree {
                    node: node.node.clone(),
                    numa_node,
                    free_cpus: free.0,
                    free_memory: free.1,
                });
            }
        }
    }
    best
}

fn text(report: &TopReport, described: &str) -> String {
    let width = output::width();
    let mut cpus = ResourceUsage::default();
    let numa = report.nodes.iter().flat_map(|node| &node.numa);
    numa.for_each(|numa| cpus.add(numa.cpus));
    let reported = report.nodes.iter().flat_map(|node| &node.numa);
    let reported = reported.filter(|numa| numa.numa_node.is_some()).count();
    let head = format!(
        "{}, {} ({described}): {} of {} CPUs used by pods, {} free.",
        count(report.nodes.len(), "node", "nodes"),
        count(reported, "NUMA node", "NUMA nodes"),
        cpus.used,
        cpus.total,
        cpus.free,
    );
    let mut text = paragraph("", &head, 2, width);
    if let Some(largest) = &report.largest_free {
        let cpus = usize::try_from(largest.free_cpus).unwrap_or(usize::MAX);
        let memory = largest.free_memory.map(amount::bytes);
        let sentence = format!(
            "Largest on one NUMA node: {} NUMA node {}, {}{} free.",
            largest.node,
            largest.numa_node,
            count(cpus, "CPU", "CPUs"),
            memory.map_or_else(String::new, |memory| format!(" and {memory}"))
        );
        text.push_str(&paragraph("", &sentence, 2, width));
    }
    text.push('\n');
    text.push_str(&rows(&report.nodes));
    if !report.nodes.is_empty() {
        text.push_str("\n# free   . used by pods   = reserved for the system\n");
    }
    if !report.notes.is_empty() {
        text.push('\n');
        for note in &report.notes {
            text.push_str(&paragraph("Note: ", note, 6, width));
        }
    }
    text
}

/// One line per NUMA node; devices that do not fit continue on further lines.
fn rows(nodes: &[NodeUsage]) -> String {
    let names = nodes.iter().map(|node| node.node.as_str().chars().count());
    let wide = names.max().unwrap_or(0).clamp(4, MAX_NAME);
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

/// `####......==`: free, used by pods and reserved.
fn bar(share: ResourceUsage) -> String {
    let total = u128::from(share.total);
    if total == 0 {
        return format!("{:<BAR$}", "-");
    }
    let signs = |amount: u64| {
        let exact = u128::from(amount) * BAR as u128;
        // At least one sign for every amount above 0.
        let rounded = (exact + total / 2) / total;
        usize::try_from(rounded.max(u128::from(amount > 0))).unwrap_or(BAR)
    };
    let reserved = signs(share.reserved).min(BAR);
    let least_used = usize::from(share.used > 0);
    let most_free = BAR.saturating_sub(reserved + least_used);
    let free = match share.used {
        // What rounding leaves over is free.
        0 => most_free,
        _ => signs(share.free).min(most_free),
    };
    let used = BAR.saturating_sub(free + reserved);
    format!(
        "{}{}{}",
        "#".repeat(free),
        ".".repeat(used),
        "=".repeat(reserved)
    )
}

/// `60/64G`.
fn short_bytes(share: ResourceUsage) -> String {
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
fn device((name, share): (&String, &ResourceUsage)) -> String {
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

    fn usage(total: u64, reserved: u64, used: u64) -> ResourceUsage {
        ResourceUsage {
            total,
            reserved,
            used,
            free: total - reserved - used,
        }
    }

    #[test]
    fn a_bar_has_a_fixed_length_and_a_sign_for_every_amount_above_0() {
        for (one, drawn) in [
            (usage(16, 0, 0), "############"),
            (usage(16, 0, 16), "............"),
            (usage(16, 2, 14), "..........=="),
            (usage(16, 4, 4), "######...==="),
            (usage(1000, 1, 998), "#..........="),
            (usage(1000, 0, 1), "###########."),
            (usage(1000, 1, 0), "###########="),
            (usage(0, 0, 0), "-           "),
        ] {
            assert_eq!(bar(one), drawn, "{one:?}");
        }
    }

    #[test]
    fn a_selector_requires_all_its_labels() {
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
