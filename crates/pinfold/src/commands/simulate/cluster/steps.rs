//! [`ClusterSimulation`]: steps taken on a cluster, with an event for each.

use std::collections::BTreeMap;

use pinfold_cluster::{ClusterNode, Dialect, Placement, PlacementDetail, PodRequest};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::NodeName;
use pinfold_core::node_set::NodeSet;
use pinfold_kube::admission::AdmissionRequest;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};
use pinfold_kube::pod::PodObject;
use pinfold_render::placement;
use serde::Serialize;

use crate::admission::ignored_text;
use crate::as_pinfold::PodOutcome;
use crate::cluster::rejections::{self, RejectionGroup};
use crate::cluster::{NotPlaced, RejectedStatus, SimulatedCluster};
use crate::exit::Failure;
use crate::simulation::{PodCounts, SimulationStep};

/// The result of one step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClusterStepEvent {
    pub(super) step: &'static str,
    pub(super) pod: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeName>,
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpus: CpuSet,
    #[serde(skip_serializing_if = "Option::is_none")]
    numa_nodes: Option<NodeSet>,
    /// The annotations that the scheduler writes on the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
    /// Why the nodes rejected the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) rejections: Vec<RejectionGroup>,
    /// The status of a rejected pod, if it is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<RejectedStatus>,
    /// The result in one sentence.
    pub(super) message: String,
}

/// A simulation of steps on a cluster. Every step has one event.
pub(super) struct ClusterSimulation<'a> {
    pods: &'a [PodObject],
    asks: Vec<PodRequest>,
    requests: Vec<AdmissionRequest>,
    pub(super) events: Vec<ClusterStepEvent>,
    pub(super) counts: PodCounts,
}

impl<'a> ClusterSimulation<'a> {
    /// A simulation with these pods, without steps.
    pub(super) fn new(nodes: &SimulatedCluster, pods: &'a [PodObject]) -> Result<Self, Failure> {
        let asks = pods.iter().map(|pod| nodes.ask(pod));
        Ok(Self {
            asks: asks.collect::<Result<_, _>>()?,
            requests: pods.iter().map(AdmissionRequest::of).collect(),
            pods,
            events: Vec::new(),
            counts: PodCounts::default(),
        })
    }

    /// Takes the steps of all rounds, at most this many.
    pub(super) fn take(
        mut self,
        nodes: &mut SimulatedCluster,
        steps: &[SimulationStep],
        rounds: u32,
        most: usize,
        mut advance: impl FnMut(),
    ) -> Result<Self, Failure> {
        for round in 1..=rounds {
            for &step in steps.iter().take(most - self.events.len()) {
                self.step(nodes, step, round)?;
                advance();
            }
        }
        Ok(self)
    }
}

