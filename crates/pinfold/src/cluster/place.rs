//! Placing pods on a cluster: kube-scheduler's filters for pods that are not bound, the kubelet's predicates for pods
//! that are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pinfold_cluster::koordinator::KoordinatorDefects;
use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::{
    Cluster, Dialect, NodeRejection, PlaceError, Placement, PodRequest, RejectionSummary, Shortage,
};
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::Ledger;
use pinfold_core::name::{NodeName, PodUid, ResourceName};
use pinfold_core::pod::Pod;
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest, KubeletRejection, unavailable};
use pinfold_kube::decider::Decider;
use pinfold_kube::pod::PodObject;
use pinfold_kube::scheduling_constraints::{NodeMismatch, PodConstraints};

use super::SimulatedCluster;
use crate::admission::{NotSimulated, not_simulated};
use crate::exit::Failure;

/// Why a node rejects a pod.
#[derive(Clone, Debug)]
pub(crate) enum NodeReason {
    /// The pod has scheduling gates.
    Gated(Vec<String>),
    /// A filter of kube-scheduler excludes the node.
    Filter(NodeMismatch),
    /// Sums or NUMA rules reject the pod.
    Rules(NodeRejection),
    /// The kubelet's predicates reject a bound pod.
    Predicate(KubeletRejection),
}

/// Why a pod was not placed.
pub(crate) enum NotPlaced {
    /// It is on this node already.
    Already(NodeName),
    /// It has terminated.
    Ended,
    /// All nodes reject it.
    NoNode(Vec<(NodeName, NodeReason)>),
}

/// One line, with the amounts.
impl fmt::Display for NodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeReason::Gated(gates) => {
                write!(f, "waiting for scheduling gates: [{}]", gates.join(" "))
            }
            NodeReason::Filter(mismatch) => mismatch.fmt(f),
            NodeReason::Rules(rejection) => {
                rejection.fmt(f)?;
                match rejection {
                    NodeRejection::Kubelet(_, Some(summary)) => write!(f, " ({summary})"),
                    _ => Ok(()),
                }
            }
            NodeReason::Predicate(rejection) => {
                write!(f, "{}: {rejection}", rejection.reason())?;
                match rejection.preempts() {
                    true => f.write_str(
                        " (the pod is critical: the kubelet would preempt others, which is not simulated)",
                    ),
                    false => Ok(()),
                }
            }
        }
    }
}

impl NodeReason {
    /// The reasons as kube-scheduler counts them; `None` if the reason is not one of its default filters.
    fn counted(&self) -> Option<Vec<String>> {
        match self {
            NodeReason::Filter(mismatch) => Some(vec![mismatch.scheduler_text().to_owned()]),
            NodeReason::Rules(NodeRejection::Insufficient(short)) => {
                Some(short.iter().map(Shortage::to_string).collect())
            }
            _ => None,
        }
    }

    /// kube-scheduler's message, if its default filters exclude every node.
    pub(super) fn unavailable(rejections: &[(NodeName, NodeReason)]) -> Option<String> {
        let counted = rejections.iter().map(|(_, reason)| reason.counted());
        let counted: Vec<Vec<String>> = counted.collect::<Option<_>>()?;
        if let [
            (_, NodeReason::Filter(mismatch @ NodeMismatch::ConflictingNames)),
            ..,
        ] = rejections
        {
            let (nodes, text) = (rejections.len(), mismatch.scheduler_text());
            return Some(format!("0/{nodes} nodes are available: {text}."));
        }
        (!counted.is_empty()).then(|| unavailable(counted))
    }

