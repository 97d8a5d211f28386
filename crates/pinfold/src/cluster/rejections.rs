//! Why the nodes of a cluster reject a pod, grouped by reason.

use std::collections::BTreeMap;

use pinfold_core::name::NodeName;
use pinfold_render::text::count;
use serde::Serialize;

use super::NodeReason;

/// The most nodes of one rejection that are named; more are counted.
const NAMED: usize = 3;

/// Nodes that reject a pod for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RejectionGroup {
    /// The message of the program that decides.
    pub(crate) reason: String,
    /// The nodes, ascending.
    pub(crate) nodes: Vec<NodeName>,
}

/// Rejections by reason, the most frequent first.
pub(crate) fn grouped(rejections: &[(NodeName, NodeReason)]) -> Vec<RejectionGroup> {
    let mut by_text = BTreeMap::<String, Vec<NodeName>>::new();
    for (node, rejection) in rejections {
        by_text
            .entry(rejection.to_string())
            .or_default()
            .push(node.clone());
    }
    let mut reasons: Vec<RejectionGroup> = by_text
        .into_iter()
        .map(|(reason, nodes)| RejectionGroup { reason, nodes })
        .collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.nodes.len()));
    reasons
}

/// kube-scheduler's message if its filters exclude every node, else the reasons of all nodes.
pub(crate) fn text(rejections: &[(NodeName, NodeReason)]) -> String {
    if let Some(pending) = NodeReason::pending(rejections) {
        return pending;
    }
    let reasons = grouped(rejections);
    let reasons: Vec<String> = reasons.iter().map(RejectionGroup::text).collect();
    match rejections.len() {
        1 => format!("does not fit {}", reasons.join("; ")),
        asked => format!("fits none of {asked} nodes: {}", reasons.join("; ")),
    }
}

impl RejectionGroup {
    /// `node-1, node-2: Insufficient cpu (4 asked, 2 left)`.
    pub(crate) fn text(&self) -> String {
        let named: Vec<&str> = self.nodes.iter().map(NodeName::as_str).collect();
        let nodes = match named.len() > NAMED {
            true => count(named.len(), "node", "nodes"),
            false => named.join(", "),
        };
        format!("{nodes}: {}", self.reason)
    }
}
