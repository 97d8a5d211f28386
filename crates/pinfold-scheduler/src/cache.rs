//! [`Cache`]: every node with everything on it, as far as the API server tells, and what was promised since.
//!
//! ```text
//! Nodes, reports ──► NodeRecord ──┐
//! Pods ──► Asked, where, phase ───┼──► rebuild ──► ClusterNode of the Cluster ──► asked by the extender
//! reservations ───────────────────┘
//! ```
//!
//! A node is rebuilt when something is heard about it: its report, without pods that left since, and on top of it, in
//! the order of their binding, the pods that the report does not count yet. A pod that is bound is put on top at once,
//! before the API server is told ([`Cache::reserve`]); it stays there until the report counts it.
//!
//! Times are taken from the monotonic clock of this machine only: no clock of another machine is compared with it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pinfold_apiserver::Warning;
use pinfold_core::cluster::{Cluster, Placement, PlacementDetail};
use pinfold_core::koordinator::plugin::KoordinatorArgs;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::node_topology::replica::RulesCache;

pub(crate) mod firm;
mod freshness;
pub mod kind;
pub mod node;
pub mod pod;
mod rebuild;
mod reservations;
mod sinks;
mod tell;

pub use kind::Kind;
pub use reservations::{NotReserved, Reservation, Reserved};
pub use sinks::{Follow, sources};

use crate::config::{Doubts, Reports};
use node::NodeRecord;
use pod::{Asked, Phase};

/// What is done in doubt, and how long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// In doubt.
    pub nodes: Doubts,
    /// How long.
    pub reports: Reports,
}

/// A pod that was heard of.
#[derive(Clone, Debug)]
pub struct PodRecord {
    /// What it asks for.
    pub asked: Arc<Asked>,
    /// Where it is: bound, or about to be.
    pub node: Option<NodeName>,
    /// Its number among the bindings.
    pub order: u64,
    /// Where it is in its life.
    pub phase: Phase,
    /// When it was first seen started.
    pub started: Option<Instant>,
    /// Whether it holds anything for itself, as far as we decided.
    pub holds: bool,
}

/// Which kinds of objects were listed once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Nodes.
    pub nodes: bool,
    /// Pods.
    pub pods: bool,
    /// NodeResourceTopologies.
    pub reports: bool,
    /// Numatopologies.
    pub numas: bool,
}

impl Listed {
    /// What was not listed yet.
    #[must_use]
    pub fn missing(self) -> Vec<&'static str> {
        let all = [
            (self.nodes, "nodes"),
            (self.pods, "pods"),
            (self.reports, "noderesourcetopologies"),
            (self.numas, "numatopologies"),
        ];
        let missing = all.into_iter().filter(|(listed, _)| !listed);
        missing.map(|(_, name)| name).collect()
    }
}

/// Every node with everything on it.
#[derive(Debug)]
pub struct Cache {
    pub(crate) cluster: Cluster,
    pub(crate) nodes: HashMap<NodeName, NodeRecord>,
    pub(crate) pods: HashMap<PodUid, PodRecord>,
    reservations: HashMap<PodUid, Reservation>,
    /// Pods that are known to be gone, and when that was heard.
    gone: HashMap<PodUid, Instant>,
    /// When the latest list of all pods was asked for.
    pods_listed: Option<Instant>,
    /// When something was last heard of pods.
    pods_heard: Option<Instant>,
    listed: Listed,
    order: u64,
    /// How many nodes are under Koordinator.
    koordinators: usize,
    args: Arc<KoordinatorArgs>,
    /// What kubelets of one kind have in common.
    shelf: RefCell<RulesCache>,
    pub(crate) policy: Policy,
    /// Nodes that changed since somebody last asked which.
    changed: std::collections::BTreeSet<NodeName>,
    /// Problems that were not told yet.
    problems: Vec<Problem>,
    /// What pods should be warned of.
    warnings: Vec<Warning>,
}

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// A fixed text, to be counted and searched for.
    pub event: &'static str,
    /// What it is about.
    pub what: String,
    /// What is wrong.
    pub problem: String,
}

/// So many problems are kept until they are told.
const MOST_PROBLEMS: usize = 256;

impl Cache {
    /// Nothing was heard yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            cluster: Cluster::new(),
            nodes: HashMap::new(),
            pods: HashMap::new(),
            reservations: HashMap::new(),
            gone: HashMap::new(),
            pods_listed: None,
            pods_heard: None,
            listed: Listed::default(),
            order: 0,
            koordinators: 0,
            args: Arc::new(KoordinatorArgs::default()),
            shelf: RefCell::default(),
            policy,
            changed: std::collections::BTreeSet::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Which kinds of objects were listed once.
    #[must_use]
    pub fn listed(&self) -> Listed {
        self.listed
    }

    /// The nodes and what is known of them.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &NodeRecord)> {
        self.nodes
            .iter()
            .filter(|(_, record)| record.node.is_some())
    }

    /// Whether any node is under Koordinator.
    #[must_use]
    pub fn has_koordinator(&self) -> bool {
        self.koordinators > 0
    }

    /// When the latest list of all pods was asked for.
    #[must_use]
    pub fn pods_listed(&self) -> Option<Instant> {
        self.pods_listed
    }

    /// How many pods are bound or about to be, and how many wait.
    #[must_use]
    pub fn count_pods(&self) -> (usize, usize) {
        let bound = self.pods.values().filter(|pod| pod.node.is_some()).count();
        (bound, self.pods.len() - bound)
    }

    /// A pod that was heard of.
    #[must_use]
    pub fn pod(&self, uid: &PodUid) -> Option<&PodRecord> {
        self.pods.get(uid)
    }

    /// Whether a pod is known to be gone.
    #[must_use]
    pub fn has_left(&self, uid: &PodUid) -> bool {
        self.gone.contains_key(uid)
    }

    /// The cluster, to be asked.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// What is done in doubt from now on.
    pub fn set_policy(&mut self, policy: Policy, now: Instant) {
        if self.policy != policy {
            self.policy = policy;
            let names: Vec<NodeName> = self.nodes.keys().cloned().collect();
            for name in names {
                self.rebuild(&name, now);
            }
        }
    }

    /// Problems that came up since the last call.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Warnings about pods that came up since the last call.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Nodes that changed since the last call.
    pub fn take_changed(&mut self) -> Vec<NodeName> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// Reservations that the API server has not confirmed.
    pub fn reservations(&self) -> impl Iterator<Item = (&PodUid, &Reservation)> {
        self.reservations.iter()
    }

    fn tell(&mut self, event: &'static str, what: impl Into<String>, problem: impl Into<String>) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(Problem {
                event,
                what: what.into(),
                problem: problem.into(),
            });
        }
    }

    /// Notes the kind of a node.
    fn set_kind(&mut self, name: &NodeName, kind: Kind) {
        if let Some(record) = self.nodes.get_mut(name) {
            self.koordinators -= usize::from(record.kind == Kind::Koordinator);
            self.koordinators += usize::from(kind == Kind::Koordinator);
            record.kind = kind;
        }
    }

    fn next_order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }
}

/// Whether a pod holds anything for itself there.
fn holds(placement: &Placement) -> bool {
    let of_kubelet = || match &placement.detail {
        PlacementDetail::Kubelet(assignment) => assignment.containers.iter().any(|container| {
            container.cpus.is_some() || container.memory.is_some() || !container.devices.is_empty()
        }),
        _ => false,
    };
    !placement.cpus.is_empty() || of_kubelet()
}

#[cfg(test)]
mod tests;
