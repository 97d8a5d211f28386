//! [`MoveSearch`]: the smallest sets of running pods whose move to other CPUs or nodes makes a pending pod fit.
//!
//! The pending pod needs room on one node, so all pods of a set run on one node. A set is a solution if the node admits
//! the pending pod without them, and every pod of the set fits somewhere afterwards. Each set is simulated on a copy of
//! the cluster.

use std::collections::BTreeMap;

use pinfold_cluster::{Cluster, ClusterNode, Evaluation, NodeRejection, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::effective_requests;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::quantity::Quantity;
use pinfold_kube::cluster::{LocationSource, NodeSources, PodLocation};
use pinfold_kube::pod::PodObject;
use serde::Serialize;

use super::cluster_state::ClusterState;

/// The most pods that move.
const MAX_MOVES: usize = 3;
/// The most sets that are tried.
const MAX_TRIALS: usize = 4000;
/// The most combinations of possible locations that are tried for one set.
const MAX_COMBINATIONS: usize = 16;
/// The most solutions that are reported.
const MAX_PLANS: usize = 3;

/// Moves of running pods, and the placement of the pending pod after them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct MovePlan {
    /// The node of the pending pod.
    pub(super) node: NodeName,
    /// The exclusive CPUs there.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub(super) cpus: CpuSet,
    /// The NUMA nodes there.
    pub(super) numa_nodes: NodeSet,
    /// The moves.
    pub(super) moves: Vec<PodMove>,
}

/// The move of one running pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct PodMove {
    /// The pod.
    pub(super) pod: String,
    /// Its node now.
    pub(super) from: NodeName,
    /// Its node after the move; `None` if it fits no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<NodeName>,
    /// The exclusive CPUs there.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub(super) cpus: CpuSet,
    /// The NUMA nodes there.
    pub(super) numa_nodes: NodeSet,
}

/// A pod and its location on its node.
type LocatedPod<'a> = (&'a PodObject, PodLocation);

/// Searches for sets of pods to move.
pub(super) struct MoveSearch<'a> {
    state: &'a ClusterState,
    sources: BTreeMap<NodeName, NodeSources<'a>>,
    pod: &'a PodObject,
    request: PodRequest,
    trials: usize,
}

impl<'a> MoveSearch<'a> {
    pub(super) fn new(state: &'a ClusterState, pod: &'a PodObject, request: &PodRequest) -> Self {
        Self {
            state,
            sources: state.sources(),
            pod,
            request: request.clone(),
            trials: MAX_TRIALS,
        }
    }

    /// Whether the search stopped at its limit.
    pub(super) fn gave_up(&self) -> bool {
        self.trials == 0
    }

    /// The smallest sets that make the pod fit, those with the fewest CPUs first.
    pub(super) fn smallest(&mut self, cluster: &mut Cluster) -> Vec<MovePlan> {
        let excluded = self.state.excluded_nodes(self.pod);
        let mut nodes = Vec::new();
        for node in cluster.evaluate_all(&self.request) {
            if let (Some(rejection), false) = (
                node.evaluation.rejection(),
                excluded.contains_key(node.node),
            ) {
                nodes.push((node.node.clone(), rejection.clone()));
            }
        }
        for size in 1..=MAX_MOVES {
            let mut plans: Vec<(i64, MovePlan)> = Vec::new();
            for (node, rejection) in &nodes {
                let movable = self.movable(node, rejection);
                let mut set = Vec::with_capacity(size);
                self.try_sets(node, rejection, &movable, size, &mut set, &mut plans);
            }
            if !plans.is_empty() {
                plans.sort_by(|one, other| {
                    let key = |(cost, plan): &(i64, MovePlan)| (*cost, plan.node.clone());
                    key(one).cmp(&key(other))
                });
                return plans
                    .into_iter()
                    .map(|(_, plan)| plan)
                    .take(MAX_PLANS)
                    .collect();
            }
        }
        Vec::new()
    }

