//! [`Cluster`]: many nodes, each deciding by its own dialect, and the pods that are placed on them.
//!
//! ```text
//! insert(name, ClusterNode) ─┐
//!                            ├─► evaluate, evaluate_all ─► rank ─► place, place_on ─► Placement
//! PodRequest ────────────────┘   Evaluation per node       best    reserves on the node
//!                                                          first   remove(pod) releases
//! ```
//!
//! Deterministic: nodes are evaluated in ascending order of their names, and of nodes with equal scores the first by
//! name is used. Every node first compares the pod's requests with what is left of its allocatable ([`Shortage`]); then
//! its dialect decides:
//!
//! | dialect | fits | score |
//! |---|---|---|
//! | kubelet | a trial admission that is undone | the fewer NUMA nodes, the better: 100 for one |
//! | Koordinator | the plugin's `Filter` | the plugin's `Score`, 0 to 100 |
//! | Volcano | the plugin's predicate | 100 less the span's share of the widest candidate's, times the weight |
//! | scheduler-plugins | the plugin's `Filter` | the plugin's `Score`, 0 to 100 |
//! | unknown | if the totals suffice | 0 |
//!
//! Scores of different dialects all lie between 0 and 100 (with Volcano's weight at 1) but mean different things.
//!
//! A node's generation changes with every change to the node, and no generation is used for two states. Evaluations are
//! cached by the shape of the pod (its spec without name and uid): for the next pod of that shape only the nodes that
//! changed are evaluated again. The [`MAX_SHAPES`] shapes used last are kept.
//!
//! ```
//! use std::sync::Arc;
//! use pinfold_cluster::{Cluster, ClusterNode, PodRequest};
//! use pinfold_cluster::koordinator::amounts::Amounts;
//! use pinfold_core::pod::{Container, Pod};
//!
//! let mut cluster = Cluster::new();
//! for (name, milli) in [("a", 2000), ("b", 8000)] {
//!     let allocatable = Amounts::from([("cpu", milli), ("pods", 110)]);
//!     cluster.insert(name.into(), ClusterNode::unknown(allocatable));
//! }
//! let main = Container {
//!     name: "main".into(),
//!     restartable: false,
//!     requests: [("cpu".into(), "4".parse()?)].into(),
//!     limits: Default::default(),
//! };
//! let pod = Pod {
//!     uid: "web-1".into(),
//!     name: "shop/web-1".into(),
//!     init_containers: Vec::new(),
//!     containers: vec![main],
//!     pod_requests: None,
//!     pod_limits: None,
//! };
//! let request = PodRequest::new(Arc::new(pod));
//! let rejection = cluster.evaluate(&request, &"a".into()).rejection().cloned().expect("too small");
//! assert_eq!(rejection.to_string(), "Insufficient cpu (4 asked, 2 left)");
//! let placement = cluster.place(&request)?;
//! assert_eq!(placement.node.as_str(), "b");
//! assert!(cluster.remove(&placement.pod).is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use crate::koordinator::amounts::Amounts;
use crate::volcano::score::scores;
use pinfold_core::demand::effective_requests;
use pinfold_core::name::{NodeName, PodUid};

mod evaluation;
mod evaluation_cache;
mod interner;
mod node;
mod node_index;
mod node_resources_fit;
mod node_view;
mod parallel;
mod place;
mod pod_request;
mod prefilter_cache;
mod refresh;
mod rejection_summary;
mod replicas;

use evaluation_cache::{CacheEntry, EvaluationCache, NO_GENERATION};
use interner::Interner;
use node::PodReservation;
use node_index::NodeIndex;
use prefilter_cache::PrefilterCache;

pub use evaluation::{
    BoundedEvaluation, CachedEvaluation, Evaluation, Fit, FitScore, NodeEvaluation, NodeRejection,
    RankedNode,
};
pub use evaluation_cache::MAX_SHAPES;
pub use node::{ClusterNode, Dialect, TopologyMatchNode, VolcanoNode};
pub use node_resources_fit::{PODS, Shortage, shortages};
pub use node_view::NodeView;
pub use place::{PlaceError, Placement, PlacementDetail};
pub use pod_request::PodRequest;
pub use refresh::DecisionBudget;
pub use rejection_summary::RejectionSummary;
pub use replicas::{KubeletPolicy, ReplicaCount, ReplicaCounter};

