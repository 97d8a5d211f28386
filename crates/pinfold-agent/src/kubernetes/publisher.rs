//! [`Publisher`]: keeps the objects of this node in the cluster as the latest report says.
//!
//! An object is read once, then remembered as the server answered. A report that changes nothing of it costs nothing; one
//! that does is one merge patch of what changed, on condition that nobody else wrote meanwhile. Now and then, and after
//! every failure, the object is read again: whatever became of our part in between is put right.
//!
//! Definitions come and go: a cluster without one is asked again at every such check, and so is one whose versions changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use pinfold_apiserver::{ApiClient, ApiError, RetryBackoff, jitter};

use super::merge::{self, NodeRef};
use super::object::{Form, Object, Report};
use super::{Counts, Remark, Remarks, Timing};

/// How often a write that others got ahead of is tried again at once.
const ATTEMPTS: usize = 4;
/// Who writes, for the server's records.
const MANAGER: &str = "fieldManager=pinfold-agent";

/// Takes reports. All copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Publisher {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    latest: Mutex<Option<Arc<Report>>>,
    new: Notify,
}

impl Publisher {
    /// This is how it is now. Never waits; a report that was not sent yet is replaced.
    pub fn publish(&self, report: Report) {
        let mut latest = self
            .shared
            .latest
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *latest = Some(Arc::new(report));
        drop(latest);
        self.shared.new.notify_one();
    }

