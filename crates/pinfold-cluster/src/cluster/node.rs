//! [`ClusterNode`]: one node of a cluster. Its dialect decides about pods.

use std::sync::Arc;

use super::evaluation::{Evaluation, Fit, FitScore, NodeRejection};
use super::node_resources_fit::{self as resources_fit, PODS};
use super::place::PlacementDetail;
use super::pod_request::PodRequest;
use super::prefilter_cache::PrefilterCache;
use crate::koordinator::amounts::Amounts;
use crate::koordinator::node::KoordinatorNode;
use crate::koordinator::plugin::KoordinatorArgs;
use crate::node_topology::replica::Gaps;
use crate::volcano::numa_amounts::{NumaAmounts, TakenAmounts};
use crate::volcano::predicate::NumaInfo;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::effective_requests;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::PodUid;
use pinfold_core::node_set::NodeSet;

mod koordinator;
mod kubelet;
mod scheduler_plugins;
mod volcano;

pub use scheduler_plugins::TopologyMatchNode;

/// One node of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterNode {
    dialect: Dialect,
    /// The node's `status.allocatable`.
    allocatable: Amounts,
    /// The requests of all pods on the node, and their number under `pods`.
    used: Amounts,
    /// What the node's NodeResourceTopology leaves open; a pod whose admission depends on it is rejected.
    gaps: Option<Arc<Gaps>>,
}

/// Which program decides about pods on a node, with the state that it decides on.
#[derive(Clone, Debug)]
pub enum Dialect {
    /// The node's kubelet.
    Kubelet(Box<Ledger>),
    /// Koordinator's scheduler plugin.
    Koordinator {
        /// The node as the plugin sees it.
        node: Box<KoordinatorNode>,
        /// The plugin's configuration.
        args: Arc<KoordinatorArgs>,
    },
    /// Volcano's scheduler plugin.
    Volcano(Box<VolcanoNode>),
    /// The scheduler plugin NodeResourceTopologyMatch.
    SchedulerPlugins(Box<TopologyMatchNode>),
    /// None: the node reports no NUMA topology, so only the totals of its allocatable count.
    Unknown,
}

/// A node as Volcano's plugin sees it, with what is free on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolcanoNode {
    /// Its Numatopology object, if it has one; its free CPUs are in `free`.
    pub numa: Option<Arc<NumaInfo>>,
    /// The CPUs that no container holds.
    pub free: Option<CpuSet>,
    /// Its memory and devices per NUMA node, as far as they are known.
    pub amounts: NumaAmounts,
    /// The CPUs reserved for the system.
    reserved: CpuSet,
    /// Whether to repeat the plugin's defects.
    fidelity: Fidelity,
}

/// What a node reserved for a pod.
pub(super) struct NodeReservation {
    pub(super) cpus: CpuSet,
    /// Memory and devices counted per NUMA node.
    pub(super) amounts: TakenAmounts,
    pub(super) numa: NodeSet,
    pub(super) detail: PlacementDetail,
}

impl ClusterNode {
    /// A node whose kubelet decides. The requests of the pods in the ledger count as used.
    #[must_use]
    pub fn kubelet(ledger: Ledger, allocatable: Amounts) -> Self {
        let mut used = Amounts::new();
        for admitted in ledger.state().admitted_pods().values() {
            resources_fit::add_pod(&mut used, &Amounts::of(&effective_requests(&admitted.pod)));
        }
        Self {
            dialect: Dialect::Kubelet(Box::new(ledger)),
            allocatable,
            used,
            gaps: None,
        }
    }

    /// The same node with what its NodeResourceTopology leaves open; a pod whose admission depends on it is rejected.
    #[must_use]
    pub fn with_gaps(self, gaps: Gaps) -> Self {
        let gaps = (gaps != Gaps::default()).then(|| Arc::new(gaps));
        Self { gaps, ..self }
    }

    /// The same node with another ledger of its kubelet; allocatable and used amounts stay.
    pub(super) fn with_ledger(&self, ledger: Ledger) -> Self {
        Self {
            dialect: Dialect::Kubelet(Box::new(ledger)),
            ..self.clone()
        }
    }

    /// A node on which Koordinator's plugin decides. Allocatable and used amounts are those of `node`.
    #[must_use]
    pub fn koordinator(node: KoordinatorNode, args: Arc<KoordinatorArgs>) -> Self {
        Self {
            allocatable: node.allocatable.clone(),
            used: node.requested.clone(),
            dialect: Dialect::Koordinator {
                node: Box::new(node),
                args,
            },
            gaps: None,
        }
    }

