//! [`Publisher`]: writes the objects of the latest report to the API server.
//!
//! An object is read once, cached and watched. A report without changes to it needs no request; otherwise the agent
//! sends one merge patch of the changes, with the resource version as precondition. An object that was deleted or
//! changed by another client is written again at once, unless another program owns the fields (see
//! [`super::other_writers`]).
//!
//! The object is also read at intervals and after every failure, in case the watch misses a change. A resource that the
//! server does not serve is checked again at shorter intervals, because CustomResourceDefinitions may be added.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use pinfold_apiserver::{ApiClient, RetryBackoff, Warning, jitter};
use pinfold_kube::pod_fingerprint::FingerprintMethod;

use super::custom_resources::{CustomResource, CustomResourceReport, Fingerprints};
use super::event_reasons::OTHER_WRITER;
use super::node_cache::{NodeCache, NodeSink};
use super::object_watch::{ObjectChanges, ObjectSink, watch_object};
use super::other_writers::OtherWriters;
use super::owned_fields::NodeRef;
use super::pod_cache::{CachedPod, PodCache};
use super::pod_set::PodSetFingerprint;
use super::pruning::FieldPath;
use super::{EventQueue, SyncCounters, SyncEvent, SyncEventLog, Timing};

mod bookings;
mod write;

use bookings::Bookings;

/// Path of the list of Nodes.
const NODES: &str = "/api/v1/nodes";
/// How often the first report is held back until the pods are listed, within the timeout of a request.
const PODS_DELAY: Duration = Duration::from_millis(20);

/// The handle by which the agent submits reports. Clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    shared: Arc<LatestReport>,
}

#[derive(Debug, Default)]
struct LatestReport {
    latest: Mutex<Option<Arc<CustomResourceReport>>>,
    /// Since when the server has lacked the latest report, or an older one that it lacks too.
    stale_since: Mutex<Option<Instant>>,
    /// Wakes the publish loop: a new report, or a change of a watched object or pod.
    new: Arc<Notify>,
}

impl Publisher {
    /// Submits a report without blocking. It replaces an earlier report that was not written yet.
    pub fn publish(&self, report: CustomResourceReport) {
        let mut latest = self
            .shared
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *latest = Some(Arc::new(report));
        self.stale_since().get_or_insert_with(Instant::now);
        drop(latest);
        self.shared.new.notify_one();
    }

    /// Records that there is something to report, which is held back until the Node is known.
    pub fn hold_back(&self) {
        self.stale_since().get_or_insert_with(Instant::now);
    }

    /// How long the server has lacked the latest report; zero if it has it. Objects that the server does not serve and
    /// those of other writers do not count.
    #[must_use]
    pub fn stale_for(&self) -> Duration {
        let since = *self.stale_since();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn stale_since(&self) -> MutexGuard<'_, Option<Instant>> {
        let since = self.shared.stale_since.lock();
        since.unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether the server has a report.
    fn record_round(&self, report: &Arc<CustomResourceReport>, is_settled: bool) {
        let latest = self.shared.latest.lock();
        let latest = latest.unwrap_or_else(PoisonError::into_inner);
        let is_latest = latest.as_ref().is_some_and(|one| Arc::ptr_eq(one, report));
        match is_settled {
            true if is_latest => *self.stale_since() = None,
            true => {}
            false => drop(self.stale_since().get_or_insert_with(Instant::now)),
        }
    }

    fn latest(&self) -> Option<Arc<CustomResourceReport>> {
        let latest = self.shared.latest.lock();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Wakes the publish loop when notified.
    pub(super) fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.shared.new)
    }
}

/// What the publish loop shares with the rest of the client.
pub(super) struct PublishContext {
    pub(super) api: ApiClient,
    pub(super) node: String,
    pub(super) publisher: Publisher,
    pub(super) pods: PodCache,
    pub(super) node_cache: NodeCache,
    pub(super) other_writers: OtherWriters,
    pub(super) events: EventQueue,
    pub(super) timing: Timing,
    pub(super) log: SyncEventLog,
    pub(super) counts: Arc<SyncCounters>,
}

/// The task that writes reports to the API server.
pub(super) struct PublishLoop {
    context: PublishContext,
    objects: BTreeMap<&'static str, ObjectState>,
    /// The Node object, cached until it changes or the next check.
    owner: Option<NodeRef>,
    /// The served versions by API group, cached until the next check.
    served: BTreeMap<&'static str, BTreeSet<String>>,
    changes: ObjectChanges,
    /// The watches of the objects, by path of the list.
    watches: BTreeMap<String, AbortHandle>,
    bookings: Bookings,
}

