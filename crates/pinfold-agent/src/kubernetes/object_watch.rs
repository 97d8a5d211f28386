//! Watches the published objects, so that a deleted or changed object is written again at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_apiserver::{ApiClient, Reflector, ReflectorStatus, RetryPolicy, Store, WatchTarget};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::Notify;

/// Longest delay until a failed watch is tried again: a definition that was replaced is served again within seconds.
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// The latest state of the watched objects that the publisher has not seen yet. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectChanges {
    /// By path of the list; `None` for an object that does not exist.
    changed: Arc<Mutex<BTreeMap<String, Option<Value>>>>,
}

impl ObjectChanges {
    fn put(&self, list: &str, object: Option<Value>) {
        self.lock().insert(list.to_owned(), object);
    }

    /// The object at this path, if it changed.
    pub(super) fn take(&self, list: &str) -> Option<Option<Value>> {
        self.lock().remove(list)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<Value>>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches the object of a list that has the node's name, until the future is dropped.
pub(super) async fn watch_object(
    api: ApiClient,
    list: String,
    node: String,
    policy: RetryPolicy,
    sink: impl Store,
) {
    let target = WatchTarget {
        paths: vec![list],
        field_selector: format!("metadata.name={node}"),
        page_size: 1,
        optional: false,
    };
    let policy = RetryPolicy {
        max_delay: policy.max_delay.min(LONGEST_RETRY),
        ..policy
    };
    Reflector::new(api, target, sink, policy.backoff())
        .run()
        .await;
}

/// Passes the changes of one object to the publisher.
pub(super) struct ObjectSink {
    list: String,
    changes: ObjectChanges,
    wake: Arc<Notify>,
    /// Whether the object existed, or its list failed: then an empty list is a change.
    may_be_lost: bool,
}

impl ObjectSink {
    pub(super) fn new(list: String, changes: ObjectChanges, wake: Arc<Notify>) -> Self {
        Self {
            list,
            changes,
            wake,
            may_be_lost: false,
        }
    }

    /// Passes on the object, even if there was none before.
    pub(super) fn replaced(&mut self, object: Option<Value>) {
        self.may_be_lost = true;
        self.changed(object);
    }

    fn changed(&mut self, object: Option<Value>) {
        let was_lost = std::mem::replace(&mut self.may_be_lost, object.is_some());
        if object.is_none() && !was_lost {
            return;
        }
        self.changes.put(&self.list, object);
        self.wake.notify_one();
    }
}

impl Store for ObjectSink {
    type Item = Value;

    fn parse(&mut self, object: &RawValue) -> Option<Value> {
        serde_json::from_str(object.get()).ok()
    }

    fn replace(&mut self, all: Vec<Value>) {
        self.changed(all.into_iter().next());
    }

    fn apply(&mut self, object: Value) {
        self.changed(Some(object));
    }

    fn delete(&mut self, _: &RawValue) {
        self.changed(None);
    }

    fn record_status(&mut self, status: ReflectorStatus<'_>) {
        self.may_be_lost |= matches!(status, ReflectorStatus::Failed { .. });
    }
}
