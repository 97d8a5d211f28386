//! One inequality made of all thresholds of a [`Cover`]: stronger than each of them alone.
//!
//! For any multipliers l_t >= 0 of the thresholds and 0 <= m_T <= c_T of their groups, every solution S satisfies
//!
//! ```text
//! sum over x in S of  sum_t l_t (w_t[x] + sum over T around x of m_T)  >=  sum_t l_t (need_t - sum_T (c_T - m_T))
//! ```
//!
//! because a group that S hits is group_sum c_T <= (c_T - m_T) + m_T |S and T|. Good multipliers are found by a few
//! subgradient steps in floating point; then they are rounded and the inequality is formed in integers. Any
//! multipliers make a true inequality, so rounding costs strength, never truth.

use smallvec::SmallVec;

use super::Cover;
use crate::merge::prepared_threshold::PreparedThreshold;
use crate::merge::width::share;
use crate::node_set::{NodeId, NodeSet};

/// The result of tuning.
pub(super) struct Tuned {
    /// A solution that was found on the way.
    pub(super) solution: Option<NodeSet>,
    /// The inequality as a threshold without groups, relative to the taken nodes.
    pub(super) bound: Option<PreparedThreshold>,
}

const STEPS: u32 = 40;

type SurrogateRows<'g> = SmallVec<[SurrogateRow<'g>; 8]>;

/// One threshold relative to the taken nodes, in shares of what is still needed.
#[derive(Clone)]
struct SurrogateRow<'g> {
    prepared: &'g PreparedThreshold,
    short: u64,
    multiplier: f64,
    /// Groups not hit yet: nodes, size, multiplier; sizes as amounts and as shares.
    groups: SmallVec<[SurrogateGroup; 4]>,
}

#[derive(Clone)]
struct SurrogateGroup {
    nodes: NodeSet,
    count: u64,
    share: f64,
    /// Between 0 and `share`.
    multiplier: f64,
}