    /// kube-scheduler's message with the largest amounts that are left, if its default filters exclude every node.
    pub(crate) fn pending(rejections: &[(NodeName, NodeReason)]) -> Option<String> {
        if let Some((_, NodeReason::Gated(_))) = rejections.first() {
            return Some(format!("Pending: {}", rejections[0].1));
        }
        let message = Self::unavailable(rejections)?;
        let mut most: BTreeMap<&ResourceName, Shortage> = BTreeMap::new();
        for (_, reason) in rejections {
            let NodeReason::Rules(NodeRejection::Insufficient(short)) = reason else {
                continue;
            };
            for short in short {
                let own = most.entry(&short.resource).or_insert_with(|| short.clone());
                own.free = own.free.max(short.free);
            }
        }
        let amounts = most.values();
        let amounts: Vec<String> = amounts
            .map(|short| match rejections.len() {
                1 => format!("{}: {}", short.resource, short.amounts()),
                _ => {
                    let amounts = short.amounts().replace(" asked, ", " asked, at most ");
                    format!("{}: {amounts}", short.resource)
                }
            })
            .collect();
        Some(match amounts.is_empty() {
            true => format!("Pending: {message}"),
            false => format!("Pending: {message} ({})", amounts.join("; ")),
        })
    }
}

impl SimulatedCluster {
    /// The nodes that a pod's constraints or its operating system exclude, with the reason: kube-scheduler's filters, or
    /// the kubelet's predicates if the pod is bound.
    pub(crate) fn excluded(&self, pod: &AdmissionRequest) -> BTreeMap<NodeName, NodeReason> {
        let gates = &pod.constraints.scheduling_gates;
        let other_pods = self.pods.prepare(pod, &self.sums);
        let other_os = pod.unsupported_os().filter(|_| self.asks_kubelets());
        let reason = |name: &NodeName| {
            let node = self.sums.get(name)?;
            if let Some(bound) = &pod.constraints.node_name {
                return match bound == name.as_str() {
                    true => node.violated_constraint(pod).map(NodeReason::Predicate),
                    false => Some(NodeReason::Filter(NodeMismatch::OtherNode)),
                };
            }
            if !gates.is_empty() {
                return Some(NodeReason::Gated(gates.clone()));
            }
            match other_pods.first_mismatch(node, pod) {
                Some(mismatch) => Some(NodeReason::Filter(mismatch)),
                // kube-scheduler binds the pod, and the kubelet rejects it.
                None if node.filter(pod).is_ok() => other_os.clone().map(NodeReason::Predicate),
                None => None,
            }
        };
        let names = self.cluster.nodes().map(|(name, _)| name);
        names
            .filter_map(|name| Some((name.clone(), reason(name)?)))
            .collect()
    }

    /// The cluster without the nodes that a pod's constraints exclude.
    pub(crate) fn without_excluded(&self, pod: &AdmissionRequest) -> Cluster {
        let mut cluster = self.cluster.clone();
        for node in self.excluded(pod).keys() {
            cluster.remove_node(node);
        }
        cluster
    }

    /// Why nodes reject the pod, ascending by name; `excluded` nodes for that reason.
    pub(crate) fn rejections(
        &mut self,
        ask: &PodRequest,
        mut excluded: BTreeMap<NodeName, NodeReason>,
    ) -> Vec<(NodeName, NodeReason)> {
        let mut rejections = Vec::new();
        for answer in self.cluster.evaluate_all(ask) {
            let reason = excluded.remove(answer.node).or_else(|| {
                let rejection = answer.evaluation.rejection()?;
                Some(NodeReason::Rules(rejection.clone()))
            });
            rejections.extend(reason.map(|reason| (answer.node.clone(), reason)));
        }
        rejections
    }

