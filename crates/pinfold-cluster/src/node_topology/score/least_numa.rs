//! The strategy `LeastNUMANodes`, which counts NUMA nodes.
//!
//! Mirrors `numaNodesRequired` and its callers: the smallest number of zones that together have enough, where each of
//! them reports every requested resource; among combinations of that number one with the least average distance. It is
//! optimal if no combination of that number, with enough or not, is closer together.
//!
//! The plugin tries all combinations, 2^n of them. Here those that cannot win are skipped, and the number of steps is
//! limited: on more than 16 zones a search may end with the best combination found so far, or continue with one zone
//! more.

use smallvec::SmallVec;

use super::BEST;
use crate::node_topology::numa_zones::{NumaZone, NumaZones};
use crate::node_topology::topology_manager::TopologyManagerConfig;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::quantity::Quantity;

/// The distance that stands for "unknown", and the largest that firmware can state.
const UNKNOWN: i64 = 255;
/// Combinations farther apart than this on average are not accepted.
const TOO_FAR: f32 = 256.0;
/// The most steps that all searches of one kind may take together. Sixteen zones need fewer.
const MAX_STEPS: usize = 1 << 20;

/// Zones beyond this position are ignored. There are 64 NUMA ids; a longer list repeats them.
const MAX_ZONES: usize = 128;

/// The NUMA nodes that a pod or container needs.
struct Needed {
    nodes: NodeSet,
    /// Whether no other combination of as many NUMA nodes is closer together.
    optimal: bool,
}

/// The score of a pod that is aligned as a whole.
pub(super) fn of_pod(
    zones: &NumaZones,
    request: &ResourceList,
    manager: &TopologyManagerConfig,
) -> i64 {
    if zones.report_none_of(request) {
        return BEST;
    }
    needed(zones.as_slice(), request).map_or(0, |needed| needed.score(manager))
}

/// The score of a pod whose containers are aligned one by one, each subtracting its amounts.
pub(super) fn of_containers(
    mut zones: NumaZones,
    pod: &Pod,
    manager: &TopologyManagerConfig,
    fidelity: Fidelity,
) -> i64 {
    let mut worst = Needed {
        nodes: NodeSet::EMPTY,
        optimal: true,
    };
    for container in pod.all_containers() {
        if zones.report_none_of(&container.requests) {
            continue;
        }
        let Some(needed) = needed(zones.as_slice(), &container.requests) else {
            return 0;
        };
        zones.subtract_across(needed.nodes, &container.requests, fidelity);
        worst.optimal &= needed.optimal;
        if needed.nodes.len() > worst.nodes.len() {
            worst.nodes = needed.nodes;
        }
    }
    match worst.nodes.is_empty() {
        true => BEST,
        false => worst.score(manager),
    }
}

impl Needed {
    fn score(&self, manager: &TopologyManagerConfig) -> i64 {
        let share = BEST / manager.max_numa_nodes.max(1);
        let count = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX);
        BEST - count * share + if self.optimal { share / 2 } else { 0 }
    }
}

/// The fewest zones with enough for the request.
fn needed(zones: &[NumaZone], request: &ResourceList) -> Option<Needed> {
    let zones = &zones[..zones.len().min(MAX_ZONES)];
    let mut search = ZoneSearch::new(zones, request);
    (1..=zones.len()).find_map(|size| search.of_size(size))
}

/// The search for combinations of zones, by their positions in the list.
struct ZoneSearch<'a> {
    zones: &'a [NumaZone],
    /// The requested amounts, one entry per resource with a nonzero request.
    need: SmallVec<[Quantity; 4]>,
    /// The available amounts of each zone; `None` if it lacks a requested resource.
    adds: Vec<Option<SmallVec<[Quantity; 4]>>>,
    /// `most[from][resource][count]`: the most that `count` zones from the position `from` on have together.
    most: Vec<SmallVec<[Vec<Quantity>; 4]>>,
    /// Distances by position.
    costs: Vec<Vec<i64>>,
    /// The least distance of a zone to itself, and to another one.
    least: (i64, i64),
    /// The remaining steps of the current search.
    steps: usize,
}

/// A combination being built: positions, ascending, and the sum of their distances.
#[derive(Clone, Default)]
struct Partial {
    positions: SmallVec<[usize; 16]>,
    distance: i64,
}

impl<'a> ZoneSearch<'a> {
    fn new(zones: &'a [NumaZone], request: &ResourceList) -> Self {
        let requested = || request.iter().filter(|(_, quantity)| !quantity.is_zero());
        let adds = |zone: &NumaZone| {
            let reports_all = request.keys().all(|name| zone.available.contains_key(name));
            reports_all.then(|| {
                requested()
                    .filter_map(|(name, _)| zone.available.get(name).copied())
                    .collect()
            })
        };
        let cost = |from: &NumaZone, to: &NumaZone| from.costs.get(&to.id).copied();
        let costs: Vec<Vec<i64>> = zones
            .iter()
            .map(|from| {
                let row = zones.iter().map(|to| cost(from, to).unwrap_or(UNKNOWN));
                row.collect()
            })
            .collect();
        let least = |same: bool| {
            let pairs = costs.iter().enumerate().flat_map(|(from, row)| {
                let kept = row
                    .iter()
                    .enumerate()
                    .filter(move |&(to, _)| (to == from) == same);
                kept.map(|(_, &cost)| cost)
            });
            pairs.min().unwrap_or(0)
        };
        let need: SmallVec<[Quantity; 4]> = requested().map(|(_, quantity)| *quantity).collect();
        let adds: Vec<_> = zones.iter().map(adds).collect();
        Self {
            zones,
            most: (0..=zones.len())
                .map(|from| most(&adds[from..], need.len()))
                .collect(),
            need,
            adds,
            least: (least(true), least(false)),
            costs,
            steps: 0,
        }
    }

