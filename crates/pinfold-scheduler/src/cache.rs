//! [`Cache`]: all nodes with their pods, from watch events and from reservations that no watch event shows yet.
//!
//! ```text
//! Node, NodeResourceTopology, Numatopology ──► NodeEntry ──┐
//! Pod ──► PodInfo, node, phase ─────────────────────────────┼──► rebuild ──► ClusterNode in the Cluster ◄── engine
//! reservations ─────────────────────────────────────────────┘
//! ```
//!
//! A *report* is the NodeResourceTopology or Numatopology object of a node. A watch event about a node rebuilds it: its
//! report without the pods that were deleted since, then the pods that the report does not count yet, in the order of
//! their binding. [`Cache::reserve`] adds a pod before its binding is sent to the API server; it stays until the report
//! counts it.
//!
//! Only this machine's monotonic clock is used: timestamps of other machines are never compared with it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;
use pinfold_apiserver::Warning;
use pinfold_cluster::node_topology::replica::RulesCache;
use pinfold_cluster::{Cluster, Placement, PlacementDetail};
use pinfold_core::name::{NodeName, PodUid};
use tokio::sync::watch;

pub mod dialect;
pub mod node;
pub(crate) mod pending_headroom;
pub mod pod_info;
mod problem;
mod rebuild;
mod reflector_stores;
mod reservations;
mod staleness;
mod watch_events;

pub use dialect::ReportedDialect;
pub use problem::{CacheProblem, ProblemKind};
pub use reflector_stores::{CacheStore, watch_targets};
pub use reservations::{Reservation, ReserveError, Reserved};

use crate::config::{NodeFallbacks, ReportTimeouts};
use crate::engine::dialect_args::DialectArgs;
use node::NodeEntry;
use pod_info::{PodInfo, PodPhase};

/// The part of the configuration that the cache uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    /// Whether nodes with missing, stale or incomplete reports pass.
    pub nodes: NodeFallbacks,
    /// When a report is stale, and how long a binding may stay unconfirmed.
    pub reports: ReportTimeouts,
}

/// A pod in the cache.
#[derive(Clone, Debug)]
pub struct PodEntry {
    /// The pod's requests and identity.
    pub info: Arc<PodInfo>,
    /// The node that the pod is bound to or reserved on.
    pub node: Option<NodeName>,
    /// The position among all bindings that the cache has seen; 0 for an unbound pod.
    pub bind_order: u64,
    /// The phase that its last watch event showed.
    pub phase: PodPhase,
    /// When the cache first saw the pod started.
    pub started: Option<Instant>,
    /// Whether the pod has CPUs, memory or devices assigned to itself, according to the cache's own placement.
    pub has_assignment: bool,
}

/// The resources that were listed at least once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedResources {
    /// Nodes.
    pub nodes: bool,
    /// Pods.
    pub pods: bool,
    /// NodeResourceTopologies.
    pub reports: bool,
    /// Numatopologies.
    pub numas: bool,
}

impl ListedResources {
    /// The names of the resources that were not listed yet.
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

/// The names of all nodes. A node is named by its index in messages to the plugin of kube-scheduler.
///
/// PreFilter reads all nodes. So that it looks up no names, their places are listed with them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NodeNames {
    /// A number that no other list of names of this cache has.
    pub generation: u64,
    /// The names, ascending.
    pub names: Vec<NodeName>,
    /// The place of each node in [`Cache::nodes`].
    pub(crate) entries: Vec<usize>,
    /// The slot of each node in [`Cache::cluster`].
    pub(crate) slots: Vec<Option<usize>>,
}

impl NodeNames {
    /// The index of a node.
    #[must_use]
    pub fn index(&self, node: &NodeName) -> Option<usize> {
        self.names.binary_search(node).ok()
    }
}

/// All nodes with their pods.
#[derive(Debug)]
pub struct Cache {
    pub(crate) cluster: Cluster,
    pub(crate) nodes: IndexMap<NodeName, NodeEntry>,
    pub(crate) pods: HashMap<PodUid, PodEntry>,
    /// The names of the nodes with a Node object; `None` after one was added or removed, or any node got another place.
    names: Option<Arc<NodeNames>>,
    names_generation: u64,
    reservations: HashMap<PodUid, Reservation>,
    /// Deleted and terminated pods, with the time of their watch event.
    deleted: HashMap<PodUid, Instant>,
    /// When the latest list of all pods was started.
    pods_listed_at: Option<Instant>,
    /// When the last pod watch event arrived.
    last_pod_event: Option<Instant>,
    /// The resource version up to which the cache has all changes of pods.
    pods_version: watch::Sender<u64>,
    listed: ListedResources,
    last_bind_order: u64,
    /// The number of nodes whose dialect is Koordinator.
    koordinator_nodes: usize,
    /// The arguments of other schedulers' plugins.
    pub(crate) dialect_args: DialectArgs,
    /// Kubelet rules that nodes with equal machines and settings share.
    rules_cache: RefCell<RulesCache>,
    pub(crate) policy: CachePolicy,
    /// Nodes that changed since the last [`Cache::take_changed`].
    changed: BTreeSet<NodeName>,
    /// Nodes to rebuild at the end of a list of pods; `None` if nodes are rebuilt at once.
    deferred: Option<BTreeSet<NodeName>>,
    /// Problems that were not logged yet.
    problems: Vec<CacheProblem>,
    /// Warnings about pods that were not sent yet.
    warnings: Vec<Warning>,
}

