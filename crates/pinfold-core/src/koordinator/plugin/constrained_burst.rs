//! `ConstrainedBurst`: a pod without CPUs of its own is kept to one NUMA node's shared pool.
//!
//! Koordinator's design document promises it and its code ignores it; so this is sound mode's rule. A pod
//! that bursts (LS, or Burstable without a label) goes only to a node with a NUMA node whose shared pool can
//! hold the pod's CPU limit. That NUMA node is written down, and the agent binds the pod to its pool.

use super::{
    Allocation, Amounts, CPU, KoordinatorNode, KoordinatorReason, KoordinatorRejection, MILLI,
    NodeAmounts, NumaStrategy, PodDemand, PreFilterState,
};
use crate::cpu_set::CpuSet;
use crate::koordinator::policy_values::ExclusiveLevel;
use crate::koordinator::qos::KoordinatorQos;
use crate::node_set::NodeId;

/// What the pool must hold: the limit, or the request of a pod without one.
pub(super) fn burst(pod: &PodDemand) -> Option<i64> {
    let bursts = matches!(pod.qos, None | Some(KoordinatorQos::Ls));
    let milli = match pod.limits.get(CPU) {
        0 => pod.requests.get(CPU),
        limit => limit,
    };
    (bursts && milli > 0).then_some(milli)
}

/// The NUMA node for a pod that is to be kept to one, if it is.
pub(super) fn filter(
    pod: &PreFilterState,
    node: &KoordinatorNode,
) -> Result<Option<Allocation>, KoordinatorRejection> {
    let Some(milli) = pod.burst_milli else {
        return Ok(None);
    };
    let pools: Vec<(NodeId, i64)> = shared_pools(node);
    let largest = pools.iter().map(|(_, size)| *size).max().unwrap_or(0);
    let most_allocated = matches!(
        node.strategy.as_ref().map(NumaStrategy::of),
        Some(NumaStrategy::MostAllocated)
    );
    let fits = pools.into_iter().filter(|(_, size)| *size >= milli);
    let chosen = fits.min_by_key(|(id, size)| (if most_allocated { *size } else { -size }, *id));
    let (id, _) = chosen.ok_or_else(|| {
        KoordinatorRejection::now(KoordinatorReason::PoolTooSmall { milli, largest })
    })?;
    let part = NodeAmounts {
        node: id,
        amounts: Amounts::from([(CPU, pod.cpu_milli().max(1))]),
    };
    Ok(Some(Allocation {
        cpus: CpuSet::new(),
        exclusive: ExclusiveLevel::Nothing,
        numa: vec![part],
    }))
}

/// The size of each NUMA node's shared pool, in thousandths.
fn shared_pools(node: &KoordinatorNode) -> Vec<(NodeId, i64)> {
    let Some(report) = &node.report else {
        return Vec::new();
    };
    let pool = &(report.topology.all() - node.ledger.held().cpus()) - report.set_aside();
    let sized = report.zone_ids().iter().filter_map(|id| {
        let cpus = report.topology.cpus_of_node(id)?;
        let size = i64::try_from(pool.common_len(cpus)).ok()?;
        Some((id, size * MILLI))
    });
    sized.collect()
}
