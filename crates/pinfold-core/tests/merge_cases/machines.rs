//! Merge cases of realistic machines.

use pinfold_core::hint::{Component, Preference, ResourceHints, Threshold, WideGroup};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;

use super::{MergeCase, Random, Shape, distances, family, fewest, node, nodes, provider};

/// The load of a machine.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// No pods; the request fits on one node.
    Idle,
    /// No pods; the request needs two nodes.
    Wide,
    /// Random use of everything, requests of a third to a half of what is free.
    Crowded,
}

/// A realistic machine with `resources` resources, from four on with two kinds of memory. With 34 nodes only the first
/// two have CPUs and memory.
pub fn machine_case(
    random: &mut Random,
    count: usize,
    resources: usize,
    load: Load,
    closest: bool,
) -> MergeCase {
    let all = nodes(random, count, false);
    let hosts = if count == 34 {
        nodes(random, 2, false)
    } else {
        all
    };
    let per_node = 64_u64;
    let width = if matches!(load, Load::Wide) { 2 } else { 1 };
    let mut hints = Vec::new();

    let free = |random: &mut Random, total: u64| match load {
        Load::Crowded => random.below(total + 1),
        _ => total,
    };
    let wanted = |random: &mut Random, total: u64, sum: u64| match load {
        Load::Idle => total,
        Load::Wide => total * 3 / 2,
        Load::Crowded => (sum / 3 + random.below(sum / 6 + 1)).max(1),
    };
    let part = |universe, thresholds: Vec<Threshold>| Component {
        universe,
        forced: NodeSet::EMPTY,
        thresholds: thresholds.into_iter().collect(),
    };

    let rows: Vec<(NodeId, u64)> = hosts
        .iter()
        .map(|node| (node, free(random, per_node)))
        .collect();
    let mut cpus = Threshold::new(0, rows);
    cpus.need = wanted(random, per_node, cpus.value(hosts));
    let whole = Threshold::new(0, hosts.iter().map(|node| (node, per_node)));
    let cpu_width = fewest(cpus.need, &whole, hosts).max(width.min(hosts.len()));
    let cpu = [part(hosts, vec![cpus])];
    hints.push(family(
        cpu.into_iter(),
        Preference::Width(cpu_width),
        ResourceHints::Unsatisfiable,
    ));

    let kinds = if resources >= 4 { 2 } else { 1 };
    let gib = 1_u64 << 30;
    let used = match load {
        Load::Crowded => random.subset(hosts, 25),
        _ => NodeSet::EMPTY,
    };
    let mut thresholds = Vec::new();
    for kind in 0..kinds {
        let total = if kind == 0 { 256 * gib } else { 16 * gib };
        let rows: Vec<(NodeId, u64)> = hosts
            .iter()
            .map(|node| {
                (
                    node,
                    free(random, total) / 2 + total / 2 - random.below(gib / 8),
                )
            })
            .collect();
        let mut memory = Threshold::new(0, rows);
        memory.need = wanted(random, total / 2, memory.value(hosts - used) / 2);
        thresholds.push(memory);
    }
    let fits = |mask: &NodeSet| thresholds.iter().all(|threshold| threshold.is_met(*mask));
    let fixed: Vec<NodeSet> = used.iter().map(NodeSet::single).filter(fits).collect();
    let parts = [part(hosts - used, thresholds)].into_iter();
    let parts = parts.chain(fixed.into_iter().map(Component::fixed));
    let memory = family(parts, Preference::Width(width), ResourceHints::DontCare);
    hints.extend(vec![memory; kinds]);

    while hints.len() < resources {
        // No two kinds of device are equal.
        let per_node = 2 + hints.len() as u64;
        let mut devices = Threshold::new(0, all.iter().map(|node| (node, free(random, per_node))));
        if matches!(load, Load::Crowded) && random.chance(50) {
            for first in (0..count).step_by(4) {
                let nodes: NodeSet = (first..count.min(first + 4)).map(node).collect();
                if nodes.len() > 1 {
                    devices.groups.push(WideGroup {
                        nodes,
                        count: 1 + random.below(3),
                    });
                }
            }
        }
        devices.need = wanted(random, per_node, devices.value(all));
        let whole = Threshold::new(0, all.iter().map(|node| (node, per_node)));
        let device_width = fewest(devices.need, &whole, all).max(width);
        let device = [part(all, vec![devices])];
        hints.push(family(
            device.into_iter(),
            Preference::Width(device_width),
            ResourceHints::Unsatisfiable,
        ));
    }
    hints.truncate(resources);
    MergeCase {
        nodes: all,
        policy: TopologyPolicy::Restricted,
        distances: closest.then(|| distances(random, all, Shape::Hierarchical)),
        providers: hints.into_iter().map(provider).collect(),
    }
}
