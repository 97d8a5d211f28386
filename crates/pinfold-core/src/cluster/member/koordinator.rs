//! A node under Koordinator: the plugin's filter and score; its reservation when the pod is placed.

use std::sync::Arc;

use super::{DialectBefore, Fit, Gauge, Given, PodAsk, Rejection, States, Verdict};
use crate::cluster::verdict::Decided;
use crate::koordinator::ledger::Allocation;
use crate::koordinator::node::Node;
use crate::koordinator::plugin::{self, Args};
use crate::node_set::{NodeId, NodeSet};
use crate::volcano::amounts::Taken;

pub(super) fn decide(node: &Node, args: &Arc<Args>, states: &mut States<'_>) -> Verdict {
    let rejected = |rejection| Verdict::Rejected(Rejection::Koordinator(rejection));
    let state = match states.under(args, node.ledger.fidelity()) {
        Ok(Some(state)) => state,
        Ok(None) => return Verdict::NoOpinion,
        Err(rejection) => return rejected(rejection.clone()),
    };
    match plugin::outlook(state, node, args) {
        Ok(outlook) => {
            let allocation = outlook.allocation.unwrap_or_default();
            let hint = outlook.placement.and_then(|hint| hint.mask);
            let numa = nodes_of(node, &allocation);
            Verdict::Fits(Fit {
                numa: match numa.is_empty() {
                    true => hint.unwrap_or_default(),
                    false => numa,
                },
                cpus: allocation.cpus,
                gauge: Gauge::Score(outlook.score),
            })
        }
        Err(rejection) => rejected(rejection),
    }
}

pub(super) fn reserve(
    node: &mut Node,
    args: &Arc<Args>,
    ask: &PodAsk,
    states: &mut States<'_>,
) -> Result<Given, Rejection> {
    let before = DialectBefore::Koordinator {
        ledger: node.ledger.clone(),
        requested: node.requested.clone(),
    };
    let demand = ask.koordinator();
    let state = states.under(args, node.ledger.fidelity());
    let (mut status, mut spec) = (None, None);
    if let Some(state) = state
        .as_ref()
        .map_err(|why| Rejection::Koordinator(why.clone()))?
    {
        let placement = plugin::filter(state, node, args).map_err(Rejection::Koordinator)?;
        status = plugin::reserve(state, node, args, placement.as_ref())
            .map_err(Rejection::Koordinator)?;
        spec = plugin::pre_bind(state, node, args, &demand.spec);
    }
    node.assume(ask.uid().clone(), &demand.requests, status.clone());
    let numa = (status.as_ref()).map_or(NodeSet::EMPTY, |status| nodes_of(node, status));
    Ok(Given {
        cpus: status
            .as_ref()
            .map(|status| status.cpus.clone())
            .unwrap_or_default(),
        amounts: Taken::new(),
        numa,
        decided: Decided::Koordinator { status, spec },
        before,
    })
}

/// The NUMA nodes an allocation names, or else those of its CPUs.
fn nodes_of(node: &Node, allocation: &Allocation) -> NodeSet {
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