/// Many nodes and the pods placed on them.
#[derive(Clone, Debug)]
pub struct Cluster {
    index: NodeIndex,
    /// The nodes. `None` where a node was removed.
    slots: Vec<Option<NodeSlot>>,
    /// The pods that [`Cluster::remove`] can remove, with their nodes.
    pods: BTreeMap<PodUid, PlacedPod>,
    /// The generation assigned last.
    last_generation: u64,
    volcano_weight: i64,
    interner: Interner,
    cache: EvaluationCache,
    /// Where the next evaluation starts whose budget does not suffice for all nodes.
    next_start: usize,
}

/// A node of the cluster with its generation.
#[derive(Clone, Debug, PartialEq)]
struct NodeSlot {
    node: ClusterNode,
    generation: u64,
    /// The pods on the node that [`Cluster::remove`] can remove.
    pods: BTreeSet<PodUid>,
}

/// A pod on a node, and what it holds there.
#[derive(Clone, Debug, PartialEq)]
struct PlacedPod {
    node: NodeName,
    holdings: PodReservation,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// A cluster without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            index: NodeIndex::default(),
            slots: Vec::new(),
            pods: BTreeMap::new(),
            last_generation: NO_GENERATION,
            volcano_weight: 1,
            interner: Interner::default(),
            cache: EvaluationCache::default(),
            next_start: 0,
        }
    }

    /// The same cluster with this weight of Volcano's plugin. The default is 1.
    #[must_use]
    pub fn with_volcano_weight(self, weight: i64) -> Self {
        Self {
            volcano_weight: weight,
            ..self
        }
    }

    /// Adds a node with the pods in its kubelet's ledger, or replaces the node of that name, which is returned. Pods
    /// that were placed on the replaced node are dropped: the new node already accounts for every pod on it.
    pub fn insert(&mut self, name: NodeName, mut node: ClusterNode) -> Option<ClusterNode> {
        let known = self.index.slot(name.as_str());
        let before = known.and_then(|at| self.clear_slot(at));
        self.interner.intern(&mut node);
        let mut pods = BTreeSet::new();
        if let Dialect::Kubelet(ledger) = node.dialect() {
            for (uid, admitted) in ledger.state().admitted_pods() {
                // A pod that several ledgers hold belongs to the node that was inserted first.
                if let Entry::Vacant(new) = self.pods.entry(uid.clone()) {
                    let requests = Amounts::of(&effective_requests(&admitted.pod));
                    new.insert(PlacedPod {
                        node: name.clone(),
                        holdings: PodReservation {
                            requests,
                            ..PodReservation::default()
                        },
                    });
                    pods.insert(uid.clone());
                }
            }
        }
        let slot = Some(NodeSlot {
            node,
            generation: self.next_generation(),
            pods,
        });
        let at = known.unwrap_or_else(|| self.free_slot());
        match self.slots.get_mut(at) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.index.insert(name, at);
        before
    }

    /// Removes a node and the pods on it.
    pub fn remove_node(&mut self, name: &NodeName) -> Option<ClusterNode> {
        let at = self.index.remove(name)?;
        self.clear_slot(at)
    }

    /// Removes the node in a slot and the pods on it.
    fn clear_slot(&mut self, at: usize) -> Option<ClusterNode> {
        let slot = self.slots.get_mut(at).and_then(Option::take)?;
        for pod in &slot.pods {
            self.pods.remove(pod);
        }
        Some(slot.node)
    }

    /// The first slot without a node.
    fn free_slot(&self) -> usize {
        let is_full = self.index.len() == self.slots.len();
        let free = (!is_full).then(|| self.slots.iter().position(Option::is_none));
        free.flatten().unwrap_or(self.slots.len())
    }

    /// The nodes, ascending by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &ClusterNode)> {
        let slot = |at: usize| self.slots.get(at)?.as_ref();
        self.index
            .iter()
            .filter_map(move |(name, at)| Some((name, &slot(at)?.node)))
    }

    /// The node of this name.
    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&ClusterNode> {
        self.slot(name).map(|slot| &slot.node)
    }

    /// The generation of a node: a number that is different after every change to the node.
    #[must_use]
    pub fn generation(&self, name: &NodeName) -> Option<u64> {
        self.slot(name).map(|slot| slot.generation)
    }

    /// The node that a pod is placed on.
    #[must_use]
    pub fn node_of_pod(&self, pod: &PodUid) -> Option<&NodeName> {
        self.pods.get(pod).map(|placed| &placed.node)
    }

    /// Evaluates a pod on one node. Changes nothing but the cache.
    #[must_use]
    pub fn evaluate(&mut self, request: &PodRequest, node: &NodeName) -> Evaluation {
        let Some(at) = self.index.slot(node.as_str()) else {
            return Evaluation::Rejected(NodeRejection::UnknownNode);
        };
        self.refresh_all(request, std::iter::once(at));
        self.latest_evaluation(at).clone()
    }

    /// Evaluates a pod on every node, ascending by name. Changes nothing but the cache.
    pub fn evaluate_all(&mut self, request: &PodRequest) -> Vec<NodeEvaluation<'_>> {
        self.refresh_all(request, 0..self.slots.len());
        let evaluation = |(node, at)| NodeEvaluation {
            node,
            evaluation: self.latest_evaluation(at),
        };
        self.index.iter().map(evaluation).collect()
    }

    /// Evaluates a pod on the named nodes, in that order, as far as the budget suffices. Changes nothing but the cache.
    pub fn evaluate_nodes<'n>(
        &mut self,
        request: &PodRequest,
        names: impl IntoIterator<Item = &'n str>,
        budget: &mut DecisionBudget,
    ) -> Vec<BoundedEvaluation<'_>> {
        let slots = names.into_iter().map(|name| self.index.slot(name));
        let slots: Vec<Option<usize>> = slots.collect();
        self.evaluate_slots(request, &slots, budget).collect()
    }

    /// The slot of a node, by which [`Cluster::evaluate_slots`] finds it. It is the node's until the node is removed.
    #[must_use]
    pub fn slot_of(&self, name: &NodeName) -> Option<usize> {
        self.index.slot(name.as_str())
    }

    /// [`Cluster::evaluate_nodes`] of the nodes in these slots: for callers that evaluate the same thousands of nodes
    /// again and again, and would look up their names each time.
    pub fn evaluate_slots<'c, 's>(
        &'c mut self,
        request: &PodRequest,
        slots: &'s [Option<usize>],
        budget: &mut DecisionBudget,
    ) -> impl Iterator<Item = BoundedEvaluation<'c>> + use<'c, 's> {
        let postponed = self.refresh(request, slots.iter().copied().flatten(), budget);
        let (nodes, latest) = (&self.slots, self.cache.latest());
        let evaluation = move |at: Option<usize>| {
            let (slot, entry) = (nodes.get(at?)?.as_ref()?, latest.get(at?)?);
            if postponed.binary_search(&at?).is_ok() {
                return Some(BoundedEvaluation::Postponed);
            }
            Some(BoundedEvaluation::Evaluated(CachedEvaluation {
                node: &slot.node,
                evaluation: &entry.evaluation,
                cached_score: &entry.cached_score,
            }))
        };
        let evaluations = slots.iter().map(move |at| evaluation(*at));
        evaluations.map(|found| found.unwrap_or(BoundedEvaluation::UnknownNode))
    }

    fn refresh_all(&mut self, request: &PodRequest, slots: impl Iterator<Item = usize>) {
        self.refresh(request, slots, &mut { DecisionBudget::UNLIMITED });
    }

    /// Drops all cached evaluations and the scores that callers stored with them.
    pub fn clear_cache(&mut self) {
        self.cache = EvaluationCache::default();
    }

    /// The nodes that a pod fits, best first.
    pub fn rank(&mut self, request: &PodRequest) -> Vec<RankedNode<'_>> {
        self.refresh_all(request, 0..self.slots.len());
        let ranked = self.ranked();
        ranked
            .into_iter()
            .map(|(node, _, score)| RankedNode { node, score })
            .collect()
    }

    /// The nodes that fit by the latest evaluations, with slot and score, best first.
    fn ranked(&self) -> Vec<(&NodeName, usize, i64)> {
        let mut ranked = Vec::with_capacity(self.index.len());
        let (mut spans, mut spanning) = (Vec::new(), Vec::new());
        for (name, at) in self.index.iter() {
            let score = match self.latest_evaluation(at) {
                Evaluation::Rejected(_) => continue,
                Evaluation::FitsInTotal => 0,
                Evaluation::Fits(fit) => match fit.score {
                    FitScore::Absolute(score) => score,
                    FitScore::NumaNodes(span) => {
                        spans.push(span);
                        spanning.push(ranked.len());
                        0
                    }
                },
            };
            ranked.push((name, at, score));
        }
        let scores = scores(&spans, self.volcano_weight);
        for (place, score) in spanning.into_iter().zip(scores) {
            #[expect(clippy::cast_possible_truncation, reason = "a whole number; saturates")]
            let whole = score as i64;
            ranked[place].2 = whole;
        }
        // Stable: nodes with equal scores stay in the order of their names.
        ranked.sort_by_key(|&(_, _, score)| Reverse(score));
        ranked
    }

    /// The latest evaluation of the node in a slot.
    fn latest_evaluation(&self, at: usize) -> &Evaluation {
        const UNKNOWN: &Evaluation = &Evaluation::Rejected(NodeRejection::UnknownNode);
        let entry = self.cache.latest().get(at);
        entry.map_or(UNKNOWN, |entry| &entry.evaluation)
    }

    fn slot(&self, name: &NodeName) -> Option<&NodeSlot> {
        self.slots.get(self.index.slot(name.as_str())?)?.as_ref()
    }

    fn slot_mut(&mut self, name: &NodeName) -> Option<&mut NodeSlot> {
        self.slots
            .get_mut(self.index.slot(name.as_str())?)?
            .as_mut()
    }

    /// Assigns a generation that no node has had.
    fn next_generation(&mut self) -> u64 {
        self.last_generation += 1;
        self.last_generation
    }
}