/// The most problems, and the most warnings, that are kept until they are taken.
const MAX_PROBLEMS: usize = 256;

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(policy: CachePolicy) -> Self {
        Self {
            cluster: Cluster::new(),
            nodes: IndexMap::new(),
            pods: HashMap::new(),
            names: None,
            names_generation: 0,
            reservations: HashMap::new(),
            deleted: HashMap::new(),
            pods_listed_at: None,
            last_pod_event: None,
            pods_version: watch::Sender::new(0),
            listed: ListedResources::default(),
            last_bind_order: 0,
            koordinator_nodes: 0,
            dialect_args: DialectArgs::default(),
            rules_cache: RefCell::default(),
            policy,
            changed: BTreeSet::new(),
            deferred: None,
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The resources that were listed at least once.
    #[must_use]
    pub fn listed(&self) -> ListedResources {
        self.listed
    }

    /// The nodes whose Node object is known.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodeName, &NodeEntry)> {
        self.nodes
            .iter()
            .filter(|(_, record)| record.node.is_some())
    }

    /// The names of all nodes whose Node object is known.
    pub fn node_names(&mut self) -> Arc<NodeNames> {
        if let Some(names) = &self.names {
            return names.clone();
        }
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter(|(_, (_, record))| record.node.is_some());
        let mut nodes: Vec<(&NodeName, usize)> = nodes.map(|(at, (name, _))| (name, at)).collect();
        nodes.sort_unstable();
        self.names_generation += 1;
        let names = Arc::new(NodeNames {
            generation: self.names_generation,
            entries: nodes.iter().map(|(_, at)| *at).collect(),
            slots: nodes
                .iter()
                .map(|(name, _)| self.cluster.slot_of(name))
                .collect(),
            names: nodes.into_iter().map(|(name, _)| name.clone()).collect(),
        });
        self.names = Some(names.clone());
        names
    }

    /// Whether the dialect of any node is Koordinator.
    #[must_use]
    pub fn has_koordinator_nodes(&self) -> bool {
        self.koordinator_nodes > 0
    }

    /// When the latest list of all pods was started.
    #[must_use]
    pub fn pods_listed_at(&self) -> Option<Instant> {
        self.pods_listed_at
    }

    /// The resource version up to which the cache has all changes of pods.
    #[must_use]
    pub fn pods_version(&self) -> u64 {
        *self.pods_version.borrow()
    }

    /// Receives the version returned by [`Cache::pods_version`] whenever it increases.
    #[must_use]
    pub(crate) fn watch_pods_version(&self) -> watch::Receiver<u64> {
        self.pods_version.subscribe()
    }

    /// Records that the cache has all changes of pods up to a resource version.
    pub fn record_pods_version(&mut self, version: u64) {
        self.pods_version.send_if_modified(|own| {
            let is_newer = version > *own;
            *own = version.max(*own);
            is_newer
        });
    }

    /// The numbers of pods with a node (bound or reserved) and without one.
    #[must_use]
    pub fn count_pods(&self) -> (usize, usize) {
        let bound = self.pods.values().filter(|pod| pod.node.is_some()).count();
        (bound, self.pods.len() - bound)
    }

    /// The pod with this uid.
    #[must_use]
    pub fn pod(&self, uid: &PodUid) -> Option<&PodEntry> {
        self.pods.get(uid)
    }

    /// Whether the pod was deleted or terminated.
    #[must_use]
    pub fn is_deleted(&self, uid: &PodUid) -> bool {
        self.deleted.contains_key(uid)
    }

    /// The cluster of all nodes.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Changes the policy, and rebuilds all nodes if it is different.
    pub fn set_policy(&mut self, policy: CachePolicy, now: Instant) {
        if self.policy != policy {
            self.policy = policy;
            let names: Vec<NodeName> = self.nodes.keys().cloned().collect();
            for name in names {
                self.rebuild(&name, now);
            }
        }
    }

    /// Changes the arguments of other schedulers' plugins, and rebuilds the nodes that they decide on.
    pub fn set_dialect_args(&mut self, args: DialectArgs, now: Instant) {
        if self.dialect_args == args {
            return;
        }
        self.dialect_args = args;
        self.cluster.clear_cache();
        let is_koordinator = |record: &NodeEntry| record.dialect == ReportedDialect::Koordinator;
        let nodes = self
            .nodes
            .iter()
            .filter(|(_, record)| is_koordinator(record));
        let names: Vec<NodeName> = nodes.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.rebuild(&name, now);
        }
    }

    /// Takes the problems that were reported since the last call.
    pub fn take_problems(&mut self) -> Vec<CacheProblem> {
        std::mem::take(&mut self.problems)
    }

    /// Takes the warnings about pods since the last call.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }

    /// Takes the nodes that changed since the last call.
    pub fn take_changed(&mut self) -> Vec<NodeName> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// Reservations whose binding no watch event has shown yet.
    pub fn reservations(&self) -> impl Iterator<Item = (&PodUid, &Reservation)> {
        self.reservations.iter()
    }

    /// Queues a problem for the log.
    fn report_problem(
        &mut self,
        kind: ProblemKind,
        object: impl Into<String>,
        message: impl Into<String>,
    ) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(CacheProblem {
                kind,
                object: object.into(),
                message: message.into(),
            });
        }
    }

    /// Sets the dialect of a node, and counts Koordinator's nodes.
    fn set_dialect(&mut self, name: &NodeName, dialect: ReportedDialect) {
        if let Some(record) = self.nodes.get_mut(name) {
            self.koordinator_nodes -= usize::from(record.dialect == ReportedDialect::Koordinator);
            self.koordinator_nodes += usize::from(dialect == ReportedDialect::Koordinator);
            record.dialect = dialect;
        }
    }

    fn next_bind_order(&mut self) -> u64 {
        self.last_bind_order += 1;
        self.last_bind_order
    }
}

/// Whether a placement assigns CPUs, memory or devices to the pod itself.
fn has_assignment(placement: &Placement) -> bool {
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
