//! Random merge cases: hints that the managers produce, hints that none produces, and lists.

use pinfold_core::hint::{
    Component, Family, Hint, Preference, ResourceHints, SocketRule, Threshold, WideGroup,
};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;

use super::{MergeCase, Random, SHAPES, distances, family, fewest, node, nodes, provider};

fn cpu(random: &mut Random, all: NodeSet, largest: u64) -> ResourceHints {
    let universe = if random.chance(75) {
        all
    } else {
        random.non_empty(all, 60)
    };
    let rows: Vec<(NodeId, u64, u64)> = universe
        .iter()
        .map(|node| {
            let total = random.below(largest + 1);
            (node, total, total - random.below(total + 1))
        })
        .collect();
    let free: u64 = rows.iter().map(|row| row.2).sum();
    let request = 1 + random.below(free + 1);
    let forced = if random.chance(15) {
        random.one(universe)
    } else {
        NodeSet::EMPTY
    };
    let total = Threshold::new(request, rows.iter().map(|&(node, total, _)| (node, total)));
    let width = fewest(request, &total, universe);
    let part = Component {
        universe,
        forced,
        thresholds: [Threshold::new(
            request,
            rows.iter().map(|&(node, _, free)| (node, free)),
        )]
        .into_iter()
        .collect(),
    };
    let preference = if random.chance(25) {
        let sockets = random.between(1, 3);
        let nodes_of_socket: Vec<NodeSet> = (0..sockets)
            .map(|socket| {
                let spread = universe.iter().enumerate();
                let own = spread.filter(|(index, _)| index * sockets / universe.len() == socket);
                own.map(|(_, node)| node).collect()
            })
            .collect();
        let per_socket = universe.len() / sockets;
        match per_socket {
            0 => Preference::Width(width),
            _ => Preference::WidthOrSockets(
                width,
                SocketRule {
                    sockets: width.div_ceil(per_socket),
                    nodes_of_socket,
                },
            ),
        }
    } else {
        Preference::Width(width)
    };
    family([part].into_iter(), preference, ResourceHints::Unsatisfiable)
}

fn device(random: &mut Random, all: NodeSet, largest: u64) -> ResourceHints {
    let universe = if random.chance(50) {
        all
    } else {
        random.non_empty(all, 50)
    };
    let mut free = Threshold::new(
        0,
        universe
            .iter()
            .map(|node| (node, random.below(largest + 1))),
    );
    let mut total = free.clone();
    if universe.len() > 1 {
        for _ in 0..random.below(4) {
            let nodes = match random.chance(50) {
                // Blocks of adjacent nodes, disjoint or nested.
                true => {
                    let size = [2, 4][random.below(2) as usize];
                    let first = random.below(universe.len() as u64) as usize / size * size;
                    universe.iter().skip(first).take(size).collect()
                }
                false => random.non_empty(universe, 40),
            };
            if nodes.len() > 1 {
                let group = WideGroup {
                    nodes,
                    count: 1 + random.below(largest),
                };
                total.groups.push(group);
                if random.chance(70) {
                    free.groups.push(group);
                }
            }
        }
    }
    let available = free.value(universe);
    free.need = 1 + random.below(available + 1);
    for weight in &mut total.weights {
        *weight += random.below(2);
    }
    let width = fewest(free.need, &total, universe);
    let mut forced = NodeSet::EMPTY;
    let mut thresholds: smallvec::SmallVec<[Threshold; 1]> = [free].into_iter().collect();
    if random.chance(10) {
        forced = random.one(universe);
    }
    if random.chance(10) && universe.len() > 1 {
        let nodes = random.non_empty(universe, 50);
        let mut reusable = Threshold::new(1, []);
        reusable.groups.push(WideGroup { nodes, count: 1 });
        thresholds.push(reusable);
    }
    let part = Component {
        universe,
        forced,
        thresholds,
    };
    family(
        [part].into_iter(),
        Preference::Width(width),
        ResourceHints::Unsatisfiable,
    )
}

