//! Random and benchmark scenes for the merge: machines, and what the resource managers would say on them.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "all numbers here are small"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failing test says why"
)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pinfold_core::hint::{
    Component, Family, Hint, Preference, ProviderHints, ResourceHints, SocketRule, Threshold,
    WideGroup,
};
use pinfold_core::merge::{Budgets, Distances, MergeRequest};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;

/// A small generator of random numbers; the same seed gives the same scene everywhere.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 to `bound` - 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below((high - low + 1) as u64) as usize
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Each node with this chance.
    pub fn subset(&mut self, of: NodeSet, percent: u64) -> NodeSet {
        of.iter().filter(|_| self.chance(percent)).collect()
    }

    pub fn non_empty(&mut self, of: NodeSet, percent: u64) -> NodeSet {
        let set = self.subset(of, percent);
        if set.is_empty() { self.one(of) } else { set }
    }

    pub fn one(&mut self, of: NodeSet) -> NodeSet {
        let skip = self.below(of.len() as u64) as usize;
        of.iter().skip(skip).take(1).collect()
    }
}

/// A merge to be made.
#[derive(Clone, Debug)]
pub struct Scene {
    pub nodes: NodeSet,
    pub policy: TopologyPolicy,
    pub distances: Option<Distances>,
    pub providers: Vec<ProviderHints>,
}

impl Scene {
    pub fn request(&self) -> MergeRequest<'_> {
        MergeRequest {
            nodes: self.nodes,
            policy: self.policy,
            closest: self.distances.as_ref(),
            providers: &self.providers,
            budgets: Budgets::default(),
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Checks `cases` scenes, each from its own seed, which is printed when the check fails.
pub fn check(cases: u64, make: impl Fn(&mut Random) -> Scene, check: impl Fn(&Scene)) {
    let first = number("PINFOLD_MERGE_SEED", 1) << 32;
    for seed in (first..).take((cases * number("PINFOLD_MERGE_CASES", 1)) as usize) {
        let scene = make(&mut Random(seed));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&scene))) {
            eprintln!("seed {seed:#x}: {scene:?}");
            resume_unwind(panic);
        }
    }
}

pub fn provider(hints: ResourceHints) -> ProviderHints {
    ProviderHints::one("resource".into(), hints)
}

pub fn node(id: usize) -> NodeId {
    NodeId::new(id as i64).unwrap()
}

/// `count` node ids: 0 and up, or spread over all 64.
pub fn nodes(random: &mut Random, count: usize, sparse: bool) -> NodeSet {
    if !sparse {
        return (0..count).map(node).collect();
    }
    let mut nodes = NodeSet::EMPTY;
    while nodes.len() < count {
        nodes.insert(node(random.below(64) as usize));
    }
    nodes
}

/// The shape of distances.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// 10 / 12 in fours / 16 in the socket of sixteen / 32.
    Hierarchical,
    /// Few values, symmetric or not.
    Random,
    Ring,
    Grid,
    Hypercube,
}

pub const SHAPES: [Shape; 5] = [
    Shape::Hierarchical,
    Shape::Random,
    Shape::Ring,
    Shape::Grid,
    Shape::Hypercube,
];

pub fn distances(random: &mut Random, nodes: NodeSet, shape: Shape) -> Distances {
    let members: Vec<NodeId> = nodes.iter().collect();
    let count = members.len();
    let symmetric = random.chance(70);
    let spread = 1 + random.below(8);
    let mut rows = vec![[0_u32; 64]; count];
    for x in 0..count {
        for y in 0..count {
            let hops = match shape {
                Shape::Ring => x.abs_diff(y).min(count - x.abs_diff(y)),
                Shape::Grid => (x % 8).abs_diff(y % 8) + (x / 8).abs_diff(y / 8),
                Shape::Hypercube => (x ^ y).count_ones() as usize,
                Shape::Hierarchical | Shape::Random => 0,
            };
            rows[x][members[y].index()] = match shape {
                Shape::Hierarchical if x == y => 10,
                Shape::Hierarchical if x / 4 == y / 4 => 12,
                Shape::Hierarchical if x / 16 == y / 16 => 16,
                Shape::Hierarchical => 32,
                Shape::Random if symmetric && y < x => rows[y][members[x].index()],
                Shape::Random => 10 + random.below(spread) as u32,
                _ => 10 + 6 * hops as u32,
            };
        }
    }
    Distances::from_rows(
        members
            .into_iter()
            .zip(rows.iter().map(<[u32; 64]>::as_slice)),
    )
}

/// Least number of nodes that reach `request`, largest first; all if none do.
pub fn fewest(request: u64, totals: &Threshold, universe: NodeSet) -> usize {
    let mut sorted: Vec<u64> = universe.iter().map(|node| totals.weight(node)).collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = totals.groups.iter().map(|group| group.count).sum::<u64>();
    for (count, weight) in (1..).zip(&sorted) {
        sum += weight;
        if sum >= request {
            return count;
        }
    }
    universe.len()
}

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
    family([part].into_iter(), preference, ResourceHints::Cannot)
}

