//! Scores nodes: the fewer NUMA nodes the task's CPUs span, the higher.
//!
//! Mirrors `batchNodeOrderFn` and `NormalizeScore`: the span of a decision is counted per node and inverted, so that a
//! span of 0 scores 100 and the widest 0, in whole numbers; the result is multiplied by the plugin's weight.

use super::cpu_detail::CpuDetail;
use crate::volcano::VolcanoDefects;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::{NodeId, NodeSet};

/// The score of a task without CPUs on any NUMA node.
const BEST: i64 = 100;

/// The number of NUMA nodes that `cpus` span.
#[must_use]
pub fn span(detail: &CpuDetail, cpus: &CpuSet, fidelity: Fidelity) -> usize {
    let mut touched = detail.nodes_of(cpus);
    if fidelity.counts_unlisted_cpus_on_node_zero() && !cpus.is_subset(detail.all()) {
        touched = touched | NodeId::new(0).map_or(NodeSet::EMPTY, NodeSet::single);
    }
    touched.len()
}

/// The scores of nodes by the number of NUMA nodes that the task spans there. They are comparable with each other only.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "Volcano rounds scores beyond 2^53 too"
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
