//! Whether what a node reports can be trusted: whom it counts, whom it still counts, whom it should count by now.

use std::collections::BTreeSet;
use std::time::Instant;

use pinfold_core::name::{NodeName, PodUid};

use super::kind::Kind;
use super::node::{NodeRecord, Reported};
use super::pod::Phase;
use super::{Cache, PodRecord};

impl Cache {
    /// Whether a report counts a pod already.
    ///
    /// Ours lists its pods. Of another one only this is known: what started before it was written is in it. When it was
    /// written is told by no clock that we could compare with ours; so a pod counts as reported if the report was heard
    /// of after the pod was seen started, or if that was so long ago that every reporter has looked since.
    pub(super) fn is_counted(
        &self,
        pod: &PodRecord,
        report: &Reported,
        heard: Instant,
        now: Instant,
    ) -> bool {
        if let Some(listed) = report.kubelet.lists(pod.asked.uid()) {
            return listed;
        }
        let settle = self.policy.reports.settle;
        pod.started
            .is_some_and(|at| heard > at || now.saturating_duration_since(at) >= settle)
    }

    /// Whether a pod that a report lists has left since. One that we never heard of may only be new to us: it is gone if
    /// all pods were listed after the report was heard of and it was not among them.
    pub(super) fn is_gone(&self, uid: &PodUid, record: &NodeRecord, heard: Instant) -> bool {
        let is_tenant = self
            .pods
            .get(uid)
            .is_some_and(|pod| record.tenants.get(&pod.order) == Some(uid));
        !is_tenant
            && (self.gone.contains_key(uid)
                || self.pods_listed.is_some_and(|listed| listed > heard))
    }

    /// Somebody left a node: whom its report does not list yet may be elsewhere than we think, until it does.
    pub(super) fn doubt_places(&mut self, name: &NodeName) {
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        let tenants = record.tenants.values();
        let unlisted = tenants.filter(|uid| record.lists(uid) == Some(false));
        let unlisted: Vec<PodUid> = unlisted.cloned().collect();
        record.unsure.extend(unlisted);
    }

    /// Notes whether the report of a node is behind.
    pub(super) fn judge(&mut self, name: &NodeName, now: Instant) {
        let Judged {
            open,
            overdue,
            unsure,
        } = self.judged(name, now);
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        record.open = open;
        let behind = overdue || !unsure.is_empty();
        record.unsure = unsure;
        if record.behind != behind {
            record.behind = behind;
            self.changed.insert(name.clone());
            if overdue {
                let words = "its report lacks pods that run there: does its agent work?";
                self.tell("report is behind", name.as_str(), words);
            }
        }
    }

    fn judged(&self, name: &NodeName, now: Instant) -> Judged {
        let mut judged = Judged::default();
        let Some(record) = self.nodes.get(name) else {
            return judged;
        };
        let Some(Ok(report)) = record.report.as_ref().map(|heard| &heard.what) else {
            return judged;
        };
        if record.kind != Kind::Kubelet {
            return judged;
        }
        let patience = self.policy.reports.confirm_within;
        for uid in record.tenants.values() {
            // Whom the report counts is not on top of it.
            let Some(pod) = self.pods.get(uid).filter(|pod| pod.holds) else {
                continue;
            };
            let overdue = pod
                .started
                .is_some_and(|at| now.saturating_duration_since(at) >= patience);
            match report.kubelet.lists(uid) {
                Some(true) => {}
                Some(false) => {
                    judged.open = true;
                    judged.overdue |= pod.phase == Phase::Started && overdue;
                    if record.unsure.contains(uid) {
                        judged.unsure.insert(uid.clone());
                    }
                }
                None => judged.open |= self.cluster.node_of_pod(uid).is_some(),
            }
        }
        judged
    }

    /// What time alone changes: reports that are overdue, pods that are settled, promises that nobody kept.
    pub fn tick(&mut self, now: Instant) {
        self.expire(now);
        let open = self.nodes.iter().filter(|(_, record)| record.open);
        let open: Vec<NodeName> = open.map(|(name, _)| name.clone()).collect();
        for name in open {
            match self.is_settled(&name, now) {
                true => self.rebuild(&name, now),
                false => self.judge(&name, now),
            }
        }
    }

    /// Whether a report that names no pods must count one by now that is still on top of it.
    fn is_settled(&self, name: &NodeName, now: Instant) -> bool {
        let Some(record) = self.nodes.get(name) else {
            return false;
        };
        let Some(Ok(report)) = record.report.as_ref().map(|heard| &heard.what) else {
            return false;
        };
        let settle = self.policy.reports.settle;
        report.kubelet.state().is_none()
            && record.tenants.values().any(|uid| {
                let pod = self.pods.get(uid);
                let started = pod.and_then(|pod| pod.started);
                self.cluster.node_of_pod(uid).is_some()
                    && started.is_some_and(|at| now.saturating_duration_since(at) >= settle)
            })
    }
}

/// What is thought of a report.
#[derive(Default)]
struct Judged {
    /// Pods that hold something are on top of it.
    open: bool,
    /// It should count one of them by now.
    overdue: bool,
    /// Those of them whose place is not known before it does.
    unsure: BTreeSet<PodUid>,
}
