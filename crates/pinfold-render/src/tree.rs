//! The machine as an outline: sockets, NUMA nodes, caches and cores, then the distances between nodes.

use std::collections::BTreeMap;
use std::fmt::Write;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::machine::{Machine, NumaNode};

use crate::amount;
use crate::table::{Align, Table};

/// Writes the outline and, where the machine tells, the table of distances.
#[must_use]
pub fn draw(machine: &Machine) -> String {
    let mut text = String::new();
    let cores: usize = machine.nodes().iter().map(|node| node.cores.len()).sum();
    let _ = writeln!(
        text,
        "{} sockets, {} NUMA nodes, {cores} cores, {} CPUs, {}",
        machine.parts().num_sockets,
        machine.nodes().len(),
        machine.online().len(),
        amount::bytes(machine.nodes().iter().map(|node| node.memory).sum()),
    );
    if !machine.offline().is_empty() {
        let _ = writeln!(text, "offline CPUs: {}", machine.offline());
    }
    let mut sockets: BTreeMap<u32, Vec<&NumaNode>> = BTreeMap::new();
    for node in machine.nodes() {
        if let Some(core) = node.cores.first() {
            sockets.entry(core.socket).or_default().push(node);
        }
    }
    let bare: Vec<&NumaNode> = machine
        .nodes()
        .iter()
        .filter(|node| node.cores.is_empty())
        .collect();
    let mut roots: Vec<(String, Vec<&NumaNode>)> = sockets
        .into_iter()
        .map(|(socket, nodes)| (format!("socket {socket}"), nodes))
        .collect();
    if !bare.is_empty() {
        roots.push(("without CPUs".into(), bare));
    }
    for (index, (root, nodes)) in roots.iter().enumerate() {
        let last = index + 1 == roots.len();
        let _ = writeln!(text, "{}{root}", if last { "└── " } else { "├── " });
        for (index, node) in nodes.iter().enumerate() {
            let stem = if last { "    " } else { "│   " };
            draw_node(&mut text, node, stem, index + 1 == nodes.len());
        }
    }
    draw_distances(&mut text, machine);
    text
}

fn draw_node(text: &mut String, node: &NumaNode, stem: &str, last: bool) {
    let mut facts = vec![format!("NUMA node {}", node.id)];
    let cpus: CpuSet = node
        .cores
        .iter()
        .flat_map(|core| core.threads.iter().copied())
        .collect();
    if !cpus.is_empty() {
        facts.push(format!("CPUs {cpus}"));
    }
    if node.memory > 0 {
        facts.push(amount::bytes(node.memory));
    }
    for pages in node.hugepages.iter().filter(|pages| pages.count > 0) {
        let size = amount::bytes(pages.size_kib.saturating_mul(1024));
        facts.push(format!("{} hugepages of {size}", pages.count));
    }
    let _ = writeln!(
        text,
        "{stem}{}{}",
        if last { "└── " } else { "├── " },
        facts.join("  ")
    );
    let mut caches: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for core in &node.cores {
        if let Some(l3) = core.l3 {
            caches
                .entry(l3)
                .or_default()
                .extend(core.threads.iter().copied());
        }
    }
    let stem = format!("{stem}{}", if last { "    " } else { "│   " });
    let count = caches.len();
    for (index, (id, cpus)) in caches.into_iter().enumerate() {
        let branch = if index + 1 == count {
            "└── "
        } else {
            "├── "
        };
        let _ = writeln!(text, "{stem}{branch}L3 {id}  CPUs {cpus}");
    }
}

fn draw_distances(text: &mut String, machine: &Machine) {
    if machine.nodes().len() < 2 || machine.nodes().iter().all(|node| node.distances.is_empty()) {
        return;
    }
    let ids = machine.nodes().iter().map(|node| node.id.to_string());
    let mut table = Table::new(
        std::iter::once("distance".to_owned())
            .chain(ids)
            .map(|id| (id, Align::Right)),
    );
    for node in machine.nodes() {
        let row = node.distances.iter().map(u32::to_string);
        table.row(std::iter::once(node.id.to_string()).chain(row));
    }
    text.push('\n');
    text.push_str(&table.draw());
}