/// The parts that have members, or what to say without any.
fn family(
    parts: impl Iterator<Item = Component>,
    preference: Preference,
    otherwise: ResourceHints,
) -> ResourceHints {
    let components: smallvec::SmallVec<[Component; 1]> =
        parts.filter(|part| !part.is_empty()).collect();
    match components.is_empty() {
        true => otherwise,
        false => ResourceHints::Family(Family {
            components,
            preference,
        }),
    }
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
                // Blocks of neighbours, disjoint or nested.
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
    let mut thresholds: smallvec::SmallVec<[Threshold; 2]> = [free].into_iter().collect();
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
        ResourceHints::Cannot,
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

/// A union of parts that no manager would make.
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
        ResourceHints::Cannot,
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

/// What a random scene is made of.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub nodes: (usize, usize),
    pub most_resources: usize,
    pub sparse: bool,
    /// Capacities are heavily weighted towards 0 to 3: ties and tight fits find the mistakes.
    pub largest: u64,
    pub lists: bool,
}

pub fn scene(random: &mut Random, recipe: Recipe) -> Scene {
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
            17 if random.chance(30) => hints.push(ResourceHints::Cannot),
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
    Scene {
        nodes,
        policy,
        distances,
        providers: hints.into_iter().map(provider).collect(),
    }
}

/// Every node different, requests at 20 to 95 % of what is there, groups that overlap, kinds of memory that pull
/// in opposite directions.
pub fn adversarial(random: &mut Random, count: usize, shape: Option<Shape>) -> Scene {
    let all = nodes(random, count, false);
    let mut hints = Vec::new();
    let part_of = |random: &mut Random, sum: u64| (sum * (20 + random.below(76)) / 100).max(1);
    let fixed_width = random.between(1, count);
    let width = |random: &mut Random| match random.chance(70) {
        true => fixed_width,
        false => random.between(1, count),
    };
    let one = |threshold: Threshold| Component {
        universe: all,
        forced: NodeSet::EMPTY,
        thresholds: [threshold].into_iter().collect(),
    };
    for _ in 0..random.between(1, 4) {
        let mut threshold =
            Threshold::new(0, all.iter().map(|node| (node, 1 + random.below(1 << 20))));
        threshold.need = part_of(random, threshold.value(all));
        let width = Preference::Width(width(random));
        hints.push(family(
            [one(threshold)].into_iter(),
            width,
            ResourceHints::Cannot,
        ));
    }
    for _ in 0..random.below(3) {
        let mut threshold = Threshold::new(0, all.iter().map(|node| (node, random.below(3))));
        for first in 0..count {
            let nodes: NodeSet = match random.chance(50) {
                true => (0..4).map(|hop| node((first + hop) % count)).collect(),
                false => (0..4)
                    .map(|_| node(random.below(count as u64) as usize))
                    .collect(),
            };
            if nodes.len() > 1 {
                threshold.groups.push(WideGroup {
                    nodes,
                    count: 1 + random.below(4),
                });
            }
        }
        threshold.need = part_of(random, threshold.value(all));
        let width = Preference::Width(width(random));
        hints.push(family(
            [one(threshold)].into_iter(),
            width,
            ResourceHints::Cannot,
        ));
    }
    if random.chance(60) {
        let kinds = random.between(2, 3);
        let middle = 1_u64 << 33;
        let offsets: Vec<u64> = all.iter().map(|_| random.below(1 << 32)).collect();
        let mut thresholds: smallvec::SmallVec<[Threshold; 2]> = smallvec::SmallVec::new();
        let take = random.between(1, count.max(2) - 1);
        for kind in 0..kinds {
            let rows = all.iter().zip(&offsets).map(|(node, &offset)| match kind {
                0 => (node, middle + offset),
                1 => (node, middle - offset),
                _ => (node, random.below(1 << 33)),
            });
            let mut threshold = Threshold::new(0, rows);
            let chosen: NodeSet = all
                .iter()
                .filter(|_| random.chance(50))
                .take(take)
                .collect();
            threshold.need = threshold.value(chosen).max(1);
            thresholds.push(threshold);
        }
        let open = Component {
            universe: all,
            forced: NodeSet::EMPTY,
            thresholds,
        };
        let width = Preference::Width(width(random));
        let memory = family([open].into_iter(), width, ResourceHints::DontCare);
        hints.extend(vec![memory; kinds]);
    }
    Scene {
        nodes: all,
        policy: TopologyPolicy::BestEffort,
        distances: shape.map(|shape| distances(random, all, shape)),
        providers: hints.into_iter().map(provider).collect(),
    }
}

/// How busy a machine is.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Nothing runs; the request fits on one node.
    Idle,
    /// Nothing runs; the request needs two nodes.
    Wide,
    /// Random use of everything, requests of a third to a half of what is free.
    Crowded,
}

/// A machine as it would be found in a data centre: `resources` of them, from four on with two kinds of memory.
/// With 34 nodes only the first two have CPUs and memory.
pub fn machine_scene(
    random: &mut Random,
    count: usize,
    resources: usize,
    load: Load,
    closest: bool,
) -> Scene {
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
        ResourceHints::Cannot,
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
        // No two kinds of device are alike.
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
            ResourceHints::Cannot,
        ));
    }
    hints.truncate(resources);
    Scene {
        nodes: all,
        policy: TopologyPolicy::Restricted,
        distances: closest.then(|| distances(random, all, Shape::Hierarchical)),
        providers: hints.into_iter().map(provider).collect(),
    }
}
