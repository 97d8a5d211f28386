//! The agent's client of the API server: watches the node's pods, publishes the node's objects, sends events.
//!
//! ```text
//!                 ┌───────────────── one thread ──────────────────┐
//! API server ────►│ list, watch ──► PodCache ─────────────────────┼──► get(uid): when the runtime creates a sandbox
//!            ◄────┤ merge patch ◄── Publisher ◄───────────────────┼─── publish(report): after every change
//!            ◄────┤ events ◄── EventQueue ◄───────────────────────┼─── warn(about a pod or the Node)
//!                 └───────────────────────┬───────────────────────┘
//!                                         └──► SyncEvent, SyncCounters
//! ```
//!
//! The three handles never wait for the server, except [`PodCache::get`] for at most half a second. All queues and
//! caches are bounded, and failed requests are retried with exponential backoff. `deploy/agent/rbac.yaml` lists the
//! permissions that this module needs.

mod custom_resources;
mod event_reasons;
mod node_cache;
mod node_status;
mod object_watch;
mod other_writers;
mod owned_fields;
mod pod_cache;
mod pod_set;
mod pod_watch;
mod pruning;
mod publisher;
mod sync_events;

pub use custom_resources::{CustomResource, CustomResourceReport};
pub use event_reasons::{
    BEST_EFFORT_LIMITED, BEST_EFFORT_RESTORED, CGROUP_CONFLICT, CPUS_NOT_APPLIED, EVENT_REASONS,
    EventReason, MOVED, OTHER_WRITER, RESIZE_REJECTED, RUNTIME_DISCONNECTED, STARTED_UNPINNED,
};
pub use node_cache::{NodeCache, WatchedNode};
pub use node_status::{CONDITION, NodeStatus, NodeStatusConfig, Readiness, Taint};
pub use other_writers::{OtherWriterPolicy, OtherWriters};
pub use owned_fields::OWNED;
pub use pinfold_apiserver::{
    ApiError, Connection, ConnectionError, EventQueue, MAX_MESSAGE, Warning,
};
pub use pinfold_kube::generation::GENERATION;
pub use pod_cache::{CachedPod, LONGEST_WAIT, MAX_PODS, PodCache};
pub use pod_set::PodSetFingerprint;
pub use publisher::Publisher;
pub use sync_events::{SyncCounter, SyncCounters, SyncEvent};

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pinfold_apiserver::events::{EventOutcome, EventRate, EventReporter, EventSender};
use pinfold_apiserver::{ApiClient, Reflector, RetryPolicy};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use node_status::NodeStatusLoop;
use pod_watch::PodWatchSink;
use publisher::{PublishContext, PublishLoop};
use sync_events::SyncEventLog;

/// Timeouts and intervals of the client.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Timeout of one request.
    pub request: Duration,
    /// Shortest interval between two rounds of publishing objects.
    pub interval: Duration,
    /// Longest interval between two reads of a published object, to repair changes by others. The shortest is half of it.
    pub check: Duration,
    /// Backoff after the first failure; it doubles with every further one.
    pub first_retry: Duration,
    /// Longest backoff.
    pub longest_retry: Duration,
    /// Average interval between two events. A burst of 25 is allowed.
    pub event_interval: Duration,
    /// Shortest interval between two updates of the same event.
    pub event_repeat: Duration,
    /// Interval of writing an unchanged condition of the Node again.
    pub heartbeat: Duration,
}

impl Timing {
    /// Timeout and backoff of requests.
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
            heartbeat: Duration::from_secs(300),
        }
    }
}

/// What the client writes, and when.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Timeouts and intervals.
    pub timing: Timing,
    /// The policy about other programs that write the node's objects.
    pub other_writers: OtherWriterPolicy,
    /// What the client writes to the Node.
    pub node_status: NodeStatusConfig,
}