    /// The pods of a node that may be moved and that hold something the rejected pod lacks.
    fn movable(&self, node: &NodeName, rejection: &NodeRejection) -> Vec<&'a PodObject> {
        let Some(found) = self.sources.get(node) else {
            return Vec::new();
        };
        let options = &self.state.options;
        let matters = |pod: &PodObject| match rejection {
            NodeRejection::Insufficient(short) => {
                let requests = effective_requests(&pod.pod);
                let counts = |name: &str| {
                    name == "pods" || requests.get(name).is_some_and(Quantity::is_positive)
                };
                short.iter().any(|one| counts(one.resource.as_str()))
            }
            _ => !matches!(found.location_of(pod, options), PodLocation::Shared),
        };
        let is_movable =
            |pod: &PodObject| !pod.constraints.immovable && !pod.constraints.terminating;
        let pods = found.pods.iter().copied();
        pods.filter(|pod| is_movable(pod) && matters(pod)).collect()
    }

    /// Tries all sets of that size.
    fn try_sets(
        &mut self,
        node: &NodeName,
        rejection: &NodeRejection,
        pods: &[&'a PodObject],
        size: usize,
        set: &mut Vec<&'a PodObject>,
        plans: &mut Vec<(i64, MovePlan)>,
    ) {
        if set.len() == size {
            if frees_enough(rejection, set) {
                plans.extend(self.try_set(node, set));
            }
            return;
        }
        for (index, &pod) in pods.iter().enumerate() {
            if self.trials == 0 {
                return;
            }
            set.push(pod);
            self.try_sets(node, rejection, &pods[index + 1..], size, set, plans);
            set.pop();
        }
    }

    /// The plan, if the set is a solution for every possible location of its pods, and its cost: the CPUs that move.
    fn try_set(&mut self, node: &NodeName, set: &[&'a PodObject]) -> Option<(i64, MovePlan)> {
        self.trials = self.trials.checked_sub(1)?;
        let options = &self.state.options;
        let found = self.sources.get(node)?;
        let mut plan = None;
        for located in self.possible_locations(set) {
            let mut member = found.member_without_pods(&located, options).ok()?.value;
            if matches!(member.evaluate(&self.request), Evaluation::Rejected(_)) {
                return None;
            }
            let simulated = self.simulate(&[(node.clone(), member)], set, Some(node))?;
            if simulated.moves.iter().any(|moved| moved.to.is_none()) {
                return None;
            }
            plan = plan.or(Some(simulated));
        }
        let cpus = |pod: &&PodObject| {
            let requests = effective_requests(&pod.pod);
            requests.get("cpu").map_or(0, Quantity::milli_value)
        };
        Some((set.iter().map(cpus).sum(), plan?))
    }

    /// All combinations of possible locations of the pods of a set.
    fn possible_locations(&self, set: &[&'a PodObject]) -> Vec<Vec<LocatedPod<'a>>> {
        let options = &self.state.options;
        let mut all: Vec<Vec<LocatedPod<'a>>> = vec![Vec::new()];
        for &pod in set {
            let found = pod.node_name.as_deref();
            let found = found.and_then(|node| self.sources.get(&NodeName::from(node)));
            let locations = match found.map(|found| found.location_of(pod, options)) {
                None => vec![PodLocation::Unknown],
                Some(PodLocation::OneOf(nodes)) => nodes.iter().map(on_numa_node).collect(),
                Some(known) => vec![known],
            };
            let mut longer = Vec::new();
            for combination in &all {
                for location in &locations {
                    let mut combination = combination.clone();
                    combination.push((pod, location.clone()));
                    longer.push(combination);
                }
            }
            longer.truncate(MAX_COMBINATIONS);
            all = longer;
        }
        all
    }

    /// Places the pending pod, then the moved pods, on a copy of the cluster with some nodes replaced. `on` is the node of
    /// the pending pod; without it the best one is used.
    fn simulate(
        &self,
        changed: &[(NodeName, ClusterNode)],
        set: &[&'a PodObject],
        on: Option<&NodeName>,
    ) -> Option<MovePlan> {
        let mut cluster = self.state.cluster.clone();
        for (node, member) in changed {
            cluster.insert(node.clone(), member.clone());
        }
        let (node, cpus, numa_nodes) = match on {
            Some(node) => {
                let placed = cluster.place_on(&self.request, node).ok()?;
                (placed.node, placed.cpus, placed.numa)
            }
            None => self.place_on_best_node(&mut cluster, &self.request, self.pod)?,
        };
        let mut moves = Vec::new();
        for &pod in set {
            let request = self.state.request(pod).ok()?;
            let placed = self.place_on_best_node(&mut cluster, &request, pod);
            let (to, cpus, numa_nodes) = match placed {
                Some((to, cpus, numa)) => (Some(to), cpus, numa),
                None => (None, CpuSet::new(), NodeSet::EMPTY),
            };
            moves.push(PodMove {
                pod: pod.pod.name.clone(),
                from: pod.node_name.as_deref().unwrap_or_default().into(),
                to,
                cpus,
                numa_nodes,
            });
        }
        Some(MovePlan {
            node,
            cpus,
            numa_nodes,
            moves,
        })
    }

    /// Places a pod on the node with the highest score that its constraints allow.
    fn place_on_best_node(
        &self,
        cluster: &mut Cluster,
        request: &PodRequest,
        pod: &PodObject,
    ) -> Option<(NodeName, CpuSet, NodeSet)> {
        let excluded = self.state.excluded_nodes(pod);
        let ranked = cluster.rank(request).into_iter();
        let mut allowed = ranked.filter(|ranked| !excluded.contains_key(ranked.node));
        let node = allowed.next()?.node.clone();
        let placed = cluster.place_on(request, &node).ok()?;
        Some((placed.node, placed.cpus, placed.numa))
    }

    /// The plan if exactly these pods move, for every combination of their possible locations.
    pub(super) fn if_moved(
        &self,
        set: &[&'a PodObject],
    ) -> Vec<(Vec<LocatedPod<'a>>, Option<MovePlan>)> {
        let options = &self.state.options;
        let mut results = Vec::new();
        for located in self.possible_locations(set) {
            let mut by_node = BTreeMap::<NodeName, Vec<LocatedPod<'a>>>::new();
            for (pod, location) in &located {
                if let Some(node) = &pod.node_name {
                    let removed = by_node.entry(node.as_str().into()).or_default();
                    removed.push((pod, location.clone()));
                }
            }
            let member = |(node, removed): (NodeName, Vec<LocatedPod<'a>>)| {
                let found = self.sources.get(&node)?;
                Some((
                    node,
                    found.member_without_pods(&removed, options).ok()?.value,
                ))
            };
            let changed: Option<Vec<_>> = by_node.into_iter().map(member).collect();
            let plan = changed.and_then(|changed| self.simulate(&changed, set, None));
            results.push((located, plan));
        }
        results
    }

    /// Whether `pod` is the pending pod.
    pub(super) fn is_itself(&self, pod: &PodObject) -> bool {
        pod.pod.uid == self.pod.pod.uid
    }
}

/// The location of a pod on this NUMA node.
fn on_numa_node(node: NodeId) -> PodLocation {
    PodLocation::Known {
        cpus: CpuSet::new(),
        numa: NodeSet::single(node),
        by: LocationSource::Counts,
    }
}

/// Whether the requests of the set are at least what the node lacks in total. Otherwise no simulation is needed.
fn frees_enough(rejection: &NodeRejection, set: &[&PodObject]) -> bool {
    let NodeRejection::Insufficient(short) = rejection else {
        return true;
    };
    short.iter().all(|one| {
        let name = one.resource.as_str();
        let freed = |pod: &&PodObject| match name {
            "pods" => 1,
            _ => {
                let requests = effective_requests(&pod.pod);
                let amount = requests.get(name).copied().unwrap_or_default();
                match name {
                    "cpu" => amount.milli_value(),
                    _ => amount.value(),
                }
            }
        };
        let freed = set.iter().map(freed).fold(0_i64, i64::saturating_add);
        one.free.saturating_add(freed) >= one.requested
    })
}
