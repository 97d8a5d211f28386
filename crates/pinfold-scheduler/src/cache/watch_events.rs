//! Applies lists and watch events of pods, nodes and reports to the cache.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use pinfold_apiserver::Warning;
use pinfold_cluster::volcano::predicate::NumaInfo;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::pod::PodIdentity;

use super::dialect::ReportedDialect;
use super::node::{InvalidObject, NodeEntry, NodeInfo, Observed, TopologyReport};
use super::pod_info::{ObservedPod, PodPhase};
use super::reservations::RemovalCause;
use super::{Cache, MAX_PROBLEMS, PodEntry, ProblemKind};

impl Cache {
    /// Records when the last pod watch event arrived.
    pub fn record_pod_event(&mut self, now: Instant) {
        self.last_pod_event = Some(now);
    }

    /// Reports an object that cannot be parsed. The object is ignored.
    pub fn report_invalid_object(&mut self, invalid: &InvalidObject) {
        let kind = match invalid.kind {
            "Pod" => ProblemKind::InvalidPod,
            "Node" => ProblemKind::InvalidNode,
            _ => ProblemKind::InvalidReport,
        };
        let (name, problem) = (invalid.name.clone(), invalid.problem.clone());
        self.report_problem(kind, name, problem);
    }

    /// Adds or updates a pod. A pod with the uid of another one, which an annotation of its user claims, is ignored.
    pub fn apply_pod(&mut self, pod: ObservedPod, now: Instant) {
        let uid = pod.info.uid().clone();
        if self.has_another_name(&uid, &pod.info.full_name()) {
            return;
        }
        if pod.phase == PodPhase::Terminated {
            self.delete_pod(&uid, now);
            return;
        }
        let Some(node) = pod.node else {
            return self.apply_unbound_pod(&uid, pod, now);
        };
        let started = (pod.phase == PodPhase::Started).then_some(now);
        let before = self.pods.get(&uid).and_then(|pod| pod.node.clone());
        let reservation = self.reservations.remove(&uid);
        if before.as_ref().is_some_and(|before| *before != node) {
            // Reserved on one node, and bound to another one by another scheduler.
            let order = self.pods.get(&uid).map(|pod| pod.bind_order);
            if let Some(before) = before.clone() {
                self.remove_from_node(&uid, &before, order, RemovalCause::NeverBound, now);
            }
        }
        if before.as_ref() == Some(&node)
            && let Some(record) = self.pods.get_mut(&uid)
        {
            let same_requests = record.info.has_same_requests(&pod.info) || reservation.is_some();
            let starts = started.is_some() && record.started.is_none();
            record.info = pod.info;
            record.phase = pod.phase;
            record.started = record.started.or(started);
            match (same_requests, starts) {
                (true, false) => {}
                (true, true) => self.update_staleness(&node, now),
                (false, _) => self.rebuild(&node, now),
            }
            return;
        }
        let order = self.next_bind_order();
        self.deleted.remove(&uid);
        self.pods.insert(
            uid.clone(),
            PodEntry {
                info: pod.info,
                node: Some(node.clone()),
                bind_order: order,
                phase: pod.phase,
                started,
                has_assignment: false,
            },
        );
        let record = self.nodes.entry(node.clone()).or_default();
        record.pods.insert(order, uid.clone());
        self.add_unreserved_pod(&uid, &node, now);
    }

    /// Adds a pod that was bound to this node without a reservation of ours.
    fn add_unreserved_pod(&mut self, uid: &PodUid, node: &NodeName, now: Instant) {
        let Some(record) = self.nodes.get(node) else {
            return;
        };
        let listed = record.lists(uid) == Some(true);
        // The pod's annotation or the node's report has its assignment: rebuild the node from that.
        if record.dialect == ReportedDialect::Koordinator
            || listed
            || self.deferred.is_some()
            || self.cluster.node(node).is_none()
        {
            return self.rebuild(node, now);
        }
        self.changed.insert(node.clone());
        if !self.place_unreported_pod(uid, node) {
            if let Some(record) = self.nodes.get_mut(node) {
                record.misplaced.push(uid.clone());
            }
            self.warn_misplaced(uid, node);
        }
        self.update_staleness(node, now);
    }