/// The state of one object.
struct ObjectState {
    /// The object as the server last returned it.
    found: Option<Value>,
    /// Whether `found` may have been written by another client since the agent's last write.
    unverified: bool,
    /// The object of the report that was last written or found unchanged.
    settled: Option<CustomResource>,
    /// The agent's fields that were last written or found unchanged.
    written: Option<Value>,
    /// Whether the server serves the resource, as far as is known.
    is_served: bool,
    /// Fields that the server drops.
    pruned: BTreeSet<FieldPath>,
    /// The path of the list that is watched.
    list: Option<String>,
    /// When to read the object again.
    check_at: Instant,
    /// Until when CPUs that became free are held back at most.
    held_until: Option<Instant>,
    /// Earliest time of the next request: the end of the backoff.
    not_before: Instant,
    backoff: RetryBackoff,
}

/// The result of writing one object.
enum WriteResult {
    Written,
    Unchanged,
    /// CPUs that became free are held back until then at the latest.
    Held(Instant),
    /// Another program writes the object, and the agent left it alone.
    Yielded,
    NotServed,
}

impl PublishLoop {
    pub(super) fn new(context: PublishContext) -> Self {
        Self {
            context,
            objects: BTreeMap::new(),
            owner: None,
            served: BTreeMap::new(),
            changes: ObjectChanges::default(),
            watches: BTreeMap::new(),
            bookings: Bookings::default(),
        }
    }

    pub(super) async fn run(mut self) {
        let new = self.context.publisher.wake();
        self.watch_node();
        let mut is_first = true;
        loop {
            let started = Instant::now();
            let due = match self.context.publisher.latest() {
                None => None,
                Some(report) => {
                    if std::mem::take(&mut is_first) {
                        self.wait_for_pods(&report).await;
                    }
                    let due = self.round(&report).await;
                    let is_settled = report.objects.iter().all(|object| {
                        let state = self.objects.get(object.plural);
                        state.is_some_and(|state| state.settled.is_some() || !state.is_served)
                    });
                    self.context.publisher.record_round(&report, is_settled);
                    due
                }
            };
            // Reports that arrive meanwhile are combined.
            sleep_until(started + self.context.timing.interval).await;
            match due {
                Some(due) => drop(timeout_at(due, new.notified()).await),
                None => new.notified().await,
            }
        }
    }

    fn watch_node(&self) {
        let PublishContext { api, node, .. } = &self.context;
        let sink = NodeSink {
            cache: self.context.node_cache.clone(),
            publisher: self.sink(NODES.to_owned()),
            log: self.context.log.clone(),
            uid: None,
        };
        let policy = self.context.timing.retry_policy();
        let watch = watch_object(api.clone(), NODES.to_owned(), node.clone(), policy, sink);
        tokio::spawn(watch);
    }

    fn sink(&self, list: String) -> ObjectSink {
        ObjectSink::new(list, self.changes.clone(), self.context.publisher.wake())
    }

    /// Waits until the pods are listed, so that a restarted agent does not write an object without their fingerprint.
    async fn wait_for_pods(&self, report: &CustomResourceReport) {
        let deadline = Instant::now() + self.context.timing.request;
        while report.pods.is_some() && !self.context.pods.is_synced() && Instant::now() < deadline {
            sleep(PODS_DELAY).await;
        }
    }

    /// Writes every object that changed or is due for a check. Returns when the next one is due.
    async fn round(&mut self, report: &CustomResourceReport) -> Option<Instant> {
        if self.changes.take(NODES).is_some() {
            self.owner = None;
            for state in self.objects.values_mut() {
                state.check_at = Instant::now();
            }
        }
        let pods = report.pods.as_ref().zip(self.context.pods.all());
        if let Some((set, pods)) = &pods {
            self.bookings.update(set, pods, Instant::now());
        }
        let fingerprints = pods.map(|(set, pods)| fingerprints(set, &pods));
        let mut due: Option<Instant> = None;
        for object in &report.objects {
            let object = &match &fingerprints {
                Some(fingerprints) => object.with_fingerprints(fingerprints),
                None => object.clone(),
            };
            let now = Instant::now();
            let timing = &self.context.timing;
            let state = self
                .objects
                .entry(object.plural)
                .or_insert_with(|| ObjectState::new(now, timing));
            state.apply_change(&self.changes, now);
            let settled =
                state.settled.as_ref() == Some(object) && self.bookings.ended(object).is_none();
            if now >= state.not_before && (!settled || now >= state.check_at) {
                self.update(object, report.generation).await;
            }
            if let Some(state) = self.objects.get(object.plural) {
                let settled = state.settled.as_ref() == Some(object);
                let next = match settled {
                    true => state.check_at,
                    false => state.held_until.unwrap_or(state.not_before),
                };
                due = Some(due.map_or(next, |due| due.min(next)));
            }
        }
        due
    }

