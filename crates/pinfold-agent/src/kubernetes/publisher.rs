//! [`Publisher`]: writes the objects of the latest report to the API server.
//!
//! An object is read once and cached. A report without changes to it needs no request; otherwise the agent sends one
//! merge patch of the changes, with the resource version as precondition. At intervals and after every failure the object
//! is read again, and changes by other writers to the agent's fields are reverted.
//!
//! A resource that the server does not serve, and the served versions, are checked again at the same intervals, because
//! CustomResourceDefinitions may be added, changed or deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use pinfold_apiserver::{ApiClient, ApiError, RetryBackoff, jitter};

use super::node_objects::{NodeObject, NodeReport, ObjectVersion};
use super::owned_fields::{self, NodeRef};
use super::{SyncCounters, SyncEvent, SyncEventLog, Timing};

/// Number of attempts to write an object before backoff, if other writers change it in between.
const ATTEMPTS: usize = 4;
/// Query parameter that names the agent as field manager.
const MANAGER: &str = "fieldManager=pinfold-agent";

/// The handle by which the agent submits reports. Clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    shared: Arc<LatestReport>,
}

#[derive(Debug, Default)]
struct LatestReport {
    latest: Mutex<Option<Arc<NodeReport>>>,
    new: Notify,
}

impl Publisher {
    /// Submits a report without blocking. It replaces an earlier report that was not written yet.
    pub fn publish(&self, report: NodeReport) {
        let mut latest = self
            .shared
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *latest = Some(Arc::new(report));
        drop(latest);
        self.shared.new.notify_one();
    }

