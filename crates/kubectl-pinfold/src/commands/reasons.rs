//! Why nodes reject a pod, grouped by reason, the most common first.

use std::collections::BTreeMap;

use pinfold_cluster::{Cluster, ClusterNode, Dialect, NodeRejection, PodRequest, Shortage};
use pinfold_core::decision::{Decision, ResourceManager};
use pinfold_core::device::NoPreference;
use pinfold_core::explanation::{Alignment, NodeFacts, ResourceFacts};
use pinfold_core::name::NodeName;
use pinfold_core::policy::TopologyPolicy;
use pinfold_render::text::count;
use pinfold_render::{amount, explain};
use serde::Serialize;

use super::cluster_state::named;

/// Nodes that reject a pod for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RejectionGroup {
    /// The reason.
    pub(super) reason: String,
    /// The nodes, ascending.
    pub(super) nodes: Vec<NodeName>,
    /// The node that lacks least, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nearest: Option<Nearest>,
}

/// The node of a group that lacks least.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Nearest {
    /// The node.
    pub(super) node: NodeName,
    /// What it has, as text.
    pub(super) has: String,
}

/// Why one node rejects a pod.
pub(super) struct NodeReason {
    /// The reason; nodes with the same text are one group.
    pub(super) reason: String,
    /// The shortage in thousandths of the request, and what the node has.
    pub(super) shortage: Option<(u64, String)>,
}

impl RejectionGroup {
    /// `3 nodes (a, b, c): Insufficient cpu; nearest b: 4 asked, 2 left`.
    pub(super) fn text(&self) -> String {
        let nodes: Vec<&str> = self.nodes.iter().map(NodeName::as_str).collect();
        let subject = format!(
            "{} ({})",
            count(nodes.len(), "node", "nodes"),
            named(&nodes)
        );
        match &self.nearest {
            Some(nearest) if nodes.len() > 1 => format!(
                "{subject}: {}; nearest {}: {}",
                self.reason, nearest.node, nearest.has
            ),
            Some(nearest) => format!("{subject}: {}: {}", self.reason, nearest.has),
            None => format!("{subject}: {}", self.reason),
        }
    }
}

/// Groups nodes by reason, the largest group first.
pub(super) fn grouped(
    all: impl IntoIterator<Item = (NodeName, NodeReason)>,
) -> Vec<RejectionGroup> {
    let mut groups = BTreeMap::<String, Vec<(NodeName, Option<(u64, String)>)>>::new();
    for (node, no) in all {
        let group = groups.entry(no.reason).or_default();
        group.push((node, no.shortage));
    }
    let mut reasons: Vec<RejectionGroup> = groups
        .into_iter()
        .map(|(reason, mut nodes)| {
            nodes.sort_by(|one, other| one.0.cmp(&other.0));
            let known = nodes.iter().filter_map(|(node, shortage)| {
                let (by, has) = shortage.as_ref()?;
                Some((by, node, has))
            });
            let nearest = known.min().map(|(_, node, has)| Nearest {
                node: node.clone(),
                has: has.clone(),
            });
            RejectionGroup {
                reason,
                nodes: nodes.into_iter().map(|(node, _)| node).collect(),
                nearest,
            }
        })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.nodes.len()));
    reasons
}

/// The reason of every node that rejects the pod.
pub(super) fn of_nodes(cluster: &mut Cluster, request: &PodRequest) -> Vec<(NodeName, NodeReason)> {
    let evaluated = cluster.evaluate_all(request).into_iter();
    let rejections: Vec<(NodeName, NodeRejection)> = evaluated
        .filter_map(|node| Some((node.node.clone(), node.evaluation.rejection()?.clone())))
        .collect();
    let no = |(node, rejection): (NodeName, NodeRejection)| {
        let no = match &rejection {
            NodeRejection::Insufficient(short) => insufficient(short),
            NodeRejection::Kubelet(..) => kubelet(cluster, &node, request, &rejection),
            other => NodeReason {
                reason: other.to_string(),
                shortage: None,
            },
        };
        (node, no)
    };
    rejections.into_iter().map(no).collect()
}

/// The node's total of some resource is too small.
fn insufficient(short: &[Shortage]) -> NodeReason {
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
    NodeReason {
        reason: names.join(", "),
        shortage: Some((short.iter().map(missing).sum(), amounts.join("; "))),
    }
}

/// The reason of a kubelet, from the facts of its decision.
fn kubelet(
    cluster: &Cluster,
    node: &NodeName,
    request: &PodRequest,
    rejection: &NodeRejection,
) -> NodeReason {
    let decision = kubelet_decision(cluster, node, request);
    let failed = decision.as_ref().and_then(|decision| {
        let last = decision.explanation.alignments.last();
        last.filter(|alignment| !alignment.admitted)
    });
    match (failed, &decision) {
        (Some(alignment), Some(decision))
            if decision.explanation.policy == TopologyPolicy::SingleNumaNode =>
        {
            single_numa_node(alignment)
        }
        (_, Some(decision)) => NodeReason {
            reason: explain::one_line(decision),
            shortage: None,
        },
        (_, None) => NodeReason {
            reason: rejection.to_string(),
            shortage: None,
        },
    }
}

/// The decision of the kubelet of a node about a pod; `None` if another program decides there.
pub(super) fn kubelet_decision(
    cluster: &Cluster,
    node: &NodeName,
    request: &PodRequest,
) -> Option<Decision> {
    let Some(Dialect::Kubelet(ledger)) = cluster.node(node).map(ClusterNode::dialect) else {
        return None;
    };
    let mut ledger = ledger.clone();
    let admitted = ledger.admit(request.pod(), &mut NoPreference);
    admitted.ok().map(|admitted| admitted.decision)
}

/// No single NUMA node has all requested resources.
fn single_numa_node(alignment: &Alignment) -> NodeReason {
    let most = |facts: &ResourceFacts| facts.nodes.iter().map(|node| node.free).max();
    let lacks = |facts: &&ResourceFacts| most(facts).is_none_or(|most| most < facts.requested);
    let short: Vec<&ResourceFacts> = alignment.resources.iter().filter(lacks).collect();
    let requester = match &alignment.container {
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
        return NodeReason {
            reason: format!(
                "single-numa-node: no NUMA node has {} free together for {requester}",
                list(&all)
            ),
            shortage: None,
        };
    }
    let missing = |facts: &&ResourceFacts| {
        let missing = facts.requested.saturating_sub(most(facts).unwrap_or(0));
        missing.saturating_mul(1000) / facts.requested.max(1)
    };
    let has: Vec<String> = short
        .iter()
        .filter_map(|facts| largest_free(facts))
        .collect();
    NodeReason {
        reason: format!(
            "single-numa-node: no NUMA node has {} free for {requester}",
            list(&short)
        ),
        shortage: Some((short.iter().map(missing).sum(), has.join(", "))),
    }
}

/// `NUMA node 1 has 3 CPUs`.
fn largest_free(facts: &ResourceFacts) -> Option<String> {
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
