//! Why nodes say no: grouped so that one line stands for all nodes with the same trouble, the most common first.

use std::collections::BTreeMap;

use pinfold_core::cluster::{Cluster, ClusterNode, Dialect, NodeRejection, PodRequest, Shortage};
use pinfold_core::decision::{Decision, ResourceManager};
use pinfold_core::device::NoPreference;
use pinfold_core::explanation::{Alignment, NodeFacts, ResourceFacts};
use pinfold_core::name::NodeName;
use pinfold_core::policy::TopologyPolicy;
use pinfold_render::text::count;
use pinfold_render::{amount, explain};
use serde::Serialize;

use super::cluster_state::named;

/// Nodes that say no for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    /// Why.
    pub(super) reason: String,
    /// The nodes, ascending.
    pub(super) nodes: Vec<NodeName>,
    /// The one that misses least, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nearest: Option<Nearest>,
}

/// The node that misses least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Nearest {
    /// The node.
    pub(super) node: NodeName,
    /// What it has.
    pub(super) has: String,
}

/// One node's no.
pub(super) struct No {
    /// The same for all nodes with the same trouble.
    pub(super) reason: String,
    /// How far the node is from a yes in thousandths of what is asked, and what it has.
    pub(super) misses: Option<(u64, String)>,
}

impl Reason {
    /// `3 nodes (a, b, c): Insufficient cpu; nearest b: 4 asked, 2 left`.
    pub(super) fn told(&self) -> String {
        let nodes: Vec<&str> = self.nodes.iter().map(NodeName::as_str).collect();
        let who = format!(
            "{} ({})",
            count(nodes.len(), "node", "nodes"),
            named(&nodes)
        );
        match &self.nearest {
            Some(nearest) if nodes.len() > 1 => format!(
                "{who}: {}; nearest {}: {}",
                self.reason, nearest.node, nearest.has
            ),
            Some(nearest) => format!("{who}: {}: {}", self.reason, nearest.has),
            None => format!("{who}: {}", self.reason),
        }
    }
}

/// Groups by reason, the most common first.
pub(super) fn grouped(all: impl IntoIterator<Item = (NodeName, No)>) -> Vec<Reason> {
    let mut groups = BTreeMap::<String, Vec<(NodeName, Option<(u64, String)>)>>::new();
    for (node, no) in all {
        let group = groups.entry(no.reason).or_default();
        group.push((node, no.misses));
    }
    let mut reasons: Vec<Reason> = groups
        .into_iter()
        .map(|(reason, mut nodes)| {
            nodes.sort_by(|one, other| one.0.cmp(&other.0));
            let known = nodes.iter().filter_map(|(node, misses)| {
                let (by, has) = misses.as_ref()?;
                Some((by, node, has))
            });
            let nearest = known.min().map(|(_, node, has)| Nearest {
                node: node.clone(),
                has: has.clone(),
            });
            Reason {
                reason,
                nodes: nodes.into_iter().map(|(node, _)| node).collect(),
                nearest,
            }
        })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.nodes.len()));
    reasons
}

/// What every node of the cluster says that rejects the pod.
pub(super) fn of(cluster: &mut Cluster, ask: &PodRequest) -> Vec<(NodeName, No)> {
    let answers = cluster.evaluate_all(ask).into_iter();
    let rejections: Vec<(NodeName, NodeRejection)> = answers
        .filter_map(|answer| Some((answer.node.clone(), answer.evaluation.rejection()?.clone())))
        .collect();
    let no = |(node, rejection): (NodeName, NodeRejection)| {
        let no = match &rejection {
            NodeRejection::Insufficient(short) => room(short),
            NodeRejection::Kubelet(..) => kubelet(cluster, &node, ask, &rejection),
            other => No {
                reason: other.to_string(),
                misses: None,
            },
        };
        (node, no)
    };
    rejections.into_iter().map(no).collect()
}

