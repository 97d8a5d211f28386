//! [`NodeTelemetry`]: writes what the agent observes to logs, metrics and pod events.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri::RuntimeInfo;
use pinfold_agent_api::DriftStatus;

use super::unmet_allowances::{UnmetAllowance, UnmetAllowances};
use crate::journaled_ledger::JournaledLedgerError;
use crate::kubernetes::{EventQueue, EventReason, RESIZE_REJECTED, RUNTIME_DISCONNECTED, Warning};
use crate::metrics::{Metrics, catalogue};
use crate::node::{AdmitError, PodWarning, SyncChange};
use crate::runtime::{Subject, Telemetry};

/// Logs, metrics, pod events, and the list of current problems.
pub(super) struct NodeTelemetry {
    pub(super) metrics: Arc<Metrics>,
    events: Option<NodeEvents>,
    /// Wakes the thread that publishes the node's state.
    pub(super) changed: SyncSender<()>,
    problems: Mutex<BTreeMap<&'static str, String>>,
    unmet_allowances: Mutex<UnmetAllowances>,
    drift: Mutex<Option<DriftStatus>>,
    was_connected: AtomicBool,
    /// Whether the loss of the last connection was reported.
    loss_reported: AtomicBool,
}

/// The queue of Kubernetes events, and the name of the Node.
pub(super) struct NodeEvents {
    pub(super) queue: EventQueue,
    pub(super) node: String,
}

impl NodeTelemetry {
    pub(super) fn new(
        metrics: Arc<Metrics>,
        events: Option<NodeEvents>,
        changed: SyncSender<()>,
    ) -> Self {
        let problems = Mutex::default();
        Self {
            metrics,
            events,
            changed,
            problems,
            unmet_allowances: Mutex::default(),
            drift: Mutex::default(),
            was_connected: AtomicBool::new(false),
            loss_reported: AtomicBool::new(false),
        }
    }

    /// Records what the last check of control groups found.
    pub(super) fn set_drift(&self, drift: DriftStatus) {
        *self.drift.lock().unwrap_or_else(PoisonError::into_inner) = Some(drift);
    }

