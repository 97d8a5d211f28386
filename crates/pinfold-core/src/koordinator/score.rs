//! Scores: how full a node, or some of its NUMA nodes, would be with the pod.
//!
//! Mirrors `resourceAllocationScorer`: a weighted mean over the resources that have capacity, each
//! from 0 to 100, in integers. An extended resource that the pod does not ask for is left out.

use serde::{Deserialize, Serialize};

use super::amounts::{Amounts, CPU, MEMORY};
use crate::fidelity::Fidelity;

/// Whether empty or full scores high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoreKind {
    /// The more is left, the better.
    #[default]
    LeastAllocated,
    /// The less is left, the better.
    MostAllocated,
}

/// A kind of score and the resources that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scorer {
    /// What scores high.
    pub kind: ScoreKind,
    /// The weight of each resource.
    pub weights: Amounts,
    /// Whether products wrap around as in the original.
    pub fidelity: Fidelity,
}

/// A resource that counts: its weight, and what the pod asks for of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightedRequest {
    weight: i64,
    asked: i64,
}

/// The best score.
const BEST: i64 = 100;

impl Scorer {
    /// The score of `used + asked` out of `total`.
    #[must_use]
    pub fn score(&self, used: &Amounts, total: &Amounts, asked: &Amounts) -> i64 {
        self.score_by(|name| (used.get(name), total.get(name)), asked)
    }

    /// The same with used and total amounts by resource name.
    pub(super) fn score_by(&self, amounts: impl Fn(&str) -> (i64, i64), asked: &Amounts) -> i64 {
        let counted = self.counted(asked);
        self.mean(counted.map(|(name, share)| {
            let (used, total) = amounts(name);
            (share, used, total)
        }))
    }

    /// The resources that count for a pod with these requests.
    pub(super) fn counted<'a>(
        &'a self,
        asked: &'a Amounts,
    ) -> impl Iterator<Item = (&'a str, WeightedRequest)> {
        self.weights.iter().filter_map(|(resource, weight)| {
            let name = resource.as_str();
            let asked = asked.get(name);
            let always = matches!(name, CPU | MEMORY | "ephemeral-storage");
            let counts = always || (asked != 0 && is_scalar(name));
            counts.then_some((name, WeightedRequest { weight, asked }))
        })
    }

    /// The weighted mean over resources with their used and total amounts.
    pub(super) fn mean(&self, rows: impl Iterator<Item = (WeightedRequest, i64, i64)>) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (WeightedRequest { weight, asked }, used, total) in rows {
            if total == 0 {
                continue;
            }
            let score = self.of_one(used.saturating_add(asked), total);
            sum = sum.saturating_add(score.saturating_mul(weight));
            weights = weights.saturating_add(weight);
        }
        sum.checked_div(weights).unwrap_or(0)
    }

    fn of_one(&self, used: i64, total: i64) -> i64 {
        let part = match self.kind {
            ScoreKind::LeastAllocated if used > total => return 0,
            ScoreKind::LeastAllocated => total.saturating_sub(used),
            ScoreKind::MostAllocated => used.min(total),
        };
        if self.fidelity.wraps_score_products() {
            return part.wrapping_mul(BEST).wrapping_div(total);
        }
        if let Some(product) = part.checked_mul(BEST) {
            return product.checked_div(total).unwrap_or(0);
        }
        let share = i128::from(part) * i128::from(BEST) / i128::from(total);
        i64::try_from(share).unwrap_or(0)
    }
}

/// Whether the scheduler counts the resource one by one (extended, huge pages, volumes).
fn is_scalar(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || (name.contains('/') && !name.starts_with("requests."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scorer(kind: ScoreKind, fidelity: Fidelity) -> Scorer {
        let weights = Amounts::from([("cpu", 1), ("memory", 1), ("nvidia.com/gpu", 2)]);
        Scorer {
            kind,
            weights,
            fidelity,
        }
    }

    #[test]
    fn an_extended_resource_counts_only_when_asked_for() {
        let total = Amounts::from([("cpu", 10_000), ("nvidia.com/gpu", 4)]);
        let used = Amounts::from([("cpu", 1000), ("nvidia.com/gpu", 2)]);
        let least = scorer(ScoreKind::LeastAllocated, Fidelity::Sound);
        assert_eq!(
            least.score(&used, &total, &Amounts::from([("cpu", 1000)])),
            80
        );
        let with_gpu = Amounts::from([("cpu", 1000), ("nvidia.com/gpu", 2)]);
        assert_eq!(least.score(&used, &total, &with_gpu), 80 / 3);
    }

    #[test]
    fn overfull_is_the_worst_for_least_and_the_best_for_most() {
        let total = Amounts::from([("cpu", 1000)]);
        let asked = Amounts::from([("cpu", 2000)]);
        for (kind, expected) in [
            (ScoreKind::LeastAllocated, 0),
            (ScoreKind::MostAllocated, 100),
        ] {
            let scorer = scorer(kind, Fidelity::Sound);
            assert_eq!(scorer.score(&Amounts::new(), &total, &asked), expected);
        }
    }

    #[test]
    fn huge_capacities_do_not_wrap_in_sound_mode() {
        let total = Amounts::from([("memory", i64::MAX)]);
        let scorer = scorer(ScoreKind::LeastAllocated, Fidelity::Sound);
        assert_eq!(scorer.score(&Amounts::new(), &total, &Amounts::new()), 100);
    }
}
