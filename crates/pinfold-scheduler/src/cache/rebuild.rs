//! Builds the [`ClusterNode`] of a node from its Node object, its reports and its pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::ledger::Allocation;
use pinfold_cluster::volcano::numa_amounts::NumaAmounts;
use pinfold_cluster::{Cluster, ClusterNode, Evaluation, NodeRejection, PODS};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{NodeName, PodUid};

use super::dialect::ReportedDialect;
use super::node::{NodeEntry, NodeInfo, TopologyReport};
use super::pending_headroom::Headroom;
use super::pod_info::PodInfo;
use super::{Cache, PodEntry, ProblemKind, has_assignment};
use crate::config::Fallback;

/// A node without the pods that its report does not count.
struct BuiltNode {
    node: ClusterNode,
    /// The pods that the report does not count, in the order of their binding.
    unreported: Vec<PodUid>,
    /// The headroom of a kubelet's node, if its report lists pods.
    headroom: Option<Headroom>,
}

impl Cache {
    /// Applies many changes and rebuilds each node that they affect once.
    pub(super) fn rebuild_once(&mut self, now: Instant, apply: impl FnOnce(&mut Self)) {
        self.deferred = Some(BTreeSet::new());
        apply(self);
        for name in self.deferred.take().unwrap_or_default() {
            self.rebuild(&name, now);
        }
    }

    /// Builds a node again, after anything about it changed.
    pub(super) fn rebuild(&mut self, name: &NodeName, now: Instant) {
        self.changed.insert(name.clone());
        if let Some(deferred) = &mut self.deferred {
            deferred.insert(name.clone());
            return;
        }
        let record = self.nodes.get(name);
        let known = record.and_then(|record| Some((record, record.node.as_ref()?)));
        let Some((record, node)) = known else {
            if self.cluster.remove_node(name).is_some() {
                self.names = None;
            }
            self.set_dialect(name, ReportedDialect::Unknown);
            return;
        };
        let dialect = ReportedDialect::of(record);
        let none = BTreeSet::new();
        let builder = NodeBuilder {
            cache: self,
            record,
            node,
            without: &none,
            now,
        };
        let (dialect, built) = match builder.build(dialect) {
            Ok(built) => (dialect, built),
            Err(problem) => {
                let (used, _) = builder.used(|_| true);
                let built = BuiltNode {
                    node: ClusterNode::unknown(node.allocatable.clone()).with_used(used),
                    unreported: Vec::new(),
                    headroom: None,
                };
                self.report_problem(ProblemKind::InvalidReport, name.as_str(), problem);
                (ReportedDialect::Invalid, built)
            }
        };
        if self.cluster.insert(name.clone(), built.node).is_none() {
            self.names = None;
        }
        if let Some(record) = self.nodes.get_mut(name) {
            record.headroom = built.headroom;
        }
        let mut misplaced = Vec::new();
        for uid in built.unreported {
            if !self.place_unreported_pod(&uid, name) {
                misplaced.push(uid);
            }
        }
        self.set_dialect(name, dialect);
        if let Some(record) = self.nodes.get_mut(name) {
            record.misplaced = misplaced;
        }
        self.update_staleness(name, now);
    }

    /// Places a pod that the report of its node does not count. Returns whether it fits.
    pub(super) fn place_unreported_pod(&mut self, uid: &PodUid, node: &NodeName) -> bool {
        let Some(record) = self.pods.get_mut(uid) else {
            return true;
        };
        let placed = self.cluster.place_on(&record.info.request, node);
        record.has_assignment = placed.as_ref().map_or(true, has_assignment);
        if record.has_assignment {
            let info = record.info.clone();
            self.take_headroom(&info, node);
        }
        placed.is_ok()
    }

