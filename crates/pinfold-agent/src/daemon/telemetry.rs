//! What happens, told to logs, metrics and the events of pods.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri::RuntimeInfo;

use crate::journaled_ledger::JournaledLedgerError;
use crate::kubernetes::{EventQueue, Warning};
use crate::metrics::{Metrics, catalogue};
use crate::node::SyncChange;
use crate::runtime::{Subject, Telemetry};

/// Tells what happens.
pub(super) struct NodeTelemetry {
    pub(super) metrics: Arc<Metrics>,
    pub(super) events: Option<EventQueue>,
    /// Wakes whoever reports on the node.
    pub(super) changed: SyncSender<()>,
    problems: Mutex<BTreeMap<&'static str, String>>,
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
        }
    }

    /// What is wrong now, one sentence for each matter.
    pub(super) fn problems(&self) -> Vec<String> {
        self.matters().values().cloned().collect()
    }

    /// What only a new start can put right.
    pub(super) fn broken(&self) -> Vec<String> {
        let broken = self.matters().get(BROKEN_THREAD).cloned();
        broken.into_iter().collect()
    }

    /// Something is wrong with a matter, or not any more.
    pub(super) fn problem(&self, matter: &'static str, problem: Option<String>) {
        let mut matters = self.matters();
        match problem {
            Some(problem) => {
                if matters.get(matter) != Some(&problem) {
                    tracing::error!(what = %problem, "problem");
                    matters.insert(matter, problem);
                }
            }
            None => drop(matters.remove(matter)),
        }
    }

    fn matters(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
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
            "connected"
        );
    }

    fn record_decision(&self, what: &Subject<'_>, rejected: Option<&str>, took: Duration) {
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
        let container = what.container.unwrap_or_default();
        let (namespace, pod, uid) = (what.namespace, what.name, what.uid);
        let Some(why) = rejected else {
            tracing::debug!(namespace, pod, %uid, container, "admitted");
            return;
        };
        let reason = reason(why);
        self.metrics.count(&catalogue::ADMISSION_ERRORS, &[]);
        self.metrics.count(&catalogue::REJECTIONS, &[reason]);
        tracing::warn!(namespace, pod, %uid, container, why, "rejected");
        if let Some(events) = &self.events {
            events.warn(Warning {
                namespace: what.namespace.to_owned(),
                name: what.name.to_owned(),
                uid: what.uid.into(),
                reason: reason.to_owned(),
                message: why.to_owned(),
            });
        }
    }

    fn record_sync_change(&self, change: &SyncChange) {
        tracing::warn!(what = %change, "differs");
    }

    fn record_error(&self, error: &JournaledLedgerError) {
        tracing::error!(why = %error, "failed");
    }

    fn warn(&self, problem: &str) {
        tracing::warn!(what = %problem, "trouble");
    }

    fn node_changed(&self) {
        // Whoever reports looks at everything anyway.
        let _ = self.changed.try_send(());
    }
}

/// A thread that should run for ever has ended: a matter that only a new start can put right.
pub(super) const BROKEN_THREAD: &str = "broken-thread";

/// The word before the sentence, as the status of a pod shows it.
pub(super) fn reason(why: &str) -> &'static str {
    const KNOWN: [&str; 4] = [
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "SMTAlignmentError",
        "EmptyPodSharedPoolError",
    ];
    let known = KNOWN.into_iter().find(|known| why.starts_with(known));
    known.unwrap_or("PinfoldRejected")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn telemetry() -> NodeTelemetry {
        let (changed, _) = sync_channel(1);
        NodeTelemetry::new(Arc::new(crate::metrics::registry()), None, changed)
    }

    #[test]
    fn a_thread_that_ended_is_what_only_a_new_start_mends() {
        let telemetry = telemetry();
        telemetry.problem("overlap", Some("two pin".to_owned()));
        assert_eq!(
            (telemetry.problems().len(), telemetry.broken().len()),
            (1, 0)
        );
        telemetry.problem(BROKEN_THREAD, Some("the teller has ended".to_owned()));
        assert_eq!(
            (telemetry.problems().len(), telemetry.broken().len()),
            (2, 1)
        );
        telemetry.problem("overlap", None);
        assert_eq!(telemetry.problems(), telemetry.broken());
    }

    #[test]
    fn every_reason_of_the_kubelet_is_told_by_its_name() {
        for known in [
            "TopologyAffinityError",
            "UnexpectedAdmissionError",
            "SMTAlignmentError",
            "EmptyPodSharedPoolError",
        ] {
            assert_eq!(reason(&format!("{known}: container main")), known);
        }
        assert_eq!(reason("the requested CPUs"), "PinfoldRejected");
    }
}
