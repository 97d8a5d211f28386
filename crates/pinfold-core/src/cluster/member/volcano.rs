//! A node under Volcano: the plugin's predicate. What the span is worth depends on the other candidates.

use std::collections::BTreeMap;

use super::{DialectBefore, Fit, Gauge, Given, PodAsk, Rejection, Verdict, VolcanoNode};
use crate::cluster::verdict::Decided;
use crate::cpu_set::CpuSet;
use crate::node_set::{NodeId, NodeSet};
use crate::volcano::predicate::{Grant, Misfit, simulate};
use crate::volcano::score::span;

pub(super) fn decide(node: &VolcanoNode, ask: &PodAsk) -> Verdict {
    match chosen(node, ask) {
        Ok(Some(Grant { cpus, .. })) => {
            // The plugin scores only tasks that have a policy of their own.
            let gauge = match (ask.volcano().policy(), &node.numa) {
                (Some(_), Some(numa)) => Gauge::Span(span(&numa.cpus, &cpus, node.fidelity)),
                _ => Gauge::Score(0),
            };
            let numa = nodes_of(node, &cpus);
            Verdict::Fits(Fit { cpus, numa, gauge })
        }
        Ok(None) => Verdict::NoOpinion,
        Err(misfit) => Verdict::Rejected(Rejection::Volcano(misfit)),
    }
}

pub(super) fn reserve(node: &mut VolcanoNode, ask: &PodAsk) -> Result<Given, Rejection> {
    let decision = chosen(node, ask).map_err(Rejection::Volcano)?;
    let before = DialectBefore::Volcano {
        free: node.free.clone(),
        amounts: node.amounts.clone(),
    };
    let decided = match &decision {
        Some(grant) => Decided::Volcano(by_node(node, &grant.cpus)),
        None => Decided::Nothing,
    };
    let Grant { cpus, amounts } = decision.unwrap_or_default();
    if let Some(free) = &mut node.free {
        *free -= &cpus;
    }
    node.amounts.subtract(&amounts);
    Ok(Given {
        numa: nodes_of(node, &cpus),
        cpus,
        amounts,
        decided,
        before,
    })
}

fn chosen(node: &VolcanoNode, ask: &PodAsk) -> Result<Option<Grant>, Misfit> {
    simulate(
        ask.volcano(),
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
