//! News: what the API server says about pods, nodes and reports, written down.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use pinfold_apiserver::Warning;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::volcano::predicate::NumaInfo;

use super::kind::Kind;
use super::node::{BadObject, Heard, NodeFound, NodeRecord, Reported};
use super::pod::{BadPod, Found, Phase};
use super::reservations::Departure;
use super::{Cache, MOST_PROBLEMS, PodRecord};

impl Cache {
    /// Something was heard of pods.
    pub fn pods_heard(&mut self, now: Instant) {
        self.pods_heard = Some(now);
    }

    /// A pod makes no sense: it is passed over, and nothing else is disturbed.
    pub fn bad_pod(&mut self, bad: &BadPod) {
        self.tell(
            "pod is not understood",
            bad.name.clone(),
            bad.problem.clone(),
        );
    }

    /// An object makes no sense.
    pub fn bad_object(&mut self, bad: &BadObject) {
        let event = match bad.kind {
            "Node" => "node is not understood",
            _ => "report is not understood",
        };
        self.tell(event, bad.name.clone(), bad.problem.clone());
    }

    /// A pod is there, or is different.
    pub fn put_pod(&mut self, found: Found, now: Instant) {
        let uid = found.asked.uid().clone();
        if found.phase == Phase::Over {
            self.forget_pod(&uid, now);
            return;
        }
        let Some(node) = found.node else {
            return self.put_unbound(&uid, found, now);
        };
        let started = (found.phase == Phase::Started).then_some(now);
        let before = self.pods.get(&uid).and_then(|pod| pod.node.clone());
        let promised = self.reservations.remove(&uid);
        if before.as_ref().is_some_and(|before| *before != node) {
            // Promised elsewhere, and somebody else was quicker.
            let order = self.pods.get(&uid).map(|pod| pod.order);
            if let Some(before) = before.clone() {
                self.vacate(&uid, &before, order, Departure::NeverCame, now);
            }
        }
        if before.as_ref() == Some(&node)
            && let Some(record) = self.pods.get_mut(&uid)
        {
            let is_like = record.asked.is_like(&found.asked) || promised.is_some();
            let starts = started.is_some() && record.started.is_none();
            record.asked = found.asked;
            record.phase = found.phase;
            record.started = record.started.or(started);
            match (is_like, starts) {
                (true, false) => {}
                (true, true) => self.judge(&node, now),
                (false, _) => self.rebuild(&node, now),
            }
            return;
        }
        let order = self.next_order();
        self.gone.remove(&uid);
        self.pods.insert(
            uid.clone(),
            PodRecord {
                asked: found.asked,
                node: Some(node.clone()),
                order,
                phase: found.phase,
                started,
                holds: false,
            },
        );
        let record = self.nodes.entry(node.clone()).or_default();
        record.tenants.insert(order, uid.clone());
        self.move_in(&uid, &node, now);
    }

    /// A pod that nobody promised a place came to a node.
    fn move_in(&mut self, uid: &PodUid, node: &NodeName, now: Instant) {
        let Some(record) = self.nodes.get(node) else {
            return;
        };
        let listed = record.lists(uid) == Some(true);
        // What it holds is written down somewhere: the picture is made of that.
        if record.kind == Kind::Koordinator || listed || self.cluster.node(node).is_none() {
            return self.rebuild(node, now);
        }
        self.changed.insert(node.clone());
        if !self.seat(uid, node) {
            if let Some(record) = self.nodes.get_mut(node) {
                record.misfits.push(uid.clone());
            }
            self.warn_misfit(uid, node);
        }
        self.judge(node, now);
    }