    /// A node on which Volcano's plugin decides. `amounts` are its memory and devices per NUMA node, as far as they are
    /// known.
    #[must_use]
    pub fn volcano(
        mut numa: Option<NumaInfo>,
        amounts: NumaAmounts,
        allocatable: Amounts,
        fidelity: Fidelity,
    ) -> Self {
        let reserved = numa.as_ref().map(|numa| numa.reserved_cpus(fidelity));
        let node = VolcanoNode {
            free: numa.as_mut().and_then(|numa| numa.free.take()),
            reserved: reserved.unwrap_or_default(),
            amounts,
            fidelity,
            numa: numa.map(Arc::new),
        };
        Self {
            dialect: Dialect::Volcano(Box::new(node)),
            allocatable,
            used: Amounts::new(),
            gaps: None,
        }
    }

    /// A node that NodeResourceTopologyMatch filters and scores.
    #[must_use]
    pub fn scheduler_plugins(node: TopologyMatchNode) -> Self {
        Self {
            allocatable: Amounts::of(node.allocatable()),
            used: Amounts::new(),
            dialect: Dialect::SchedulerPlugins(Box::new(node)),
            gaps: None,
        }
    }

    /// A node that reports no NUMA topology.
    #[must_use]
    pub fn unknown(allocatable: Amounts) -> Self {
        Self {
            dialect: Dialect::Unknown,
            allocatable,
            used: Amounts::new(),
            gaps: None,
        }
    }

    /// The same node with these amounts in use; the number of pods is listed under `pods`.
    #[must_use]
    pub fn with_used(self, used: Amounts) -> Self {
        Self { used, ..self }
    }

    /// Which program decides about pods on the node, with the state that it decides on.
    #[must_use]
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    pub(super) fn dialect_mut(&mut self) -> &mut Dialect {
        &mut self.dialect
    }

    /// The node's `status.allocatable`.
    #[must_use]
    pub fn allocatable(&self) -> &Amounts {
        &self.allocatable
    }

    /// Whether the node's report counts its CPUs without listing them.
    pub(super) fn counts_cpus(&self) -> bool {
        self.gaps.as_ref().is_some_and(|gaps| gaps.counts_cpus())
    }

    /// Whether the reports of both nodes leave the same open.
    pub(super) fn has_same_gaps(&self, other: &Self) -> bool {
        self.gaps == other.gaps
    }

    /// The requests of all pods on the node, and their number under `pods`.
    #[must_use]
    pub fn used(&self) -> &Amounts {
        &self.used
    }

    /// How many pods are on the node.
    #[must_use]
    pub fn pods(&self) -> i64 {
        self.used.get(PODS)
    }

    /// Evaluates a pod on the node. The state of the node does not change.
    #[must_use]
    pub fn evaluate(&mut self, request: &PodRequest) -> Evaluation {
        self.evaluate_with(request, &mut PrefilterCache::new(request))
    }

    /// Why scoring the node for a pod that fits it fails. Only Koordinator's `Score` can fail.
    #[must_use]
    pub fn score_error(&self, request: &PodRequest) -> Option<NodeRejection> {
        match &self.dialect {
            Dialect::Koordinator { node, args } => {
                koordinator::score_error(node, args, &mut PrefilterCache::new(request))
            }
            _ => None,
        }
    }

    /// [`ClusterNode::evaluate`] with the `PreFilter` results that other nodes have computed for the pod.
    pub(super) fn evaluate_with(
        &mut self,
        request: &PodRequest,
        prefilter: &mut PrefilterCache<'_>,
    ) -> Evaluation {
        let short = resources_fit::shortages(request.requests(), &self.used, &self.allocatable);
        if !short.is_empty() {
            return Evaluation::Rejected(NodeRejection::Insufficient(short));
        }
        match &mut self.dialect {
            Dialect::Kubelet(ledger) => kubelet::evaluate(ledger, self.gaps.as_deref(), request),
            Dialect::Koordinator { node, args } => koordinator::evaluate(node, args, prefilter),
            Dialect::Volcano(node) => volcano::evaluate(node, request),
            Dialect::SchedulerPlugins(node) => scheduler_plugins::evaluate(node, request),
            Dialect::Unknown => Evaluation::FitsInTotal,
        }
    }

