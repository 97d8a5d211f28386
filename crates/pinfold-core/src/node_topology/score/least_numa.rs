//! The strategy that counts NUMA nodes.
//!
//! Mirrors `numaNodesRequired` and what uses it: the smallest number of zones that together have enough,
//! where each of them reports every requested resource; among combinations of that number one with the
//! least average distance. It is called optimal if no combination of that number, with room or without,
//! is closer together. The original walks all combinations; here parts that cannot win are left out, and
//! a step budget ends what would go on for too long.

use smallvec::SmallVec;

use super::BEST;
use crate::fidelity::Fidelity;
use crate::node_set::NodeSet;
use crate::node_topology::manager::Manager;
use crate::node_topology::numa::{NumaZone, NumaZones};
use crate::pod::{Pod, ResourceList};
use crate::quantity::Quantity;

/// The distance that stands for "unknown", and the largest that firmware can state.
const UNKNOWN: i64 = 255;
/// Combinations farther apart than this on average are not accepted.
const TOO_FAR: f32 = 256.0;
/// So many zones are tried in combinations before the best one found counts. Sixteen zones need far fewer.
const MOST_STEPS: usize = 1 << 22;

/// The NUMA nodes that something needs.
struct Needed {
    nodes: NodeSet,
    /// Whether no other nodes of that number are closer together.
    optimal: bool,
}

/// The score of a pod that is aligned as a whole.
pub(super) fn of_pod(zones: &NumaZones, request: &ResourceList, manager: &Manager) -> i64 {
    if zones.report_none_of(request) {
        return BEST;
    }
    needed(zones.as_slice(), request).map_or(0, |needed| needed.score(manager))
}

/// The score of a pod whose containers are aligned one by one, each taking its part.
pub(super) fn of_containers(
    mut zones: NumaZones,
    pod: &Pod,
    manager: &Manager,
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
    fn score(&self, manager: &Manager) -> i64 {
        let share = BEST / manager.max_numa_nodes.max(1);
        let count = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX);
        BEST - count * share + if self.optimal { share / 2 } else { 0 }
    }
}

/// The fewest zones with room for the request.
fn needed(zones: &[NumaZone], request: &ResourceList) -> Option<Needed> {
    let mut search = Search::new(zones, request);
    (1..=zones.len()).find_map(|size| search.of_size(size))
}

/// Combinations of zones by their places in the list.
struct Search<'a> {
    zones: &'a [NumaZone],
    /// What must be reached, one entry per resource that is really asked for.
    need: SmallVec<[Quantity; 4]>,
    /// What each zone adds to it; `None` if it lacks a requested resource.
    adds: Vec<Option<SmallVec<[Quantity; 4]>>>,
    /// Distances by places.
    costs: Vec<Vec<i64>>,
    /// The least distance of a zone to itself, and to another one.
    least: (i64, i64),
    steps: usize,
}

/// A combination being built: places, ascending, and the sum of their distances.
#[derive(Clone, Default)]
struct Partial {
    places: SmallVec<[usize; 16]>,
    distance: i64,
}