    /// Somebody else bound a pod to a node that will reject it.
    fn warn_misfit(&mut self, uid: &PodUid, node: &NodeName) {
        let Some(pod) = self.pods.get(uid) else {
            return;
        };
        if pod.phase != Phase::Waiting || !pod.asked.needs || self.warnings.len() >= MOST_PROBLEMS {
            return;
        }
        let asked = pod.asked.clone();
        let verdict = self.cluster.evaluate(&asked.ask, node);
        let Some(rejection) = verdict.rejection() else {
            return;
        };
        self.warnings.push(Warning {
            namespace: asked.namespace.clone(),
            name: asked.name.clone(),
            uid: uid.to_string(),
            reason: "NodeWillReject".to_owned(),
            message: format!(
                "bound to node {node} by another scheduler, but it will not take the pod: {}",
                crate::extender::reason::of(rejection)
            ),
        });
    }

    /// A pod without a node. A promise that was made to it stands: the news are older.
    fn put_unbound(&mut self, uid: &PodUid, found: Found, now: Instant) {
        if let Some(record) = self.pods.get_mut(uid) {
            record.asked = found.asked;
            if record.node.is_some() && !self.reservations.contains_key(uid) {
                // Bindings are for ever: this is another pod of the same id, which does not exist.
                let (node, order) = (record.node.take(), record.order);
                if let Some(node) = node {
                    self.vacate(uid, &node, Some(order), Departure::NeverCame, now);
                }
            }
            return;
        }
        let record = PodRecord {
            asked: found.asked,
            node: None,
            order: 0,
            phase: found.phase,
            started: None,
            holds: false,
        };
        self.pods.insert(uid.clone(), record);
    }

    /// A pod is gone, or its containers have ended for good.
    pub fn forget_pod(&mut self, uid: &PodUid, now: Instant) {
        self.reservations.remove(uid);
        self.gone.insert(uid.clone(), now);
        let Some(record) = self.pods.remove(uid) else {
            // Never heard of; a report may have it all the same.
            return;
        };
        if let Some(node) = record.node {
            self.vacate(uid, &node, Some(record.order), Departure::Left, now);
        }
    }

