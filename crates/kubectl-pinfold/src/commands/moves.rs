//! Where a waiting pod would go if running pods moved: the smallest sets that help, each played through on a copy.
//!
//! A pod needs room on one node, so all pods of a set are of one node. A set helps if the node takes the waiting pod when
//! they have left it, and each of them finds a place after that.

use std::collections::BTreeMap;

use pinfold_core::cluster::{Cluster, ClusterNode, Evaluation, NodeRejection, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::effective_requests;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::node_set::{NodeId, NodeSet};
use pinfold_core::quantity::Quantity;
use pinfold_kube::cluster::{LocationSource, NodeSources, PodLocation};
use pinfold_kube::pod::PodObject;
use pinfold_kube::scheduling_constraints::PodConstraints;
use serde::Serialize;

use super::cluster_state::ClusterState;

/// No set is larger than this.
const LARGEST: usize = 3;
/// So many sets are tried in all.
const MOST_TRIALS: usize = 4000;
/// So many seatings of one set are tried where nobody says where its pods sit.
const MOST_SEATINGS: usize = 16;
/// So many sets are named.
const NAMED: usize = 3;

/// Pods that move, and the room that makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Plan {
    /// Where the waiting pod goes then.
    pub(super) node: NodeName,
    /// The CPUs it gets there.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub(super) cpus: CpuSet,
    /// The NUMA nodes it gets there.
    pub(super) numa_nodes: NodeSet,
    /// Who moves.
    pub(super) moves: Vec<Moved>,
}

/// A pod that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Moved {
    /// The pod.
    pub(super) pod: String,
    /// Where it is now.
    pub(super) from: NodeName,
    /// Where it would go; `None` if nothing takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<NodeName>,
    /// The CPUs it gets there.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    pub(super) cpus: CpuSet,
    /// The NUMA nodes it gets there.
    pub(super) numa_nodes: NodeSet,
}

/// A pod and where it sits.
type Seated<'a> = (&'a PodObject, PodLocation);

/// Tries sets of pods.
pub(super) struct Mover<'a> {
    state: &'a ClusterState,
    sources: BTreeMap<NodeName, NodeSources<'a>>,
    ask: PodRequest,
    terms: PodConstraints,
    uid: PodUid,
    trials: usize,
}

impl<'a> Mover<'a> {
    pub(super) fn new(state: &'a ClusterState, ask: &PodRequest) -> Self {
        Self {
            state,
            sources: state.sources(),
            terms: state.terms(ask.uid()),
            uid: ask.uid().clone(),
            ask: ask.clone(),
            trials: MOST_TRIALS,
        }
    }

    /// Whether there were more sets to try than anybody wants to wait for.
    pub(super) fn gave_up(&self) -> bool {
        self.trials == 0
    }

    /// The smallest sets that help, cheapest first.
    pub(super) fn smallest(&mut self, cluster: &mut Cluster) -> Vec<Plan> {
        let barred = self.state.barred(&self.terms);
        let mut nodes = Vec::new();
        for answer in cluster.evaluate_all(&self.ask) {
            if let (Some(rejection), false) = (
                answer.evaluation.rejection(),
                barred.contains_key(answer.node),
            ) {
                nodes.push((answer.node.clone(), rejection.clone()));
            }
        }
        for size in 1..=LARGEST {
            let mut plans: Vec<(i64, Plan)> = Vec::new();
            for (node, rejection) in &nodes {
                let movable = self.movable(node, rejection);
                let mut set = Vec::with_capacity(size);
                self.each(node, rejection, &movable, size, &mut set, &mut plans);
            }
            if !plans.is_empty() {
                plans.sort_by(|one, other| {
                    let key = |(cost, plan): &(i64, Plan)| (*cost, plan.node.clone());
                    key(one).cmp(&key(other))
                });
                return plans
                    .into_iter()
                    .map(|(_, plan)| plan)
                    .take(NAMED)
                    .collect();
            }
        }
        Vec::new()
    }

