//! Scores a node, or some of its NUMA nodes, by how full it would be with the pod.
//!
//! Mirrors `resourceAllocationScorer`: a weighted mean over the resources that have capacity, each
//! from 0 to 100, in integers. An extended resource that the pod does not request is left out.

use crate::koordinator::KoordinatorDefects;
use serde::{Deserialize, Serialize};

use super::amounts::{Amounts, CPU, MEMORY};
use pinfold_core::fidelity::Fidelity;

/// Whether empty or full nodes score high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoreKind {
    /// The more is free, the higher.
    #[default]
    LeastAllocated,
    /// The less is free, the higher.
    MostAllocated,
}

/// Computes scores of one kind with weights by resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scorer {
    /// Whether empty or full nodes score high.
    pub kind: ScoreKind,
    /// The weight of each resource.
    pub weights: Amounts,
    /// Whether products wrap around as in Koordinator.
    pub fidelity: Fidelity,
}

/// The weight of a resource, and how much of it the pod requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightedRequest {
    weight: i64,
    requested: i64,
}

/// The best score.
const BEST: i64 = 100;

impl Scorer {
    /// The score of `used + requested` out of `total`.
    #[must_use]
    pub fn score(&self, used: &Amounts, total: &Amounts, requested: &Amounts) -> i64 {
        self.score_by(|name| (used.get(name), total.get(name)), requested)
    }

    /// The same, with a function that returns used and total amounts by resource name.
    pub(super) fn score_by(
        &self,
        amounts: impl Fn(&str) -> (i64, i64),
        requested: &Amounts,
    ) -> i64 {
        let counted = self.counted(requested);
        self.mean(counted.map(|(name, share)| {
            let (used, total) = amounts(name);
            (share, used, total)
        }))
    }

    /// The resources that count for a pod with these requests, with weight and request.
    pub(super) fn counted<'a>(
        &'a self,
        requested: &'a Amounts,
    ) -> impl Iterator<Item = (&'a str, WeightedRequest)> {
        self.weights.iter().filter_map(|(resource, weight)| {
            let name = resource.as_str();
            let requested = requested.get(name);
            let always = matches!(name, CPU | MEMORY | "ephemeral-storage");
            let counts = always || (requested != 0 && is_scalar(name));
            counts.then_some((name, WeightedRequest { weight, requested }))
        })
    }

    /// The weighted mean over resources with their used and total amounts.
    pub(super) fn mean(&self, rows: impl Iterator<Item = (WeightedRequest, i64, i64)>) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for (WeightedRequest { weight, requested }, used, total) in rows {
            if total == 0 {
                continue;
            }
            let score = self.of_one(used.saturating_add(requested), total);
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

/// Whether the resource is a scalar resource of the scheduler (extended, huge pages, volumes).
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
    fn an_extended_resource_counts_only_if_it_is_requested() {
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
    fn an_overfull_node_scores_0_for_least_and_100_for_most_allocated() {
        let total = Amounts::from([("cpu", 1000)]);
        let requested = Amounts::from([("cpu", 2000)]);
        for (kind, expected) in [
            (ScoreKind::LeastAllocated, 0),
            (ScoreKind::MostAllocated, 100),
        ] {
            let scorer = scorer(kind, Fidelity::Sound);
            assert_eq!(scorer.score(&Amounts::new(), &total, &requested), expected);
        }
    }

    #[test]
    fn huge_capacities_do_not_wrap_in_sound_mode() {
        let total = Amounts::from([("memory", i64::MAX)]);
        let scorer = scorer(ScoreKind::LeastAllocated, Fidelity::Sound);
        assert_eq!(scorer.score(&Amounts::new(), &total, &Amounts::new()), 100);
    }
}