    /// These are all pods. The list was asked for at `asked`.
    pub fn replace_pods(&mut self, all: Vec<Found>, asked: Instant, now: Instant) {
        self.pods_heard = Some(now);
        let there: HashSet<PodUid> = all
            .iter()
            .filter(|found| found.phase != Phase::Over)
            .map(|found| found.asked.uid().clone())
            .collect();
        let gone: Vec<PodUid> = self
            .pods
            .keys()
            .filter(|uid| !there.contains(*uid))
            .filter(|uid| {
                let reservation = self.reservations.get(*uid);
                reservation.is_none_or(|reservation| reservation.since < asked)
            })
            .cloned()
            .collect();
        for uid in gone {
            self.forget_pod(&uid, now);
        }
        for found in all {
            self.put_pod(found, now);
        }
        self.pods_listed = Some(asked);
        self.listed.pods = true;
        // Whom reports list and nobody knows is known to be gone now.
        let names: Vec<NodeName> = self
            .nodes
            .iter()
            .filter(|(_, record)| self.lists_strangers(record))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.doubt_places(&name);
            self.rebuild(&name, now);
        }
    }

    fn lists_strangers(&self, record: &NodeRecord) -> bool {
        let Some(Ok(report)) = record.report.as_ref().map(|heard| &heard.what) else {
            return false;
        };
        let state = report.kubelet.state();
        state.is_some_and(|state| {
            let mut pods = state.pods.iter();
            pods.any(|pod| !self.pods.contains_key(&pod.uid))
        })
    }

    /// A node is there, or is different.
    pub fn put_node(&mut self, node: NodeFound, now: Instant) {
        let name = node.name.clone();
        let record = self.nodes.entry(name.clone()).or_default();
        let same = record.node.as_ref().is_some_and(|own| {
            own.allocatable == node.allocatable
                && own.label == node.label
                && own.koordinator == node.koordinator
        });
        record.node = Some(node);
        if !same {
            self.rebuild(&name, now);
        }
    }

    /// A node is gone. Promises there are kept until their pods are gone: their bindings may still come.
    pub fn forget_node(&mut self, name: &NodeName, now: Instant) {
        if let Some(record) = self.nodes.get_mut(name) {
            record.node = None;
        }
        self.rebuild(name, now);
        self.drop_empty(name);
    }

    /// These are all nodes.
    pub fn replace_nodes(&mut self, all: Vec<NodeFound>, now: Instant) {
        let there: HashSet<NodeName> = all.iter().map(|node| node.name.clone()).collect();
        let known: Vec<NodeName> = self.nodes().map(|(name, _)| name.clone()).collect();
        for name in known.iter().filter(|name| !there.contains(*name)) {
            self.forget_node(name, now);
        }
        for node in all {
            self.put_node(node, now);
        }
        self.listed.nodes = true;
    }

    /// A node reports.
    pub fn put_report(&mut self, name: &NodeName, heard: Heard<Reported>, now: Instant) {
        let record = self.nodes.entry(name.clone()).or_default();
        if record
            .report
            .as_ref()
            .is_some_and(|own| own.version == heard.version)
        {
            return;
        }
        record.report = Some(heard);
        self.rebuild(name, now);
    }

    /// A report is gone.
    pub fn forget_report(&mut self, name: &NodeName, now: Instant) {
        if let Some(record) = self.nodes.get_mut(name) {
            record.report = None;
            self.rebuild(name, now);
            self.drop_empty(name);
        }
    }

    /// These are all reports.
    pub fn replace_reports(&mut self, all: Vec<(NodeName, Heard<Reported>)>, now: Instant) {
        let all: BTreeMap<NodeName, Heard<Reported>> = all.into_iter().collect();
        let known = self.nodes.iter().filter(|(_, own)| own.report.is_some());
        let lost = known.filter(|(name, _)| !all.contains_key(*name));
        let lost: Vec<NodeName> = lost.map(|(name, _)| name.clone()).collect();
        for name in lost {
            self.forget_report(&name, now);
        }
        for (name, heard) in all {
            self.put_report(&name, heard, now);
        }
        self.listed.reports = true;
    }

    /// A node reports to Volcano.
    pub fn put_numa(&mut self, name: &NodeName, heard: Heard<NumaInfo>, now: Instant) {
        let record = self.nodes.entry(name.clone()).or_default();
        if record
            .numa
            .as_ref()
            .is_some_and(|own| own.version == heard.version)
        {
            return;
        }
        record.numa = Some(heard);
        if matches!(Kind::of(record), Kind::Volcano | Kind::Unreadable) {
            self.rebuild(name, now);
        }
    }

    /// A report to Volcano is gone.
    pub fn forget_numa(&mut self, name: &NodeName, now: Instant) {
        if let Some(record) = self.nodes.get_mut(name) {
            record.numa = None;
            self.rebuild(name, now);
            self.drop_empty(name);
        }
    }

    /// These are all reports to Volcano.
    pub fn replace_numas(&mut self, all: Vec<(NodeName, Heard<NumaInfo>)>, now: Instant) {
        let all: BTreeMap<NodeName, Heard<NumaInfo>> = all.into_iter().collect();
        let known = self.nodes.iter().filter(|(_, own)| own.numa.is_some());
        let lost = known.filter(|(name, _)| !all.contains_key(*name));
        let lost: Vec<NodeName> = lost.map(|(name, _)| name.clone()).collect();
        for name in lost {
            self.forget_numa(&name, now);
        }
        for (name, heard) in all {
            self.put_numa(&name, heard, now);
        }
        self.listed.numas = true;
    }

    fn drop_empty(&mut self, name: &NodeName) {
        let is_empty = |record: &NodeRecord| {
            record.node.is_none()
                && record.report.is_none()
                && record.numa.is_none()
                && record.tenants.is_empty()
        };
        if self.nodes.get(name).is_some_and(is_empty) {
            self.nodes.remove(name);
        }
    }
}
