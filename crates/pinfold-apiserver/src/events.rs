//! [`EventQueue`]: a queue of warnings about pods, written as Kubernetes Events (`kubectl describe pod` shows them).
//!
//! A repeated warning about the same pod increments the count of the existing Event. The rate of writes is limited;
//! when the queue is full, the oldest warnings are dropped and counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::api_client::{ApiClient, ApiError, percent_encode, truncate};
use crate::backoff::{RetryBackoff, random};

/// The longest message of an Event that the API server accepts, in bytes.
pub const MAX_MESSAGE: usize = 1024;
/// The most queued warnings, and the most Events whose count can be incremented.
const MAX_EVENTS: usize = 256;
/// Events that may be written at once after an idle time.
const BURST: u32 = 25;
/// Attempts to write an Event.
const ATTEMPTS: u32 = 4;
/// A warning that repeats later than this creates a new Event.
const SAME_EVENT_WITHIN: Duration = Duration::from_secs(600);

/// The reporter of Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReporter {
    /// The field `reportingComponent`, such as `pinfold-agent`.
    pub component: &'static str,
    /// The field `reportingInstance`; for an agent the name of its node.
    pub instance: String,
}

/// The rate limit of Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRate {
    /// Average time between two writes, after a burst of 25.
    pub interval: Duration,
    /// The least time between two updates of one Event.
    pub update_interval: Duration,
}

impl Default for EventRate {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            update_interval: Duration::from_secs(30),
        }
    }
}

/// The outcome of writing an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// The Event was created or its count incremented.
    Sent,
    /// A request failed; it may be retried.
    Failed,
    /// The server rejected the Event, or all attempts failed.
    Rejected(ApiError),
    /// This many warnings were dropped.
    Dropped(u64),
}

/// A warning about a pod or the Node, to be written as an Event of type `Warning`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The kind of the object: `Pod` or `Node`.
    pub kind: &'static str,
    /// The object's namespace; `default` for a Node.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's uid.
    pub uid: String,
    /// The reason, such as `TopologyAffinityError`.
    pub reason: String,
    /// The message; cut to [`MAX_MESSAGE`] bytes.
    pub message: String,
}

impl Warning {
    /// A warning about a Node.
    #[must_use]
    pub fn about_node(node: &str, reason: &str, message: String) -> Self {
        Self {
            kind: "Node",
            namespace: "default".to_owned(),
            name: node.to_owned(),
            // As the kubelet's own events about its Node, which `kubectl describe node` lists.
            uid: node.to_owned(),
            reason: reason.to_owned(),
            message,
        }
    }
}

/// The queue of warnings. Clones share the queue.
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    shared: Arc<SharedWarnings>,
}

#[derive(Debug, Default)]
struct SharedWarnings {
    queue: Mutex<WarningQueue>,
    /// Wakes the sender.
    added: Notify,
}

#[derive(Debug, Default)]
struct WarningQueue {
    warnings: VecDeque<CountedWarning>,
    /// Warnings that were dropped because the queue was full.
    dropped: u64,
}

/// A warning, how often it was given, and when.
#[derive(Debug)]
struct CountedWarning {
    warning: Warning,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

impl EventQueue {
    /// Queues a warning. Never blocks.
    pub fn warn(&self, mut warning: Warning) {
        warning.message = truncate(&warning.message, MAX_MESSAGE);
        let now = Timestamp::now();
        let mut queue = self.queue();
        let known = queue
            .warnings
            .iter_mut()
            .find(|known| known.warning == warning);
        if let Some(known) = known {
            known.count = known.count.saturating_add(1);
            known.last = now;
        } else {
            // A full queue drops the oldest.
            if queue.warnings.len() >= MAX_EVENTS {
                queue.warnings.pop_front();
                queue.dropped += 1;
            }
            queue.warnings.push_back(CountedWarning {
                warning,
                count: 1,
                first: now,
                last: now,
            });
        }
        drop(queue);
        self.shared.added.notify_one();
    }

    fn queue(&self) -> MutexGuard<'_, WarningQueue> {
        let queue = self.shared.queue.lock();
        queue.unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> WarningQueue {
        std::mem::take(&mut *self.queue())
    }
}

/// An Event that was written, or is to be written.
struct EventRecord {
    counted: CountedWarning,
    /// The name of the Event, if it was written.
    name: Option<String>,
    /// Whether the Event is to be written or updated.
    pending: bool,
    /// The earliest time of the next write.
    due: Instant,
    last_warning: Instant,
    attempts: u32,
}

/// Writes the queued warnings as Events.
pub struct EventSender {
    api: ApiClient,
    reporter: EventReporter,
    events: EventQueue,
    rate: EventRate,
    on_outcome: Box<dyn Fn(EventOutcome) + Send + Sync>,
    records: Vec<EventRecord>,
    /// When the rate limit would be used up by the writes so far, without a burst.
    used_until: Instant,
    backoff: RetryBackoff,
}

impl EventSender {
    /// Writes the warnings queued in `events`. `on_outcome` is called after every request and must not block.
    #[must_use]
    pub fn new(
        api: ApiClient,
        reporter: EventReporter,
        events: EventQueue,
        rate: EventRate,
        backoff: RetryBackoff,
        on_outcome: impl Fn(EventOutcome) + Send + Sync + 'static,
    ) -> Self {
        Self {
            api,
            reporter,
            events,
            rate,
            on_outcome: Box::new(on_outcome),
            records: Vec::new(),
            used_until: Instant::now(),
            backoff,
        }
    }