/// A pod to be evaluated on many nodes.
#[derive(Clone, Copy)]
struct PodQuery<'a> {
    request: &'a PodRequest,
    /// Whether a pod with that uid is placed on any node.
    is_placed: bool,
}

impl NodeSlot {
    /// Whether the cached evaluation is no longer valid for this pod.
    fn is_stale(&self, query: PodQuery<'_>, entry: &CacheEntry) -> bool {
        entry.generation != self.generation || self.depends_on_uid(query)
    }

    /// Whether the evaluation of the pod is not valid for other pods of its shape.
    fn depends_on_uid(&self, PodQuery { request, is_placed }: PodQuery<'_>) -> bool {
        self.node.depends_on_uid(request.uid(), is_placed)
    }

    /// Evaluates the pod on the node and stores the evaluation in `entry`.
    fn update(
        &mut self,
        query: PodQuery<'_>,
        prefilter: &mut PrefilterCache<'_>,
        entry: &mut CacheEntry,
    ) {
        let evaluation = self.node.evaluate_with(query.request, prefilter);
        self.store(query, evaluation, entry);
    }

    /// Stores an evaluation of the pod on the node in `entry`.
    fn store(&self, query: PodQuery<'_>, evaluation: Evaluation, entry: &mut CacheEntry) {
        let names_pod = matches!(evaluation, Evaluation::Rejected(NodeRejection::Ledger(_)));
        *entry = CacheEntry {
            generation: match names_pod || self.depends_on_uid(query) {
                true => NO_GENERATION,
                false => self.generation,
            },
            evaluation,
            cached_score: Cell::default(),
        };
    }
}

/// Equal clusters have the same nodes in the same states and generations and the same pods on them. The cache
/// is not compared.
impl PartialEq for Cluster {
    fn eq(&self, other: &Self) -> bool {
        let same_slots = || {
            let slots = |cluster: &'_ Self| -> Vec<Option<NodeSlot>> {
                cluster
                    .index
                    .iter()
                    .map(|(name, _)| cluster.slot(name).cloned())
                    .collect()
            };
            slots(self) == slots(other)
        };
        let names = |cluster: &'_ Self| -> Vec<NodeName> {
            let names = cluster.index.iter();
            names.map(|(name, _)| name.clone()).collect()
        };
        self.volcano_weight == other.volcano_weight
            && self.pods == other.pods
            && names(self) == names(other)
            && same_slots()
    }
}

#[cfg(test)]
mod tests;