    /// Warns that another scheduler bound a pod to a node that will reject it.
    fn warn_misplaced(&mut self, uid: &PodUid, node: &NodeName) {
        let Some(pod) = self.pods.get(uid) else {
            return;
        };
        if pod.phase != PodPhase::Pending
            || !pod.info.needs_numa
            || self.warnings.len() >= MAX_PROBLEMS
        {
            return;
        }
        let info = pod.info.clone();
        let evaluation = self.cluster.evaluate(&info.request, node);
        let Some(rejection) = evaluation.rejection() else {
            return;
        };
        self.warnings.push(Warning {
            kind: "Pod",
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            uid: uid.to_string(),
            reason: "NodeWillReject".to_owned(),
            message: format!(
                "bound to node {node} by another scheduler, but the node will reject the pod: {}",
                crate::engine::reason::of(rejection)
            ),
        });
    }

    /// Adds or updates a pod without a node. A reservation stays: it is newer than the watch event.
    fn apply_unbound_pod(&mut self, uid: &PodUid, pod: ObservedPod, now: Instant) {
        if let Some(record) = self.pods.get_mut(uid) {
            record.info = pod.info;
            if record.node.is_some() && !self.reservations.contains_key(uid) {
                // The API server never removes a binding. If it did, the pod would hold nothing.
                let (node, order) = (record.node.take(), record.bind_order);
                if let Some(node) = node {
                    self.remove_from_node(uid, &node, Some(order), RemovalCause::NeverBound, now);
                }
            }
            return;
        }
        let record = PodEntry {
            info: pod.info,
            node: None,
            bind_order: 0,
            phase: pod.phase,
            started: None,
            has_assignment: false,
        };
        self.pods.insert(uid.clone(), record);
    }

    /// Whether the cache has a pod with this uid and another name.
    fn has_another_name(&self, uid: &PodUid, name: &str) -> bool {
        let cached = self.pods.get(uid);
        cached.is_some_and(|cached| cached.info.full_name() != name)
    }

    /// Removes a pod that was deleted, unless the pod in the cache with its uid has another name.
    pub fn delete_identified_pod(&mut self, pod: &PodIdentity, now: Instant) {
        if !self.has_another_name(&pod.uid, &pod.name) {
            self.delete_pod(&pod.uid, now);
        }
    }

    /// Removes a pod that was deleted or whose containers have terminated for good.
    pub fn delete_pod(&mut self, uid: &PodUid, now: Instant) {
        self.reservations.remove(uid);
        self.deleted.insert(uid.clone(), now);
        let Some(record) = self.pods.remove(uid) else {
            return;
        };
        if let Some(node) = record.node {
            let order = Some(record.bind_order);
            self.remove_from_node(uid, &node, order, RemovalCause::Deleted, now);
        }
    }

