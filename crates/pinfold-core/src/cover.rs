//! Which NUMA nodes meet some thresholds together? The [`narrowest`] ones, or the lowest of a given number (`Cover`).
//!
//! A [`Threshold`] is "these nodes have enough of a resource together". The memory manager and the device manager need
//! the least number of nodes that an empty machine would use, the memory manager also the nodes themselves; the merge
//! needs the width of one resource's narrowest mask, and a mask of one width that all resources prefer.
//!
//! One threshold without overlapping groups is solved greedily (`PreparedThreshold`). For several, a filter at the
//! root is cheap and nearly always decides: nodes in no solution are removed, nodes in every solution are taken,
//! thresholds that any choice meets are dropped. The rest is searched depth first from the highest node down, leaving a
//! node out before taking it: masks appear in ascending order, so the first solution is the lowest (`search`).
//!
//! Several thresholds are a knapsack problem, so every search has a `Budget` of steps.
//!
//! [`Threshold`]: crate::hint::Threshold

mod narrowest;
mod search;
#[cfg(test)]
mod tests;
mod threshold;

pub use narrowest::{Narrow, lowest_of_narrowest, lowest_of_width, narrowest};

pub(crate) use search::NodeChoice;
pub(crate) use threshold::PreparedThreshold;

use smallvec::SmallVec;

use self::search::{CoverSearch, Outlook};
use crate::hint::SocketRule;
use crate::node_set::{NodeId, NodeSet};

/// How many of the largest amounts reach a need together; all of them if they do not.
#[must_use]
pub fn fewest(amounts: impl IntoIterator<Item = u64>, need: u64) -> usize {
    let sums = largest_sums(amounts);
    let fewer = sums.partition_point(|&sum| sum < need);
    (fewer + 1).min(sums.len())
}

/// The sums of the 1, 2, 3, ... largest amounts.
#[must_use]
pub fn largest_sums(amounts: impl IntoIterator<Item = u64>) -> SmallVec<[u64; 8]> {
    let mut sums: SmallVec<[u64; 8]> = amounts.into_iter().collect();
    sums.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0_u64;
    for amount in &mut sums {
        sum = sum.saturating_add(*amount);
        *amount = sum;
    }
    sums
}

/// A quotient for heuristics, never for a decision.
#[expect(
    clippy::cast_precision_loss,
    reason = "an order of magnitude is enough"
)]
pub(crate) fn share(amount: u64, whole: u64) -> f64 {
    amount as f64 / whole.max(1) as f64
}

/// The remaining steps of one search. Steps are counted, not time: the same input gives the same answer everywhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    left: u32,
    ran_out: bool,
}

impl Budget {
    pub(crate) fn new(steps: u32) -> Self {
        Self {
            left: steps,
            ran_out: false,
        }
    }

    /// Spends the steps for visiting a state of `size` nodes and groups. False if too few are left.
    pub(crate) fn step(&mut self, size: usize) -> bool {
        let steps = 1 + u32::try_from(size / 16).unwrap_or(u32::MAX - 1);
        match self.left.checked_sub(steps) {
            Some(left) => self.left = left,
            None => self.ran_out = true,
        }
        !self.ran_out
    }

    /// Whether the budget was exceeded.
    pub(crate) fn ran_out(self) -> bool {
        self.ran_out
    }
}

/// Choosing `taken`, and `places` more nodes of `open`.
pub(crate) struct Cover<'g> {
    taken: NodeSet,
    open: NodeSet,
    places: usize,
    /// The thresholds that not every choice meets.
    thresholds: SmallVec<[&'g PreparedThreshold; 8]>,
    /// Rules that a solution must touch an exact number of sockets.
    sockets: SmallVec<[&'g SocketRule; 1]>,
}

/// The effect of a threshold on a cover.
enum Effect {
    /// No choice meets it.
    Impossible,
    /// Every choice meets it.
    Settled,
    /// Some choices meet it.
    Open,
}

impl<'g> Cover<'g> {
    /// A choice of `size` nodes inside `within`, `forced` among them. `None` if there are no such sets.
    pub(crate) fn new(within: NodeSet, forced: NodeSet, size: usize) -> Option<Self> {
        let possible = forced.is_subset(within) && within.len() >= size;
        let places = size.checked_sub(forced.len())?;
        possible.then(|| Self {
            taken: forced,
            open: within - forced,
            places,
            thresholds: SmallVec::new(),
            sockets: SmallVec::new(),
        })
    }

    pub(crate) fn with_thresholds(mut self, thresholds: &'g [PreparedThreshold]) -> Self {
        self.thresholds.extend(thresholds);
        self
    }

    pub(crate) fn with_sockets(mut self, rule: &'g SocketRule) -> Self {
        self.sockets.push(rule);
        self
    }

    /// The lowest solution. `None` if there is none, or if the budget ran out before one was found.
    pub(crate) fn lowest(&mut self, budget: &mut Budget) -> Option<NodeSet> {
        if !self.tighten() {
            return None;
        }
        if self.thresholds.is_empty() && self.sockets.is_empty() {
            let lowest: NodeSet = self.open.iter().take(self.places).collect();
            return Some(self.taken | lowest);
        }
        CoverSearch::new(self).lowest(budget)
    }

    /// The choice that is left after [`Cover::lowest`], for another search among its solutions.
    pub(crate) fn choice(&self) -> impl NodeChoice {
        Outlook::new(self)
    }

    /// Filters to a fixed point. False if there is no solution.
    fn tighten(&mut self) -> bool {
        loop {
            let before = (self.taken, self.open);
            let mut index = 0;
            while let Some(&prepared) = self.thresholds.get(index) {
                match self.filter_by(prepared) {
                    Effect::Impossible => return false,
                    Effect::Settled => {
                        self.thresholds.swap_remove(index);
                    }
                    Effect::Open => index += 1,
                }
            }
            if before == (self.taken, self.open) {
                return self.open.len() >= self.places;
            }
        }
    }

    /// Removes nodes in no solution of one threshold and takes nodes in every solution.
    fn filter_by(&mut self, prepared: &PreparedThreshold) -> Effect {
        let base = prepared.value(self.taken);
        if base >= prepared.need {
            return Effect::Settled;
        }
        let short = prepared.need - base;
        let gains: SmallVec<[(u64, NodeId); 64]> = {
            let open = self.open.iter();
            open.map(|node| (prepared.gain(self.taken, node), node))
                .collect()
        };
        if self.places == 0 || gains.len() < self.places {
            return Effect::Impossible;
        }
        let mut sorted: SmallVec<[u64; 64]> = gains.iter().map(|&(gain, _)| gain).collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let (best, rest) = sorted.split_at(self.places);
        // With groups the sum of single gains is an upper bound, which is what is needed here.
        let top: u64 = best.iter().sum();
        if top < short {
            return Effect::Impossible;
        }
        let last = best.last().copied().unwrap_or(0);
        let next = rest.first().copied();
        for (gain, node) in gains {
            let best_with_it = if gain < last { top - last + gain } else { top };
            let best_without_it = match next {
                Some(next) if gain >= last => top - gain + next,
                Some(_) => top,
                None => 0,
            };
            if best_with_it < short {
                self.open.remove(node);
            } else if best_without_it < short {
                let Some(places) = self.places.checked_sub(1) else {
                    return Effect::Impossible;
                };
                self.places = places;
                self.open.remove(node);
                self.taken.insert(node);
            }
        }
        let worst: u64 = sorted.iter().rev().take(best.len()).sum();
        match worst >= short && !prepared.has_groups() {
            true => Effect::Settled,
            false => Effect::Open,
        }
    }
}
