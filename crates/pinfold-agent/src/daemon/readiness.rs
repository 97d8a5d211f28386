//! [`ReadinessReporter`]: reports whether the agent does its job to the Node's condition and to the service manager.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pinfold_daemon::service_manager::{NotifyEnvironment, ServiceManager};

use super::AgentError;
use crate::kubernetes::{NodeStatus, Readiness};

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Units that start after the agent wait this long for an agent that is not ready, such as one without a runtime.
const LONGEST_START: Duration = Duration::from_secs(10);
/// How long a stopping agent waits until the Node has its last condition.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// The part of the agent that knows whether it does its job.
pub(super) trait ReadinessSource: Send + Sync {
    /// Whether the agent does its job now.
    fn readiness(&self) -> Readiness;

    /// Whether the agent makes progress: a service manager restarts one that does not.
    fn is_live(&self) -> bool;
}

/// The thread that reports. Dropping it reports that the agent stops.
pub(super) struct ReadinessReporter {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ReadinessReporter {
    /// Starts the thread. `node` is the Node's status, if the configuration has it written.
    pub(super) fn start(
        source: Arc<dyn ReadinessSource>,
        node: Option<NodeStatus>,
    ) -> Result<Self, AgentError> {
        let manager = ServiceManager::connect(&NotifyEnvironment::of_process());
        let manager = manager.unwrap_or_else(|error| {
            tracing::warn!(%error, "the service manager's NOTIFY_SOCKET cannot be used");
            None
        });
        let (stop, stopped) = channel();
        let mut reporter = Reporter {
            source,
            node,
            manager,
            started: Instant::now(),
            announced: false,
            last: None,
        };
        let thread = thread::Builder::new()
            .name("readiness".to_owned())
            .spawn(move || reporter.run(&stopped))
            .map_err(AgentError::Thread)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for ReadinessReporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Reporter {
    source: Arc<dyn ReadinessSource>,
    node: Option<NodeStatus>,
    manager: Option<ServiceManager>,
    started: Instant,
    /// Whether the service manager knows that the agent has started.
    announced: bool,
    last: Option<Readiness>,
}

impl Reporter {
    fn run(&mut self, stopped: &Receiver<()>) {
        let watchdog = self.manager.as_ref().and_then(ServiceManager::watchdog);
        let interval = watchdog.map_or(INTERVAL, |time| (time / 3).min(INTERVAL));
        loop {
            self.report(Instant::now());
            if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        if let Some(manager) = &self.manager {
            manager.stopping();
        }
        if let Some(node) = &self.node {
            node.set(Readiness {
                ready: false,
                reason: "AgentStopped",
                message: "the agent was stopped".to_owned(),
            });
            node.wait_written(LAST_WRITE);
        }
    }

    /// One check.
    fn report(&mut self, now: Instant) {
        let readiness = self.source.readiness();
        let is_new = self.last.as_ref() != Some(&readiness);
        if let (Some(node), true) = (&self.node, is_new) {
            node.set(readiness.clone());
        }
        if let Some(manager) = &self.manager {
            if is_new {
                manager.status(&readiness.message);
            }
            if !self.announced && (readiness.ready || now >= self.started + LONGEST_START) {
                // A full socket is tried again: the service manager may be busy while the machine starts.
                self.announced = manager.ready();
            }
            if self.source.is_live() {
                manager.alive();
            }
        }
        self.last = Some(readiness);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::Mutex;

    use super::*;

    /// An agent whose readiness and liveness a test sets.
    struct Played(Mutex<(bool, bool)>);

    impl Played {
        fn set(&self, ready: bool, live: bool) {
            *self.0.lock().expect("unpoisoned") = (ready, live);
        }
    }

    impl ReadinessSource for Played {
        fn readiness(&self) -> Readiness {
            let ready = self.0.lock().expect("unpoisoned").0;
            Readiness {
                ready,
                reason: "Played",
                message: format!("ready: {ready}"),
            }
        }

        fn is_live(&self) -> bool {
            self.0.lock().expect("unpoisoned").1
        }
    }

    #[test]
    fn the_service_manager_gets_the_start_every_change_and_the_watchdog_of_a_live_agent() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        listener.set_nonblocking(true).expect("nonblocking");
        let received = || {
            let mut messages = Vec::new();
            let mut buffer = [0; 256];
            while let Ok(length) = listener.recv(&mut buffer) {
                messages.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            }
            messages
        };
        let environment = NotifyEnvironment {
            socket: Some(path.into()),
            watchdog: Some("30000000".into()),
            watchdog_pid: None,
        };
        let source = Arc::new(Played(Mutex::new((false, true))));
        let started = Instant::now();
        let mut reporter = Reporter {
            source: source.clone(),
            node: None,
            manager: ServiceManager::connect(&environment).expect("connected"),
            started,
            announced: false,
            last: None,
        };
        reporter.report(started);
        assert_eq!(received(), ["STATUS=ready: false", "WATCHDOG=1"]);
        reporter.report(started + LONGEST_START);
        assert_eq!(received(), ["READY=1", "WATCHDOG=1"], "kubelet may start");
        source.set(true, true);
        reporter.report(started + LONGEST_START);
        assert_eq!(received(), ["STATUS=ready: true", "WATCHDOG=1"]);
        source.set(true, false);
        reporter.report(started + LONGEST_START);
        assert!(received().is_empty(), "systemd restarts it");
        let (stop, stopped) = channel();
        drop(stop);
        reporter.run(&stopped);
        assert_eq!(received(), ["STOPPING=1"]);
    }

    #[test]
    fn a_start_that_the_service_manager_could_not_receive_is_announced_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        let environment = NotifyEnvironment {
            socket: Some(path.clone().into()),
            ..NotifyEnvironment::default()
        };
        let full = UnixDatagram::unbound().expect("a socket");
        full.set_nonblocking(true).expect("nonblocking");
        while full.send_to(b"other", &path).is_ok() {}
        let mut reporter = Reporter {
            source: Arc::new(Played(Mutex::new((true, true)))),
            node: None,
            manager: ServiceManager::connect(&environment).expect("connected"),
            started: Instant::now(),
            announced: false,
            last: None,
        };
        reporter.report(Instant::now());
        listener.set_nonblocking(true).expect("nonblocking");
        let mut buffer = [0; 256];
        while listener.recv(&mut buffer).is_ok() {}
        reporter.report(Instant::now());
        let length = listener.recv(&mut buffer).expect("a message");
        assert_eq!(&buffer[..length], b"READY=1");
    }

    #[test]
    fn an_agent_that_is_ready_at_once_is_announced_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        let environment = NotifyEnvironment {
            socket: Some(path.into()),
            ..NotifyEnvironment::default()
        };
        let started = Instant::now();
        let mut reporter = Reporter {
            source: Arc::new(Played(Mutex::new((true, true)))),
            node: None,
            manager: ServiceManager::connect(&environment).expect("connected"),
            started,
            announced: false,
            last: None,
        };
        reporter.report(started);
        let mut buffer = [0; 256];
        let messages = [(); 2].map(|()| {
            let length = listener.recv(&mut buffer).expect("a message");
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        });
        assert_eq!(messages, ["STATUS=ready: true", "READY=1"]);
    }
}