/// Tunes the multipliers, or stops at the first solution if `stop_at_solution`.
pub(super) fn tune(cover: &Cover<'_>, stop_at_solution: bool) -> Tuned {
    let mut rows: SurrogateRows<'_> = cover
        .thresholds
        .iter()
        .map(|prepared| SurrogateRow::new(prepared, cover))
        .collect();
    let count = rows.len();
    for row in &mut rows {
        row.multiplier = share(1, count as u64);
    }
    let mut tuned = Tuned {
        solution: None,
        bound: None,
    };
    let mut best: Option<(f64, SurrogateRows<'_>)> = None;
    for step in 0..STEPS {
        let chosen = best_nodes(cover, &rows);
        if tuned.solution.is_none() && cover.is_solution(cover.taken | chosen) {
            tuned.solution = Some(cover.taken | chosen);
            if stop_at_solution {
                return tuned;
            }
        }
        let surplus: SmallVec<[f64; 8]> = rows.iter().map(|row| row.surplus(chosen)).collect();
        let total: f64 = rows
            .iter()
            .zip(&surplus)
            .map(|(row, surplus)| row.multiplier * surplus)
            .sum();
        if best.as_ref().is_none_or(|(least, _)| total < *least) {
            best = Some((total, rows.clone()));
        }
        if total < -1e-9 {
            break;
        }
        let length = 1.0 / f64::from(step + 2);
        for (row, surplus) in rows.iter_mut().zip(&surplus) {
            row.step(chosen, *surplus, length);
        }
        let sum: f64 = rows.iter().map(|row| row.multiplier).sum();
        if sum <= 0.0 {
            break;
        }
        rows.iter_mut().for_each(|row| row.multiplier /= sum);
    }
    tuned.bound = best.and_then(|(_, rows)| in_integers(cover, &rows));
    tuned
}

impl<'g> SurrogateRow<'g> {
    fn new(prepared: &'g PreparedThreshold, cover: &Cover<'_>) -> Self {
        let short = prepared
            .need
            .saturating_sub(prepared.value(cover.taken))
            .max(1);
        let open = prepared
            .groups()
            .iter()
            .filter(|group| !group.nodes.intersects(cover.taken));
        let groups = open.map(|group| {
            let count = group.count.min(short);
            let size = share(count, short);
            SurrogateGroup {
                nodes: group.nodes & cover.open,
                count,
                share: size,
                multiplier: size / share(group.nodes.len() as u64, 1),
            }
        });
        Self {
            prepared,
            short,
            multiplier: 1.0,
            groups: groups.filter(|group| !group.nodes.is_empty()).collect(),
        }
    }

    /// The contribution of one node in shares.
    fn score(&self, node: NodeId) -> f64 {
        let around = self
            .groups
            .iter()
            .filter(|group| group.nodes.contains(node));
        let groups: f64 = around.map(|group| group.multiplier).sum();
        share(self.prepared.weight(node).min(self.short), self.short) + groups
    }

    /// The amount by which `chosen` exceeds the right side.
    fn surplus(&self, chosen: NodeSet) -> f64 {
        let left: f64 = chosen.iter().map(|node| self.score(node)).sum();
        let slack: f64 = self
            .groups
            .iter()
            .map(|group| group.share - group.multiplier)
            .sum();
        left - (1.0 - slack)
    }

    /// A step against the subgradient.
    fn step(&mut self, chosen: NodeSet, surplus: f64, length: f64) {
        for group in &mut self.groups {
            let hits = share((group.nodes & chosen).len() as u64, 1);
            let moved = group.multiplier - length * group.share * (hits - 1.0);
            group.multiplier = moved.clamp(0.0, group.share);
        }
        self.multiplier = (self.multiplier - length * surplus).max(0.0);
    }
}

/// The nodes with the highest scores, as many as there are places.
fn best_nodes(cover: &Cover<'_>, rows: &[SurrogateRow<'_>]) -> NodeSet {
    let score = |node| {
        rows.iter()
            .map(|row| row.multiplier * row.score(node))
            .sum::<f64>()
    };
    let mut scores: SmallVec<[(f64, NodeId); 64]> =
        cover.open.iter().map(|node| (score(node), node)).collect();
    if cover.places < scores.len() {
        scores.select_nth_unstable_by(cover.places, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    }
    scores
        .iter()
        .take(cover.places)
        .map(|&(_, node)| node)
        .collect()
}

/// The number of bits of a multiplier, and the number of bits by which the sums are cut in the end.
const MULTIPLIER_BITS: u32 = 40;
const SCALE_BITS: u32 = 44;
const CUT_BITS: u32 = 36;

/// The inequality of the rows' multipliers. Left side rounded up, right side as it is: still true.
fn in_integers(cover: &Cover<'_>, rows: &[SurrogateRow<'_>]) -> Option<PreparedThreshold> {
    let mut left = [0_u128; 64];
    let mut right = 0_i128;
    for row in rows {
        // At most 2^84 / short, so that a row adds at most 2^84 times its groups.
        let multiplier = (fixed_point(row.multiplier) << SCALE_BITS) / u128::from(row.short);
        let mut needed = i128::from(row.short);
        for node in cover.open {
            left[node.index()] += multiplier * u128::from(row.prepared.weight(node).min(row.short));
        }
        for group in &row.groups {
            let part = (fixed_point(group.multiplier) * u128::from(row.short)) >> MULTIPLIER_BITS;
            let part = part.min(u128::from(group.count));
            for node in group.nodes {
                left[node.index()] += multiplier * part;
            }
            needed -= i128::from(group.count) - i128::try_from(part).ok()?;
        }
        right = right.checked_add(i128::try_from(multiplier).ok()?.checked_mul(needed)?)?;
    }
    let right = u128::try_from(right).ok()?;
    let need = u64::try_from(right.div_ceil(1 << CUT_BITS)).ok()?;
    let mut weights = [0; 64];
    for (weight, left) in weights.iter_mut().zip(left) {
        let rounded = left.div_ceil(1 << CUT_BITS).min(u128::from(need));
        *weight = u64::try_from(rounded).ok()?;
    }
    (need > 0).then(|| PreparedThreshold::plain(need, weights))
}

/// A multiplier between 0 and 1 as an integer of [`MULTIPLIER_BITS`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped first, and any rounding of a multiplier makes a true inequality"
)]
fn fixed_point(multiplier: f64) -> u128 {
    let one = (1_u64 << MULTIPLIER_BITS) as f64;
    (multiplier.clamp(0.0, 1.0) * one) as u128
}
