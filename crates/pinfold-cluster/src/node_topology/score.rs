//! The score of a node for a pod, 0 to 100.
//!
//! Mirrors the plugin's `Score`. A pod that is not Guaranteed scores 100 everywhere. Three strategies score every
//! NUMA zone and use the lowest score that is not 0 (0 means that the zone is too small and would not be
//! chosen); they apply to nodes with the policy `single-numa-node`. [`ScoringStrategy::LeastNumaNodes`] counts the
//! NUMA nodes that the pod needs.

use crate::node_topology::TopologyMatchDefects;
use std::collections::BTreeMap;

use super::NodeTopology;
use super::numa_zones::NumaZones;
use super::pod_demand::TopologyPodRequest;
use super::topology_manager::TopologyManagerConfig;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::ResourceName;
use pinfold_core::pod::ResourceList;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::TopologyScope;

mod least_numa;

/// The best score.
pub(crate) const BEST: i64 = 100;

/// How zones are scored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScoringStrategy {
    /// The emptier, the higher.
    #[default]
    LeastAllocated,
    /// The fuller, the higher.
    MostAllocated,
    /// The more evenly the resources are used, the higher.
    BalancedAllocation,
    /// The fewer NUMA nodes are needed, the higher.
    LeastNumaNodes,
}

impl ScoringStrategy {
    /// Parses the strategy of the plugin's arguments.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        match text {
            "LeastAllocated" => Some(ScoringStrategy::LeastAllocated),
            "MostAllocated" => Some(ScoringStrategy::MostAllocated),
            "BalancedAllocation" => Some(ScoringStrategy::BalancedAllocation),
            "LeastNUMANodes" => Some(ScoringStrategy::LeastNumaNodes),
            _ => None,
        }
    }
}

/// The weight of each resource. A missing weight or one below 1 counts as 1.
pub type ResourceWeights = BTreeMap<ResourceName, i64>;

/// The score of a node for a pod.
#[must_use]
pub(crate) fn score(
    topology: Option<&NodeTopology>,
    request: &TopologyPodRequest<'_>,
    strategy: ScoringStrategy,
    weights: &ResourceWeights,
    fidelity: Fidelity,
) -> i64 {
    if request.qos() != QosClass::Guaranteed {
        return BEST;
    }
    let Some(topology) = topology else {
        return 0;
    };
    let manager = TopologyManagerConfig::of(topology);
    let zones = NumaZones::of(&topology.zones);
    let scoring = Scoring {
        strategy,
        weights,
        fidelity,
    };
    match (strategy, manager.scope) {
        (ScoringStrategy::LeastNumaNodes, TopologyScope::Pod) => {
            least_numa::of_pod(&zones, &request.effective(fidelity), &manager)
        }
        (ScoringStrategy::LeastNumaNodes, TopologyScope::Container) => {
            least_numa::of_containers(zones, request.pod, &manager, fidelity)
        }
        _ if manager.policy != TopologyPolicy::SingleNumaNode => 0,
        (_, TopologyScope::Pod) => scoring.all_zones(&zones, &request.effective(fidelity)),
        (_, TopologyScope::Container) => scoring.mean(&zones, request),
    }
}

struct Scoring<'a> {
    strategy: ScoringStrategy,
    weights: &'a ResourceWeights,
    fidelity: Fidelity,
}

