//! Whether the report of a node is stale: it lacks pods that it should count by now, or pods were deleted while it
//! lacked others.

use std::collections::BTreeSet;
use std::time::Instant;

use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::pod::StatusPhase;
use pinfold_kube::pod_fingerprint::fingerprint;

use super::dialect::ReportedDialect;
use super::node::{NodeEntry, TopologyReport};
use super::pod_info::PodPhase;
use super::{Cache, PodEntry, ProblemKind};

/// The most pods that started too late for a report and are looked for by its fingerprint.
const MAX_LATE_STARTS: usize = 16;

impl Cache {
    /// Whether a report counts a pod.
    ///
    /// Reports of Pinfold's agent list their pods. The fingerprint of other reports says which of the pods that the cache
    /// knows they count (`fingerprinted`). Those without one, and those whose fingerprint fits no set of known pods, count
    /// every pod that started before they were written, but the time of writing is a timestamp of another machine. So a
    /// pod is taken to be counted if the report arrived after the pod was seen started, or if the pod started so long ago
    /// that every reporter has updated its report since.
    pub(super) fn is_counted(
        &self,
        pod: &PodEntry,
        report: &TopologyReport,
        fingerprinted: Option<&BTreeSet<PodUid>>,
        received: Instant,
        now: Instant,
    ) -> bool {
        if let Some(listed) = report.kubelet.lists(pod.info.uid()) {
            return listed;
        }
        if let Some(counted) = fingerprinted {
            return counted.contains(pod.info.uid());
        }
        let counted_after = self.policy.reports.counted_after;
        pod.started.is_some_and(|started| {
            received > started || now.saturating_duration_since(started) >= counted_after
        })
    }

    /// The pods of a node that its report counts according to its fingerprint; `None` if that says nothing. Pods that the
    /// fingerprint does not cover change no amount of the report: it makes no difference whether they are counted.
    pub(super) fn fingerprinted(
        &self,
        record: &NodeEntry,
        report: &TopologyReport,
    ) -> Option<BTreeSet<PodUid>> {
        let (method, wanted) = report.fingerprint.as_ref()?;
        let pods = record.pods.values().filter_map(|uid| self.pods.get(uid));
        let mut started: Vec<&PodEntry> = pods.filter(|pod| pod.started.is_some()).collect();
        // A report counts the pods that had started when it was written: all but those that started last.
        started.sort_by_key(|pod| (pod.started, pod.bind_order));
        let fewest = started.len().saturating_sub(MAX_LATE_STARTS);
        (fewest..=started.len()).rev().find_map(|count| {
            let counted = started.get(..count)?;
            let covered = counted
                .iter()
                .filter(|pod| method.covers(pod.info.request.pod(), StatusPhase::Running));
            let names = covered.map(|pod| (pod.info.namespace.as_str(), pod.info.name.as_str()));
            let fits = fingerprint(names) == *wanted;
            fits.then(|| counted.iter().map(|pod| pod.info.uid().clone()).collect())
        })
    }

    /// Whether a pod that a report lists was deleted since. A pod that is not in the cache may be new: it is deleted
    /// only if a list of all pods that was started after the report arrived does not contain it.
    pub(super) fn is_deleted_since(
        &self,
        uid: &PodUid,
        record: &NodeEntry,
        received: Instant,
    ) -> bool {
        let is_on_node = self
            .pods
            .get(uid)
            .is_some_and(|pod| record.pods.get(&pod.bind_order) == Some(uid));
        !is_on_node
            && (self.deleted.contains_key(uid)
                || self.pods_listed_at.is_some_and(|listed| listed > received))
    }

    /// Records that a pod of a node was deleted. The placements of unreported pods are uncertain from now on: the
    /// kubelet may have admitted them before that or after, which leads to different placements. A report that lists
    /// them clears it.
    pub(super) fn record_deletion(&mut self, name: &NodeName, now: Instant) {
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        record.last_deletion = Some(now);
        let pods = record.pods.values();
        let unlisted = pods.filter(|uid| record.lists(uid) == Some(false));
        let unlisted: Vec<PodUid> = unlisted.cloned().collect();
        record.uncertain.extend(unlisted);
    }

