//! The node's side of the API server: which pods are meant to run here, what this node has, what went wrong.
//!
//! ```text
//!                 ┌───────────────── one thread ──────────────────┐
//! API server ────►│ list, watch ──► PodSpecs ─────────────────────┼──► get(uid): the runtime's events
//!            ◄────┤ merge patch ◄── Publisher ◄───────────────────┼─── publish(report): after every change
//!            ◄────┤ events ◄────── Events ◄───────────────────────┼─── warn(about a pod): after every rejection
//!                 └───────────────────────┬───────────────────────┘
//!                                         └──► remarks, counts
//! ```
//!
//! A server that is slow, absent or mad costs nobody anything but news: the three handles never wait for it (but
//! [`PodSpecs::get`], for half a second at most), everything that comes in has a bound, and failures are tried again at
//! growing intervals. What this needs to be allowed is in `deploy/agent/rbac.yaml`, and no more.

mod follow;
mod merge;
mod object;
mod pods;
mod publisher;
mod remark;

pub use merge::OWNED;
pub use object::{Object, Report};
pub use pinfold_apiserver::{ApiError, Connection, ConnectionError, Events, MAX_MESSAGE, Warning};
pub use pinfold_kube::generation::GENERATION;
pub use pods::{KnownPod, LONGEST_WAIT, MAX_PODS, PodSpecs};
pub use publisher::Publisher;
pub use remark::{Count, Counts, Remark};

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pinfold_apiserver::events::{EventOutcome, EventRate, EventReporter, EventSender};
use pinfold_apiserver::{ApiClient, Reflector, RetryPolicy};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use follow::NodePods;
use publisher::Sender;
use remark::Remarks;

/// How long things take, and how often they happen.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The longest that one request may take.
    pub request: Duration,
    /// The least time between two rounds of writing objects.
    pub interval: Duration,
    /// How often objects are looked at though nothing changed here; between half of this and all of it.
    pub check: Duration,
    /// The wait after a first failure; it doubles with every further one.
    pub first_retry: Duration,
    /// The longest wait after a failure.
    pub longest_retry: Duration,
    /// One event is sent in this time on average, a burst of 25 aside.
    pub event_interval: Duration,
    /// The least time between two updates of one event.
    pub event_repeat: Duration,
}

impl Timing {
    /// As the link to the server takes it.
    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            request_timeout: self.request,
            first_delay: self.first_retry,
            max_delay: self.longest_retry,
        }
    }

    fn event_rate(&self) -> EventRate {
        EventRate {
            interval: self.event_interval,
            update_interval: self.event_repeat,
        }
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            interval: Duration::from_secs(3),
            check: Duration::from_secs(300),
            first_retry: Duration::from_millis(500),
            longest_retry: Duration::from_secs(30),
            event_interval: Duration::from_secs(5),
            event_repeat: Duration::from_secs(30),
        }
    }
}

