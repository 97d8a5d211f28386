//! The machine as an outline: sockets, NUMA nodes, caches and cores, then the distances between nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::machine::{Machine, NumaNode};
use pinfold_core::node_set::NodeSet;

use crate::text::count;
use crate::{amount, distances};

/// Draws the outline and, if the machine reports them, the distances within `width` columns.
#[must_use]
pub fn draw(machine: &Machine, width: usize) -> String {
    let mut text = String::new();
    // NUMA nodes may share CPUs; a core counts once.
    let cores = machine.nodes().iter().flat_map(|node| &node.cores);
    let cores: BTreeSet<Option<&CpuId>> = cores.map(|core| core.threads.first()).collect();
    let memory = machine.nodes().iter().map(|node| node.memory);
    let facts = [
        count(machine.parts().num_sockets, "socket", "sockets"),
        count(machine.nodes().len(), "NUMA node", "NUMA nodes"),
        count(cores.len(), "core", "cores"),
        count(machine.online().len(), "CPU", "CPUs"),
        amount::bytes(memory.fold(0, u64::saturating_add)),
    ];
    let _ = writeln!(text, "{}", facts.join(", "));
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
        let _ = writeln!(text, "{}{root}", branch(last));
        let stem = if last { "    " } else { "│   " };
        draw_nodes(&mut text, nodes, stem);
    }
    text.push_str(&distances::draw(machine, width));
    text
}

/// Consecutive nodes without CPUs and memory share one line.
fn draw_nodes(text: &mut String, mut nodes: &[&NumaNode], stem: &str) {
    while let Some((node, rest)) = nodes.split_first() {
        let is_place = |node: &&&NumaNode| node.cores.is_empty() && node.memory == 0;
        let places = nodes.iter().take_while(is_place).count();
        if places > 1 {
            let ids: NodeSet = nodes[..places].iter().map(|node| node.id).collect();
            nodes = &nodes[places..];
            let branch = branch(nodes.is_empty());
            let _ = writeln!(text, "{stem}{branch}NUMA nodes {ids}  no memory");
        } else {
            nodes = rest;
            draw_node(text, node, stem, rest.is_empty());
        }
    }
}

fn branch(last: bool) -> &'static str {
    if last { "└── " } else { "├── " }
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
    facts.push(match node.memory {
        0 => "no memory".to_owned(),
        memory => amount::bytes(memory),
    });
    for pages in node.hugepages.iter().filter(|pages| pages.count > 0) {
        let size = amount::bytes(pages.size_kib.saturating_mul(1024));
        facts.push(format!("{} hugepages of {size}", pages.count));
    }
    let _ = writeln!(text, "{stem}{}{}", branch(last), facts.join("  "));
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
    let last_cache = caches.len();
    for (index, (id, cpus)) in caches.into_iter().enumerate() {
        let branch = branch(index + 1 == last_cache);
        let _ = writeln!(text, "{stem}{branch}L3 {id}  CPUs {cpus}");
    }
}

#[cfg(test)]
mod tests {
    use pinfold_core::machine::{Core, MachineParts};
    use pinfold_core::node_set::NodeId;

    use super::*;

    #[test]
    fn a_core_of_several_numa_nodes_counts_once() {
        let core = |cpu: u32| Core {
            id: cpu,
            socket: 0,
            die: None,
            l3: None,
            threads: CpuId::new(cpu).into_iter().collect(),
        };
        let node = |id: i64, memory: u64| NumaNode {
            id: NodeId::new(id).expect("a small id"),
            memory,
            hugepages: Vec::new(),
            distances: Vec::new(),
            cores: vec![core(0), core(1)],
        };
        let machine = Machine::new(MachineParts {
            nodes: vec![node(0, 64 << 30), node(1, 16 << 30)],
            num_cpus: 2,
            num_sockets: 1,
            offline: CpuSet::new(),
        });
        let text = draw(&machine.expect("two nodes with the same CPUs"), 80);
        let first = "1 socket, 2 NUMA nodes, 2 cores, 2 CPUs, 80 GiB\n";
        assert!(text.starts_with(first), "{text}");
    }
}