    /// Places a pod on its node, or on the best node that its constraints allow. Returns also the extended resources
    /// that the kubelet of a bound pod ignores.
    pub(crate) fn place(
        &mut self,
        object: &PodObject,
        pod: &AdmissionRequest,
        ask: &PodRequest,
    ) -> Result<(Placement, Vec<ResourceName>), NotPlaced> {
        if pod.constraints.finished {
            return Err(NotPlaced::Ended);
        }
        if let Some(node) = self.cluster.node_of_pod(ask.uid()) {
            return Err(NotPlaced::Already(node.clone()));
        }
        if let Some(node) = &object.node_name {
            return self.place_bound(pod, ask, &node.as_str().into());
        }
        let excluded = self.excluded(pod);
        let ranked = self.cluster.rank(ask).into_iter();
        let ranked: Vec<NodeName> = ranked
            .map(|ranked| ranked.node.clone())
            .filter(|node| !excluded.contains_key(node))
            .collect();
        let mut late = Vec::new();
        let decider = self.reading.decider;
        let ends_on_errors =
            decider == Decider::Koordinator && decider.fidelity().ends_the_cycle_on_errors();
        if ends_on_errors && let Some(error) = self.score_error(&ranked, ask) {
            let mut rejections = self.rejections(ask, excluded);
            rejections.push(error);
            rejections.sort_by(|(one, _), (other, _)| one.cmp(other));
            return Err(NotPlaced::NoNode(rejections));
        }
        let tried = if ends_on_errors { 1 } else { ranked.len() };
        for node in ranked.into_iter().take(tried) {
            match self.cluster.place_on(ask, &node) {
                Ok(placement) => {
                    self.count(&placement.node, ask.uid(), pod);
                    return Ok((placement, Vec::new()));
                }
                Err(error) => late.extend(reasons(error)),
            }
        }
        let mut rejections = self.rejections(ask, excluded);
        rejections.extend(late);
        rejections.sort_by(|(one, _), (other, _)| one.cmp(other));
        Err(NotPlaced::NoNode(rejections))
    }

    /// The first node whose score fails for a pod. A scheduler scores nodes only if several are left.
    fn score_error(&self, ranked: &[NodeName], ask: &PodRequest) -> Option<(NodeName, NodeReason)> {
        let scored = ranked.iter().filter(|_| ranked.len() > 1);
        let mut errors = scored.filter_map(|node| {
            let error = self.cluster.node(node)?.score_error(ask)?;
            Some((node.clone(), NodeReason::Rules(error)))
        });
        errors.next()
    }

    /// Whether kubelets admit pods. Under a scheduler's name its plugin decides about all pods, bound or not.
    fn asks_kubelets(&self) -> bool {
        let decider = self.reading.decider;
        decider.is_kubelet() || decider == Decider::Pinfold
    }

    /// Places a pod that names its node: no scheduler is asked.
    fn place_bound(
        &mut self,
        pod: &AdmissionRequest,
        ask: &PodRequest,
        node: &NodeName,
    ) -> Result<(Placement, Vec<ResourceName>), NotPlaced> {
        let reject = |reason: NodeReason| NotPlaced::NoNode(vec![(node.clone(), reason)]);
        let Some(member) = self.cluster.node(node) else {
            return Err(reject(NodeReason::Rules(NodeRejection::UnknownNode)));
        };
        let ledger = match member.dialect() {
            Dialect::Kubelet(ledger) => Some(ledger.clone()),
            _ => None,
        };
        let (mut ask, mut ignored) = (ask.clone(), Vec::new());
        if let Some(sums) = self.sums.get(node).filter(|_| self.asks_kubelets()) {
            ignored = sums.unlisted(pod);
            ask = without(&ask, &ignored);
            let checked = kubelet_admission(ledger, sums, pod, &ask);
            checked.map_err(reject)?;
        }
        let placed = self.cluster.place_on(&ask, node);
        let placement = placed.map_err(|error| NotPlaced::NoNode(reasons(error)))?;
        self.count(node, ask.uid(), pod);
        Ok((placement, ignored))
    }

    /// Removes a pod. Returns the node it was on.
    pub(crate) fn remove(&mut self, pod: &PodUid) -> Option<NodeName> {
        let node = self.cluster.remove(pod)?;
        if let Some(sums) = self.sums.get_mut(&node) {
            sums.remove(pod);
        }
        self.pods.remove(pod);
        Some(node)
    }