    /// What the last check of control groups found; `None` before the first one.
    pub(super) fn drift(&self) -> Option<DriftStatus> {
        *self.drift.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports that the runtime is not connected: once at the start, and once per lost connection.
    pub(super) fn runtime_disconnected(&self, socket: &Path) {
        if !self.was_connected.load(Ordering::Relaxed) {
            if !self.loss_reported.swap(true, Ordering::Relaxed) {
                let socket = socket.display();
                tracing::warn!(
                    %socket,
                    "container runtime not connected yet: containers start unpinned; is NRI enabled in its configuration?"
                );
            }
            return;
        }
        self.report_loss();
    }

    fn report_loss(&self) {
        if self.loss_reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = "container runtime disconnected: containers start unpinned";
        tracing::error!("{message}");
        self.send_node_event(RUNTIME_DISCONNECTED, message);
    }

    /// Reports something about the node as a whole, in the log and as an event of the Node.
    pub(super) fn report_about_node(&self, reason: EventReason, message: &str) {
        tracing::info!(reason = reason.name, "{message}");
        self.send_node_event(reason, message);
    }

    fn send_node_event(&self, reason: EventReason, message: &str) {
        if let Some(events) = &self.events {
            let warning = Warning::about_node(&events.node, reason.name, message.to_owned());
            events.queue.warn(warning);
        }
    }

    /// Reports the pods that a change of the rules moved.
    pub(super) fn record_moves(&self, moves: Vec<PodWarning>) {
        for moved in moves {
            tracing::warn!(pod = %moved.pod.name, detail = %moved.message, "pod moved");
            self.warn_pod(moved);
        }
    }

    /// The topic of the first current problem; `None` if there is none.
    pub(super) fn first_topic(&self) -> Option<&'static str> {
        self.lock_problems().keys().next().copied()
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

    /// Sets or clears the problem of a topic, which is also the reason of the Node's condition.
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

    fn send_event(&self, pod: &Subject<'_>, reason: &str, message: String) {
        if let Some(events) = &self.events {
            events.queue.warn(Warning {
                kind: "Pod",
                namespace: pod.namespace.to_owned(),
                name: pod.name.to_owned(),
                uid: pod.uid.to_owned(),
                reason: reason.to_owned(),
                message,
            });
        }
    }

    /// Replaces the containers that may use other CPUs than the journal has.
    pub(super) fn set_unmet_allowances(&self, unmet: Vec<UnmetAllowance>) {
        let mut all = self.unmet_allowances();
        let warnings = all.replace(unmet);
        self.problem("CPUsNotApplied", all.problem());
        drop(all);
        for warning in warnings {
            self.warn_pod(warning);
        }
    }

    /// The containers that may use other CPUs than the journal has.
    pub(super) fn unmet_allowances(&self) -> MutexGuard<'_, UnmetAllowances> {
        let unmet = self.unmet_allowances.lock();
        unmet.unwrap_or_else(PoisonError::into_inner)
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
            self.report_loss();
        }
        self.loss_reported.store(false, Ordering::Relaxed);
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
        self.send_event(what, reason, why);
    }

    fn record_rejected_resize(&self, what: &Subject<'_>, rejected: &AdmitError) {
        let (reason, why) = (RESIZE_REJECTED.name, rejected.to_string());
        self.metrics.count(&catalogue::REJECTIONS, &[reason]);
        let (namespace, pod, uid) = (what.namespace, what.name, what.uid);
        let container = what.container;
        tracing::warn!(namespace, pod, uid, container, reason = %why, "resize rejected");
        self.send_event(what, reason, why);
    }

    fn warn_pod(&self, warning: PodWarning) {
        let (namespace, name) = warning.pod.name.split_once('/').unwrap_or_default();
        let pod = Subject {
            uid: warning.pod.uid.as_str(),
            namespace,
            name,
            container: None,
        };
        self.send_event(&pod, warning.reason.name, warning.message);
    }

    fn record_event(&self, event: &'static str, took: Duration) {
        self.metrics
            .observe(&catalogue::RUNTIME_EVENT, &[event], took.as_secs_f64());
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
pub(super) const BROKEN_THREAD: &str = "ThreadTerminated";

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn telemetry() -> NodeTelemetry {
        let (changed, _) = sync_channel(1);
        NodeTelemetry::new(Arc::new(crate::metrics::registry()), None, changed)
    }

    /// Telemetry with a queue of events, which nothing sends.
    fn with_events() -> (NodeTelemetry, EventQueue) {
        let queue = EventQueue::default();
        let mut telemetry = telemetry();
        telemetry.events = Some(NodeEvents {
            queue: queue.clone(),
            node: "worker-1".to_owned(),
        });
        (telemetry, queue)
    }

    /// Number of queued events with this reason, each of which the queue has once with its count.
    fn queued(queue: &EventQueue, reason: &str) -> usize {
        let queue = format!("{queue:?}");
        queue.matches(&format!("reason: \"{reason}\"")).count()
    }

    #[test]
    fn a_lost_connection_is_an_event_of_the_node_even_if_the_check_missed_it() {
        let (telemetry, queue) = with_events();
        let runtime = RuntimeInfo {
            name: "containerd".to_owned(),
            version: String::new(),
            nri_version: String::new(),
            config: String::new(),
            request_timeout: None,
            events: nri::api::Events::of(&[]),
        };
        let socket = Path::new("/run/nri.sock");
        telemetry.runtime_disconnected(socket);
        telemetry.runtime_connected(&runtime);
        assert_eq!(queued(&queue, "RuntimeDisconnected"), 0, "the first one");
        telemetry.runtime_connected(&runtime);
        assert_eq!(
            queued(&queue, "RuntimeDisconnected"),
            1,
            "between two checks"
        );
        assert!(format!("{queue:?}").contains("count: 1"));
        for _ in 0..3 {
            telemetry.runtime_disconnected(socket);
        }
        telemetry.runtime_connected(&runtime);
        let queue = format!("{queue:?}");
        assert!(queue.contains("count: 2"), "once per loss: {queue}");
        assert!(queue.contains("kind: \"Node\""), "{queue}");
    }

    #[test]
    fn a_rejected_resize_and_a_move_are_events_of_the_pod() {
        let (telemetry, queue) = with_events();
        let pod = Subject {
            uid: "uid-1",
            namespace: "default",
            name: "web",
            container: Some("main"),
        };
        let rejected = AdmitError::UnknownSandbox("box".to_owned());
        telemetry.record_rejected_resize(&pod, &rejected);
        telemetry.record_moves(vec![PodWarning {
            pod: pinfold_kube::pod::PodIdentity {
                uid: "uid-2".into(),
                name: "batch/db".to_owned(),
            },
            reason: crate::kubernetes::MOVED,
            message: "moved".to_owned(),
        }]);
        assert_eq!(queued(&queue, "ResizeRejected"), 1);
        assert_eq!(queued(&queue, "Moved"), 1);
        let queue = format!("{queue:?}");
        for named in [
            r#"namespace: "default", name: "web", uid: "uid-1""#,
            r#"namespace: "batch", name: "db", uid: "uid-2""#,
        ] {
            assert!(queue.contains(named), "{named}: {queue}");
        }
        let rejections = telemetry.metrics.expose();
        let counted = "pinfold_rejections_total{reason=\"ResizeRejected\"} 1";
        assert!(rejections.contains(counted), "{rejections}");
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
