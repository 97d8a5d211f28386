//! [`NodeCache`]: Koordinator's labels and annotations of the agent's Node, kept up to date by a watch.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_apiserver::{ReflectorStatus, Store};
use pinfold_kube::api_object::ApiObject;
use pinfold_kube::koordinator::NodeSettings;
use pinfold_kube::node::NodeObject;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::object_watch::ObjectSink;
use super::sync_events::{NODE, SyncEvent, SyncEventLog};

/// The watched Node. Clones share one cache.
#[derive(Clone, Debug, Default)]
pub struct NodeCache {
    shared: Arc<SharedNode>,
}

#[derive(Debug, Default)]
struct SharedNode {
    state: Mutex<NodeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct NodeState {
    /// `None` until the API server answered.
    node: Option<WatchedNode>,
    /// Number of the last change; 0 for none.
    change: u64,
}

/// What the agent follows of its Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchedNode {
    /// Its labels and annotations.
    pub settings: NodeSettings,
    /// What is wrong with them.
    pub warnings: Vec<String>,
    /// The Node as JSON, with nothing but its name and what the settings are read from. Empty if there is no such Node,
    /// or the agent may not read it.
    pub json: String,
}

impl WatchedNode {
    /// Reads a Node; `None` if it is no valid Node object.
    #[must_use]
    pub fn read(node: &Value) -> Option<Self> {
        let json = reduced(node).to_string();
        let object = ApiObject::parse("Node", "v1", &json).ok()?;
        let object = NodeObject::read(&object.document).ok()?;
        let read = NodeSettings::read(&object.value).ok()?;
        Some(Self {
            settings: read.value,
            warnings: read.warnings.iter().map(ToString::to_string).collect(),
            json,
        })
    }
}

/// The Node without the labels and annotations that the agent does not read, of which there may be many.
fn reduced(node: &Value) -> Value {
    let meta = &node["metadata"];
    let some = |key: &str, is_read: fn(&str) -> bool| -> Value {
        let all = meta[key].as_object().into_iter().flatten();
        let read = all.filter(|(key, _)| is_read(key));
        read.map(|(key, text)| (key.clone(), text.clone()))
            .collect::<Map<_, _>>()
            .into()
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": meta["name"],
            "labels": some("labels", NodeSettings::is_label),
            "annotations": some("annotations", NodeSettings::is_annotation),
        },
    })
}

impl NodeCache {
    /// The Node; `None` until the API server answered. A Node that does not exist has no settings.
    #[must_use]
    pub fn get(&self) -> Option<WatchedNode> {
        self.state().node.clone()
    }

    /// Waits up to `wait` for the first answer of the API server. Returns whether it is there.
    #[must_use]
    pub fn wait(&self, wait: Duration) -> bool {
        let state = self.state();
        let unknown = |state: &mut NodeState| state.node.is_none();
        let waited = self.shared.changed.wait_timeout_while(state, wait, unknown);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.node.is_some()
    }

    /// Waits until the Node is another than after the change with this number. Returns the number of its last change.
    #[must_use]
    pub fn wait_for_change(&self, seen: u64) -> (u64, WatchedNode) {
        let state = self.state();
        let same = |state: &mut NodeState| state.change == seen;
        let waited = self.shared.changed.wait_while(state, same);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        (state.change, state.node.clone().unwrap_or_default())
    }

    fn state(&self) -> MutexGuard<'_, NodeState> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, node: WatchedNode) {
        let mut state = self.state();
        if state.node.as_ref() == Some(&node) {
            return;
        }
        state.node = Some(node);
        state.change += 1;
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// Keeps the [`NodeCache`], and passes a Node that was made anew to the publisher.
pub(super) struct NodeSink {
    pub(super) cache: NodeCache,
    pub(super) publisher: ObjectSink,
    pub(super) log: SyncEventLog,
    /// The UID of the Node; `None` before the first list.
    pub(super) uid: Option<Option<String>>,
}

impl NodeSink {
    fn changed(&mut self, node: Option<Value>) {
        let watched = match &node {
            Some(node) => WatchedNode::read(node),
            None => Some(WatchedNode::default()),
        };
        // One that cannot be read changes nothing, and is not waited for either.
        let last = || self.cache.get().unwrap_or_default();
        self.cache.set(watched.unwrap_or_else(last));
        let uid = node
            .as_ref()
            .and_then(|node| node["metadata"]["uid"].as_str());
        let uid = uid.map(str::to_owned);
        let before = self.uid.replace(uid.clone());
        if before.is_some_and(|before| before != uid) {
            self.publisher.replaced(node);
        }
    }
}

impl Store for NodeSink {
    type Item = Value;

    fn parse(&mut self, object: &RawValue) -> Option<Value> {
        serde_json::from_str(object.get()).ok()
    }

    fn replace(&mut self, all: Vec<Value>) {
        self.changed(all.into_iter().next());
        self.log.recovered(NODE);
    }

    fn apply(&mut self, node: Value) {
        self.changed(Some(node));
    }

    fn delete(&mut self, _: &RawValue) {
        self.changed(None);
    }

    fn record_status(&mut self, status: ReflectorStatus<'_>) {
        match status {
            ReflectorStatus::Failed { error, retry_in } => {
                let error = error.clone();
                // Without the permission to read it, waiting would never end.
                if error.code() == Some(403) && self.cache.get().is_none() {
                    self.cache.set(WatchedNode::default());
                }
                self.log.log(SyncEvent::NodeWatchFailed { error, retry_in });
            }
            ReflectorStatus::Receiving => self.log.recovered(NODE),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_node_only_its_name_and_what_is_read_is_kept_and_read_back_the_same() {
        let node = json!({
            "metadata": {
                "name": "worker-1",
                "uid": "1",
                "labels": {
                    "node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly",
                    "node.koordinator.sh/numa-topology-alignment-policy": "Restricted",
                    "kubernetes.io/hostname": "worker-1",
                },
                "annotations": {
                    "node.koordinator.sh/reservation": "{\"reservedCPUs\":\"2\"}",
                    "other": "text",
                },
            },
            "status": { "images": [{}] },
        });
        let read = WatchedNode::read(&node).expect("a Node");
        assert_eq!(read.settings.annotations.reservation.cpus.to_string(), "2");
        let numa = read.settings.policies.numa.as_ref().expect("a policy");
        assert_eq!(numa.as_str(), "Restricted");
        let old = "numa-topology-alignment-policy";
        assert!(read.warnings[0].contains(old), "{:?}", read.warnings);
        for left_out in ["hostname", "other", "uid", "images"] {
            assert!(!read.json.contains(left_out), "{}", read.json);
        }
        let kept = serde_json::from_str(&read.json).expect("JSON");
        assert_eq!(WatchedNode::read(&kept), Some(read));
    }

    #[test]
    fn a_change_is_waited_for_and_the_same_node_is_none() {
        let cache = NodeCache::default();
        assert!(!cache.wait(Duration::ZERO));
        cache.set(WatchedNode::default());
        assert!(
            cache.wait(Duration::ZERO),
            "a Node that does not exist is an answer"
        );
        let (first, _) = cache.wait_for_change(0);
        cache.set(WatchedNode::default());
        let changed = WatchedNode {
            json: "{}".to_owned(),
            ..WatchedNode::default()
        };
        cache.set(changed.clone());
        assert_eq!(cache.wait_for_change(first), (first + 1, changed));
    }
}
