//! How many replicas of a pod really start on the nodes of a cluster, beside what the sums of their resources promise.
//!
//! ```text
//! kube-scheduler's filters and sums ──► promised replicas of each node      AdmissionNode::replicas
//! the node's kubelet, or a plugin   ──► those of them that start, in turn   ReplicaCounter
//! ```
//!
//! Exact for replicas that are placed one after the other: a node that rejects one replica rejects all later ones, and
//! replicas on other nodes do not change its answer. Replicas that have constraints on each other ([`are_related`]) have
//! to be placed on the whole cluster instead.

use pinfold_cluster::{
    ClusterNode, Dialect, KubeletPolicy, NodeRejection, PODS, PodRequest, ReplicaCounter,
};
use pinfold_core::name::NodeName;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::TopologyScope;

use crate::admission::{AdmissionNode, AdmissionRequest, ReplicaSums, Unschedulable};
use crate::scheduling_constraints::{PodConstraints, PodTerms};

/// A node to start replicas on.
#[derive(Clone, Copy, Debug)]
pub struct CandidateNode<'a> {
    /// Its name.
    pub name: &'a NodeName,
    /// The node by the rules of its dialect.
    pub rules: &'a ClusterNode,
    /// Its constraints and sums.
    pub sums: &'a AdmissionNode,
}

/// The replicas of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReplicas {
    /// The node.
    pub node: NodeName,
    /// How many the sums of its resources promise.
    pub promised: usize,
    /// How many start.
    pub started: usize,
    /// Why no more start.
    pub limit: ReplicaLimit,
}

/// Why no more replicas start on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaLimit {
    /// A constraint of the pod, the node or other pods excludes the node.
    Constraint {
        /// The reason without amounts.
        summary: String,
        /// The reason in full.
        message: String,
    },
    /// Too little of some resources is left.
    Sums(ReplicaSums),
    /// The rules of the node's dialect reject the next replica.
    Rules(NodeRejection),
}

/// The replicas of all nodes if their kubelets had another policy and scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyReplicas {
    /// The policy and scope.
    pub policy: KubeletPolicy,
    /// How many start.
    pub started: usize,
    /// The nodes on which no kubelet starts with the policy, or running pods cannot keep what they hold.
    pub impossible: usize,
}

/// The replicas of each node, in the order of the nodes.
pub fn count<'a>(
    nodes: impl IntoIterator<Item = CandidateNode<'a>>,
    request: &PodRequest,
    pod: &AdmissionRequest,
) -> Vec<NodeReplicas> {
    let mut counter = ReplicaCounter::new(request.clone());
    let nodes = nodes.into_iter();
    nodes
        .map(|node| {
            let replicas = |promised, started, limit| NodeReplicas {
                node: node.name.clone(),
                promised,
                started,
                limit,
            };
            if let Some(why) = pod.unsupported_os() {
                let (summary, message) = (why.reason(), format!("{}: {why}", why.reason()));
                return replicas(0, 0, ReplicaLimit::Constraint { summary, message });
            }
            let sums = match node.sums.replicas(pod) {
                Ok(sums) => sums,
                Err(why) => return replicas(0, 0, ReplicaLimit::from(why)),
            };
            let promised = sums.replicas;
            let count = counter.count(node.rules, promised).unwrap_or_default();
            match count.rejection {
                Some(why) => replicas(promised, count.started, ReplicaLimit::Rules(why)),
                None => replicas(promised, count.started, ReplicaLimit::Sums(sums)),
            }
        })
        .collect()
}

/// The replicas of all nodes under every policy and scope of their kubelets. Nodes about which no kubelet decides count
/// as they are.
pub fn count_under_policies<'a>(
    nodes: impl IntoIterator<Item = CandidateNode<'a>>,
    request: &PodRequest,
    pod: &AdmissionRequest,
) -> Vec<PolicyReplicas> {
    let promised =
        |node: CandidateNode<'a>| Some((node.rules, node.sums.replicas(pod).ok()?.replicas));
    let nodes: Vec<(&ClusterNode, usize)> = nodes.into_iter().filter_map(promised).collect();
    let policies = policies().into_iter();
    policies
        .map(|policy| {
            let mut counter = ReplicaCounter::under(request.clone(), policy);
            let mut found = PolicyReplicas {
                policy,
                started: 0,
                impossible: 0,
            };
            for (node, promised) in &nodes {
                match counter.count(node, *promised) {
                    Some(count) => found.started += count.started,
                    None => found.impossible += 1,
                }
            }
            found
        })
        .collect()
}

/// All policies with their scopes. Without a policy nothing is aligned, whatever the scope.
fn policies() -> Vec<KubeletPolicy> {
    let scopes = [TopologyScope::Container, TopologyScope::Pod];
    let all = TopologyPolicy::ALL.into_iter();
    let all = all.flat_map(|policy| scopes.map(|scope| KubeletPolicy { policy, scope }));
    all.filter(|one| one.policy != TopologyPolicy::None || one.scope == TopologyScope::Container)
        .collect()
}

/// Whether replicas of the pod have constraints on each other, so that a replica on one node changes the answers of other
/// nodes: required pod affinity and anti-affinity, and hard topology spread.
#[must_use]
pub fn are_related(pod: &PodConstraints) -> bool {
    pod.pod_terms != PodTerms::default()
}

/// Whether only the sums of a node are known.
#[must_use]
pub fn has_only_sums(node: &ClusterNode) -> bool {
    matches!(node.dialect(), Dialect::Unknown)
}

impl From<Unschedulable> for ReplicaLimit {
    fn from(why: Unschedulable) -> Self {
        let summary = why.reasons().join(", ");
        let message = match why.details() {
            details if details.is_empty() => summary.clone(),
            details => format!("{summary} ({details})"),
        };
        ReplicaLimit::Constraint { summary, message }
    }
}

impl ReplicaLimit {
    /// The reason without amounts, equal for all nodes with the same reason.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            ReplicaLimit::Constraint { summary, .. } => summary.clone(),
            ReplicaLimit::Sums(sums) => sums_text(sums),
            ReplicaLimit::Rules(rejection) => rejection.summary(),
        }
    }

    /// The reason with amounts.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            ReplicaLimit::Constraint { message, .. } => message.clone(),
            ReplicaLimit::Sums(_) => self.summary(),
            ReplicaLimit::Rules(rejection @ NodeRejection::Kubelet(_, Some(summary))) => {
                format!("{rejection} ({summary})")
            }
            ReplicaLimit::Rules(rejection) => rejection.to_string(),
        }
    }
}

/// As kube-scheduler says it about the next replica.
fn sums_text(sums: &ReplicaSums) -> String {
    let names = sums.limits.iter();
    let mut texts: Vec<String> = names
        .map(|name| match name.as_str() {
            PODS => "Too many pods".to_owned(),
            other => format!("Insufficient {other}"),
        })
        .collect();
    if sums.is_port_limited {
        texts.push("host port in use by a replica".to_owned());
    }
    match texts.is_empty() {
        true => "no limit".to_owned(),
        false => texts.join(", "),
    }
}
