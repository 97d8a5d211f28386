//! A node on which Volcano's plugin decides: its predicate. The score depends on the other candidates, so the
//! evaluation only counts NUMA nodes.

use std::collections::BTreeMap;

use super::{Evaluation, Fit, FitScore, NodeRejection, NodeReservation, PodRequest, VolcanoNode};
use crate::cluster::place::PlacementDetail;
use crate::volcano::predicate::{Misfit, TaskAllocation, simulate};
use crate::volcano::score::span;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::{NodeId, NodeSet};

/// Evaluates a pod by the plugin's predicate.
pub(super) fn evaluate(node: &VolcanoNode, request: &PodRequest) -> Evaluation {
    match chosen(node, request) {
        Ok(Some(TaskAllocation { cpus, .. })) => {
            // The plugin scores only tasks that have a policy of their own.
            let score = match (request.volcano().policy(), &node.numa) {
                (Some(_), Some(numa)) => {
                    FitScore::NumaNodes(span(&numa.cpus, &cpus, node.fidelity))
                }
                _ => FitScore::Absolute(0),
            };
            let numa = nodes_of(node, &cpus);
            Evaluation::Fits(Fit { cpus, numa, score })
        }
        Ok(None) => Evaluation::FitsInTotal,
        Err(misfit) => Evaluation::Rejected(NodeRejection::Volcano(misfit)),
    }
}

/// Reserves the CPUs, memory and devices that the predicate chose.
pub(super) fn reserve(
    node: &mut VolcanoNode,
    request: &PodRequest,
) -> Result<NodeReservation, NodeRejection> {
    let decision = chosen(node, request).map_err(NodeRejection::Volcano)?;
    let detail = match &decision {
        Some(grant) => PlacementDetail::Volcano(by_node(node, &grant.cpus)),
        None => PlacementDetail::Nothing,
    };
    let TaskAllocation { cpus, amounts } = decision.unwrap_or_default();
    if let Some(free) = &mut node.free {
        *free -= &cpus;
    }
    node.amounts.subtract(&amounts);
    Ok(NodeReservation {
        numa: nodes_of(node, &cpus),
        cpus,
        amounts,
        detail,
    })
}

fn chosen(node: &VolcanoNode, request: &PodRequest) -> Result<Option<TaskAllocation>, Misfit> {
    simulate(
        request.volcano(),
        node.numa.as_deref(),
        node.free.as_ref(),
        &node.reserved,
        &node.amounts,
        node.fidelity,
    )
}

fn nodes_of(node: &VolcanoNode, cpus: &CpuSet) -> NodeSet {
    (node.numa.as_ref()).map_or(NodeSet::EMPTY, |numa| numa.cpus.nodes_of(cpus))
}

fn by_node(node: &VolcanoNode, cpus: &CpuSet) -> BTreeMap<NodeId, CpuSet> {
    let groups = node.numa.iter().flat_map(|numa| numa.cpus.nodes());
    groups
        .map(|group| (group.id, &group.cpus & cpus))
        .filter(|(_, own)| !own.is_empty())
        .collect()
}

#[cfg(test)]
mod tests;
