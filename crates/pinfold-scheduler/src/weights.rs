//! [`Weights`]: the weights of the parts of a node's score.
//!
//! | part | 100 | 0 |
//! |---|---|---|
//! | span | the pod's resources are on one NUMA node, or nothing has to be aligned | they are on all NUMA nodes |
//! | dialect | the best score of Koordinator's or Volcano's own rules | the worst |
//! | utilization | the node is full afterwards (`pack`), or empty (`spread`) | the opposite |
//! | distance | one NUMA node, or NUMA nodes at the shortest distance | NUMA nodes far apart |
//! | fragmentation | the free CPUs are on one NUMA node, as far as possible | they are spread over all NUMA nodes |
//!
//! The score is the weighted mean of the parts that apply to a node.

use pinfold_cluster::koordinator::amounts::CPU;
use pinfold_cluster::{ClusterNode, Dialect, Fit, FitScore, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Ledger;
use pinfold_core::node_set::NodeSet;
use serde::Serialize;

/// The highest score of a plugin of kube-scheduler.
pub const MAX_SCORE: i64 = 100;

/// The weights of the parts of a score, from 0 to 100, and the preference for full or empty nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Weights {
    /// The weight of few NUMA nodes.
    pub span: u32,
    /// The weight of the score of the node's dialect.
    pub dialect: u32,
    /// The weight of the CPU utilization.
    pub utilization: u32,
    /// The weight of short distances between NUMA nodes.
    pub distance: u32,
    /// The weight of unfragmented free CPUs.
    pub fragmentation: u32,
    /// Whether full or empty nodes get the higher utilization score.
    pub prefer: Prefer,
}

/// Whether full or empty nodes get the higher utilization score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// Full nodes: others stay free for large pods.
    Pack,
    /// Empty nodes: pods interfere less with each other.
    Spread,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            span: 4,
            dialect: 2,
            utilization: 2,
            distance: 1,
            fragmentation: 2,
            prefer: Prefer::Pack,
        }
    }
}

impl Weights {
    /// The score of a node, from 0 to [`MAX_SCORE`]. `fit` is `None` where no NUMA rules apply.
    #[must_use]
    pub fn score(&self, request: &PodRequest, node: &ClusterNode, fit: Option<&Fit>) -> i64 {
        let mut mean = WeightedMean::default();
        mean.add(self.utilization, self.utilization_of(request, node));
        if let Some(fit) = fit {
            match node.dialect() {
                Dialect::Kubelet(ledger) => self.add_kubelet_parts(ledger, fit, &mut mean),
                _ => {
                    if let FitScore::Absolute(score) = fit.score {
                        mean.add(self.dialect, score.clamp(0, 100));
                    }
                    mean.add(self.span, span_score(fit));
                }
            }
        }
        mean.value()
    }

    /// The score of a node on which Volcano's rules decide. `own` is their score of the node, 0 to 100, which counts with
    /// the `weight` of Volcano's plugin.
    #[must_use]
    pub fn volcano_score(
        &self,
        request: &PodRequest,
        node: &ClusterNode,
        fit: &Fit,
        own: i64,
        weight: u32,
    ) -> i64 {
        let mut mean = WeightedMean::default();
        mean.add(self.utilization, self.utilization_of(request, node));
        mean.add(self.dialect.saturating_mul(weight), own.clamp(0, 100));
        mean.add(self.span, span_score(fit));
        mean.value()
    }

    fn add_kubelet_parts(&self, ledger: &Ledger, fit: &Fit, mean: &mut WeightedMean) {
        if let FitScore::Absolute(score) = fit.score {
            mean.add(self.span, score.clamp(0, 100));
        }
        mean.add(self.distance, closeness(ledger, fit.numa));
        if !fit.cpus.is_empty() {
            mean.add(self.fragmentation, wholeness(ledger, &fit.cpus));
        }
    }

    /// The share of CPUs that are requested after the pod is placed, or its complement.
    fn utilization_of(&self, request: &PodRequest, node: &ClusterNode) -> i64 {
        let all = node.allocatable().get(CPU);
        if all <= 0 {
            return 0;
        }
        let used = node
            .used()
            .get(CPU)
            .saturating_add(request.requests().get(CPU));
        let share = used.saturating_mul(100).saturating_div(all).clamp(0, 100);
        match self.prefer {
            Prefer::Pack => share,
            Prefer::Spread => 100 - share,
        }
    }
}

/// 100 divided by the number of NUMA nodes.
fn span_score(fit: &Fit) -> i64 {
    100 / i64::try_from(fit.numa.len().max(1)).unwrap_or(i64::MAX)
}

/// A weighted mean.
#[derive(Default)]
struct WeightedMean {
    sum: i64,
    weights: i64,
}

impl WeightedMean {
    fn add(&mut self, weight: u32, part: i64) {
        self.sum += i64::from(weight) * part;
        self.weights += i64::from(weight);
    }

    fn value(&self) -> i64 {
        match self.weights {
            0 => 0,
            weights => self.sum / weights,
        }
    }
}

/// 100 for one NUMA node; for several, the local distance 10 in percent of their mean distance.
fn closeness(ledger: &Ledger, nodes: NodeSet) -> i64 {
    if nodes.len() < 2 {
        return 100;
    }
    let machine = ledger.rules().machine();
    let (mut sum, mut count) = (0_i64, 0_i64);
    for (node, other, distance) in pairs(machine) {
        if node != other && nodes.contains(node) && nodes.contains(other) {
            sum += i64::from(distance);
            count += 1;
        }
    }
    match sum {
        0 => 50,
        sum => (10 * 100 * count / sum).clamp(0, 100),
    }
}

fn pairs(
    machine: &pinfold_core::machine::Machine,
) -> impl Iterator<
    Item = (
        pinfold_core::node_set::NodeId,
        pinfold_core::node_set::NodeId,
        u32,
    ),
> {
    let nodes = machine.nodes();
    nodes.iter().flat_map(move |node| {
        let others = nodes.iter().zip(&node.distances);
        others.map(move |(other, distance)| (node.id, other.id, *distance))
    })
}

/// The free CPUs on the NUMA node with the most of them, in percent of the most that one NUMA node could have.
fn wholeness(ledger: &Ledger, taken: &CpuSet) -> i64 {
    let reserved = ledger.rules().reserved_cpus();
    let free = &(ledger.state().cpus().shared() - &reserved) - taken;
    let (mut total, mut largest, mut room) = (0, 0, 0);
    for node in ledger.rules().topology().nodes() {
        let left = free.common_len(&node.cpus);
        total += left;
        largest = largest.max(left);
        room = room.max(
            node.cpus
                .len()
                .saturating_sub(reserved.common_len(&node.cpus)),
        );
    }
    match total.min(room) {
        0 => 100,
        possible => i64::try_from(largest * 100 / possible).unwrap_or(100),
    }
}

#[cfg(test)]
mod tests;
