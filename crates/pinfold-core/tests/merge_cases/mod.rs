//! Random and benchmark cases for the merge: machines, and the hints of resource managers on them.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "each test uses a part of it"
)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "all numbers here are small"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failing test says why"
)]

mod adversarial;
mod machines;
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pinfold_core::hint::{Component, Family, Preference, ProviderHints, ResourceHints, Threshold};
use pinfold_core::merge::{Budgets, Distances, MergeRequest};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::policy::TopologyPolicy;

pub use adversarial::adversarial;
pub use machines::{Load, machine_case};
pub use random::{Recipe, case};

/// The same number of steps for every search. 1 makes every search fall back.
pub fn budgets(steps: u32) -> Budgets {
    Budgets {
        width: steps,
        preferred: steps,
        choices: steps,
        reach: steps,
        closest: steps,
    }
}

/// A small random number generator; the same seed gives the same case everywhere.
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

/// The input of one merge.
#[derive(Clone, Debug)]
pub struct MergeCase {
    pub nodes: NodeSet,
    pub policy: TopologyPolicy,
    pub distances: Option<Distances>,
    pub providers: Vec<ProviderHints>,
}

impl MergeCase {
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

/// Checks `cases` cases, each from its own seed, which is printed when the check fails.
pub fn check(cases: u64, make: impl Fn(&mut Random) -> MergeCase, check: impl Fn(&MergeCase)) {
    let first = number("PINFOLD_MERGE_SEED", 1) << 32;
    for seed in (first..).take((cases * number("PINFOLD_MERGE_CASES", 1)) as usize) {
        let case = make(&mut Random(seed));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&case))) {
            eprintln!("seed {seed:#x}: {case:?}");
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

/// `count` node IDs: 0 and up, or spread over all 64.
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

/// The smallest number of nodes that reach `request`, largest first; all if none do.
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

/// The components that have members, or [`ResourceHints::Unsatisfiable`] without any.
pub fn family(
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
