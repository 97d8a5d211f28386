//! A node as scheduler-plugins' NodeResourceTopologyMatch sees it: the plugin's filter and score.
//!
//! The plugin chooses a node, never CPUs or NUMA nodes: those are left to the node's kubelet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Evaluation, Fit, FitScore, NodeRejection, NodeReservation, PodRequest};
use crate::cluster::place::PlacementDetail;
use crate::node_topology::NodeTopology;
use crate::node_topology::args::TopologyMatchArgs;
use crate::node_topology::filter::{TopologyRejection, filter};
use crate::node_topology::pod_demand::TopologyPodRequest;
use crate::node_topology::score::score;
use crate::volcano::numa_amounts::TakenAmounts;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::PodUid;
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::ResourceList;
use pinfold_core::quantity::Quantity;

/// A node with its NodeResourceTopology object and the pods that were placed since the object was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyMatchNode {
    /// The object as the node reported it; `None` if the node has none.
    reported: Option<Arc<NodeTopology>>,
    /// The object as the plugin sees it: less what its cache deducts.
    seen: Option<Arc<NodeTopology>>,
    /// The effective requests of the pods placed since the report.
    assumed: BTreeMap<PodUid, ResourceList>,
    allocatable: ResourceList,
    args: Arc<TopologyMatchArgs>,
    fidelity: Fidelity,
}

impl TopologyMatchNode {
    /// A node with this NodeResourceTopology object and these allocatable resources.
    #[must_use]
    pub fn new(
        topology: Option<NodeTopology>,
        allocatable: ResourceList,
        args: Arc<TopologyMatchArgs>,
        fidelity: Fidelity,
    ) -> Self {
        let reported = topology.map(Arc::new);
        Self {
            seen: reported.clone(),
            reported,
            assumed: BTreeMap::new(),
            allocatable,
            args,
            fidelity,
        }
    }

    /// The NodeResourceTopology object as the plugin sees it; `None` if the node has none.
    #[must_use]
    pub fn topology(&self) -> Option<&NodeTopology> {
        self.seen.as_deref()
    }

    pub(super) fn allocatable(&self) -> &ResourceList {
        &self.allocatable
    }

    /// Whether the plugin's `Filter` lets the pod pass.
    ///
    /// # Errors
    /// If it does not.
    pub fn filter(&self, pod: &PodRequest) -> Result<(), TopologyRejection> {
        let request = topology_request(pod);
        filter(self.topology(), &self.allocatable, &request, self.fidelity)
    }

    /// The plugin's `Score` of this node for the pod, 0 to 100.
    #[must_use]
    pub fn score(&self, pod: &PodRequest) -> i64 {
        let TopologyMatchArgs {
            strategy, weights, ..
        } = &*self.args;
        let request = topology_request(pod);
        score(self.topology(), &request, *strategy, weights, self.fidelity)
    }

    fn assume(&mut self, pod: PodUid, requests: ResourceList) {
        if self.args.over_reserve {
            self.assumed.insert(pod, requests);
            self.deduct();
        }
    }

    pub(super) fn forget(&mut self, pod: &PodUid) {
        if self.assumed.remove(pod).is_some() {
            self.deduct();
        }
    }

    /// Deducts the assumed pods from every zone of the reported object, down to 0. Mirrors `resourceStore.UpdateNRT`,
    /// which deducts from all zones because the scheduler does not know which one the kubelet will choose.
    fn deduct(&mut self) {
        let Some(reported) = &self.reported else {
            return;
        };
        let mut sums = ResourceList::new();
        for (name, quantity) in self.assumed.values().flatten() {
            *sums.entry(name.clone()).or_default() += *quantity;
        }
        let mut seen = NodeTopology::clone(reported);
        for resource in seen.zones.iter_mut().flat_map(|zone| &mut zone.resources) {
            if let Some(sum) = sums.get(&resource.name) {
                resource.available = match resource.available < *sum {
                    true => Quantity::default(),
                    false => resource.available - *sum,
                };
            }
        }
        self.seen = Some(Arc::new(seen));
    }
}

/// Evaluates a pod by the plugin's filter and score.
pub(super) fn evaluate(node: &TopologyMatchNode, pod: &PodRequest) -> Evaluation {
    match node.filter(pod) {
        Ok(()) => Evaluation::Fits(Fit {
            cpus: CpuSet::new(),
            numa: NodeSet::EMPTY,
            score: FitScore::Absolute(node.score(pod)),
        }),
        Err(rejection) => Evaluation::Rejected(NodeRejection::SchedulerPlugins(rejection)),
    }
}

/// Reserves the node for a pod that passes the filter.
pub(super) fn reserve(
    node: &mut TopologyMatchNode,
    pod: &PodRequest,
) -> Result<NodeReservation, NodeRejection> {
    node.filter(pod).map_err(NodeRejection::SchedulerPlugins)?;
    let score = node.score(pod);
    let requests = topology_request(pod).effective(node.fidelity);
    node.assume(pod.uid().clone(), requests);
    Ok(NodeReservation {
        cpus: CpuSet::new(),
        amounts: TakenAmounts::new(),
        numa: NodeSet::EMPTY,
        detail: PlacementDetail::SchedulerPlugins { score },
    })
}

fn topology_request(pod: &PodRequest) -> TopologyPodRequest<'_> {
    TopologyPodRequest {
        pod: pod.pod(),
        overhead: pod.overhead(),
    }
}

#[cfg(test)]
mod tests;
