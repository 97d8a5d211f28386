//! What happens, told to logs, metrics and the events of pods.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nri::RuntimeInfo;

use crate::journaled_ledger::JournaledLedgerError;
use crate::kubernetes::{Events, Warning};
use crate::metrics::{Metrics, catalogue};
use crate::node::Remark;
use crate::runtime::{Subject, Witness};
use pinfold_daemon::logs::Log;

/// Tells what happens.
pub(super) struct Told {
    pub(super) log: Log,
    pub(super) metrics: Arc<Metrics>,
    pub(super) events: Option<Events>,
    /// Wakes whoever reports on the node.
    pub(super) changed: SyncSender<()>,
    problems: Mutex<BTreeMap<&'static str, String>>,
}

impl Told {
    pub(super) fn new(
        log: Log,
        metrics: Arc<Metrics>,
        events: Option<Events>,
        changed: SyncSender<()>,
    ) -> Self {
        let problems = Mutex::default();
        Self {
            log,
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
                    self.log.error("problem", &[("what", &problem)]);
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

impl Witness for Told {
    fn connected(&self, runtime: &RuntimeInfo) {
        self.metrics.count(&catalogue::NRI_CONNECTIONS, &[]);
        let about = [
            ("runtime", &runtime.name as &dyn std::fmt::Display),
            ("version", &runtime.version),
            ("nri", &runtime.nri_version),
        ];
        self.log.info("connected", &about);
    }

    fn decided(&self, what: &Subject<'_>, rejected: Option<&str>, took: Duration) {
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
        let about = [
            ("namespace", &what.namespace as &dyn std::fmt::Display),
            ("pod", &what.name),
            ("uid", &what.uid),
            ("container", &container),
        ];
        let Some(why) = rejected else {
            return self.log.debug("admitted", &about);
        };
        let reason = reason(why);
        self.metrics.count(&catalogue::ADMISSION_ERRORS, &[]);
        self.metrics.count(&catalogue::REJECTIONS, &[reason]);
        let mut about = about.to_vec();
        about.push(("why", &why));
        self.log.warn("rejected", &about);
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

    fn remarked(&self, remark: &Remark) {
        self.log.warn("differs", &[("what", remark)]);
    }

    fn failed(&self, error: &JournaledLedgerError) {
        self.log.error("failed", &[("why", error)]);
    }

    fn troubled(&self, problem: &str) {
        self.log.warn("trouble", &[("what", &problem)]);
    }

    fn changed(&self) {
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
    use std::time::SystemTime;

    use super::*;
    use pinfold_daemon::logs::{Level, LogFormat};

    fn told() -> Told {
        let (changed, _) = sync_channel(1);
        let sink = Box::new(std::io::sink());
        let log = Log::to(sink, LogFormat::Text, Level::Error, SystemTime::now);
        Told::new(log, Arc::new(crate::metrics::registry()), None, changed)
    }

    #[test]
    fn a_thread_that_ended_is_what_only_a_new_start_mends() {
        let told = told();
        told.problem("overlap", Some("two pin".to_owned()));
        assert_eq!((told.problems().len(), told.broken().len()), (1, 0));
        told.problem(BROKEN_THREAD, Some("the teller has ended".to_owned()));
        assert_eq!((told.problems().len(), told.broken().len()), (2, 1));
        told.problem("overlap", None);
        assert_eq!(told.problems(), told.broken());
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