    /// The pods of a node whose leaving could matter and who may leave it.
    fn movable(&self, node: &NodeName, rejection: &NodeRejection) -> Vec<&'a PodObject> {
        let Some(found) = self.sources.get(node) else {
            return Vec::new();
        };
        let reading = &self.state.reading;
        let matters = |pod: &PodObject| match rejection {
            NodeRejection::Insufficient(short) => {
                let requests = effective_requests(&pod.pod);
                let counts = |name: &str| {
                    name == "pods" || requests.get(name).is_some_and(Quantity::is_positive)
                };
                short.iter().any(|one| counts(one.resource.as_str()))
            }
            _ => !matches!(found.location_of(pod, reading), PodLocation::Shared),
        };
        let may_leave = |pod: &PodObject| {
            let terms = self.state.terms(&pod.pod.uid);
            !terms.immovable && !terms.terminating
        };
        let pods = found.pods.iter().copied();
        pods.filter(|pod| may_leave(pod) && matters(pod)).collect()
    }

    /// Tries all sets of that size.
    fn each(
        &mut self,
        node: &NodeName,
        rejection: &NodeRejection,
        pods: &[&'a PodObject],
        size: usize,
        set: &mut Vec<&'a PodObject>,
        plans: &mut Vec<(i64, Plan)>,
    ) {
        if set.len() == size {
            if covers(rejection, set) {
                plans.extend(self.helps(node, set));
            }
            return;
        }
        for (index, &pod) in pods.iter().enumerate() {
            if self.trials == 0 {
                return;
            }
            set.push(pod);
            self.each(node, rejection, &pods[index + 1..], size, set, plans);
            set.pop();
        }
    }

    /// The plan, if the set helps wherever its pods may sit; and what it costs: the CPUs that move.
    fn helps(&mut self, node: &NodeName, set: &[&'a PodObject]) -> Option<(i64, Plan)> {
        self.trials = self.trials.checked_sub(1)?;
        let reading = &self.state.reading;
        let found = self.sources.get(node)?;
        let mut plan = None;
        for seated in self.seatings(set) {
            let mut member = found.member_without_pods(&seated, reading).ok()?.value;
            if matches!(member.evaluate(&self.ask), Evaluation::Rejected(_)) {
                return None;
            }
            let played = self.play(&[(node.clone(), member)], set, Some(node))?;
            if played.moves.iter().any(|moved| moved.to.is_none()) {
                return None;
            }
            plan = plan.or(Some(played));
        }
        let cpus = |pod: &&PodObject| {
            let requests = effective_requests(&pod.pod);
            requests.get("cpu").map_or(0, Quantity::milli_value)
        };
        Some((set.iter().map(cpus).sum(), plan?))
    }

    /// Every way in which the pods of a set may sit.
    fn seatings(&self, set: &[&'a PodObject]) -> Vec<Vec<Seated<'a>>> {
        let reading = &self.state.reading;
        let mut all: Vec<Vec<Seated<'a>>> = vec![Vec::new()];
        for &pod in set {
            let found = pod.node_name.as_deref();
            let found = found.and_then(|node| self.sources.get(&NodeName::from(node)));
            let seats = match found.map(|found| found.location_of(pod, reading)) {
                None => vec![PodLocation::Unknown],
                Some(PodLocation::OneOf(nodes)) => nodes.iter().map(alone).collect(),
                Some(known) => vec![known],
            };
            let mut longer = Vec::new();
            for seating in &all {
                for seat in &seats {
                    let mut seating = seating.clone();
                    seating.push((pod, seat.clone()));
                    longer.push(seating);
                }
            }
            longer.truncate(MOST_SEATINGS);
            all = longer;
        }
        all
    }

    /// Places the waiting pod on a copy with some nodes as they would be, then everybody who moved.
    fn play(
        &self,
        changed: &[(NodeName, ClusterNode)],
        set: &[&'a PodObject],
        on: Option<&NodeName>,
    ) -> Option<Plan> {
        let mut cluster = self.state.cluster.clone();
        for (node, member) in changed {
            cluster.insert(node.clone(), member.clone());
        }
        let (node, cpus, numa_nodes) = match on {
            Some(node) => {
                let placed = cluster.place_on(&self.ask, node).ok()?;
                (placed.node, placed.cpus, placed.numa)
            }
            None => self.settle(&mut cluster, &self.ask, &self.terms)?,
        };
        let mut moves = Vec::new();
        for &pod in set {
            let ask = self.state.ask(pod).ok()?;
            let terms = self.state.terms(&pod.pod.uid);
            let settled = self.settle(&mut cluster, &ask, &terms);
            let (to, cpus, numa_nodes) = match settled {
                Some((to, cpus, numa)) => (Some(to), cpus, numa),
                None => (None, CpuSet::new(), NodeSet::EMPTY),
            };
            moves.push(Moved {
                pod: pod.pod.name.clone(),
                from: pod.node_name.as_deref().unwrap_or_default().into(),
                to,
                cpus,
                numa_nodes,
            });
        }
        Some(Plan {
            node,
            cpus,
            numa_nodes,
            moves,
        })
    }

    /// Gives a pod the best place that its terms allow.
    fn settle(
        &self,
        cluster: &mut Cluster,
        ask: &PodRequest,
        terms: &PodConstraints,
    ) -> Option<(NodeName, CpuSet, NodeSet)> {
        let barred = self.state.barred(terms);
        let ranked = cluster.rank(ask).into_iter();
        let mut allowed = ranked.filter(|ranked| !barred.contains_key(ranked.node));
        let node = allowed.next()?.node.clone();
        let placed = cluster.place_on(ask, &node).ok()?;
        Some((placed.node, placed.cpus, placed.numa))
    }

    /// What if exactly these pods moved: every way in which they may sit, with what comes of it.
    pub(super) fn if_moved(&self, set: &[&'a PodObject]) -> Vec<(Vec<Seated<'a>>, Option<Plan>)> {
        let reading = &self.state.reading;
        let mut outcomes = Vec::new();
        for seated in self.seatings(set) {
            let mut by_node = BTreeMap::<NodeName, Vec<Seated<'a>>>::new();
            for (pod, seat) in &seated {
                if let Some(node) = &pod.node_name {
                    let left = by_node.entry(node.as_str().into()).or_default();
                    left.push((pod, seat.clone()));
                }
            }
            let member = |(node, left): (NodeName, Vec<Seated<'a>>)| {
                let found = self.sources.get(&node)?;
                Some((node, found.member_without_pods(&left, reading).ok()?.value))
            };
            let changed: Option<Vec<_>> = by_node.into_iter().map(member).collect();
            let plan = changed.and_then(|changed| self.play(&changed, set, None));
            outcomes.push((seated, plan));
        }
        outcomes
    }

    /// The pod that everything is about.
    pub(super) fn is_itself(&self, pod: &PodObject) -> bool {
        pod.pod.uid == self.uid
    }
}

/// On exactly this NUMA node.
fn alone(node: NodeId) -> PodLocation {
    PodLocation::Known {
        cpus: CpuSet::new(),
        numa: NodeSet::single(node),
        by: LocationSource::Counts,
    }
}

/// Whether the set's requests fill what the node as a whole lacks: no need to look closer otherwise.
fn covers(rejection: &NodeRejection, set: &[&PodObject]) -> bool {
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
