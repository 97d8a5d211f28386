//! Whether what a node reports can be trusted: whom it counts, whom it still counts, whom it should count by now.

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

    /// Notes whether the report of a node is behind.
    pub(super) fn judge(&mut self, name: &NodeName, now: Instant) {
        let behind = self.is_behind(name, now);
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        if record.behind != behind {
            record.behind = behind;
            self.changed.insert(name.clone());
            if behind {
                let words = "its report lacks pods that run there: does its agent work?";
                self.tell("report is behind", name.as_str(), words);
            }
        }
    }

    fn is_behind(&self, name: &NodeName, now: Instant) -> bool {
        let Some(record) = self.nodes.get(name) else {
            return false;
        };
        if record.kind != Kind::Kubelet {
            return false;
        }
        let Some(Ok(report)) = record.report.as_ref().map(|heard| &heard.what) else {
            return false;
        };
        let patience = self.policy.reports.confirm_within;
        record.tenants.values().any(|uid| {
            self.pods.get(uid).is_some_and(|pod| {
                let overdue = pod
                    .started
                    .is_some_and(|at| now.saturating_duration_since(at) >= patience);
                let missing = report.kubelet.lists(uid) == Some(false);
                pod.phase == Phase::Started && pod.holds && overdue && missing
            })
        })
    }

    /// What time alone changes: reports that are overdue, pods that are settled, promises that nobody kept.
    pub fn tick(&mut self, now: Instant) {
        self.expire(now);
        let settle = self.policy.reports.settle;
        let mut rebuild = Vec::new();
        let mut judge = Vec::new();
        for (name, record) in &self.nodes {
            if record.kind != Kind::Kubelet || record.tenants.is_empty() {
                continue;
            }
            let Some(Ok(report)) = record.report.as_ref().map(|heard| &heard.what) else {
                continue;
            };
            match report.kubelet.state() {
                Some(_) => judge.push(name.clone()),
                None => {
                    let settled = |uid: &PodUid| {
                        self.cluster.whereabouts(uid).is_some()
                            && self.pods.get(uid).is_some_and(|pod| {
                                pod.started
                                    .is_some_and(|at| now.saturating_duration_since(at) >= settle)
                            })
                    };
                    if record.tenants.values().any(settled) {
                        rebuild.push(name.clone());
                    }
                }
            }
        }
        for name in rebuild {
            self.rebuild(&name, now);
        }
        for name in judge {
            self.judge(&name, now);
        }
    }
}
