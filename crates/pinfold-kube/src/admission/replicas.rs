//! How many replicas of a pod kube-scheduler would bind to a node.

use pinfold_cluster::PODS;
use pinfold_core::name::ResourceName;

use super::{AdmissionNode, AdmissionRequest, Unschedulable};

/// The most replicas of one node. Kubelets run 110 pods by default; a node without a number of pods has no limit of its
/// own.
pub const MAX_REPLICAS: usize = 10_000;

/// The replicas of a pod that kube-scheduler would bind to a node, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSums {
    /// How many.
    pub replicas: usize,
    /// The resources of which too little is left for the next one. Empty if a host port or [`MAX_REPLICAS`] is the limit.
    pub limits: Vec<ResourceName>,
    /// Whether the replicas need the same host port, so that a node has one of them.
    pub is_port_limited: bool,
}

impl AdmissionNode {
    /// How many replicas of a pod the filters of kube-scheduler let through: those about the node's name, labels, taints
    /// and ports, and the sums of its resources.
    ///
    /// # Errors
    /// With the constraint that excludes the node.
    pub fn replicas(&self, pod: &AdmissionRequest) -> Result<ReplicaSums, Unschedulable> {
        let gates = &pod.constraints.scheduling_gates;
        if !gates.is_empty() {
            return Err(Unschedulable::Gated(gates.clone()));
        }
        if let Some(mismatch) = self.mismatch(pod) {
            return Err(Unschedulable::Mismatch(mismatch));
        }
        let left = |name: &str| {
            let left = self.allocatable.get(name);
            left.saturating_sub(self.used.get(name)).max(0)
        };
        let fits = |free: i64, amount: i64| usize::try_from(free / amount).unwrap_or(usize::MAX);
        let requests = self.known_requests(pod);
        let requests = requests.iter().filter(|&(_, amount)| amount > 0);
        let mut counts: Vec<(ResourceName, usize)> = requests
            .map(|(name, amount)| (name.clone(), fits(left(name.as_str()), amount)))
            .collect();
        if self.allocatable.contains(PODS) {
            counts.push((PODS.into(), fits(left(PODS), 1)));
        }
        let is_port_limited = !pod.constraints.host_ports.is_empty();
        let most = if is_port_limited { 1 } else { MAX_REPLICAS };
        let replicas = counts
            .iter()
            .map(|&(_, count)| count)
            .fold(most, usize::min);
        counts.retain(|&(_, count)| count == replicas);
        Ok(ReplicaSums {
            replicas,
            limits: counts.into_iter().map(|(name, _)| name).collect(),
            is_port_limited: is_port_limited && replicas == 1,
        })
    }
}
