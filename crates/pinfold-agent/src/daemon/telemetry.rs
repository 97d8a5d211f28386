//! [`NodeTelemetry`]: writes what the agent observes to logs, metrics and pod events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri::RuntimeInfo;

use crate::journaled_ledger::JournaledLedgerError;
use crate::kubernetes::{EventQueue, Warning};
use crate::metrics::{Metrics, catalogue};
use crate::node::{AdmitError, SyncChange};
use crate::runtime::{Subject, Telemetry};

/// Logs, metrics, pod events, and the list of current problems.
pub(super) struct NodeTelemetry {
    pub(super) metrics: Arc<Metrics>,
    pub(super) events: Option<EventQueue>,
    /// Wakes the thread that publishes the node's state.
    pub(super) changed: SyncSender<()>,
    problems: Mutex<BTreeMap<&'static str, String>>,
    was_connected: AtomicBool,
}

impl NodeTelemetry {
    pub(super) fn new(
        metrics: Arc<Metrics>,
        events: Option<EventQueue>,
        changed: SyncSender<()>,
    ) -> Self {
        let problems = Mutex::default();
        Self {
            metrics,
            events,
            changed,
            problems,
            was_connected: AtomicBool::new(false),
        }
    }

    /// The current problems, one sentence per topic.
    pub(super) fn problems(&self) -> Vec<String> {
        self.lock_problems().values().cloned().collect()
    }

    /// The current problems that only a restart of the agent can fix.
    pub(super) fn broken(&self) -> Vec<String> {
        let broken = self.lock_problems().get(BROKEN_THREAD).cloned();
        broken.into_iter().collect()
    }

    /// Sets or clears the problem of a topic.
    pub(super) fn problem(&self, topic: &'static str, problem: Option<String>) {
        let mut problems = self.lock_problems();
        match problem {
            Some(problem) => {
                if problems.get(topic) != Some(&problem) {
                    tracing::error!(topic, %problem, "problem detected");
                    problems.insert(topic, problem);
                }
            }
            None => drop(problems.remove(topic)),
        }
    }

    fn lock_problems(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Telemetry for NodeTelemetry {
    fn runtime_connected(&self, runtime: &RuntimeInfo) {
        self.metrics.count(&catalogue::NRI_CONNECTIONS, &[]);
        tracing::info!(
            runtime = %runtime.name,
            version = %runtime.version,
            nri = %runtime.nri_version,
            "container runtime connected"
        );
        if self.was_connected.swap(true, Ordering::Relaxed) {
            // The periodic check misses a short interruption.
            tracing::warn!(
                "containers that started while the runtime was not connected were unpinned"
            );
        }
    }

    fn record_decision(&self, what: &Subject<'_>, rejected: Option<&AdmitError>, took: Duration) {
        let seconds = took.as_secs_f64();
        let verdict = if rejected.is_some() {
            "rejected"
        } else {
            "admitted"
        };
        self.metrics
            .observe(&catalogue::DECISION, &[verdict], seconds);
        let event = if what.container.is_some() {
            "container"
        } else {
            "pod"
        };
        self.metrics
            .observe(&catalogue::RUNTIME_EVENT, &[event], seconds);
        if what.container.is_none() {
            self.metrics.count(&catalogue::ADMISSION_REQUESTS, &[]);
            self.metrics
                .observe(&catalogue::ADMISSION_DURATION, &[], seconds * 1000.0);
        }
        let (namespace, pod, uid) = (what.namespace, what.name, what.uid);
        let Some(error) = rejected else {
            match what.container {
                Some(container) => {
                    tracing::debug!(namespace, pod, uid, container, "container admitted");
                }
                None => tracing::debug!(namespace, pod, uid, "pod admitted"),
            }
            return;
        };
        let (reason, why) = (error.status_reason(), error.to_string());
        self.metrics.count(&catalogue::ADMISSION_ERRORS, &[]);
        self.metrics.count(&catalogue::REJECTIONS, &[reason]);
        match what.container {
            Some(container) => {
                tracing::warn!(
                    namespace,
                    pod,
                    uid,
                    container,
                    reason = %why,
                    "container rejected"
                );
            }
            None => tracing::warn!(namespace, pod, uid, reason = %why, "pod rejected"),
        }
        if let Some(events) = &self.events {
            events.warn(Warning {
                kind: "Pod",
                namespace: what.namespace.to_owned(),
                name: what.name.to_owned(),
                uid: what.uid.into(),
                reason: reason.to_owned(),
                message: why,
            });
        }
    }

    fn record_sync_change(&self, change: &SyncChange) {
        match change {
            SyncChange::Released(pod) => {
                tracing::warn!(%pod, "terminated pod released");
            }
            SyncChange::Adopted(pod) => {
                tracing::warn!(%pod, "running pod was not in the journal and was admitted");
            }
            SyncChange::UsesSharedPool { pod, why } => tracing::warn!(
                %pod,
                reason = %why,
                "running pod was not in the journal and uses the shared pool"
            ),
            SyncChange::KeptKubeletCpus { pod, cpus } => {
                tracing::warn!(%pod, %cpus, "pod keeps the CPUs that the kubelet assigned");
            }
        }
    }

    fn record_error(&self, error: &JournaledLedgerError) {
        match error {
            JournaledLedgerError::Journal(error) => tracing::error!(%error, "journal write failed"),
            error => tracing::error!(%error, "ledger change failed"),
        }
    }

    fn record_tolerated_rejection(&self, pod: &Subject<'_>, reason: &str) {
        let (namespace, pod, uid) = (pod.namespace, pod.name, pod.uid);
        tracing::warn!(
            namespace,
            pod,
            uid,
            reason,
            "rejected pod runs because takeover.cpuSetAllocator is false"
        );
    }

    fn node_changed(&self) {
        // If the channel is full, the reporter is about to run and will see this change.
        let _ = self.changed.try_send(());
    }
}

/// Topic of a thread that terminated unexpectedly, which only a restart of the agent can fix.
pub(super) const BROKEN_THREAD: &str = "broken-thread";

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn telemetry() -> NodeTelemetry {
        let (changed, _) = sync_channel(1);
        NodeTelemetry::new(Arc::new(crate::metrics::registry()), None, changed)
    }

    #[test]
    fn a_terminated_thread_is_a_problem_that_only_a_restart_fixes() {
        let telemetry = telemetry();
        telemetry.problem("overlap", Some("two pin".to_owned()));
        assert_eq!(
            (telemetry.problems().len(), telemetry.broken().len()),
            (1, 0)
        );
        telemetry.problem(
            BROKEN_THREAD,
            Some("thread update-sender has terminated".to_owned()),
        );
        assert_eq!(
            (telemetry.problems().len(), telemetry.broken().len()),
            (2, 1)
        );
        telemetry.problem("overlap", None);
        assert_eq!(telemetry.problems(), telemetry.broken());
    }
}