/// The link to the API server. It ends when this is dropped.
#[derive(Debug)]
pub struct Kubernetes {
    pods: PodSpecs,
    publisher: Publisher,
    events: Events,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Kubernetes {
    /// Starts the thread. The server need not be there yet. `remarks` is called on that thread and must not wait.
    ///
    /// # Errors
    /// If the name is no node's, the certificates cannot be used, or there is no thread left.
    pub fn start(
        connection: &Connection,
        node: &str,
        timing: Timing,
        remarks: impl Fn(Remark) + Send + Sync + 'static,
    ) -> Result<Self, ConnectionError> {
        if !is_node_name(node) {
            return Err(ConnectionError::NodeName(node.to_owned()));
        }
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = mpsc::sync_channel(1);
        let pods = PodSpecs::default();
        let publisher = Publisher::default();
        let events = Events::default();
        let counts = Arc::new(Counts::default());
        let link = Link {
            connection: connection.clone(),
            node: node.to_owned(),
            timing,
            remarks: Remarks::new(remarks),
            pods: pods.clone(),
            publisher: publisher.clone(),
            events: events.clone(),
            counts: Arc::clone(&counts),
        };
        let thread = thread::Builder::new()
            .name("kubernetes".to_owned())
            .spawn(move || link.run(&ready, stopped))
            .map_err(ConnectionError::Thread)?;
        // The other end is only dropped without a word by a panic, which joining tells.
        if let Ok(started) = started.recv() {
            started?;
        }
        Ok(Self {
            pods,
            publisher,
            events,
            counts,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The pods of this node.
    #[must_use]
    pub fn pods(&self) -> &PodSpecs {
        &self.pods
    }

    /// Where reports go.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Where warnings about pods go.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic over there ended the link already; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

/// What the thread is given.
struct Link {
    connection: Connection,
    node: String,
    timing: Timing,
    remarks: Remarks,
    pods: PodSpecs,
    publisher: Publisher,
    events: Events,
    counts: Arc<Counts>,
}

impl Link {
    fn run(
        self,
        ready: &mpsc::SyncSender<Result<(), ConnectionError>>,
        stopped: oneshot::Receiver<()>,
    ) {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = ready.send(Err(ConnectionError::Thread(error)));
                return;
            }
        };
        runtime.block_on(async {
            let api = match ApiClient::new(&self.connection, self.timing.request) {
                Ok(api) => api,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            self.spawn(&api);
            // Dropping the other end is the message.
            let _ = stopped.await;
        });
        // A name that is being looked up right now is nothing to wait for.
        runtime.shutdown_background();
    }

    fn spawn(self, api: &ApiClient) {
        let (remarks, timing) = (self.remarks, self.timing);
        let backoff = timing.retry_policy().backoff();
        let sink = NodePods {
            pods: self.pods,
            remarks: remarks.clone(),
            counts: Arc::clone(&self.counts),
            listed: None,
        };
        let source = follow::of_node(&self.node);
        let reflector = Reflector::new(api.clone(), source, sink, backoff.clone());
        watched("following pods", reflector.run(), &remarks);
        let reporter = EventReporter {
            component: "pinfold-agent",
            instance: self.node.clone(),
        };
        let sender = EventSender::new(
            api.clone(),
            reporter,
            self.events,
            timing.event_rate(),
            backoff,
            fates(remarks.clone(), Arc::clone(&self.counts)),
        );
        watched("sending events", sender.run(), &remarks);
        let place = (api.clone(), self.node);
        let sender = Sender::new(place, self.publisher, timing, remarks.clone(), self.counts);
        watched("publishing", sender.run(), &remarks);
    }
}

/// What becomes of events, counted and remarked.
fn fates(remarks: Remarks, counts: Arc<Counts>) -> impl Fn(EventOutcome) + Send + Sync {
    move |fate| match fate {
        EventOutcome::Sent => counts.events_sent.add(1),
        EventOutcome::Failed => counts.failures.add(1),
        EventOutcome::Rejected(error) => remarks.say(Remark::EventFailed { error }),
        EventOutcome::Dropped(events) => {
            counts.events_dropped.add(events);
            remarks.say(Remark::EventsDropped { events });
        }
    }
}

/// Runs a task that is not meant to end; if it does, by a panic, that is said.
fn watched(what: &'static str, task: impl Future<Output = ()> + Send + 'static, remarks: &Remarks) {
    let task = tokio::spawn(task);
    let remarks = remarks.clone();
    tokio::spawn(async move {
        let _ = task.await;
        remarks.say(Remark::Ended { what });
    });
}

/// What the API server takes for a node's name, and what no path or query can be broken with.
fn is_node_name(name: &str) -> bool {
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty()
            && part.chars().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_lead_elsewhere_is_no_nodes_name() {
        for name in ["worker-1", "node.example.com", "a", "0"] {
            assert!(is_node_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "", ".", "..", "a..b", "a/b", "-a", "a-", "A", "a b", "a?b", "a%2e", &long,
        ] {
            assert!(!is_node_name(name), "{name}");
        }
    }
}