    /// Evaluates a pod on a node without some of the node's pods, and with others that it does not have yet.
    pub(crate) fn evaluate_changed(
        &self,
        info: &PodInfo,
        name: &NodeName,
        added: &[Arc<PodInfo>],
        without: &BTreeSet<PodUid>,
        now: Instant,
    ) -> Evaluation {
        const UNKNOWN: Evaluation = Evaluation::Rejected(NodeRejection::UnknownNode);
        let Some(record) = self.nodes.get(name) else {
            return UNKNOWN;
        };
        let Some(node) = &record.node else {
            return UNKNOWN;
        };
        let builder = NodeBuilder {
            cache: self,
            record,
            node,
            without,
            now,
        };
        let Ok(built) = builder.build(record.dialect) else {
            return UNKNOWN;
        };
        let mut trial = Cluster::new();
        trial.insert(name.clone(), built.node);
        for uid in built.unreported {
            if let Some(pod) = self.pods.get(&uid) {
                // A pod that the node should have rejected does not count against the new one.
                let _ = trial.place_on(&pod.info.request, name);
            }
        }
        let is_there = |info: &PodInfo| {
            let pod = self.pods.get(info.uid());
            pod.is_some_and(|pod| pod.node.as_ref() == Some(name))
        };
        for other in added.iter().filter(|other| !is_there(other)) {
            let _ = trial.place_on(&other.request, name);
        }
        trial.evaluate(&info.request, name)
    }
}

/// Builds a node, without some of its pods.
struct NodeBuilder<'a> {
    cache: &'a Cache,
    record: &'a NodeEntry,
    node: &'a NodeInfo,
    /// The pods to leave out.
    without: &'a BTreeSet<PodUid>,
    now: Instant,
}