    /// Replaces all pods with those of a list that was started at `list_started`.
    pub fn replace_pods(&mut self, all: Vec<ObservedPod>, list_started: Instant, now: Instant) {
        self.last_pod_event = Some(now);
        let listed: HashSet<PodUid> = all
            .iter()
            .filter(|pod| pod.phase != PodPhase::Terminated)
            .map(|pod| pod.info.uid().clone())
            .collect();
        // A pod that was reserved after the list was started may be missing in it.
        let deleted: Vec<PodUid> = self
            .pods
            .keys()
            .filter(|uid| !listed.contains(*uid))
            .filter(|uid| {
                let reservation = self.reservations.get(*uid);
                reservation.is_none_or(|reservation| reservation.since < list_started)
            })
            .cloned()
            .collect();
        self.rebuild_once(now, |cache| {
            for uid in deleted {
                cache.delete_pod(&uid, now);
            }
            for pod in all {
                cache.apply_pod(pod, now);
            }
        });
        self.pods_listed_at = Some(list_started);
        self.listed.pods = true;
        // Pods that only a report lists are known to be deleted now: rebuild their nodes without them.
        let names: Vec<NodeName> = self
            .nodes
            .iter()
            .filter(|(_, record)| self.lists_unknown_pods(record))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.record_deletion(&name, now);
            self.rebuild(&name, now);
        }
    }

    /// Whether the report of a node lists pods that are not in the cache.
    fn lists_unknown_pods(&self, record: &NodeEntry) -> bool {
        let Some(Ok(report)) = record.report.as_ref().map(|report| &report.parsed) else {
            return false;
        };
        let state = report.kubelet.state();
        state.is_some_and(|state| {
            let mut pods = state.pods.iter();
            pods.any(|pod| !self.pods.contains_key(&pod.uid))
        })
    }

    /// Adds or updates a node.
    pub fn apply_node(&mut self, node: NodeInfo, now: Instant) {
        let name = node.name.clone();
        let record = self.nodes.entry(name.clone()).or_default();
        let same = record.node.as_ref().is_some_and(|own| {
            own.allocatable == node.allocatable
                && own.dialect_label == node.dialect_label
                && own.kubelet == node.kubelet
                && own.koordinator == node.koordinator
        });
        if record.node.replace(node).is_none() {
            self.names = None;
        }
        if !same {
            self.rebuild(&name, now);
        }
    }

    /// Removes a node. Its reservations stay until their pods are deleted: watch events may still show their bindings.
    pub fn delete_node(&mut self, name: &NodeName, now: Instant) {
        if let Some(record) = self.nodes.get_mut(name) {
            record.node = None;
            self.names = None;
        }
        self.rebuild(name, now);
        self.remove_if_empty(name);
    }

    /// Replaces all nodes with those of a list.
    pub fn replace_nodes(&mut self, all: Vec<NodeInfo>, now: Instant) {
        let listed: HashSet<NodeName> = all.iter().map(|node| node.name.clone()).collect();
        let known: Vec<NodeName> = self.nodes().map(|(name, _)| name.clone()).collect();
        for name in known.iter().filter(|name| !listed.contains(*name)) {
            self.delete_node(name, now);
        }
        for node in all {
            self.apply_node(node, now);
        }
        self.listed.nodes = true;
    }

    /// Adds or updates the NodeResourceTopology of a node.
    pub fn apply_report(
        &mut self,
        name: &NodeName,
        report: Observed<TopologyReport>,
        now: Instant,
    ) {
        let record = self.nodes.entry(name.clone()).or_default();
        if record
            .report
            .as_ref()
            .is_some_and(|own| own.version == report.version)
        {
            return;
        }
        record.report = Some(report);
        self.rebuild(name, now);
    }

    /// Removes the NodeResourceTopology of a node.
    pub fn delete_report(&mut self, name: &NodeName, now: Instant) {
        if let Some(record) = self.nodes.get_mut(name) {
            record.report = None;
            self.rebuild(name, now);
            self.remove_if_empty(name);
        }
    }

    /// Replaces all NodeResourceTopologies with those of a list.
    pub fn replace_reports(
        &mut self,
        all: Vec<(NodeName, Observed<TopologyReport>)>,
        now: Instant,
    ) {
        let all: BTreeMap<NodeName, Observed<TopologyReport>> = all.into_iter().collect();
        let known = self.nodes.iter().filter(|(_, own)| own.report.is_some());
        let deleted = known.filter(|(name, _)| !all.contains_key(*name));
        let deleted: Vec<NodeName> = deleted.map(|(name, _)| name.clone()).collect();
        for name in deleted {
            self.delete_report(&name, now);
        }
        for (name, report) in all {
            self.apply_report(&name, report, now);
        }
        self.listed.reports = true;
    }

    /// Adds or updates the Numatopology of a node.
    pub fn apply_numa(&mut self, name: &NodeName, report: Observed<NumaInfo>, now: Instant) {
        let record = self.nodes.entry(name.clone()).or_default();
        if record
            .numa
            .as_ref()
            .is_some_and(|own| own.version == report.version)
        {
            return;
        }
        record.numa = Some(report);
        let dialect = ReportedDialect::of(record);
        if matches!(dialect, ReportedDialect::Volcano | ReportedDialect::Invalid) {
            self.rebuild(name, now);
        }
    }

    /// Removes the Numatopology of a node.
    pub fn delete_numa(&mut self, name: &NodeName, now: Instant) {
        if let Some(record) = self.nodes.get_mut(name) {
            record.numa = None;
            self.rebuild(name, now);
            self.remove_if_empty(name);
        }
    }

    /// Replaces all Numatopologies with those of a list.
    pub fn replace_numas(&mut self, all: Vec<(NodeName, Observed<NumaInfo>)>, now: Instant) {
        let all: BTreeMap<NodeName, Observed<NumaInfo>> = all.into_iter().collect();
        let known = self.nodes.iter().filter(|(_, own)| own.numa.is_some());
        let deleted = known.filter(|(name, _)| !all.contains_key(*name));
        let deleted: Vec<NodeName> = deleted.map(|(name, _)| name.clone()).collect();
        for name in deleted {
            self.delete_numa(&name, now);
        }
        for (name, report) in all {
            self.apply_numa(&name, report, now);
        }
        self.listed.numas = true;
    }

    /// Removes the record of a node without a Node object, reports and pods.
    fn remove_if_empty(&mut self, name: &NodeName) {
        let is_empty = |record: &NodeEntry| {
            record.node.is_none()
                && record.report.is_none()
                && record.numa.is_none()
                && record.pods.is_empty()
        };
        if self.nodes.get(name).is_some_and(is_empty) {
            self.nodes.swap_remove(name);
            self.names = None;
        }
    }
}