    /// Updates whether the report of a node is stale.
    pub(super) fn update_staleness(&mut self, name: &NodeName, now: Instant) {
        let Staleness {
            has_unreported,
            overdue,
            uncertain,
        } = self.staleness(name, now);
        let Some(record) = self.nodes.get_mut(name) else {
            return;
        };
        record.has_unreported = has_unreported;
        let stale = overdue || !uncertain.is_empty();
        record.uncertain = uncertain;
        let becomes_overdue = overdue && !record.overdue;
        if record.stale != stale || record.overdue != overdue {
            record.stale = stale;
            record.overdue = overdue;
            self.changed.insert(name.clone());
            if becomes_overdue {
                let message = "the report lacks running pods: is the agent of the node working?";
                self.report_problem(ProblemKind::StaleReport, name.as_str(), message);
            }
        }
    }

    fn staleness(&self, name: &NodeName, now: Instant) -> Staleness {
        let mut found = Staleness::default();
        let Some(record) = self.nodes.get(name) else {
            return found;
        };
        let Some(Ok(report)) = record.report.as_ref().map(|report| &report.parsed) else {
            return found;
        };
        if record.dialect != ReportedDialect::Kubelet {
            return found;
        }
        let stale_after = self.policy.reports.stale_after;
        for uid in record.pods.values() {
            // Pods that the report counts were not placed by the cache, so they have no assignment here.
            let Some(pod) = self.pods.get(uid).filter(|pod| pod.has_assignment) else {
                continue;
            };
            let overdue = pod
                .started
                .is_some_and(|started| now.saturating_duration_since(started) >= stale_after);
            match report.kubelet.lists(uid) {
                Some(true) => {}
                Some(false) => {
                    found.has_unreported = true;
                    found.overdue |= pod.phase == PodPhase::Started && overdue;
                    if record.uncertain.contains(uid) {
                        found.uncertain.insert(uid.clone());
                    }
                }
                None => found.has_unreported |= self.cluster.node_of_pod(uid).is_some(),
            }
        }
        found
    }

    /// Applies the passage of time: releases reservations that timed out, and finds reports that became stale or must
    /// count further pods by now. To be called about once a second.
    pub fn tick(&mut self, now: Instant) {
        self.expire_reservations(now);
        self.end_settle_times(now);
        let unreported = self
            .nodes
            .iter()
            .filter(|(_, record)| record.has_unreported);
        let unreported: Vec<NodeName> = unreported.map(|(name, _)| name.clone()).collect();
        for name in unreported {
            match self.counts_more_pods(&name, now) {
                true => self.rebuild(&name, now),
                false => self.update_staleness(&name, now),
            }
        }
    }

    /// Whether a report that lists no pods must count a pod by now that the cache still adds to it.
    fn counts_more_pods(&self, name: &NodeName, now: Instant) -> bool {
        let Some(record) = self.nodes.get(name) else {
            return false;
        };
        let Some(Ok(report)) = record.report.as_ref().map(|report| &report.parsed) else {
            return false;
        };
        let counted_after = self.policy.reports.counted_after;
        report.kubelet.state().is_none()
            && self.fingerprinted(record, report).is_none()
            && record.pods.values().any(|uid| {
                let pod = self.pods.get(uid);
                let started = pod.and_then(|pod| pod.started);
                self.cluster.node_of_pod(uid).is_some()
                    && started.is_some_and(|started| {
                        now.saturating_duration_since(started) >= counted_after
                    })
            })
    }
}

/// The difference between a report and the pods of its node.
#[derive(Default)]
struct Staleness {
    /// Whether pods with an assignment are missing in the report.
    has_unreported: bool,
    /// Whether one of them should be in the report by now.
    overdue: bool,
    /// Those of them whose placement is unknown until the report lists them.
    uncertain: BTreeSet<PodUid>,
}