/// The memory provider: one family, once per kind of memory.
fn memory(random: &mut Random, all: NodeSet, largest: u64) -> Vec<ResourceHints> {
    let kinds = random.between(1, 3);
    let mut used = if random.chance(50) {
        NodeSet::EMPTY
    } else {
        random.subset(all, 40)
    };
    let mut masks: Vec<NodeSet> = used.iter().map(NodeSet::single).collect();
    if random.chance(50) {
        let group = random.non_empty(all, 30);
        used = used | group;
        masks.push(group);
    }
    if random.chance(20) {
        masks.push(random.non_empty(all, 40));
    }
    let complementary = random.chance(20);
    let bases: Vec<u64> = all.iter().map(|_| random.below(largest + 1)).collect();
    let mut thresholds = Vec::new();
    let mut width = 1;
    for kind in 0..kinds {
        let rows: Vec<(NodeId, u64)> = all
            .iter()
            .zip(&bases)
            .map(|(node, &base)| match (complementary, kind % 2) {
                (true, 0) => (node, largest + base),
                (true, _) => (node, 2 * largest - base),
                (false, _) => (node, random.below(largest + 1)),
            })
            .collect();
        let free = Threshold::new(0, rows.iter().copied());
        let available = free.value(all - used).max(free.value(all) / 2);
        let need = random.below(available + 1);
        let total = Threshold::new(
            need,
            rows.iter().map(|&(node, w)| (node, w + random.below(2))),
        );
        width = width.max(fewest(need, &total, all));
        thresholds.push(Threshold { need, ..free });
    }
    let fits = |mask: &NodeSet| thresholds.iter().all(|threshold| threshold.is_met(*mask));
    let fixed: Vec<NodeSet> = masks
        .into_iter()
        .filter(|mask| random.chance(70) && fits(mask))
        .collect();
    let open = Component {
        universe: all - used,
        forced: NodeSet::EMPTY,
        thresholds: thresholds.into_iter().collect(),
    };
    let parts = [open]
        .into_iter()
        .chain(fixed.into_iter().map(Component::fixed));
    let hints = family(parts, Preference::Width(width), ResourceHints::DontCare);
    vec![hints; kinds]
}

/// A union of components that no manager produces.
fn odd(random: &mut Random, all: NodeSet, largest: u64) -> ResourceHints {
    let mut parts = Vec::new();
    for _ in 0..random.between(1, 3) {
        let mut universe = random.non_empty(all, 70);
        if random.chance(5) {
            universe = universe | NodeSet::single(node(random.below(64) as usize));
        }
        if random.chance(30) {
            parts.push(Component::fixed(universe));
            continue;
        }
        let thresholds = (0..random.below(3)).map(|_| {
            let weights: Vec<(NodeId, u64)> = universe
                .iter()
                .map(|node| (node, random.below(largest + 1)))
                .collect();
            let mut threshold = Threshold::new(0, weights);
            if random.chance(40) {
                let nodes = random.non_empty(all, 50);
                threshold.groups.push(WideGroup {
                    nodes,
                    count: 1 + random.below(largest),
                });
            }
            threshold.need = random.below(threshold.value(universe) + 1);
            threshold
        });
        let thresholds = thresholds.collect();
        let forced = if random.chance(20) {
            random.subset(universe, 30)
        } else {
            NodeSet::EMPTY
        };
        parts.push(Component {
            universe,
            forced,
            thresholds,
        });
    }
    let width = random.between(0, all.len());
    family(
        parts.into_iter(),
        Preference::Width(width),
        ResourceHints::Unsatisfiable,
    )
}

fn list(random: &mut Random, all: NodeSet) -> ResourceHints {
    let mut hints = Vec::new();
    for _ in 0..random.below(6) {
        let mask = match random.below(20) {
            0 => None,
            1 => Some(NodeSet::EMPTY),
            2 => Some(random.non_empty(all, 50) | NodeSet::single(node(63))),
            _ => Some(random.non_empty(all, 50)),
        };
        hints.push(Hint {
            mask,
            preferred: random.chance(50),
        });
    }
    ResourceHints::List(hints)
}

/// The parameters of a random case.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub nodes: (usize, usize),
    pub most_resources: usize,
    pub sparse: bool,
    /// Capacities are mostly 0 to 3: ties and tight fits find the most errors.
    pub largest: u64,
    pub lists: bool,
}

pub fn case(random: &mut Random, recipe: Recipe) -> MergeCase {
    let count = random.between(recipe.nodes.0, recipe.nodes.1);
    let nodes = nodes(random, count, recipe.sparse);
    let mut hints = Vec::new();
    let most = random.between(1, recipe.most_resources);
    while hints.len() < most {
        let largest = if random.chance(70) {
            1 + random.below(3)
        } else {
            recipe.largest
        };
        match random.below(20) {
            0..=4 => hints.push(cpu(random, nodes, largest)),
            5..=9 => hints.extend(memory(random, nodes, largest)),
            10..=15 => hints.push(device(random, nodes, largest)),
            16 => hints.push(ResourceHints::DontCare),
            17 if random.chance(30) => hints.push(ResourceHints::Unsatisfiable),
            18 if recipe.lists => hints.push(list(random, nodes)),
            _ => hints.push(odd(random, nodes, largest)),
        }
    }
    hints.truncate(most);
    let policy = match random.chance(10) {
        true => TopologyPolicy::SingleNumaNode,
        false => TopologyPolicy::Restricted,
    };
    let shape = SHAPES[random.below(5) as usize];
    let distances = random.chance(40).then(|| distances(random, nodes, shape));
    MergeCase {
        nodes,
        policy,
        distances,
        providers: hints.into_iter().map(provider).collect(),
    }
}
