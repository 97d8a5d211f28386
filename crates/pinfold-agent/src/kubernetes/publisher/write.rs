//! Writes one object: what the server would store is compared with what it stores.
//!
//! ```text
//! found ─► merged with our fields ─► equal: nothing to do
//!                │
//!                ├─ a Numatopology: CPUs that became free may have to wait (see [`super::bookings`])
//!                ├─ another program wrote our fields: repair or yield
//!                ├─ written by others since our last write: dry run, which shows the fields that the server drops
//!                └─ merge patch with the resource version as precondition; 404 and 409: read again
//! ```

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::time::Instant;

use pinfold_apiserver::ApiError;
use pinfold_core::name::PodUid;

use super::super::custom_resources::{CustomResource, ObjectVersion};
use super::super::object_watch::watch_object;
use super::super::other_writers::{self, MANAGER, OtherWriterPolicy};
use super::super::owned_fields::{self, NodeRef, OWNED};
use super::super::pruning::{pruned_fields, without_fields};
use super::bookings::{ENDED, Step, Then};
use super::{NODES, ObjectState, PublishLoop, WriteResult};

/// Number of attempts to write an object before backoff, if other writers change it in between.
const ATTEMPTS: usize = 4;

impl PublishLoop {
    pub(super) async fn write(
        &mut self,
        object: &CustomResource,
        generation: u64,
        state: &mut ObjectState,
    ) -> Result<WriteResult, ApiError> {
        let Some(version) = self.served_version(object).await? else {
            return Ok(WriteResult::NotServed);
        };
        let all = object.list_path(version.version);
        self.watch(&all, state);
        let own = format!("{all}/{}", self.context.node);
        let mut outcome = Err(ApiError::Unreachable("no attempt was made".to_owned()));
        for _ in 0..ATTEMPTS {
            let node = self.owner().await?;
            let there = self.found(&own, state).await?;
            let step = match &there {
                Some(there) if object.is_numatopology() => {
                    self.bookings.step(there, &version.body, Instant::now())
                }
                _ => Step::All(None),
            };
            let (body, ended, then) = match &step {
                Step::All(ended) => (&version.body, ended.as_ref(), None),
                Step::Part(body, then) => (body, None, Some(*then)),
                Step::Hold(..) => (&version.body, None, None),
            };
            let wanted = Wanted {
                resource: object.resource(),
                body,
                ended,
            };
            let answer = match there {
                None => {
                    let desired = without_fields(body, &state.pruned);
                    let body = owned_fields::created(&desired, &node, generation);
                    let path = format!("{all}?fieldManager={MANAGER}");
                    let answer = self.context.api.post(&path, &body).await;
                    answer.map(|answer| (body, desired, answer))
                }
                Some(there) => match self.change(&wanted, &there, &node, state, &own).await {
                    Ok(Change::None(result)) => {
                        state.found = Some(there);
                        return Ok(match (result, step) {
                            (WriteResult::Unchanged, Step::Hold(end, true)) => {
                                WriteResult::Held(end)
                            }
                            (result, _) => result,
                        });
                    }
                    Ok(Change::Write {
                        mut wanted,
                        desired,
                    }) => {
                        if let Step::Hold(end, _) = step {
                            state.found = Some(there);
                            return Ok(WriteResult::Held(end));
                        }
                        owned_fields::set_generation(&mut wanted, generation);
                        let patch = conditional(&there, &wanted)?;
                        let path = format!("{own}?fieldManager={MANAGER}");
                        let answer = self.context.api.merge_patch(&path, &patch).await;
                        answer.map(|answer| (wanted, desired, answer))
                    }
                    Err(error) => Err(error),
                },
            };
            match answer {
                Ok((sent, desired, there)) => {
                    state.pruned.extend(pruned_fields(&sent, &there));
                    state.written = Some(without_fields(&desired, &state.pruned));
                    state.found = Some(there);
                    state.unverified = false;
                    match then {
                        None => return Ok(WriteResult::Written),
                        Some(Then::Until(end)) => return Ok(WriteResult::Held(end)),
                        // The rest is written by the next attempt.
                        Some(Then::AtOnce) => {}
                    }
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

    /// The object as the server has it; `None` if it does not exist.
    async fn found(&self, path: &str, state: &mut ObjectState) -> Result<Option<Value>, ApiError> {
        if let Some(found) = state.found.take() {
            return Ok(Some(found));
        }
        state.unverified = true;
        match self.context.api.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The change that the object needs, if any.
    async fn change(
        &self,
        agents: &Wanted<'_>,
        there: &Value,
        node: &NodeRef,
        state: &mut ObjectState,
        path: &str,
    ) -> Result<Change, ApiError> {
        let merge = |pruned: &BTreeSet<_>| {
            let desired = without_fields(agents.body, pruned);
            let mut wanted = owned_fields::merged(there, &desired, node);
            if let Some(uid) = agents.ended {
                wanted["metadata"]["annotations"][ENDED] = uid.as_str().into();
            }
            (wanted, desired)
        };
        // Fails for a value that is no object, before it is merged.
        resource_version(there)?;
        let (mut wanted, mut desired) = merge(&state.pruned);
        let patch = conditional(there, &wanted)?;
        if owned_fields::patch(there, &wanted).is_none() {
            return Ok(state.verified(desired));
        }
        let is_altered = state.written.as_ref().map(|written| {
            let merged = owned_fields::merged(there, written, node);
            owned_fields::patch(there, &merged).is_some()
        });
        let writer = match is_altered {
            Some(false) => None,
            known => other_writers::other_writer(there, &patch, known.is_some()),
        };
        if let Some(writer) = writer {
            self.report_other_writer(&agents.resource, &writer);
            if self.context.other_writers.policy() == OtherWriterPolicy::Yield {
                return Ok(Change::None(WriteResult::Yielded));
            }
        }
        if state.unverified {
            let path = format!("{path}?fieldManager={MANAGER}&dryRun=All");
            match self.context.api.merge_patch(&path, &patch).await {
                Ok(stored) => {
                    state.pruned.extend(pruned_fields(&wanted, &stored));
                    (wanted, desired) = merge(&state.pruned);
                    let is_stored = owned_fields::patch(there, &wanted).is_none()
                        || significant(there) == significant(&stored);
                    if is_stored {
                        return Ok(state.verified(desired));
                    }
                }
                // A webhook may not support dry runs: the write itself decides.
                Err(ApiError::Rejected { code, .. }) if !matches!(code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Change::Write { wanted, desired })
    }

    /// Watches the list of an object. Another version of the API ends the watch of the first.
    fn watch(&mut self, list: &str, state: &mut ObjectState) {
        if state.list.as_deref() == Some(list) {
            return;
        }
        let before = state.list.replace(list.to_owned());
        if let Some(watch) = before.and_then(|before| self.watches.remove(&before)) {
            watch.abort();
        }
        let watch = tokio::spawn(watch_object(
            self.context.api.clone(),
            list.to_owned(),
            self.context.node.clone(),
            self.context.timing.retry_policy(),
            self.sink(list.to_owned()),
        ));
        self.watches.insert(list.to_owned(), watch.abort_handle());
    }

    /// The first version of the object that the API server serves.
    async fn served_version<'o>(
        &mut self,
        object: &'o CustomResource,
    ) -> Result<Option<&'o ObjectVersion>, ApiError> {
        if !self.served.contains_key(object.group) {
            let path = format!("/apis/{}", object.group);
            let versions = match self.context.api.get(&path).await {
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
        let path = format!("{NODES}/{}", self.context.node);
        let node = self.context.api.get(&path).await?;
        let uid = node["metadata"]["uid"]
            .as_str()
            .ok_or(ApiError::Malformed {
                path,
                expected: "a Node with a UID",
            })?;
        let owner = NodeRef {
            name: self.context.node.clone(),
            uid: uid.to_owned(),
        };
        self.owner = Some(owner.clone());
        Ok(owner)
    }
}

impl ObjectState {
    /// The object has the agent's fields: nothing to write.
    fn verified(&mut self, desired: Value) -> Change {
        self.written = Some(desired);
        self.unverified = false;
        Change::None(WriteResult::Unchanged)
    }
}

/// The agent's part of an object.
struct Wanted<'w> {
    resource: String,
    body: &'w Value,
    /// A pod whose booking ends with this write.
    ended: Option<&'w PodUid>,
}

/// What to write.
enum Change {
    None(WriteResult),
    Write {
        /// The object with the agent's fields.
        wanted: Value,
        /// The agent's fields that the server stores.
        desired: Value,
    },
}

/// The patch from one object to another. The server rejects it with 409 if another client has written since.
fn conditional(there: &Value, wanted: &Value) -> Result<Value, ApiError> {
    let version = resource_version(there)?;
    let mut patch = owned_fields::patch(there, wanted).unwrap_or_default();
    patch["metadata"]["resourceVersion"] = version.into();
    Ok(patch)
}

fn resource_version(object: &Value) -> Result<&str, ApiError> {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.ok_or_else(|| ApiError::Malformed {
        path: "metadata.resourceVersion".to_owned(),
        expected: "an object with a resourceVersion",
    })
}

/// The object without the fields that the server or the agent change with every write.
fn significant(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        for key in ["resourceVersion", "generation", "managedFields"] {
            meta.remove(key);
        }
        if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(OWNED);
        }
    }
    object
}

/// The served versions of an API group.
fn versions(group: &Value) -> BTreeSet<String> {
    let versions = group["versions"].as_array().into_iter().flatten();
    let names = versions.filter_map(|version| version["version"].as_str());
    names.map(str::to_owned).collect()
}