    fn latest(&self) -> Option<Arc<NodeReport>> {
        let latest = self.shared.latest.lock();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The task that writes reports to the API server.
pub(super) struct PublishLoop {
    api: ApiClient,
    node: String,
    publisher: Publisher,
    timing: Timing,
    log: SyncEventLog,
    counts: Arc<SyncCounters>,
    objects: BTreeMap<&'static str, ObjectState>,
    /// The Node object, cached until the next check.
    owner: Option<NodeRef>,
    /// The served versions by API group, cached until the next check.
    served: BTreeMap<&'static str, BTreeSet<String>>,
}

/// The state of one object.
struct ObjectState {
    /// The object as the server last returned it.
    found: Option<Value>,
    /// The object of the report that was last written or found unchanged.
    settled: Option<NodeObject>,
    /// When to read the object again.
    check_at: Instant,
    /// Earliest time of the next request: the end of the backoff.
    not_before: Instant,
    backoff: RetryBackoff,
}

/// The result of writing one object.
enum WriteResult {
    Written,
    Unchanged,
    NotServed,
}

impl PublishLoop {
    pub(super) fn new(
        (api, node): (ApiClient, String),
        publisher: Publisher,
        timing: Timing,
        log: SyncEventLog,
        counts: Arc<SyncCounters>,
    ) -> Self {
        Self {
            api,
            node,
            publisher,
            timing,
            log,
            counts,
            objects: BTreeMap::new(),
            owner: None,
            served: BTreeMap::new(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let started = Instant::now();
            let due = match self.publisher.latest() {
                None => None,
                Some(report) => self.round(&report).await,
            };
            // Reports that arrive meanwhile are combined.
            sleep_until(started + self.timing.interval).await;
            let new = self.publisher.shared.new.notified();
            match due {
                Some(due) => drop(timeout_at(due, new).await),
                None => new.await,
            }
        }
    }

    /// Writes every object that changed or is due for a check. Returns when the next one is due.
    async fn round(&mut self, report: &NodeReport) -> Option<Instant> {
        let mut due: Option<Instant> = None;
        for object in &report.objects {
            let now = Instant::now();
            let timing = &self.timing;
            let state = self
                .objects
                .entry(object.plural)
                .or_insert_with(|| ObjectState {
                    found: None,
                    settled: None,
                    check_at: now,
                    not_before: now,
                    backoff: timing.retry_policy().backoff(),
                });
            let settled = state.settled.as_ref() == Some(object);
            if now >= state.not_before && (!settled || now >= state.check_at) {
                self.update(object, report.generation).await;
            }
            if let Some(state) = self.objects.get(object.plural) {
                let settled = state.settled.as_ref() == Some(object);
                let next = match settled {
                    true => state.check_at,
                    false => state.not_before,
                };
                due = Some(due.map_or(next, |due| due.min(next)));
            }
        }
        due
    }

    /// Writes one object if needed, and records and logs the result.
    async fn update(&mut self, object: &NodeObject, generation: u64) {
        let Some(mut state) = self.objects.remove(object.plural) else {
            return;
        };
        if Instant::now() >= state.check_at {
            state.found = None;
            self.owner = None;
            self.served.remove(object.group);
        }
        let fresh = state.found.is_none();
        let outcome = self.write(object, generation, &mut state.found).await;
        let now = Instant::now();
        let check = self.timing.check / 2 + jitter(self.timing.check / 2);
        let resource = object.resource();
        match outcome {
            Ok(WriteResult::NotServed) => {
                self.log.log(SyncEvent::NotServed { resource });
                state.found = None;
                state.settled = None;
                state.not_before = now + check;
                state.check_at = state.not_before;
            }
            Ok(outcome) => {
                match outcome {
                    WriteResult::Written => {
                        self.counts.writes.add(1);
                        self.log.log(SyncEvent::Published {
                            resource,
                            generation,
                        });
                    }
                    _ => {
                        self.counts.unchanged.add(1);
                        self.log.recovered(&resource);
                    }
                }
                if fresh {
                    state.check_at = now + check;
                }
                state.backoff.reset();
                state.settled = Some(object.clone());
            }
            Err(error) => {
                self.counts.failures.add(1);
                let retry_in = state.backoff.next();
                self.log.log(SyncEvent::PublishFailed {
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

    async fn write(
        &mut self,
        object: &NodeObject,
        generation: u64,
        found: &mut Option<Value>,
    ) -> Result<WriteResult, ApiError> {
        let Some(version) = self.served_version(object).await? else {
            return Ok(WriteResult::NotServed);
        };
        let all = format!(
            "/apis/{}/{}/{}",
            object.group, version.version, object.plural
        );
        let own = format!("{all}/{}", self.node);
        let mut outcome = Err(ApiError::Unreachable("no attempt was made".to_owned()));
        for _ in 0..ATTEMPTS {
            let node = self.owner().await?;
            let there = match found.take() {
                Some(there) => Some(there),
                None => match self.api.get(&own).await {
                    Ok(there) => Some(there),
                    Err(error) if error.code() == Some(404) => None,
                    Err(error) => return Err(error),
                },
            };
            let answer = match there {
                None => {
                    let body = owned_fields::created(&version.body, &node, generation);
                    self.api.post(&format!("{all}?{MANAGER}"), &body).await
                }
                Some(there) => {
                    let resource_version = there["metadata"]["resourceVersion"].as_str();
                    let resource_version =
                        resource_version
                            .map(str::to_owned)
                            .ok_or_else(|| ApiError::Malformed {
                                path: own.clone(),
                                expected: "an object with a resourceVersion",
                            })?;
                    let mut wanted = owned_fields::merged(&there, &version.body, &node);
                    if owned_fields::patch(&there, &wanted).is_none() {
                        *found = Some(there);
                        return Ok(WriteResult::Unchanged);
                    }
                    owned_fields::set_generation(&mut wanted, generation);
                    let mut patch = owned_fields::patch(&there, &wanted).unwrap_or_default();
                    // The server rejects the patch with 409 if another client has written since.
                    patch["metadata"]["resourceVersion"] = resource_version.into();
                    self.api
                        .merge_patch(&format!("{own}?{MANAGER}"), &patch)
                        .await
                }
            };
            match answer {
                Ok(there) => {
                    *found = Some(there);
                    return Ok(WriteResult::Written);
                }
                // Another client created, changed or deleted the object or its Node: read both again.
                Err(error) if matches!(error.code(), Some(404 | 409)) => {
                    self.owner = None;
                    outcome = Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        outcome
    }

    /// The first version of the object that the API server serves.
    async fn served_version<'o>(
        &mut self,
        object: &'o NodeObject,
    ) -> Result<Option<&'o ObjectVersion>, ApiError> {
        if !self.served.contains_key(object.group) {
            let versions = match self.api.get(&format!("/apis/{}", object.group)).await {
                Ok(group) => versions(&group),
                Err(error) if error.code() == Some(404) => BTreeSet::new(),
                Err(error) => return Err(error),
            };
            self.served.insert(object.group, versions);
        }
        let served = self.served.get(object.group);
        let is_served =
            |version: &&ObjectVersion| served.is_some_and(|all| all.contains(version.version));
        Ok(object.versions.iter().find(is_served))
    }

    /// The Node object that owns the published objects.
    async fn owner(&mut self) -> Result<NodeRef, ApiError> {
        if let Some(owner) = &self.owner {
            return Ok(owner.clone());
        }
        let path = format!("/api/v1/nodes/{}", self.node);
        let node = self.api.get(&path).await?;
        let uid = node["metadata"]["uid"]
            .as_str()
            .ok_or(ApiError::Malformed {
                path,
                expected: "a Node with a UID",
            })?;
        let owner = NodeRef {
            name: self.node.clone(),
            uid: uid.to_owned(),
        };
        self.owner = Some(owner.clone());
        Ok(owner)
    }
}

/// The served versions of an API group.
fn versions(group: &Value) -> BTreeSet<String> {
    let versions = group["versions"].as_array().into_iter().flatten();
    let names = versions.filter_map(|version| version["version"].as_str());
    names.map(str::to_owned).collect()
}