/// Too little of something on the node as a whole.
fn room(short: &[Shortage]) -> No {
    let names: Vec<String> = short.iter().map(Shortage::to_string).collect();
    let amounts = |one: &Shortage| match short.len() {
        1 => one.amounts(),
        _ => format!("{} {}", one.resource, one.amounts()),
    };
    let amounts: Vec<String> = short.iter().map(amounts).collect();
    let missing = |one: &Shortage| {
        let missing = i128::from(one.requested) - i128::from(one.free);
        u64::try_from(missing.max(0) * 1000 / i128::from(one.requested.max(1))).unwrap_or(u64::MAX)
    };
    No {
        reason: names.join(", "),
        misses: Some((short.iter().map(missing).sum(), amounts.join("; "))),
    }
}

/// What a kubelet would say, from the facts of its decision.
fn kubelet(cluster: &Cluster, node: &NodeName, ask: &PodRequest, rejection: &NodeRejection) -> No {
    let decision = decided(cluster, node, ask);
    let failed = decision.as_ref().and_then(|decision| {
        let last = decision.explanation.alignments.last();
        last.filter(|alignment| !alignment.admitted)
    });
    match (failed, &decision) {
        (Some(alignment), Some(decision))
            if decision.explanation.policy == TopologyPolicy::SingleNumaNode =>
        {
            single(alignment)
        }
        (_, Some(decision)) => No {
            reason: explain::one_line(decision),
            misses: None,
        },
        (_, None) => No {
            reason: rejection.to_string(),
            misses: None,
        },
    }
}

/// What a node's kubelet would decide about a pod, with all facts; `None` if no kubelet decides there.
pub(super) fn decided(cluster: &Cluster, node: &NodeName, ask: &PodRequest) -> Option<Decision> {
    let Some(Dialect::Kubelet(ledger)) = cluster.node(node).map(ClusterNode::dialect) else {
        return None;
    };
    let mut ledger = ledger.clone();
    let admitted = ledger.admit(ask.pod(), &mut NoPreference);
    admitted.ok().map(|admitted| admitted.decision)
}

/// No single NUMA node has it all.
fn single(alignment: &Alignment) -> No {
    let most = |facts: &ResourceFacts| facts.nodes.iter().map(|node| node.free).max();
    let lacks = |facts: &&ResourceFacts| most(facts).is_none_or(|most| most < facts.requested);
    let short: Vec<&ResourceFacts> = alignment.resources.iter().filter(lacks).collect();
    let whom = match &alignment.container {
        Some(name) => format!("container {name}"),
        None => "the pod".to_owned(),
    };
    let list = |facts: &[&ResourceFacts]| {
        let words: Vec<String> = facts
            .iter()
            .map(|one| amount_of(one, one.requested))
            .collect();
        words.join(" and ")
    };
    if short.is_empty() {
        let all: Vec<&ResourceFacts> = alignment.resources.iter().collect();
        return No {
            reason: format!(
                "single-numa-node: no NUMA node has {} free together for {whom}",
                list(&all)
            ),
            misses: None,
        };
    }
    let missing = |facts: &&ResourceFacts| {
        let missing = facts.requested.saturating_sub(most(facts).unwrap_or(0));
        missing.saturating_mul(1000) / facts.requested.max(1)
    };
    let has: Vec<String> = short.iter().filter_map(|facts| best(facts)).collect();
    No {
        reason: format!(
            "single-numa-node: no NUMA node has {} free for {whom}",
            list(&short)
        ),
        misses: Some((short.iter().map(missing).sum(), has.join(", "))),
    }
}

/// `NUMA node 1 has 3 CPUs`.
fn best(facts: &ResourceFacts) -> Option<String> {
    let free = |node: &&NodeFacts| (node.free, std::cmp::Reverse(node.node));
    let node = facts.nodes.iter().max_by_key(free)?;
    Some(format!(
        "NUMA node {} has {}",
        node.node,
        amount_of(facts, node.free)
    ))
}

/// `4 CPUs`, `8 GiB memory`, `2 nvidia.com/gpu`.
fn amount_of(facts: &ResourceFacts, amount: u64) -> String {
    let name = &facts.resource;
    match facts.manager {
        ResourceManager::Cpu => count(usize::try_from(amount).unwrap_or(usize::MAX), "CPU", "CPUs"),
        ResourceManager::Memory => format!("{} {name}", amount::bytes(amount)),
        ResourceManager::Device => format!("{amount} {name}"),
    }
}
