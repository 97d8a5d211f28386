//! [`Events`]: what happened to a pod, where people look for it (`kubectl describe pod`).
//!
//! The same thing said again about the same pod raises the count of the event that is there. Each node sends a limited
//! number of them; what does not fit waits, and what waits too long is dropped and counted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::api::{Api, ApiError, escaped, shortened};
use crate::backoff::{Backoff, random};

/// The longest message that the API server takes.
pub const MAX_MESSAGE: usize = 1024;
/// The most events that wait, or are remembered to be counted.
const MAX_EVENTS: usize = 256;
/// How many may be sent at once, after a time of silence.
const BURST: u32 = 25;
/// How often an event is tried.
const ATTEMPTS: u32 = 4;
/// An event that was last seen this long ago is history: the next one is a new one.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The program, such as `pinfold-agent`.
    pub component: &'static str,
    /// Which one of several; for an agent the name of its node.
    pub instance: String,
}

/// How often events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ration {
    /// One event is sent in this time on average, a burst of 25 aside.
    pub interval: Duration,
    /// The least time between two updates of one event.
    pub repeat: Duration,
}

impl Default for Ration {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            repeat: Duration::from_secs(30),
        }
    }
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was created or raised.
    Sent,
    /// A request failed, and is made again.
    Failed,
    /// The server does not take it.
    Rejected(ApiError),
    /// So many were lost.
    Dropped(u64),
}

/// Something that happened to a pod and that somebody should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its id.
    pub uid: String,
    /// In one word, such as `TopologyAffinityError`.
    pub reason: String,
    /// In sentences; cut to [`MAX_MESSAGE`] bytes.
    pub message: String,
}

/// Takes warnings. All copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Events {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    new: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    heard: VecDeque<Heard>,
    /// How many were dropped for want of room.
    lost: u64,
}