impl ClusterSimulation<'_> {
    fn step(
        &mut self,
        nodes: &mut SimulatedCluster,
        step: SimulationStep,
        round: u32,
    ) -> Result<(), Failure> {
        match step {
            SimulationStep::Add(index) => self.add(nodes, index, round),
            SimulationStep::Remove(index) => self.remove(nodes, index, round),
            SimulationStep::Start(_)
            | SimulationStep::StartOne { .. }
            | SimulationStep::Offer(_)
            | SimulationStep::Restart => {
                return Err(Failure::BadInput(
                    "expected \"- add: POD\" or \"- remove: POD\": start and restart are steps of a single node"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }

    fn add(&mut self, nodes: &mut SimulatedCluster, index: usize, round: u32) {
        let (object, ask) = (&self.pods[index], self.ask(index, round));
        let name = ask.pod().name.clone();
        nodes.names.insert(ask.uid().clone(), name.clone());
        let request = &self.requests[index];
        let event = match nodes.place(object, request, &ask) {
            Ok((placement, ignored)) => {
                self.counts.admitted += 1;
                ClusterStepEvent {
                    step: "add",
                    pod: name,
                    message: match ignored.is_empty() {
                        true => placement_text(&placement),
                        false => placement_text(&placement) + &ignored_text(&ignored),
                    },
                    annotations: annotations(nodes, object, &placement),
                    cpus: placement.cpus,
                    numa_nodes: Some(placement.numa).filter(|nodes| !nodes.is_empty()),
                    node: Some(placement.node),
                    rejections: Vec::new(),
                    status: None,
                }
            }
            Err(NotPlaced::Already(node)) => ClusterStepEvent {
                message: format!("is on node {node} already"),
                ..ClusterStepEvent::about("add", name)
            },
            Err(NotPlaced::Ended) => ClusterStepEvent {
                message: "has ended: it holds nothing".to_owned(),
                ..ClusterStepEvent::about("add", name)
            },
            Err(NotPlaced::NoNode(rejections)) => {
                self.counts.rejected += 1;
                ClusterStepEvent {
                    message: rejections::text(&rejections),
                    status: RejectedStatus::of(&rejections),
                    rejections: rejections::grouped(&rejections),
                    ..ClusterStepEvent::about("add", name)
                }
            }
        };
        self.events.push(event);
    }

    fn remove(&mut self, nodes: &mut SimulatedCluster, index: usize, round: u32) {
        let ask = self.ask(index, round);
        let node = nodes.remove(ask.uid());
        self.events.push(ClusterStepEvent {
            message: match &node {
                Some(node) => format!("removed from node {node}"),
                None => "is not on any node".to_owned(),
            },
            node,
            ..ClusterStepEvent::about("remove", ask.pod().name.clone())
        });
    }

    /// The pod itself in the first round, a copy with another name and uid in later ones.
    fn ask(&self, index: usize, round: u32) -> PodRequest {
        match round {
            1 => self.asks[index].clone(),
            _ => self.asks[index].copy(round),
        }
    }
}

impl ClusterStepEvent {
    /// The pod and the decision about it; `None` if the step decides nothing.
    pub(super) fn outcome(&self) -> Option<(&str, PodOutcome)> {
        let outcome = match (&self.node, self.rejections.is_empty()) {
            (Some(_), _) if self.step == "add" => PodOutcome::Admitted(self.message.clone()),
            (None, false) => PodOutcome::Rejected,
            _ => return None,
        };
        Some((&self.pod, outcome))
    }

    /// An event without a decision.
    fn about(step: &'static str, pod: String) -> Self {
        Self {
            step,
            pod,
            node: None,
            cpus: CpuSet::new(),
            numa_nodes: None,
            annotations: BTreeMap::new(),
            rejections: Vec::new(),
            status: None,
            message: String::new(),
        }
    }
}

/// `node-1: node 0, CPUs 4-7`.
fn placement_text(placement: &Placement) -> String {
    let what = match &placement.detail {
        PlacementDetail::Kubelet(assignment) => placement::placement(assignment),
        PlacementDetail::SchedulerPlugins { score } => format!("score {score}"),
        _ => placement::of_sets(&placement.cpus, placement.numa),
    };
    format!("{}: {what}", placement.node)
}

/// The annotations that Koordinator's scheduler writes before it binds a pod.
fn annotations(
    nodes: &SimulatedCluster,
    pod: &PodObject,
    placement: &Placement,
) -> BTreeMap<&'static str, String> {
    let mut texts = BTreeMap::new();
    let PlacementDetail::Koordinator { status, spec } = &placement.detail else {
        return texts;
    };
    let report = match nodes
        .cluster
        .node(&placement.node)
        .map(ClusterNode::dialect)
    {
        Some(Dialect::Koordinator { node, .. }) => node.report.as_ref(),
        _ => None,
    };
    if let (Some(status), Some(report)) = (status, report) {
        let status = ResourceStatus::of(status, &report.topology, nodes.reading.fidelity());
        texts.insert(keys::RESOURCE_STATUS, status.to_json());
    }
    if let Some(spec) = spec {
        let text = koordinator::with_resource_spec(pod, spec);
        texts.insert(keys::RESOURCE_SPEC, text);
    }
    texts
}
