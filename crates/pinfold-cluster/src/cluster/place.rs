//! Placing pods: on the best node, or on a given one.

use std::collections::BTreeMap;

use super::evaluation::NodeRejection;
use super::node::PodReservation;
use super::prefilter_cache::PrefilterCache;
use super::{Cluster, PlacedPod, PodRequest};
use crate::koordinator::ledger::Allocation;
use crate::koordinator::policy_values::ResourceSpec;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::node_set::{NodeId, NodeSet};

/// A pod that was placed on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The pod.
    pub pod: PodUid,
    /// Its node.
    pub node: NodeName,
    /// Its exclusive CPUs; empty if it runs in a shared pool.
    pub cpus: CpuSet,
    /// The NUMA nodes of its CPUs and memory; empty if nothing is aligned.
    pub numa: NodeSet,
    /// What its node's dialect decided.
    pub detail: PlacementDetail,
}

/// What the dialect of a node decided about a placed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementDetail {
    /// Nothing: only the totals were checked.
    Nothing,
    /// What the kubelet will assign to every container.
    Kubelet(decision::Assignment),
    /// The values of Koordinator's annotations.
    Koordinator {
        /// The value of `resource-status`; `None` if the annotation is not needed.
        status: Option<Allocation>,
        /// The completed `resource-spec`; `None` if it does not change.
        spec: Option<ResourceSpec>,
    },
    /// The CPUs that Volcano chose on each NUMA node.
    Volcano(BTreeMap<NodeId, CpuSet>),
    /// NodeResourceTopologyMatch chooses the node only.
    SchedulerPlugins {
        /// The plugin's score of the node.
        score: i64,
    },
}

/// Why a pod was not placed. The cluster is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The pod is placed already.
    #[error("pod {pod} is on node {node} already")]
    AlreadyPlaced {
        /// The pod.
        pod: PodUid,
        /// The node it is on.
        node: NodeName,
    },
    /// The pod fits no node.
    #[error("pod {pod}: 0/{} nodes are available{}", rejections.len(), counted(rejections))]
    NoNode {
        /// The pod.
        pod: PodUid,
        /// Why each node rejects the pod, ascending by name.
        rejections: Vec<(NodeName, NodeRejection)>,
    },
}

/// `: 2 Insufficient cpu, 1 no such node.`, ascending, in the format of kube-scheduler.
fn counted(rejections: &[(NodeName, NodeRejection)]) -> String {
    let mut counts = BTreeMap::<String, usize>::new();
    for (_, rejection) in rejections {
        *counts.entry(rejection.summary()).or_default() += 1;
    }
    let mut texts: Vec<String> = counts
        .iter()
        .map(|(text, count)| format!("{count} {text}"))
        .collect();
    texts.sort();
    match texts.is_empty() {
        true => String::new(),
        false => format!(": {}.", texts.join(", ")),
    }
}

impl Cluster {
    /// Places a pod on the best node; if that node fails to reserve it, on the next best.
    ///
    /// # Errors
    /// If the pod fits no node or is placed already.
    pub fn place(&mut self, request: &PodRequest) -> Result<Placement, PlaceError> {
        self.check_not_placed(request)?;
        self.refresh_all(request, 0..self.slots.len());
        let candidates: Vec<NodeName> = self
            .ranked()
            .into_iter()
            .map(|(node, ..)| node.clone())
            .collect();
        let mut late = Vec::new();
        for node in candidates {
            match self.reserve(request, &node) {
                Ok(placed) => return Ok(placed),
                Err(rejection) => late.push((node, rejection)),
            }
        }
        let early = self
            .evaluate_all(request)
            .into_iter()
            .filter_map(|evaluated| {
                let rejection = evaluated.evaluation.rejection()?;
                Some((evaluated.node.clone(), rejection.clone()))
            });
        let mut rejections: Vec<(NodeName, NodeRejection)> = early.chain(late).collect();
        rejections.sort_by(|(one, _), (other, _)| one.cmp(other));
        Err(PlaceError::NoNode {
            pod: request.uid().clone(),
            rejections,
        })
    }

    /// Places a pod on this node.
    ///
    /// # Errors
    /// If the pod does not fit the node or is placed already.
    pub fn place_on(
        &mut self,
        request: &PodRequest,
        node: &NodeName,
    ) -> Result<Placement, PlaceError> {
        self.check_not_placed(request)?;
        match self.reserve(request, node) {
            Ok(placement) => Ok(placement),
            Err(rejection) => Err(PlaceError::NoNode {
                pod: request.uid().clone(),
                rejections: vec![(node.clone(), rejection)],
            }),
        }
    }

    /// Removes a pod and releases what it holds. Returns the node it was on.
    pub fn remove(&mut self, pod: &PodUid) -> Option<NodeName> {
        let PlacedPod { node, holdings } = self.pods.remove(pod)?;
        let generation = self.next_generation();
        if let Some(slot) = self.slot_mut(&node) {
            slot.pods.remove(pod);
            slot.node.release(pod, &holdings);
            slot.generation = generation;
        }
        Some(node)
    }

    fn check_not_placed(&self, request: &PodRequest) -> Result<(), PlaceError> {
        match self.node_of_pod(request.uid()) {
            Some(node) => Err(PlaceError::AlreadyPlaced {
                pod: request.uid().clone(),
                node: node.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Reserves what the pod needs on one node.
    fn reserve(
        &mut self,
        request: &PodRequest,
        node: &NodeName,
    ) -> Result<Placement, NodeRejection> {
        let next = self.last_generation + 1;
        let slot = self.slot_mut(node).ok_or(NodeRejection::UnknownNode)?;
        let reserved = slot
            .node
            .reserve(request, &mut PrefilterCache::new(request))?;
        slot.generation = next;
        slot.pods.insert(request.uid().clone());
        self.last_generation = next;
        let placed = PlacedPod {
            node: node.clone(),
            holdings: PodReservation {
                requests: request.requests().clone(),
                koordinator: request.koordinator().requests.clone(),
                cpus: reserved.cpus.clone(),
                amounts: reserved.amounts,
            },
        };
        let pod = request.uid();
        self.pods.insert(pod.clone(), placed);
        Ok(Placement {
            pod: pod.clone(),
            node: node.clone(),
            cpus: reserved.cpus,
            numa: reserved.numa,
            detail: reserved.detail,
        })
    }
}