    fn latest(&self) -> Option<Arc<Report>> {
        let latest = self.shared.latest.lock();
        latest.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends what is new, for ever.
pub(super) struct Sender {
    api: ApiClient,
    node: String,
    publisher: Publisher,
    timing: Timing,
    remarks: Remarks,
    counts: Arc<Counts>,
    tracks: BTreeMap<&'static str, Track>,
    /// The node's id, until the next check.
    owner: Option<NodeRef>,
    /// Versions by group, until the next check.
    served: BTreeMap<&'static str, BTreeSet<String>>,
}

/// One object so far.
struct Track {
    /// What the server has, as it last said.
    found: Option<Value>,
    /// What we last saw there, in our words.
    settled: Option<Object>,
    /// When to look again whatever happens.
    check_at: Instant,
    /// Not before.
    not_before: Instant,
    backoff: RetryBackoff,
}

/// What came of one object.
enum Outcome {
    Written,
    Unchanged,
    NotServed,
}

impl Sender {
    pub(super) fn new(
        (api, node): (ApiClient, String),
        publisher: Publisher,
        timing: Timing,
        remarks: Remarks,
        counts: Arc<Counts>,
    ) -> Self {
        Self {
            api,
            node,
            publisher,
            timing,
            remarks,
            counts,
            tracks: BTreeMap::new(),
            owner: None,
            served: BTreeMap::new(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let begun = Instant::now();
            let due = match self.publisher.latest() {
                None => None,
                Some(report) => self.round(&report).await,
            };
            // Whatever comes in meanwhile is sent together.
            sleep_until(begun + self.timing.interval).await;
            let new = self.publisher.shared.new.notified();
            match due {
                Some(due) => drop(timeout_at(due, new).await),
                None => new.await,
            }
        }
    }

    /// Brings every object up to date; says when the next one is due.
    async fn round(&mut self, report: &Report) -> Option<Instant> {
        let mut due: Option<Instant> = None;
        for object in &report.objects {
            let now = Instant::now();
            let timing = &self.timing;
            let track = self.tracks.entry(object.plural).or_insert_with(|| Track {
                found: None,
                settled: None,
                check_at: now,
                not_before: now,
                backoff: timing.retry_policy().backoff(),
            });
            let settled = track.settled.as_ref() == Some(object);
            if now >= track.not_before && (!settled || now >= track.check_at) {
                self.bring(object, report.generation).await;
            }
            if let Some(track) = self.tracks.get(object.plural) {
                let settled = track.settled.as_ref() == Some(object);
                let next = match settled {
                    true => track.check_at,
                    false => track.not_before,
                };
                due = Some(due.map_or(next, |due| due.min(next)));
            }
        }
        due
    }

    /// Brings one object up to date and notes what came of it.
    async fn bring(&mut self, object: &Object, generation: u64) {
        let Some(mut track) = self.tracks.remove(object.plural) else {
            return;
        };
        if Instant::now() >= track.check_at {
            track.found = None;
            self.owner = None;
            self.served.remove(object.group);
        }
        let fresh = track.found.is_none();
        let outcome = self.write(object, generation, &mut track.found).await;
        let now = Instant::now();
        let check = self.timing.check / 2 + jitter(self.timing.check / 2);
        let resource = object.resource();
        match outcome {
            Ok(Outcome::NotServed) => {
                self.remarks.say(Remark::NotServed { resource });
                track.found = None;
                track.settled = None;
                track.not_before = now + check;
                track.check_at = track.not_before;
            }
            Ok(outcome) => {
                match outcome {
                    Outcome::Written => {
                        self.counts.writes.add(1);
                        self.remarks.say(Remark::Published {
                            resource,
                            generation,
                        });
                    }
                    _ => {
                        self.counts.unchanged.add(1);
                        self.remarks.recovered(&resource);
                    }
                }
                if fresh {
                    track.check_at = now + check;
                }
                track.backoff.reset();
                track.settled = Some(object.clone());
            }
            Err(error) => {
                self.counts.failures.add(1);
                let retry_in = track.backoff.next();
                self.remarks.say(Remark::NotPublished {
                    resource,
                    error,
                    retry_in,
                });
                track.settled = None;
                track.not_before = now + retry_in;
                // Everything may have changed.
                track.check_at = now;
            }
        }
        self.tracks.insert(object.plural, track);
    }

    async fn write(
        &mut self,
        object: &Object,
        generation: u64,
        found: &mut Option<Value>,
    ) -> Result<Outcome, ApiError> {
        let Some(form) = self.form(object).await? else {
            return Ok(Outcome::NotServed);
        };
        let all = format!("/apis/{}/{}/{}", object.group, form.version, object.plural);
        let own = format!("{all}/{}", self.node);
        let mut outcome = Err(ApiError::Unreachable("nothing was tried".to_owned()));
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
                    let body = merge::created(&form.body, &node, generation);
                    self.api.post(&format!("{all}?{MANAGER}"), &body).await
                }
                Some(there) => {
                    let version = there["metadata"]["resourceVersion"].as_str();
                    let version =
                        version
                            .map(str::to_owned)
                            .ok_or_else(|| ApiError::Malformed {
                                path: own.clone(),
                                expected: "an object with a version",
                            })?;
                    let mut wanted = merge::merged(&there, &form.body, &node);
                    if merge::patch(&there, &wanted).is_none() {
                        *found = Some(there);
                        return Ok(Outcome::Unchanged);
                    }
                    merge::set_generation(&mut wanted, generation);
                    let mut patch = merge::patch(&there, &wanted).unwrap_or_default();
                    // On condition that nobody wrote since.
                    patch["metadata"]["resourceVersion"] = version.into();
                    self.api
                        .merge_patch(&format!("{own}?{MANAGER}"), &patch)
                        .await
                }
            };
            match answer {
                Ok(there) => {
                    *found = Some(there);
                    return Ok(Outcome::Written);
                }
                // Somebody else was there first, or took it away, perhaps with the node: look again.
                Err(error) if matches!(error.code(), Some(404 | 409)) => {
                    self.owner = None;
                    outcome = Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        outcome
    }

    /// The first form that the cluster serves.
    async fn form<'o>(&mut self, object: &'o Object) -> Result<Option<&'o Form>, ApiError> {
        if !self.served.contains_key(object.group) {
            let versions = match self.api.get(&format!("/apis/{}", object.group)).await {
                Ok(group) => versions(&group),
                Err(error) if error.code() == Some(404) => BTreeSet::new(),
                Err(error) => return Err(error),
            };
            self.served.insert(object.group, versions);
        }
        let served = self.served.get(object.group);
        let is_served = |form: &&Form| served.is_some_and(|all| all.contains(form.version));
        Ok(object.forms.iter().find(is_served))
    }

    /// The node that the objects are about.
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
                expected: "a node with an id",
            })?;
        let owner = NodeRef {
            name: self.node.clone(),
            uid: uid.to_owned(),
        };
        self.owner = Some(owner.clone());
        Ok(owner)
    }
}

/// The versions of a group.
fn versions(group: &Value) -> BTreeSet<String> {
    let versions = group["versions"].as_array().into_iter().flatten();
    let names = versions.filter_map(|version| version["version"].as_str());
    names.map(str::to_owned).collect()
}