    /// Reserves what the pod needs. The node does not change if the pod does not fit.
    pub(super) fn reserve(
        &mut self,
        request: &PodRequest,
        prefilter: &mut PrefilterCache<'_>,
    ) -> Result<NodeReservation, NodeRejection> {
        let short = resources_fit::shortages(request.requests(), &self.used, &self.allocatable);
        if !short.is_empty() {
            return Err(NodeRejection::Insufficient(short));
        }
        let reserved = self.reserve_by_rules(request, prefilter)?;
        resources_fit::add_pod(&mut self.used, request.requests());
        Ok(reserved)
    }

    /// Reserves by the rules of the node's dialect alone, without comparing the totals.
    fn reserve_by_rules(
        &mut self,
        request: &PodRequest,
        prefilter: &mut PrefilterCache<'_>,
    ) -> Result<NodeReservation, NodeRejection> {
        match &mut self.dialect {
            Dialect::Kubelet(ledger) => kubelet::reserve(ledger, request),
            Dialect::Koordinator { node, args } => {
                koordinator::reserve(node, args, request, prefilter)
            }
            Dialect::Volcano(node) => volcano::reserve(node, request),
            Dialect::SchedulerPlugins(node) => scheduler_plugins::reserve(node, request),
            Dialect::Unknown => Ok(NodeReservation {
                cpus: CpuSet::new(),
                amounts: TakenAmounts::new(),
                numa: NodeSet::EMPTY,
                detail: PlacementDetail::Nothing,
            }),
        }
    }

    /// Reserves a replica by the rules of the node's dialect alone. Returns whether the replica changed anything that
    /// the dialect decides on.
    pub(super) fn reserve_replica(&mut self, request: &PodRequest) -> Result<bool, NodeRejection> {
        let reserved = self.reserve_by_rules(request, &mut PrefilterCache::new(request))?;
        Ok(match reserved.detail {
            PlacementDetail::Nothing => false,
            PlacementDetail::Kubelet(assignment) => !assignment.is_empty(),
            _ => true,
        })
    }

    /// Releases what a pod holds.
    pub(super) fn release(&mut self, pod: &PodUid, held: &PodReservation) {
        resources_fit::subtract_pod(&mut self.used, &held.requests);
        match &mut self.dialect {
            Dialect::Kubelet(ledger) => kubelet::release(ledger, pod),
            Dialect::Koordinator { node, .. } => node.forget(pod, &held.koordinator),
            Dialect::Volcano(node) => {
                if let Some(free) = &mut node.free {
                    *free |= &held.cpus;
                }
                node.amounts.add(&held.amounts);
            }
            Dialect::SchedulerPlugins(node) => node.forget(pod),
            Dialect::Unknown => {}
        }
    }

    /// Whether the evaluation of a pod could depend on the pod's uid. `is_placed` says whether it is on any node.
    pub(super) fn depends_on_uid(&self, pod: &PodUid, is_placed: bool) -> bool {
        match &self.dialect {
            Dialect::Kubelet(ledger) => {
                let state = ledger.state();
                // Only the pod with this uid may reuse the CPUs of its own init containers.
                is_placed && state.admitted_pods().contains_key(pod)
                    || state.has_reusable_cpus_of(pod)
            }
            Dialect::Koordinator { .. }
            | Dialect::Volcano(_)
            | Dialect::SchedulerPlugins(_)
            | Dialect::Unknown => false,
        }
    }
}

/// What a pod holds on a node, to release it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodReservation {
    pub(super) requests: Amounts,
    /// The requests that Koordinator's plugin counts.
    pub(super) koordinator: Amounts,
    pub(super) cpus: CpuSet,
    /// Memory and devices per NUMA node that Volcano's plugin counts.
    pub(super) amounts: TakenAmounts,
}

/// Equal dialects have equal rules and equal state. The rules of two kubelets are equal only if they are the same
/// allocation.
impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Dialect::Kubelet(mine), Dialect::Kubelet(theirs)) => {
                Arc::ptr_eq(mine.rules(), theirs.rules()) && mine.state() == theirs.state()
            }
            (
                Dialect::Koordinator { node, args },
                Dialect::Koordinator {
                    node: other_node,
                    args: other_args,
                },
            ) => node == other_node && args == other_args,
            (Dialect::Volcano(mine), Dialect::Volcano(theirs)) => mine == theirs,
            (Dialect::SchedulerPlugins(mine), Dialect::SchedulerPlugins(theirs)) => mine == theirs,
            (Dialect::Unknown, Dialect::Unknown) => true,
            _ => false,
        }
    }
}