/// A warning, how often it came, and when.
#[derive(Debug)]
struct Heard {
    warning: Warning,
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Events {
    /// Tells about it in the cluster. Never waits.
    pub fn warn(&self, mut warning: Warning) {
        warning.message = shortened(&warning.message, MAX_MESSAGE);
        let now = Timestamp::now();
        let mut waiting = self.waiting();
        let known = waiting
            .heard
            .iter_mut()
            .find(|heard| heard.warning == warning);
        if let Some(heard) = known {
            heard.count = heard.count.saturating_add(1);
            heard.last = now;
        } else {
            // The newest is worth most.
            if waiting.heard.len() >= MAX_EVENTS {
                waiting.heard.pop_front();
                waiting.lost += 1;
            }
            waiting.heard.push_back(Heard {
                warning,
                count: 1,
                first: now,
                last: now,
            });
        }
        drop(waiting);
        self.shared.new.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.shared.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Waiting {
        std::mem::take(&mut *self.waiting())
    }
}

/// An event that is, or will be, in the cluster.
struct Record {
    heard: Heard,
    /// Its name there, if it is there.
    sent_as: Option<String>,
    /// There is something to say.
    pending: bool,
    /// Not before.
    due: Instant,
    touched: Instant,
    attempts: u32,
}

/// Sends what is to be said, for ever.
pub struct Teller {
    api: Api,
    reporter: Reporter,
    events: Events,
    ration: Ration,
    tell: Box<dyn Fn(Fate) + Send + Sync>,
    records: Vec<Record>,
    /// Up to when the events that were sent use up our share.
    used_until: Instant,
    backoff: Backoff,
}

impl Teller {
    /// Sends what `events` takes. `tell` hears what becomes of it and must not wait.
    #[must_use]
    pub fn new(
        api: Api,
        reporter: Reporter,
        events: Events,
        ration: Ration,
        backoff: Backoff,
        tell: impl Fn(Fate) + Send + Sync + 'static,
    ) -> Self {
        Self {
            api,
            reporter,
            events,
            ration,
            tell: Box::new(tell),
            records: Vec::new(),
            used_until: Instant::now(),
            backoff,
        }
    }

    /// Never ends.
    pub async fn run(mut self) {
        loop {
            self.absorb();
            let pending = self.records.iter().enumerate();
            let pending = pending.filter(|(_, record)| record.pending);
            let next = pending.min_by_key(|(_, record)| record.due);
            let next = next.map(|(index, record)| (index, record.due.max(self.share_at())));
            match next {
                Some((index, due)) if due <= Instant::now() => self.send(index).await,
                Some((_, due)) => drop(timeout_at(due, self.events.shared.new.notified()).await),
                None => self.events.shared.new.notified().await,
            }
        }
    }

    /// When our share allows the next event.
    fn share_at(&self) -> Instant {
        let burst = self.ration.interval * (BURST - 1);
        self.used_until
            .checked_sub(burst)
            .unwrap_or_else(Instant::now)
    }

    /// Takes over what came in.
    fn absorb(&mut self) {
        let now = Instant::now();
        self.records
            .retain(|record| record.pending || now - record.touched < FORGET_AFTER);
        let Waiting { heard, mut lost } = self.events.take();
        for heard in heard {
            let known = self
                .records
                .iter_mut()
                .find(|record| record.heard.warning == heard.warning);
            if let Some(record) = known {
                record.heard.count = record.heard.count.saturating_add(heard.count);
                record.heard.last = heard.last;
                record.pending = true;
                record.touched = now;
                continue;
            }
            if self.records.len() >= MAX_EVENTS {
                let done = self.records.iter().position(|record| !record.pending);
                lost += u64::from(done.is_none());
                self.records.remove(done.unwrap_or(0));
            }
            self.records.push(Record {
                heard,
                sent_as: None,
                pending: true,
                due: now,
                touched: now,
                attempts: 0,
            });
        }
        self.lose(lost);
    }

    fn lose(&self, lost: u64) {
        if lost > 0 {
            (self.tell)(Fate::Dropped(lost));
        }
    }

    async fn send(&mut self, index: usize) {
        let Some(record) = self.records.get(index) else {
            return;
        };
        let now = Instant::now();
        self.used_until = self.used_until.max(now) + self.ration.interval;
        let warning = &record.heard.warning;
        let all = format!("/api/v1/namespaces/{}/events", escaped(&warning.namespace));
        let outcome = match &record.sent_as {
            Some(name) => {
                let body = json!({
                    "count": record.heard.count,
                    "lastTimestamp": written(record.heard.last),
                });
                let path = format!("{all}/{}", escaped(name));
                self.api
                    .merge_patch(&path, &body)
                    .await
                    .map(|_| name.clone())
            }
            None => {
                let name = event_name(&warning.name);
                let body = event(&name, &self.reporter, &record.heard);
                self.api.post(&all, &body).await.map(|_| name)
            }
        };
        self.note(index, outcome);
    }

    fn note(&mut self, index: usize, outcome: Result<String, ApiError>) {
        let Some(record) = self.records.get_mut(index) else {
            return;
        };
        let now = Instant::now();
        let error = match outcome {
            Ok(name) => {
                self.backoff.reset();
                (self.tell)(Fate::Sent);
                record.sent_as = Some(name);
                record.pending = false;
                record.attempts = 0;
                record.due = now + self.ration.repeat;
                return;
            }
            Err(error) => error,
        };
        (self.tell)(Fate::Failed);
        record.attempts += 1;
        let gone = record.sent_as.is_some() && error.code() == Some(404);
        // The server keeps events for an hour: one that it forgot is written anew.
        if gone {
            record.sent_as = None;
        }
        // A rejection stays a rejection: the namespace is gone, or we may not.
        let hopeless = error
            .code()
            .is_some_and(|code| (400..500).contains(&code) && code != 429);
        if (hopeless && !gone) || record.attempts >= ATTEMPTS {
            self.records.remove(index);
            (self.tell)(Fate::Rejected(error));
            return self.lose(1);
        }
        record.due = now + self.backoff.next();
    }
}

/// A time as the API server reads it.
fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A name that nobody else has, and not longer than names may be.
fn event_name(pod: &str) -> String {
    const LONGEST: usize = 253 - 17;
    let end = pod.floor_char_boundary(LONGEST);
    let pod = pod.get(..end).unwrap_or_default();
    format!("{}.{:016x}", pod.trim_end_matches(['-', '.']), random())
}

fn event(name: &str, reporter: &Reporter, heard: &Heard) -> Value {
    let warning = &heard.warning;
    let Reporter {
        component,
        instance,
    } = reporter;
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": warning.namespace },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": warning.namespace,
            "name": warning.name,
            "uid": warning.uid,
        },
        "type": "Warning",
        "reason": warning.reason,
        "message": warning.message,
        "source": { "component": component, "host": instance },
        "reportingComponent": component,
        "reportingInstance": instance,
        "firstTimestamp": written(heard.first),
        "lastTimestamp": written(heard.last),
        "count": heard.count,
    })
}
