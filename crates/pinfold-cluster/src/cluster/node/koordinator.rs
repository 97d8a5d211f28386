//! A node on which Koordinator's plugin decides: its `Filter` and `Score`, and its `Reserve` when the pod is placed.

use std::sync::Arc;

use super::{
    Evaluation, Fit, FitScore, NodeRejection, NodeReservation, PodRequest, PrefilterCache,
};
use crate::cluster::place::PlacementDetail;
use crate::koordinator::ledger::Allocation;
use crate::koordinator::node::KoordinatorNode;
use crate::koordinator::plugin::{self, KoordinatorArgs};
use crate::volcano::numa_amounts::TakenAmounts;
use pinfold_core::node_set::{NodeId, NodeSet};

/// Evaluates a pod by the plugin's `Filter` and `Score`.
pub(super) fn evaluate(
    node: &KoordinatorNode,
    args: &Arc<KoordinatorArgs>,
    prefilter: &mut PrefilterCache<'_>,
) -> Evaluation {
    let rejected = |rejection| Evaluation::Rejected(NodeRejection::Koordinator(rejection));
    let state = match prefilter.get(args, node.ledger.fidelity()) {
        Ok(Some(state)) => state,
        Ok(None) => return Evaluation::FitsInTotal,
        Err(rejection) => return rejected(rejection.clone()),
    };
    match plugin::filter_and_score(state, node, args) {
        Ok(outlook) => {
            let allocation = outlook.allocation.unwrap_or_default();
            let hint = outlook.placement.and_then(|hint| hint.mask);
            let numa = nodes_of(node, &allocation);
            Evaluation::Fits(Fit {
                numa: match numa.is_empty() {
                    true => hint.unwrap_or_default(),
                    false => numa,
                },
                cpus: allocation.cpus,
                score: FitScore::Absolute(outlook.score),
            })
        }
        Err(rejection) => rejected(rejection),
    }
}

/// Why the plugin's `Score` fails for a pod that passes its `Filter`.
pub(super) fn score_error(
    node: &KoordinatorNode,
    args: &Arc<KoordinatorArgs>,
    prefilter: &mut PrefilterCache<'_>,
) -> Option<NodeRejection> {
    let state = prefilter.get(args, node.ledger.fidelity());
    let state = state.as_ref().ok()?.as_ref()?;
    plugin::score_error(state, node, args).map(NodeRejection::Koordinator)
}

/// Reserves a pod on the node as the plugin's `Reserve` does.
pub(super) fn reserve(
    node: &mut KoordinatorNode,
    args: &Arc<KoordinatorArgs>,
    request: &PodRequest,
    prefilter: &mut PrefilterCache<'_>,
) -> Result<NodeReservation, NodeRejection> {
    let demand = request.koordinator();
    let state = prefilter.get(args, node.ledger.fidelity());
    let (mut status, mut spec) = (None, None);
    if let Some(state) = state
        .as_ref()
        .map_err(|why| NodeRejection::Koordinator(why.clone()))?
    {
        let placement = plugin::filter(state, node, args).map_err(NodeRejection::Koordinator)?;
        status = plugin::reserve(state, node, args, placement.as_ref())
            .map_err(NodeRejection::Koordinator)?;
        spec = plugin::pre_bind(state, node, args, &demand.spec);
    }
    node.assume(request.uid().clone(), &demand.requests, status.clone());
    let numa = (status.as_ref()).map_or(NodeSet::EMPTY, |status| nodes_of(node, status));
    Ok(NodeReservation {
        cpus: status
            .as_ref()
            .map(|status| status.cpus.clone())
            .unwrap_or_default(),
        amounts: TakenAmounts::new(),
        numa,
        detail: PlacementDetail::Koordinator { status, spec },
    })
}

/// The NUMA nodes that an allocation names or, if it names none, those of its CPUs.
fn nodes_of(node: &KoordinatorNode, allocation: &Allocation) -> NodeSet {
    let named: NodeSet = allocation.numa.iter().map(|part| part.node).collect();
    let report = match &node.report {
        Some(report) if named.is_empty() && !allocation.cpus.is_empty() => report,
        _ => return named,
    };
    let touched = |id: &NodeId| {
        let cpus = report.topology.cpus_of_node(*id);
        cpus.is_some_and(|cpus| !cpus.is_disjoint(&allocation.cpus))
    };
    report.topology.node_ids().iter().filter(touched).collect()
}