    fn count(&mut self, node: &NodeName, uid: &PodUid, pod: &AdmissionRequest) {
        if let Some(sums) = self.sums.get_mut(node) {
            sums.add(uid, pod);
        }
        self.pods.add(node, uid, pod);
    }

    /// Binds the pods that name no node to the only node of the cluster.
    pub(crate) fn bind_all(&self, pods: &mut [PodObject]) -> Result<(), Failure> {
        let mut names = self
            .cluster
            .nodes()
            .map(|(name, _)| name.as_str().to_owned());
        let only = names.next().filter(|_| names.next().is_none());
        for pod in pods.iter_mut().filter(|pod| pod.node_name.is_none()) {
            let Some(node) = &only else {
                return Err(Failure::BadInput(format!(
                    "--bound: pod {} names no node, and there are several: set its spec.nodeName",
                    pod.pod.name
                )));
            };
            pod.node_name = Some(node.clone());
            pod.constraints = Arc::new(PodConstraints {
                node_name: Some(node.clone()),
                ..PodConstraints::clone(&pod.constraints)
            });
        }
        Ok(())
    }

    /// What is not simulated about some pods.
    pub(crate) fn not_simulated(&self, pods: &[PodObject]) -> Vec<NotSimulated> {
        let requests: Vec<AdmissionRequest> = pods.iter().map(AdmissionRequest::of).collect();
        // Least is known of a node without a Node object.
        let mut nodes = self.sums.values();
        let without_object = nodes.clone().find(|node| !node.has_object());
        let Some(node) = without_object.or_else(|| nodes.next()) else {
            return Vec::new();
        };
        let names = pods.iter().map(|pod| pod.pod.name.as_str());
        let mut found = not_simulated(node, names.zip(&requests));
        if !self.pods.knows_namespaces() {
            let terms = |pod: &&PodObject| pod.constraints.pod_terms.reads_namespace_labels();
            let named = pods.iter().filter(terms).map(|pod| pod.pod.name.clone());
            found.extend(NotSimulated::of_namespaces(named.collect()));
        }
        found
    }
}

/// A kubelet's admission of a bound pod: its managers first, if the node's topology is known, then its predicates.
fn kubelet_admission(
    ledger: Option<Box<Ledger>>,
    sums: &AdmissionNode,
    pod: &AdmissionRequest,
    ask: &PodRequest,
) -> Result<(), NodeReason> {
    let mut allocated = Amounts::new();
    if let Some(mut ledger) = ledger
        && let Ok(admission) = ledger.admit(ask.pod(), &mut NoPreference)
    {
        let decision = admission.decision;
        if let Some(rejection) = decision.rejection() {
            let summary = RejectionSummary::of(&decision).map(Box::new);
            let rejection = NodeRejection::Kubelet(rejection.clone(), summary);
            return Err(NodeReason::Rules(rejection));
        }
        allocated = crate::admission::allocated(&ledger, &decision);
    }
    let checked = sums.predicates(pod, &allocated);
    checked.map_err(NodeReason::Predicate)
}

/// The reasons of a failed placement.
fn reasons(error: PlaceError) -> Vec<(NodeName, NodeReason)> {
    match error {
        PlaceError::NoNode { rejections, .. } => rejections
            .into_iter()
            .map(|(node, rejection)| (node, NodeReason::Rules(rejection)))
            .collect(),
        PlaceError::AlreadyPlaced { .. } => Vec::new(),
    }
}

/// The request without some resources.
fn without(ask: &PodRequest, resources: &[ResourceName]) -> PodRequest {
    if resources.is_empty() {
        return ask.clone();
    }
    let names: BTreeSet<&ResourceName> = resources.iter().collect();
    let mut pod = Pod::clone(ask.pod());
    for container in pod.init_containers.iter_mut().chain(&mut pod.containers) {
        container.requests.retain(|name, _| !names.contains(name));
        container.limits.retain(|name, _| !names.contains(name));
    }
    PodRequest::new(Arc::new(pod)).with_overhead(ask.overhead().clone())
}