/// The client of the API server. Dropping it stops its thread.
#[derive(Debug)]
pub struct ApiServerClient {
    pods: PodCache,
    publisher: Publisher,
    events: EventQueue,
    counts: Arc<SyncCounters>,
    node: NodeCache,
    other_writers: OtherWriters,
    /// The Node's status; `None` if the agent does not write it.
    node_status: Option<NodeStatus>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ApiServerClient {
    /// Starts the client's thread. The server need not be reachable yet. `on_event` is called on that thread and must not
    /// block.
    ///
    /// # Errors
    /// If `node` is not a valid node name, the certificates are invalid, or the thread cannot be started.
    pub fn start(
        connection: &Connection,
        node: &str,
        timing: Timing,
        on_event: impl Fn(SyncEvent) + Send + Sync + 'static,
    ) -> Result<Self, ConnectionError> {
        let options = ClientOptions {
            timing,
            ..ClientOptions::default()
        };
        Self::start_with(connection, node, options, on_event)
    }

    /// As [`ApiServerClient::start`], with all options.
    ///
    /// # Errors
    /// As those of [`ApiServerClient::start`].
    pub fn start_with(
        connection: &Connection,
        node: &str,
        options: ClientOptions,
        on_event: impl Fn(SyncEvent) + Send + Sync + 'static,
    ) -> Result<Self, ConnectionError> {
        if !is_node_name(node) {
            return Err(ConnectionError::NodeName(node.to_owned()));
        }
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = mpsc::sync_channel(1);
        let pods = PodCache::default();
        let publisher = Publisher::default();
        let events = EventQueue::default();
        let counts = Arc::new(SyncCounters::default());
        let node_cache = NodeCache::default();
        let other_writers = OtherWriters::new(options.other_writers);
        let node_status = (!options.node_status.is_empty()).then(NodeStatus::default);
        let link = SyncThread {
            connection: connection.clone(),
            node: node.to_owned(),
            timing: options.timing,
            node_status: node_status
                .clone()
                .map(|status| (status, options.node_status)),
            log: SyncEventLog::new(on_event),
            pods: pods.clone(),
            publisher: publisher.clone(),
            events: events.clone(),
            counts: Arc::clone(&counts),
            node_cache: node_cache.clone(),
            other_writers: other_writers.clone(),
        };
        let thread = thread::Builder::new()
            .name("kubernetes".to_owned())
            .spawn(move || link.run(&ready, stopped))
            .map_err(ConnectionError::Thread)?;
        // The thread drops its sender without sending only if it panics.
        if let Ok(started) = started.recv() {
            started?;
        }
        Ok(Self {
            pods,
            publisher,
            events,
            counts,
            node: node_cache,
            other_writers,
            node_status,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The cache of the pods that are bound to this node.
    #[must_use]
    pub fn pods(&self) -> &PodCache {
        &self.pods
    }

    /// The publisher of the node's objects.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// The queue of Kubernetes events about pods.
    #[must_use]
    pub fn events(&self) -> &EventQueue {
        &self.events
    }

    /// The labels and annotations of the Node object.
    #[must_use]
    pub fn node(&self) -> &NodeCache {
        &self.node
    }

    /// The other programs that write the node's objects.
    #[must_use]
    pub fn other_writers(&self) -> &OtherWriters {
        &self.other_writers
    }

    /// The Node's status; `None` if the options have nothing written to it.
    #[must_use]
    pub fn node_status(&self) -> Option<&NodeStatus> {
        self.node_status.as_ref()
    }

    /// Counters of requests and events.
    #[must_use]
    pub fn counts(&self) -> &SyncCounters {
        &self.counts
    }
}

impl Drop for ApiServerClient {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is not passed on.
            let _ = thread.join();
        }
    }
}

/// The state of the client's thread.
struct SyncThread {
    connection: Connection,
    node: String,
    timing: Timing,
    log: SyncEventLog,
    pods: PodCache,
    publisher: Publisher,
    events: EventQueue,
    counts: Arc<SyncCounters>,
    node_cache: NodeCache,
    other_writers: OtherWriters,
    node_status: Option<(NodeStatus, NodeStatusConfig)>,
}

impl SyncThread {
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
            // Resolves when `ApiServerClient` is dropped.
            let _ = stopped.await;
        });
        // Does not wait for a DNS lookup in progress.
        runtime.shutdown_background();
    }

    fn spawn(self, api: &ApiClient) {
        let (log, timing) = (self.log, self.timing);
        let backoff = timing.retry_policy().backoff();
        let sink = PodWatchSink {
            pods: self.pods.clone(),
            log: log.clone(),
            counts: Arc::clone(&self.counts),
            listed: None,
            wake: self.publisher.wake(),
        };
        let source = pod_watch::pods_of_node(&self.node);
        let reflector = Reflector::new(api.clone(), source, sink, backoff.clone());
        spawn_task("the pod watch", reflector.run(), &log);
        let reporter = EventReporter {
            component: "pinfold-agent",
            instance: self.node.clone(),
        };
        let sender = EventSender::new(
            api.clone(),
            reporter,
            self.events.clone(),
            timing.event_rate(),
            backoff,
            record_event_results(log.clone(), Arc::clone(&self.counts)),
        );
        spawn_task("sending events", sender.run(), &log);
        if let Some((status, config)) = self.node_status {
            let writer = NodeStatusLoop {
                api: api.clone(),
                node: self.node.clone(),
                config,
                status,
                timing: timing.clone(),
                log: log.clone(),
                counts: Arc::clone(&self.counts),
            };
            spawn_task("writing the Node's status", writer.run(), &log);
        }
        let publish_loop = PublishLoop::new(PublishContext {
            api: api.clone(),
            node: self.node,
            publisher: self.publisher,
            pods: self.pods,
            node_cache: self.node_cache,
            other_writers: self.other_writers,
            events: self.events,
            timing,
            log: log.clone(),
            counts: self.counts,
        });
        spawn_task("publishing", publish_loop.run(), &log);
    }
}

/// SyncCounters and logs the results of sending Kubernetes events.
fn record_event_results(
    log: SyncEventLog,
    counts: Arc<SyncCounters>,
) -> impl Fn(EventOutcome) + Send + Sync {
    move |fate| match fate {
        EventOutcome::Sent => counts.events_sent.add(1),
        EventOutcome::Failed => counts.failures.add(1),
        EventOutcome::Rejected(error) => log.log(SyncEvent::EventRejected { error }),
        EventOutcome::Dropped(events) => {
            counts.events_dropped.add(events);
            log.log(SyncEvent::EventsDropped { events });
        }
    }
}

/// Spawns a task that runs until the thread stops, and logs if it panics.
fn spawn_task(
    task: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
    log: &SyncEventLog,
) {
    let spawned = tokio::spawn(future);
    let log = log.clone();
    tokio::spawn(async move {
        let _ = spawned.await;
        log.log(SyncEvent::TaskPanicked { task });
    });
}

/// Whether the API server accepts this name for a Node object. Such a name needs no escaping in a path or query.
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
    fn a_name_that_would_change_a_request_path_is_not_a_node_name() {
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
