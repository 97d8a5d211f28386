//! kube-scheduler's filter `PodTopologySpread`.
//!
//! Each constraint counts the pods that it selects in the domains of the nodes that have all topology keys of the pod's
//! constraints and that its policies include. The pod may go to a domain if it then has at most `maxSkew` pods more than
//! the domain with the fewest. Mirrors `calPreFilterState` and `Filter` of the plugin.

use std::collections::BTreeMap;

use pinfold_core::name::NodeName;

use super::AdmissionRequest;
use super::cluster_pods::ClusterPods;
use crate::scheduling_constraints::{
    NO_EXECUTE, NO_SCHEDULE, NodeConstraints, NodeMismatch, PodConstraints, SpreadConstraint,
};

/// The constraints of a pod with the pods that they count.
pub(super) struct TopologySpread<'a> {
    constraints: Vec<CountedConstraint<'a>>,
}

struct CountedConstraint<'a> {
    constraint: &'a SpreadConstraint,
    /// The pods of each domain.
    domains: BTreeMap<&'a str, u64>,
    /// The fewest pods of a domain.
    fewest: u64,
    /// Whether the constraint selects the pod itself.
    selects_itself: bool,
}

impl<'a> TopologySpread<'a> {
    pub(super) fn of<N: Iterator<Item = (&'a NodeName, &'a NodeConstraints)>>(
        pod: &'a AdmissionRequest,
        pods: &ClusterPods,
        nodes: impl Fn() -> N,
    ) -> Self {
        let own = &pod.class.terms.spread;
        let count = |constraint: &'a SpreadConstraint| {
            let selector = &constraint.selector;
            // A constraint that selects every pod counts none.
            let is_counted = pods.by_class(|class| {
                !selector.is_everything()
                    && !class.terminating
                    && class.namespace == pod.class.namespace
                    && selector.matches(&class.labels)
            });
            let mut domains = BTreeMap::<&str, u64>::new();
            for (name, node) in nodes() {
                if !has_all_keys(node, own) || !includes(constraint, node, &pod.constraints) {
                    continue;
                }
                let Some(domain) = node.labels.get(&constraint.topology_key) else {
                    continue;
                };
                let counted = pods.on(name).filter(|(class, _)| is_counted[*class]);
                let found: u64 = counted.map(|(_, count)| count).sum();
                *domains.entry(domain).or_default() += found;
            }
            let fewest = match domains.len() < constraint.min_domains {
                true => 0,
                false => domains.values().copied().min().unwrap_or(0),
            };
            CountedConstraint {
                constraint,
                domains,
                fewest,
                selects_itself: selector.matches(&pod.class.labels),
            }
        };
        Self {
            constraints: own.iter().map(count).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// The first constraint, in the pod's order, that excludes the node.
    pub(super) fn mismatch(&self, node: &NodeConstraints) -> Option<NodeMismatch> {
        self.constraints.iter().find_map(|own| {
            let Some(domain) = node.labels.get(&own.constraint.topology_key) else {
                return Some(NodeMismatch::SpreadLabel);
            };
            let found = own.domains.get(domain.as_str()).copied().unwrap_or(0);
            let with_pod = found.saturating_add(u64::from(own.selects_itself));
            let skew = i64::try_from(with_pod).unwrap_or(i64::MAX)
                - i64::try_from(own.fewest).unwrap_or(i64::MAX);
            (skew > own.constraint.max_skew).then_some(NodeMismatch::Spread)
        })
    }
}

fn has_all_keys(node: &NodeConstraints, constraints: &[SpreadConstraint]) -> bool {
    let mut keys = constraints.iter().map(|one| &one.topology_key);
    keys.all(|key| node.labels.contains_key(key))
}

/// Whether the policies of a constraint include a node.
fn includes(constraint: &SpreadConstraint, node: &NodeConstraints, pod: &PodConstraints) -> bool {
    if constraint.honors_affinity && !node.is_selected_by(pod) {
        return false;
    }
    !constraint.honors_taints || node.untolerated(pod, &[NO_SCHEDULE, NO_EXECUTE]).is_none()
}