    /// Writes Events until the future is dropped.
    pub async fn run(mut self) {
        loop {
            self.take_queued();
            let pending = self.records.iter().enumerate();
            let pending = pending.filter(|(_, record)| record.pending);
            let next = pending.min_by_key(|(_, record)| record.due);
            let next = next.map(|(index, record)| (index, record.due.max(self.next_allowed())));
            match next {
                Some((index, due)) if due <= Instant::now() => self.send(index).await,
                Some((_, due)) => drop(timeout_at(due, self.events.shared.added.notified()).await),
                None => self.events.shared.added.notified().await,
            }
        }
    }

    /// When the rate limit allows the next write.
    fn next_allowed(&self) -> Instant {
        let burst = self.rate.interval * (BURST - 1);
        self.used_until
            .checked_sub(burst)
            .unwrap_or_else(Instant::now)
    }

    /// Moves the queued warnings into the records.
    fn take_queued(&mut self) {
        let now = Instant::now();
        self.records
            .retain(|record| record.pending || now - record.last_warning < SAME_EVENT_WITHIN);
        let WarningQueue {
            warnings,
            mut dropped,
        } = self.events.take();
        for counted in warnings {
            let known = self
                .records
                .iter_mut()
                .find(|record| record.counted.warning == counted.warning);
            if let Some(record) = known {
                record.counted.count = record.counted.count.saturating_add(counted.count);
                record.counted.last = counted.last;
                record.pending = true;
                record.last_warning = now;
                continue;
            }
            if self.records.len() >= MAX_EVENTS {
                let done = self.records.iter().position(|record| !record.pending);
                dropped += u64::from(done.is_none());
                self.records.remove(done.unwrap_or(0));
            }
            self.records.push(EventRecord {
                counted,
                name: None,
                pending: true,
                due: now,
                last_warning: now,
                attempts: 0,
            });
        }
        self.report_dropped(dropped);
    }

    fn report_dropped(&self, dropped: u64) {
        if dropped > 0 {
            (self.on_outcome)(EventOutcome::Dropped(dropped));
        }
    }

    async fn send(&mut self, index: usize) {
        let Some(record) = self.records.get(index) else {
            return;
        };
        let now = Instant::now();
        self.used_until = self.used_until.max(now) + self.rate.interval;
        let warning = &record.counted.warning;
        let all = format!(
            "/api/v1/namespaces/{}/events",
            percent_encode(&warning.namespace)
        );
        let outcome = match &record.name {
            Some(name) => {
                let body = json!({
                    "count": record.counted.count,
                    "lastTimestamp": rfc3339(record.counted.last),
                });
                let path = format!("{all}/{}", percent_encode(name));
                self.api
                    .merge_patch(&path, &body)
                    .await
                    .map(|_| name.clone())
            }
            None => {
                let name = event_name(&warning.name);
                let body = event(&name, &self.reporter, &record.counted);
                self.api.post(&all, &body).await.map(|_| name)
            }
        };
        self.record_outcome(index, outcome);
    }

    fn record_outcome(&mut self, index: usize, outcome: Result<String, ApiError>) {
        let Some(record) = self.records.get_mut(index) else {
            return;
        };
        let now = Instant::now();
        let error = match outcome {
            Ok(name) => {
                self.backoff.reset();
                (self.on_outcome)(EventOutcome::Sent);
                record.name = Some(name);
                record.pending = false;
                record.attempts = 0;
                record.due = now + self.rate.update_interval;
                return;
            }
            Err(error) => error,
        };
        (self.on_outcome)(EventOutcome::Failed);
        record.attempts += 1;
        let gone = record.name.is_some() && error.code() == Some(404);
        // The API server deletes Events after an hour: create it again.
        if gone {
            record.name = None;
        }
        // Would be rejected again: the namespace is deleted, or RBAC forbids it.
        let permanent = error
            .code()
            .is_some_and(|code| (400..500).contains(&code) && code != 429);
        if (permanent && !gone) || record.attempts >= ATTEMPTS {
            self.records.remove(index);
            (self.on_outcome)(EventOutcome::Rejected(error));
            return self.report_dropped(1);
        }
        record.due = now + self.backoff.next();
    }
}

/// Formats a time as the API server's type `Time`, in whole seconds.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A random name for an Event about `pod`, within the length limit of names.
fn event_name(pod: &str) -> String {
    const LONGEST: usize = 253 - 17;
    let end = pod.floor_char_boundary(LONGEST);
    let pod = pod.get(..end).unwrap_or_default();
    format!("{}.{:016x}", pod.trim_end_matches(['-', '.']), random())
}

fn event(name: &str, reporter: &EventReporter, counted: &CountedWarning) -> Value {
    let warning = &counted.warning;
    let EventReporter {
        component,
        instance,
    } = reporter;
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": warning.namespace },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": warning.kind,
            "namespace": if warning.kind == "Node" { "" } else { &warning.namespace },
            "name": warning.name,
            "uid": warning.uid,
        },
        "type": "Warning",
        "reason": warning.reason,
        "message": warning.message,
        "source": { "component": component, "host": instance },
        "reportingComponent": component,
        "reportingInstance": instance,
        "firstTimestamp": rfc3339(counted.first),
        "lastTimestamp": rfc3339(counted.last),
        "count": counted.count,
    })
}