    /// Writes one object if needed, and records and logs the result.
    async fn update(&mut self, object: &CustomResource, generation: u64) {
        let Some(mut state) = self.objects.remove(object.plural) else {
            return;
        };
        if Instant::now() >= state.check_at {
            state.found = None;
            self.owner = None;
            self.served.remove(object.group);
        }
        let fresh = state.found.is_none();
        let outcome = self.write(object, generation, &mut state).await;
        let now = Instant::now();
        let timing = &self.context.timing;
        let check = timing.check / 2 + jitter(timing.check / 2);
        let resource = object.resource();
        state.is_served = !matches!(outcome, Ok(WriteResult::NotServed));
        state.held_until = None;
        match outcome {
            Ok(WriteResult::NotServed) => {
                self.context.log.log(SyncEvent::NotServed { resource });
                state.found = None;
                state.settled = None;
                // A definition that was served before is probably being replaced.
                let was_served = state.list.is_some();
                state.not_before = now
                    + match was_served {
                        true => state.backoff.next(),
                        false => check / 10,
                    };
                state.check_at = state.not_before;
            }
            // The next change of a pod or of the kubelet's state is a reason to look again.
            Ok(WriteResult::Held(end)) => {
                if fresh {
                    state.check_at = now + check;
                }
                state.backoff.reset();
                state.held_until = Some(end);
                state.settled = None;
            }
            Ok(outcome) => {
                if object.is_numatopology() {
                    self.bookings.forget();
                }
                match outcome {
                    WriteResult::Written => {
                        self.context.counts.writes.add(1);
                        self.context.log.log(SyncEvent::Published {
                            resource,
                            generation,
                        });
                    }
                    WriteResult::Yielded => self.context.counts.yielded.add(1),
                    _ => {
                        self.context.counts.unchanged.add(1);
                        self.context.log.recovered(&resource);
                        self.context.other_writers.record(&resource, None);
                    }
                }
                if fresh {
                    state.check_at = now + check;
                }
                state.backoff.reset();
                state.settled = Some(object.clone());
            }
            Err(error) => {
                self.context.counts.failures.add(1);
                let retry_in = state.backoff.next();
                self.context.log.log(SyncEvent::PublishFailed {
                    resource,
                    error,
                    retry_in,
                });
                state.settled = None;
                state.not_before = now + retry_in;
                // The cached object and versions may be stale.
                state.check_at = now;
            }
        }
        self.objects.insert(object.plural, state);
    }

    /// Reports another program that writes the object: in the log, as an event of the Node, and in the status.
    fn report_other_writer(&self, resource: &str, writer: &str) {
        let writers = &self.context.other_writers;
        if !writers.record(resource, Some(writer)) {
            return;
        }
        let event = SyncEvent::OtherWriter {
            resource: resource.to_owned(),
            writer: writer.to_owned(),
            policy: writers.policy(),
        };
        let warning = Warning::about_node(&self.context.node, OTHER_WRITER.name, event.to_string());
        self.context.events.warn(warning);
        self.context.log.log(event);
    }
}

/// The fingerprints of the pods that a report accounts for.
fn fingerprints(set: &PodSetFingerprint, pods: &[CachedPod]) -> Fingerprints {
    Fingerprints {
        method: set.method,
        by_method: set.of(pods, set.method),
        all: set.of(pods, FingerprintMethod::All),
    }
}

impl ObjectState {
    fn new(now: Instant, timing: &Timing) -> Self {
        Self {
            found: None,
            unverified: false,
            settled: None,
            written: None,
            is_served: true,
            pruned: BTreeSet::new(),
            list: None,
            check_at: now,
            held_until: None,
            not_before: now,
            backoff: timing.retry_policy().backoff(),
        }
    }

    /// Takes over a change that the watch has seen. The agent's own writes are known already.
    fn apply_change(&mut self, changes: &ObjectChanges, now: Instant) {
        let change = self.list.as_ref().and_then(|list| changes.take(list));
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        match change {
            None => {}
            Some(Some(object)) => {
                let known = self.found.as_ref().map(version);
                if known.as_ref() != Some(&version(&object)) {
                    self.found = Some(object);
                    self.unverified = true;
                    self.settled = None;
                    self.not_before = now;
                }
            }
            Some(None) => {
                self.found = None;
                self.settled = None;
                self.not_before = now;
                self.check_at = now;
            }
        }
    }
}
