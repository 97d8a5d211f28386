//! [`Weights`]: what makes one node better than another for a pod that both would take.
//!
//! | part | 100 | 0 |
//! |---|---|---|
//! | span | all on one NUMA node, or nothing to align | on as many as the machine has |
//! | dialect | what Koordinator's or Volcano's own rules say | |
//! | use | the node is full afterwards (`pack`), or empty (`spread`) | the other way round |
//! | distance | one NUMA node, or all as near as can be | far apart |
//! | fragmentation | the CPUs left are in one piece as large as can be | every NUMA node has a little |
//!
//! The score is the mean of the parts that a node has, by their weights.

use pinfold_core::cluster::{ClusterNode, Dialect, Fit, FitScore, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::koordinator::amounts::CPU;
use pinfold_core::ledger::Ledger;
use pinfold_core::node_set::NodeSet;
use serde::Serialize;

/// The highest score of kube-scheduler's extenders.
pub const BEST: i64 = 10;

/// How much each part counts, from 0 to 100.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Weights {
    /// Few NUMA nodes.
    pub span: u32,
    /// The node's own rules.
    pub dialect: u32,
    /// How full the node is.
    #[serde(rename = "use")]
    pub usage: u32,
    /// NUMA nodes close to each other.
    pub distance: u32,
    /// What is left is in one piece.
    pub fragmentation: u32,
    /// Whether full nodes are good, or empty ones.
    pub prefer: Prefer,
}

/// Whether full nodes are good, or empty ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// Full ones: others stay free for large pods.
    Pack,
    /// Empty ones: pods disturb each other less.
    Spread,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            span: 4,
            dialect: 2,
            usage: 2,
            distance: 1,
            fragmentation: 2,
            prefer: Prefer::Pack,
        }
    }
}

impl Weights {
    /// The score of a node, from 0 to [`BEST`]. `fit` is `None` where the node's NUMA rules have no say.
    #[must_use]
    pub fn score(&self, ask: &PodRequest, member: &ClusterNode, fit: Option<&Fit>) -> i64 {
        let mut sum = Mean::default();
        sum.add(self.usage, self.usage_of(ask, member));
        if let Some(fit) = fit {
            match member.dialect() {
                Dialect::Kubelet(ledger) => self.of_kubelet(ledger, fit, &mut sum),
                _ => {
                    if let FitScore::Absolute(score) = fit.score {
                        sum.add(self.dialect, score.clamp(0, 100));
                    }
                    let span = i64::try_from(fit.numa.len().max(1)).unwrap_or(i64::MAX);
                    sum.add(self.span, 100 / span);
                }
            }
        }
        (sum.value() * BEST + 50) / 100
    }

    fn of_kubelet(&self, ledger: &Ledger, fit: &Fit, sum: &mut Mean) {
        if let FitScore::Absolute(score) = fit.score {
            sum.add(self.span, score.clamp(0, 100));
        }
        sum.add(self.distance, closeness(ledger, fit.numa));
        if !fit.cpus.is_empty() {
            sum.add(self.fragmentation, wholeness(ledger, &fit.cpus));
        }
    }

    /// How full the node's CPUs are afterwards, or how empty.
    fn usage_of(&self, ask: &PodRequest, member: &ClusterNode) -> i64 {
        let all = member.allocatable().get(CPU);
        if all <= 0 {
            return 0;
        }
        let used = member
            .used()
            .get(CPU)
            .saturating_add(ask.requests().get(CPU));
        let share = used.saturating_mul(100).saturating_div(all).clamp(0, 100);
        match self.prefer {
            Prefer::Pack => share,
            Prefer::Spread => 100 - share,
        }
    }
}

/// A mean by weights.
#[derive(Default)]
struct Mean {
    sum: i64,
    weights: i64,
}

impl Mean {
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

/// 100 for one NUMA node; for several, the shortest distance there is as a share of their mean distance.
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

/// How much of what is left could go to one container on one NUMA node: 100 if as much as could be.
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