    fn of_size(&mut self, size: usize) -> Option<Needed> {
        let nothing: SmallVec<[Quantity; 4]> = self.need.iter().map(|_| Quantity::ZERO).collect();
        if !self.could_reach(&nothing, 0, size) {
            return None;
        }
        let allowance = MAX_STEPS / self.zones.len();
        let mut closest = i64::MAX;
        self.steps = allowance;
        self.closest(&Partial::default(), 0, size, &mut closest);
        let mut best = BestCombination {
            closest: average(closest, size).min(average(UNKNOWN, 1)),
            distance: TOO_FAR,
            positions: SmallVec::new(),
            done: false,
        };
        self.steps = allowance;
        self.fitting(&Partial::default(), &nothing, 0, size, &mut best);
        if best.positions.is_empty() {
            return None;
        }
        Some(Needed {
            nodes: best.positions.iter().map(|&at| self.zones[at].id).collect(),
            optimal: best.done,
        })
    }

    /// Whether, resource by resource, `count` more zones from the position `from` on could be enough.
    fn could_reach(&self, sums: &[Quantity], from: usize, count: usize) -> bool {
        let rows = sums.iter().zip(&self.need).zip(&self.most[from]);
        rows.into_iter()
            .all(|((sum, need), most)| match most.get(count) {
                Some(most) => *sum + *most >= *need,
                None => false,
            })
    }

    /// The least sum of distances that a completion of `partial` could have.
    fn bound(&self, partial: &Partial, size: usize) -> i64 {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (have, want) = (count(partial.positions.len()), count(size));
        let selves = (want - have).saturating_mul(self.least.0);
        let others = (want * (want - 1) - have * (have - 1)).saturating_mul(self.least.1);
        partial
            .distance
            .saturating_add(selves)
            .saturating_add(others)
    }

    fn with(&self, partial: &Partial, position: usize) -> Partial {
        let mut more = partial.clone();
        more.distance = more.distance.saturating_add(self.costs[position][position]);
        for &at in &partial.positions {
            let both = self.costs[at][position].saturating_add(self.costs[position][at]);
            more.distance = more.distance.saturating_add(both);
        }
        more.positions.push(position);
        more
    }

    /// Lowers `closest` to the least sum of distances of any combination.
    fn closest(&mut self, partial: &Partial, from: usize, size: usize, closest: &mut i64) {
        let missing = size - partial.positions.len();
        if missing == 0 {
            *closest = partial.distance.min(*closest);
            return;
        }
        for position in from..=self.zones.len() - missing {
            if self.steps == 0 && *closest != i64::MAX {
                return;
            }
            self.steps = self.steps.saturating_sub(1);
            let more = self.with(partial, position);
            if self.bound(&more, size) < *closest {
                self.closest(&more, position + 1, size, closest);
            }
        }
    }

    /// Finds the first combination with enough that is as close as any, else the closest one with enough.
    fn fitting(
        &mut self,
        partial: &Partial,
        sums: &[Quantity],
        from: usize,
        size: usize,
        best: &mut BestCombination,
    ) {
        let missing = size - partial.positions.len();
        if missing == 0 {
            best.consider(&partial.positions, average(partial.distance, size));
            return;
        }
        for position in from..=self.zones.len() - missing {
            if best.done || self.steps == 0 || !self.could_reach(sums, position, missing) {
                return;
            }
            self.steps -= 1;
            let Some(add) = &self.adds[position] else {
                continue;
            };
            let sums: SmallVec<[Quantity; 4]> =
                sums.iter().zip(add).map(|(sum, add)| *sum + *add).collect();
            let more = self.with(partial, position);
            let bound = average(self.bound(&more, size), size);
            let could_win = bound < best.distance || bound <= best.closest;
            if could_win && self.could_reach(&sums, position + 1, missing - 1) {
                self.fitting(&more, &sums, position + 1, size, best);
            }
        }
    }
}

/// For each resource, the most that 0, 1, 2... of the zones have together.
fn most(
    adds: &[Option<SmallVec<[Quantity; 4]>>],
    resources: usize,
) -> SmallVec<[Vec<Quantity>; 4]> {
    let row = |at: usize| {
        let mut amounts: Vec<Quantity> = adds.iter().flatten().map(|add| add[at]).collect();
        amounts.sort_unstable_by(|a, b| b.cmp(a));
        let mut sums = vec![Quantity::ZERO];
        let mut sum = Quantity::ZERO;
        for amount in amounts {
            sum += amount;
            sums.push(sum);
        }
        sums
    };
    (0..resources).map(row).collect()
}

/// The best combination with enough so far.
struct BestCombination {
    /// The least average distance of a combination of that size.
    closest: f32,
    distance: f32,
    positions: SmallVec<[usize; 16]>,
    /// Whether the best combination has that distance.
    done: bool,
}

impl BestCombination {
    #[expect(clippy::float_cmp, reason = "equal sums give equal averages")]
    fn consider(&mut self, positions: &[usize], distance: f32) {
        self.done = distance == self.closest;
        if self.done || distance < self.distance {
            self.distance = distance;
            self.positions = SmallVec::from_slice(positions);
        }
    }
}

/// The mean over all ordered pairs, including a zone with itself, in the precision of the plugin.
#[expect(
    clippy::cast_precision_loss,
    reason = "the plugin computes in 32-bit floats"
)]
fn average(sum: i64, size: usize) -> f32 {
    sum as f32 / (size * size) as f32
}
