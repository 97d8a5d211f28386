//! kube-scheduler's filters, and the message of a pod that no node passes.

use std::collections::BTreeMap;

use pinfold_cluster::Shortage;

use super::{AdmissionNode, AdmissionRequest, shortages};
use crate::scheduling_constraints::NodeMismatch;

/// Why kube-scheduler does not bind a pod to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unschedulable {
    /// The pod has scheduling gates: no node is considered.
    Gated(Vec<String>),
    /// A constraint excludes the node.
    Mismatch(NodeMismatch),
    /// The node has too little of these resources left. At least one.
    Insufficient(Vec<Shortage>),
}

impl Unschedulable {
    /// The reasons as kube-scheduler counts them.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        match self {
            Unschedulable::Gated(gates) => {
                vec![format!(
                    "waiting for scheduling gates: [{}]",
                    gates.join(" ")
                )]
            }
            Unschedulable::Mismatch(mismatch) => vec![mismatch.scheduler_text().to_owned()],
            Unschedulable::Insufficient(short) => short.iter().map(Shortage::to_string).collect(),
        }
    }

    /// What the reasons leave out: the amounts, the taint or the port; empty if they say it all.
    #[must_use]
    pub fn details(&self) -> String {
        match self {
            Unschedulable::Insufficient(short) => {
                let amounts = |short: &Shortage| format!("{}: {}", short.resource, short.amounts());
                let texts: Vec<String> = short.iter().map(amounts).collect();
                texts.join("; ")
            }
            Unschedulable::Mismatch(NodeMismatch::Taint(taint)) => format!("taint {taint}"),
            Unschedulable::Mismatch(NodeMismatch::HostPort(port)) => format!("port {port}"),
            Unschedulable::Gated(_) | Unschedulable::Mismatch(_) => String::new(),
        }
    }

    /// The message of a cluster with this node only: `0/1 nodes are available: 1 Insufficient cpu.`
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Unschedulable::Gated(_) => self.reasons().concat(),
            _ => unavailable([self.reasons()]),
        }
    }
}

/// kube-scheduler's message about a pod that no node passes, with the reasons of each node:
/// `0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.` Mirrors `FitError.Error`.
pub fn unavailable(nodes: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut number = 0_usize;
    let mut counts = BTreeMap::<String, usize>::new();
    for reasons in nodes {
        number += 1;
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let counts = counts.iter();
    let mut texts: Vec<String> = counts
        .map(|(text, count)| format!("{count} {text}"))
        .collect();
    texts.sort();
    match texts.is_empty() {
        true => format!("0/{number} nodes are available"),
        false => format!("0/{number} nodes are available: {}.", texts.join(", ")),
    }
}

impl AdmissionNode {
    /// The first constraint that excludes the node; `None` if only gates or resources can prevent that the pod is bound.
    #[must_use]
    pub fn mismatch(&self, pod: &AdmissionRequest) -> Option<NodeMismatch> {
        match &self.constraints {
            Some(node) => node.mismatch(&pod.constraints, &self.ports),
            None => {
                let port = self.ports.conflict(&pod.constraints.host_ports)?;
                Some(NodeMismatch::HostPort(port.clone()))
            }
        }
    }

    /// Whether kube-scheduler would bind the pod to this node, which it does not know the NUMA nodes of.
    ///
    /// # Errors
    /// With the reasons if it would not.
    pub fn filter(&self, pod: &AdmissionRequest) -> Result<(), Unschedulable> {
        let gates = &pod.constraints.scheduling_gates;
        if !gates.is_empty() {
            return Err(Unschedulable::Gated(gates.clone()));
        }
        if let Some(mismatch) = self.mismatch(pod) {
            return Err(Unschedulable::Mismatch(mismatch));
        }
        let requests = self.known_requests(pod);
        let short = shortages(&requests, &self.used, &self.allocatable);
        match short.is_empty() {
            true => Ok(()),
            false => Err(Unschedulable::Insufficient(short.into_vec())),
        }
    }
}
