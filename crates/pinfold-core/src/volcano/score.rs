//! Which node is best: the one where the task's CPUs lie on the fewest NUMA nodes.
//!
//! Mirrors `batchNodeOrderFn` and `NormalizeScore`: the span of a decision is counted per node and turned
//! round, so that no span is 100 and the widest is 0, in whole numbers; then comes the plugin's weight.

use super::cpu_detail::CpuDetail;
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::node_set::{NodeId, NodeSet};

/// The score of a task that touches no NUMA node.
const BEST: i64 = 100;

/// How many NUMA nodes `cpus` touch.
#[must_use]
pub fn span(detail: &CpuDetail, cpus: &CpuSet, fidelity: Fidelity) -> usize {
    let mut touched = detail.nodes_of(cpus);
    if fidelity.counts_unlisted_cpus_on_node_zero() && !cpus.is_subset(detail.all()) {
        touched = touched | NodeId::new(0).map_or(NodeSet::EMPTY, NodeSet::single);
    }
    touched.len()
}

/// The scores of nodes on which a task spans so many NUMA nodes. They are comparable with each other only.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "scores beyond 2^53 are rounded by the original too"
)]
pub fn scores(spans: &[usize], weight: i64) -> Vec<f64> {
    let spans = spans
        .iter()
        .map(|&span| i64::try_from(span).unwrap_or(i64::MAX));
    let widest = spans.clone().max().unwrap_or(0);
    let score = |span: i64| match BEST.saturating_mul(span).checked_div(widest) {
        Some(share) => BEST - share,
        None => BEST,
    };
    spans
        .map(|span| score(span).wrapping_mul(weight) as f64)
        .collect()
}
