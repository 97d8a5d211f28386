//! `ConstrainedBurst`: a pod without bound CPUs is restricted to one NUMA node's shared pool.
//!
//! Koordinator's design document promises the policy and its code ignores it, so only sound mode has it. An LS pod, or
//! a pod without a label, fits only a node with a NUMA node whose shared pool is as large as the pod's CPU limit. The
//! allocation names that NUMA node, and the agent restricts the pod to its pool. Under a NUMA policy, the policy chooses
//! among the sets of NUMA nodes whose pools are that large together.

use super::{
    Allocation, Amounts, CPU, KoordinatorNode, KoordinatorReason, KoordinatorRejection, MILLI,
    NodeAmounts, NumaStrategy, PodDemand, PreFilterState,
};
use crate::koordinator::policy_values::ExclusiveLevel;
use crate::koordinator::qos::KoordinatorQos;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeId;

/// The CPU that the pool must have: the limit, or the request of a pod without a limit.
pub(super) fn burst(pod: &PodDemand) -> Option<i64> {
    let bursts = matches!(pod.qos, None | Some(KoordinatorQos::Ls));
    let milli = match pod.limits.get(CPU) {
        0 => pod.requests.get(CPU),
        limit => limit,
    };
    (bursts && milli > 0).then_some(milli)
}

/// The NUMA node of a pod with this policy; `None` for other pods.
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
        KoordinatorRejection::unschedulable(KoordinatorReason::PoolTooSmall { milli, largest })
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

/// The size of each NUMA node's shared pool, in milli-CPUs.
pub(super) fn shared_pools(node: &KoordinatorNode) -> Vec<(NodeId, i64)> {
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