impl Scoring<'_> {
    /// The mean score of all containers, including init containers.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the plugin computes a float and truncates it"
    )]
    fn mean(&self, zones: &NumaZones, request: &TopologyPodRequest<'_>) -> i64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for container in request.pod.all_containers() {
            sum += self.all_zones(zones, &container.requests) as f64;
            count += 1.0;
        }
        (sum / count) as i64
    }

    /// The lowest nonzero score of a zone.
    fn all_zones(&self, zones: &NumaZones, requested: &ResourceList) -> i64 {
        zones.as_slice().iter().fold(0, |lowest, zone| {
            let score = self.zone(requested, &zone.available);
            if lowest == 0 || score != 0 && score < lowest {
                score
            } else {
                lowest
            }
        })
    }

    fn zone(&self, requested: &ResourceList, available: &ResourceList) -> i64 {
        match self.strategy {
            ScoringStrategy::BalancedAllocation => self.balanced(requested, available),
            ScoringStrategy::MostAllocated => {
                self.weighted(requested, available, |requested, _| requested)
            }
            ScoringStrategy::LeastAllocated | ScoringStrategy::LeastNumaNodes => {
                self.weighted(requested, available, |requested, available| {
                    available.wrapping_sub(requested)
                })
            }
        }
    }

    /// The weighted mean of `part` of the available amounts, in percent. Mirrors `leastAllocatedScoreStrategy` and
    /// `mostAllocatedScoreStrategy`, which round up to whole units.
    fn weighted(
        &self,
        requested: &ResourceList,
        available: &ResourceList,
        part: impl Fn(i64, i64) -> i64,
    ) -> i64 {
        let (mut sum, mut weights) = (WrappingInt::default(), WrappingInt::default());
        for (name, requested) in requested {
            let weight = self.weights.get(name).copied().unwrap_or(1).max(1);
            let percent = match available.get(name) {
                Some(available) if !available.is_zero() && requested <= available => {
                    let (requested, available) = (requested.value(), available.value());
                    let percent = WrappingInt(i128::from(part(requested, available)));
                    percent
                        .times(BEST, self.fidelity)
                        .over(WrappingInt(available.into()))
                }
                _ => WrappingInt::default(),
            };
            sum = sum.plus(percent.times(weight, self.fidelity), self.fidelity);
            weights = weights.plus(WrappingInt(weight.into()), self.fidelity);
        }
        i64::try_from(sum.over(weights).0).unwrap_or(0)
    }

    /// One minus the sample variance of the used fractions. Mirrors `balancedAllocationScoreStrategy`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the plugin computes in floats and truncates"
    )]
    fn balanced(&self, requested: &ResourceList, available: &ResourceList) -> i64 {
        let mut fractions = smallvec::SmallVec::<[f64; 8]>::new();
        for (name, requested) in requested {
            let capacity = available.get(name).map_or(0, Quantity::value);
            let fraction = match capacity {
                0 => 1.0,
                _ => requested.value() as f64 / capacity as f64,
            };
            if fraction > 1.0 {
                return 0;
            }
            fractions.push(fraction);
        }
        if fractions.len() < 2 {
            return match self.fidelity.overflows_scores() {
                true => i64::MIN,
                false => BEST,
            };
        }
        ((1.0 - sample_variance(&fractions)) * BEST as f64) as i64
    }
}

/// The sample variance by the corrected two-pass algorithm, in the order given.
#[expect(clippy::cast_precision_loss, reason = "a handful of numbers")]
fn sample_variance(numbers: &[f64]) -> f64 {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let (mut squares, mut drift) = (0.0, 0.0);
    for number in numbers {
        let from_mean = number - mean;
        squares += from_mean * from_mean;
        drift += from_mean;
    }
    (squares - drift * drift / count) / (count - 1.0)
}

/// An integer that wraps around at 64 bits as in the plugin, and does not in sound mode.
#[derive(Clone, Copy, Default)]
struct WrappingInt(i128);

impl WrappingInt {
    fn fit(wide: i128, fidelity: Fidelity) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low 64 bits are intended"
        )]
        match fidelity.overflows_scores() {
            true => Self(i128::from(wide as i64)),
            false => Self(wide),
        }
    }

    fn times(self, factor: i64, fidelity: Fidelity) -> Self {
        Self::fit(self.0.saturating_mul(i128::from(factor)), fidelity)
    }

    fn plus(self, other: Self, fidelity: Fidelity) -> Self {
        Self::fit(self.0.saturating_add(other.0), fidelity)
    }

    /// The quotient rounded towards zero; 0 if the divisor is 0.
    fn over(self, divisor: Self) -> Self {
        Self(self.0.checked_div(divisor.0).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
