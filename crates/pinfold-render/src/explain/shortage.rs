//! The table of a rejection: the requested amount of every resource, and what each NUMA node has.

use pinfold_core::explanation::{MemoryGrouping, ResourceFacts};

use super::phrases::{WIDTH, bare, clip};
use crate::table::{Align, Table};

/// The maximum number of NUMA nodes shown for one resource: those with the most free.
const SHOWN: usize = 8;
/// The maximum width of a resource's name.
const NAME: usize = 20;

/// One row per resource and NUMA node that has any of it, then one for all of them together.
/// Columns are not shortened for a terminal of less than 80 columns.
pub(super) fn table(facts: &[ResourceFacts], width: usize) -> String {
    let mut table = Table::new([
        ("resource", Align::Left),
        ("node", Align::Right),
        ("requested", Align::Right),
        ("free", Align::Right),
        ("total", Align::Right),
        ("missing", Align::Right),
        ("", Align::Left),
    ]);
    for resource in facts {
        add(&mut table, resource);
    }
    let lines = table.draw();
    let most = width.max(WIDTH);
    lines.lines().map(|line| clip(line, most) + "\n").collect()
}

fn add(table: &mut Table, facts: &ResourceFacts) {
    let amount = |amount| bare(facts.manager, amount);
    let mut row = |first: bool, place: String, free: u64, total: u64, note: String| {
        let name = if first {
            clip(facts.resource.as_str(), NAME)
        } else {
            String::new()
        };
        let missing = match facts.requested.saturating_sub(free) {
            0 => "-".to_owned(),
            missing => amount(missing),
        };
        let requested = if first {
            amount(facts.requested)
        } else {
            String::new()
        };
        table.row([
            name,
            place,
            requested,
            amount(free),
            amount(total),
            missing,
            note,
        ]);
    };
    let mut shown: Vec<_> = facts.nodes.iter().filter(|node| node.total > 0).collect();
    let hidden = shown.len().saturating_sub(SHOWN);
    if hidden > 0 {
        shown.sort_by_key(|node| std::cmp::Reverse(node.free));
        shown.truncate(SHOWN);
        shown.sort_by_key(|node| node.node);
    }
    let mut first = true;
    for node in &shown {
        let note = match node.grouping {
            MemoryGrouping::Unrestricted => String::new(),
            MemoryGrouping::SingleNodeOnly => "single-node only".to_owned(),
            MemoryGrouping::Group(group) => clip(&format!("group {group} only"), 16),
        };
        row(
            std::mem::take(&mut first),
            node.node.to_string(),
            node.free,
            node.total,
            note,
        );
    }
    if facts.without_topology.total > 0 {
        row(
            std::mem::take(&mut first),
            "none".to_owned(),
            facts.without_topology.free,
            facts.without_topology.total,
            String::new(),
        );
    }
    let places = shown.len() + usize::from(facts.without_topology.total > 0);
    if places != 1 {
        let note = if hidden > 0 {
            format!("{hidden} not shown")
        } else {
            String::new()
        };
        row(first, "all".to_owned(), facts.free, facts.total, note);
    }
}
