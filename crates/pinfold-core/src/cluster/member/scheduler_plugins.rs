//! A node as scheduler-plugins' NodeResourceTopologyMatch sees it: the plugin's filter and score.
//!
//! The plugin chooses a node, never CPUs or NUMA nodes: those are left to the node's kubelet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DialectBefore, Fit, Gauge, Given, PodAsk, Rejection, Verdict};
use crate::cluster::verdict::Decided;
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::name::PodUid;
use crate::node_set::NodeSet;
use crate::node_topology::NodeTopology;
use crate::node_topology::args::TopologyMatchArgs;
use crate::node_topology::filter::filter;
use crate::node_topology::request::PodRequest;
use crate::node_topology::score::score;
use crate::pod::ResourceList;
use crate::quantity::Quantity;
use crate::volcano::amounts::Taken;

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

    /// The score of this node for a pod that passed the filter.
    fn score(&self, request: &PodRequest<'_>) -> i64 {
        let TopologyMatchArgs {
            strategy, weights, ..
        } = &*self.args;
        score(self.topology(), request, *strategy, weights, self.fidelity)
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

pub(super) fn decide(node: &TopologyMatchNode, ask: &PodAsk) -> Verdict {
    let request = request(ask);
    match filter(node.topology(), node.allocatable(), &request, node.fidelity) {
        Ok(()) => Verdict::Fits(Fit {
            cpus: CpuSet::new(),
            numa: NodeSet::EMPTY,
            gauge: Gauge::Score(node.score(&request)),
        }),
        Err(rejection) => Verdict::Rejected(Rejection::SchedulerPlugins(rejection)),
    }
}

pub(super) fn reserve(node: &mut TopologyMatchNode, ask: &PodAsk) -> Result<Given, Rejection> {
    let request = request(ask);
    filter(node.topology(), node.allocatable(), &request, node.fidelity)
        .map_err(Rejection::SchedulerPlugins)?;
    let score = node.score(&request);
    node.assume(ask.uid().clone(), request.effective(node.fidelity));
    Ok(Given {
        cpus: CpuSet::new(),
        amounts: Taken::new(),
        numa: NodeSet::EMPTY,
        decided: Decided::SchedulerPlugins { score },
        before: DialectBefore::SchedulerPlugins(ask.uid().clone()),
    })
}

fn request(ask: &PodAsk) -> PodRequest<'_> {
    PodRequest {
        pod: ask.pod(),
        overhead: ask.overhead(),
    }
}