impl NodeBuilder<'_> {
    fn build(&self, dialect: ReportedDialect) -> Result<BuiltNode, String> {
        let Self { record, node, .. } = self;
        let report = match &record.report {
            Some(report) => match &report.parsed {
                Ok(parsed) => Some((&**parsed, report.received)),
                Err(problem) => return Err(problem.clone()),
            },
            None => None,
        };
        match (dialect, report) {
            (ReportedDialect::Kubelet, Some((report, received))) => self.kubelet(report, received),
            (ReportedDialect::Koordinator, _) => self.koordinator(report.map(|(parsed, _)| parsed)),
            (ReportedDialect::Volcano, _) => self.volcano(report.map(|(parsed, _)| parsed)),
            (ReportedDialect::Kubelet | ReportedDialect::Unknown | ReportedDialect::Invalid, _) => {
                let (_, unreported) = self.used(|_| false);
                Ok(BuiltNode {
                    node: ClusterNode::unknown(node.allocatable.clone()),
                    unreported,
                    headroom: None,
                })
            }
        }
    }

    /// A node of the kubelet's dialect: a replica of the kubelet's state, from the report.
    fn kubelet(&self, report: &TopologyReport, received: Instant) -> Result<BuiltNode, String> {
        let (cache, node) = (self.cache, self.node);
        let version = node.kubelet.as_ref();
        let version = version
            .map_err(|error| format!("status.nodeInfo.kubeletVersion of the Node: {error}"))?;
        let known = cache.fingerprinted(self.record, report);
        let counted =
            |pod: &PodEntry| cache.is_counted(pod, report, known.as_ref(), received, self.now);
        let (used, unreported) = self.used(counted);
        let is_deleted = |uid: &PodUid| {
            self.without.contains(uid) || cache.is_deleted_since(uid, self.record, received)
        };
        let replica = report
            .kubelet
            .replica(
                &node.allocatable,
                &used,
                is_deleted,
                *version,
                &mut cache.rules_cache.borrow_mut(),
            )
            .map_err(|error| format!("the report does not describe a kubelet: {error}"))?;
        let ledger = replica.ledger().clone();
        let mut built = ClusterNode::kubelet(ledger, node.allocatable.clone()).with_used(used);
        if cache.policy.nodes.incomplete_report == Fallback::Reject {
            built = built.with_gaps(replica.gaps().clone());
        }
        let lists_pods = report.kubelet.state().is_some();
        Ok(BuiltNode {
            node: built,
            unreported,
            headroom: match lists_pods {
                true => Headroom::of(replica.ledger()),
                false => None,
            },
        })
    }

    /// A node of Koordinator's dialect: allocations are in the annotations of its pods.
    fn koordinator(&self, report: Option<&TopologyReport>) -> Result<BuiltNode, String> {
        let cache = self.cache;
        let mut node = self.node.koordinator.clone();
        if let Some(report) = report {
            node.report = Some(report.koordinator.clone()?);
        }
        // CPUs that the agent assigned itself are not in an annotation, but in the report.
        let listed = |uid: &PodUid| {
            let state = report?.kubelet.state()?;
            let own = state.pods.iter().find(|pod| pod.uid == *uid)?;
            (!own.cpus.is_empty()).then(|| Allocation {
                cpus: own.cpus.clone(),
                ..Allocation::default()
            })
        };
        let mut unreported = Vec::new();
        let mut used = Amounts::new();
        let mut pods = 0;
        for (uid, pod) in self.pods() {
            let allocation = pod
                .info
                .koordinator_allocation
                .clone()
                .or_else(|| listed(uid));
            // Reserved, and its annotation is not written yet.
            if allocation.is_none() && cache.reservations.contains_key(uid) {
                unreported.push(uid.clone());
                continue;
            }
            let requests = &pod.info.request.koordinator().requests;
            node.assume(uid.clone(), requests, allocation);
            used.add(&pod.info.requests);
            pods += 1;
        }
        used.set(&PODS.into(), pods);
        Ok(BuiltNode {
            node: ClusterNode::koordinator(node, cache.dialect_args.koordinator.clone())
                .with_used(used),
            unreported,
            headroom: None,
        })
    }

    /// A node of Volcano's dialect: CPUs from its Numatopology, amounts per NUMA node from its NodeResourceTopology.
    fn volcano(&self, report: Option<&TopologyReport>) -> Result<BuiltNode, String> {
        let Self { record, node, .. } = self;
        let numa = match record.numa.as_ref().map(|numa| &numa.parsed) {
            Some(Ok(numa)) => Some((**numa).clone()),
            Some(Err(problem)) => return Err(problem.clone()),
            None => None,
        };
        let amounts = report.map(|report| NumaAmounts::of(report.kubelet.topology()));
        let received = record.numa.as_ref().map(|numa| numa.received);
        // A Numatopology lists no pods: it counts those that started before it arrived.
        let counted = |pod: &PodEntry| {
            let times = pod.started.zip(received);
            times.is_some_and(|(started, received)| received > started)
        };
        let (used, unreported) = self.used(counted);
        let built = ClusterNode::volcano(
            numa,
            amounts.unwrap_or_default(),
            node.allocatable.clone(),
            Fidelity::Sound,
        );
        Ok(BuiltNode {
            node: built.with_used(used),
            unreported,
            headroom: None,
        })
    }

    /// The pods of the node without those to leave out, in the order of their binding.
    fn pods(&self) -> impl Iterator<Item = (&PodUid, &PodEntry)> {
        let pods = self.record.pods.values();
        let pods = pods.filter(|uid| !self.without.contains(*uid));
        pods.filter_map(|uid| Some((uid, self.cache.pods.get(uid)?)))
    }

    /// The sum of the requests of the counted pods, and the other pods in the order of their binding.
    fn used(&self, is_counted: impl Fn(&PodEntry) -> bool) -> (Amounts, Vec<PodUid>) {
        let mut used = Amounts::new();
        let mut unreported = Vec::new();
        let mut pods = 0;
        for (uid, pod) in self.pods() {
            match is_counted(pod) {
                true => {
                    used.add(&pod.info.requests);
                    pods += 1;
                }
                false => unreported.push(uid.clone()),
            }
        }
        used.set(&PODS.into(), pods);
        (used, unreported)
    }
}