impl<'a> Search<'a> {
    fn new(zones: &'a [NumaZone], request: &ResourceList) -> Self {
        let asked = || request.iter().filter(|(_, quantity)| !quantity.is_zero());
        let adds = |zone: &NumaZone| {
            let reports_all = request.keys().all(|name| zone.available.contains_key(name));
            reports_all.then(|| {
                asked()
                    .filter_map(|(name, _)| zone.available.get(name).cloned())
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
        Self {
            zones,
            need: asked().map(|(_, quantity)| quantity.clone()).collect(),
            adds: zones.iter().map(adds).collect(),
            least: (least(true), least(false)),
            costs,
            steps: 0,
        }
    }

    fn of_size(&mut self, size: usize) -> Option<Needed> {
        if !self.could_fit(size) {
            return None;
        }
        let mut closest = i64::MAX;
        self.closest(&mut Partial::default(), 0, size, &mut closest);
        let closest = average(closest, size).min(average(UNKNOWN, 1));
        let mut best = Best {
            closest,
            distance: TOO_FAR,
            places: SmallVec::new(),
            done: false,
        };
        let sums = smallvec::smallvec![Quantity::default(); self.need.len()];
        self.fitting(&mut Partial::default(), &sums, 0, size, &mut best);
        if best.places.is_empty() {
            return None;
        }
        Some(Needed {
            nodes: best.places.iter().map(|&at| self.zones[at].id).collect(),
            optimal: best.done,
        })
    }

    /// Whether, resource by resource, the best-equipped zones of that number have enough.
    fn could_fit(&self, size: usize) -> bool {
        let reporting = || self.adds.iter().flatten();
        reporting().count() >= size
            && self.need.iter().enumerate().all(|(at, need)| {
                let mut amounts: SmallVec<[&Quantity; 16]> = reporting().map(|add| &add[at]).collect();
                amounts.sort_unstable_by(|a, b| b.cmp(a));
                let most = amounts[..size]
                    .iter()
                    .fold(Quantity::default(), |sum, &amount| sum + amount.clone());
                most >= *need
            })
    }

    /// The least sum of distances that a completion of `partial` could have.
    fn bound(&self, partial: &Partial, size: usize) -> i64 {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (have, want) = (count(partial.places.len()), count(size));
        let selves = (want - have).saturating_mul(self.least.0);
        let others = (want * (want - 1) - have * (have - 1)).saturating_mul(self.least.1);
        partial
            .distance
            .saturating_add(selves)
            .saturating_add(others)
    }

    fn with(&self, partial: &Partial, place: usize) -> Partial {
        let mut more = partial.clone();
        more.distance = more.distance.saturating_add(self.costs[place][place]);
        for &at in &partial.places {
            let both = self.costs[at][place].saturating_add(self.costs[place][at]);
            more.distance = more.distance.saturating_add(both);
        }
        more.places.push(place);
        more
    }

    /// Lowers `closest` to the least sum of distances of any combination.
    fn closest(&mut self, partial: &mut Partial, from: usize, size: usize, closest: &mut i64) {
        let missing = size - partial.places.len();
        if missing == 0 {
            *closest = partial.distance.min(*closest);
            return;
        }
        for place in from..=self.zones.len() - missing {
            self.steps += 1;
            if self.steps > MOST_STEPS && *closest != i64::MAX {
                return;
            }
            let mut more = self.with(partial, place);
            if self.bound(&more, size) < *closest {
                self.closest(&mut more, place + 1, size, closest);
            }
        }
    }

    /// Finds the first combination with room that is as close as any, else the closest with room.
    fn fitting(
        &mut self,
        partial: &mut Partial,
        sums: &SmallVec<[Quantity; 4]>,
        from: usize,
        size: usize,
        best: &mut Best,
    ) {
        let missing = size - partial.places.len();
        if missing == 0 {
            let enough = sums.iter().zip(&self.need).all(|(sum, need)| sum >= need);
            if enough {
                best.offer(&partial.places, average(partial.distance, size));
            }
            return;
        }
        for place in from..=self.zones.len() - missing {
            self.steps += 1;
            let gives_up = self.steps > MOST_STEPS.saturating_mul(2);
            if best.done || gives_up && !best.places.is_empty() {
                return;
            }
            let Some(add) = &self.adds[place] else {
                continue;
            };
            let more_sums = sums
                .iter()
                .zip(add)
                .map(|(sum, add)| sum.clone() + add.clone())
                .collect();
            let mut more = self.with(partial, place);
            let bound = average(self.bound(&more, size), size);
            if bound < best.distance || bound <= best.closest {
                self.fitting(&mut more, &more_sums, place + 1, size, best);
            }
        }
    }
}

/// The best combination with room so far.
struct Best {
    /// How close a combination of that size can be.
    closest: f32,
    distance: f32,
    places: SmallVec<[usize; 16]>,
    /// Whether it is as close as that.
    done: bool,
}

impl Best {
    #[expect(clippy::float_cmp, reason = "equal sums give equal averages")]
    fn offer(&mut self, places: &[usize], distance: f32) {
        self.done = distance == self.closest;
        if self.done || distance < self.distance {
            self.distance = distance;
            self.places = SmallVec::from_slice(places);
        }
    }
}

/// The mean over all ordered pairs, a zone with itself among them, in the original's precision.
#[expect(
    clippy::cast_precision_loss,
    reason = "the original computes in 32-bit floats"
)]
fn average(sum: i64, size: usize) -> f32 {
    sum as f32 / (size * size) as f32
}
