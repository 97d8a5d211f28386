//! [`PodSpecs`]: the pods of this node as the API server knows them, for whoever must not wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_apiserver::object;
use pinfold_core::name::PodUid;
use pinfold_kube::pod::{self, PodObject};
use serde_json::{Map, Value};

/// The longest that anybody waits for a pod: a runtime gives its plugins two seconds for everything.
pub const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// The most pods of one node that are kept.
pub const MAX_PODS: usize = 2048;

/// The kubelet's name for a pod that it has from a file; the API server has another one for its mirror.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The pods of this node. All copies are the same.
#[derive(Clone, Debug, Default)]
pub struct PodSpecs {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<PodUid, Arc<PodObject>>,
    /// All pods were listed at least once.
    known: bool,
}

impl PodSpecs {
    /// The pod that the runtime knows by this id. Waits for it to be heard of, at most [`LONGEST_WAIT`].
    #[must_use]
    pub fn get(&self, uid: &PodUid, wait: Duration) -> Option<Arc<PodObject>> {
        let state = self.state();
        let missing = |state: &mut State| !state.pods.contains_key(uid);
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, wait.min(LONGEST_WAIT), missing)
            .unwrap_or_else(PoisonError::into_inner);
        state.pods.get(uid).cloned()
    }

    /// All pods in the order of their ids; `None` until they were listed for the first time.
    #[must_use]
    pub fn all(&self) -> Option<Vec<Arc<PodObject>>> {
        let state = self.state();
        let mut pods: Vec<_> = state
            .known
            .then(|| state.pods.values().cloned().collect())?;
        drop(state);
        pods.sort_by(|one: &Arc<PodObject>, other| one.pod.uid.cmp(&other.pod.uid));
        Some(pods)
    }

    /// The map is changed in single steps, so a panic elsewhere leaves it whole.
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// These are all pods.
    pub(super) fn replace(&self, pods: HashMap<PodUid, Arc<PodObject>>) {
        let mut state = self.state();
        state.pods = pods;
        state.known = true;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// A pod is there, or is different. Says whether there was room for it.
    pub(super) fn put(&self, uid: PodUid, pod: PodObject) -> bool {
        let mut state = self.state();
        let room = state.pods.len() < MAX_PODS || state.pods.contains_key(&uid);
        if room {
            state.pods.insert(uid, Arc::new(pod));
        }
        drop(state);
        self.shared.changed.notify_all();
        room
    }

    /// A pod is gone.
    pub(super) fn forget(&self, uid: &PodUid) {
        self.state().pods.remove(uid);
    }
}

/// The id by which the runtime knows a pod.
pub(super) fn uid(pod: &Value) -> Option<PodUid> {
    let meta = pod.get("metadata")?;
    let mirrored = meta.get("annotations").and_then(|all| all.get(MIRROR));
    let uid = mirrored.or_else(|| meta.get("uid"))?.as_str()?;
    (!uid.is_empty()).then(|| uid.into())
}

/// Reads a pod as the server sends it.
pub(super) fn read(mut pod: Value) -> Result<PodObject, String> {
    let name = object::full_name(&pod);
    let known_as = uid(&pod);
    if pod["metadata"]["annotations"].is_array() || pod["metadata"]["annotations"].is_string() {
        return Err("expected annotations as a mapping".to_owned());
    }
    let Some(members) = pod.as_object_mut() else {
        return Err("expected a pod".to_owned());
    };
    // Most of the text, and nothing of it decides anything here.
    let status = members.remove("status").unwrap_or_default();
    if let Some(meta) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(uid) = known_as {
            meta.insert("uid".to_owned(), uid.as_str().into());
        }
        let annotations = meta.entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = Value::Object(Map::new());
        }
        // Whatever the pod says about it is not what the kubelet says.
        annotations[CONTAINERS] = container_ids(&status).to_string().into();
    }
    let text = object::text(pod, "v1", "Pod");
    let read = pod::read(&name, text.as_bytes()).map_err(|findings| findings.to_string())?;
    read.value
        .into_iter()
        .next()
        .ok_or_else(|| "expected a pod".to_owned())
}

/// Where the ids of a pod's containers are noted while it is in our hands: `{"<id>": "<name>"}`.
pub(crate) const CONTAINERS: &str = "internal.pinfold.dev/containers";

/// The ids by which the runtime knows the containers of a pod, as its status says.
fn container_ids(status: &Value) -> Value {
    let mut ids = Map::new();
    for list in ["initContainerStatuses", "containerStatuses"] {
        for one in status[list].as_array().into_iter().flatten() {
            let id = one["containerID"]
                .as_str()
                .and_then(|id| id.split_once("://"));
            if let (Some((_, id)), Some(name)) = (id, one["name"].as_str()) {
                ids.insert(id.to_owned(), name.into());
            }
        }
    }
    Value::Object(ids)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_from_a_file_of_the_kubelet_goes_by_the_name_that_its_runtime_knows() {
        let pod = json!({
            "metadata": {"name": "static-1", "uid": "of-the-server", "annotations": {MIRROR: "of-the-kubelet"}},
            "spec": {"containers": [{"name": "main"}]},
        });
        assert_eq!(uid(&pod), Some("of-the-kubelet".into()));
        let read = read(pod).expect("a pod");
        assert_eq!(read.pod.uid.as_str(), "of-the-kubelet");
    }

    #[test]
    fn the_ids_of_containers_are_those_of_the_status_alone() {
        let pod = json!({
            "metadata": {"name": "a", "uid": "a", "annotations": {CONTAINERS: "{\"f00\": \"forged\"}"}},
            "spec": {"containers": [{"name": "main"}]},
            "status": {
                "containerStatuses": [{"name": "main", "containerID": "containerd://c0ffee"}],
                "initContainerStatuses": [{"name": "first", "containerID": ""}, {"name": "second"}],
            },
        });
        let read = read(pod).expect("a pod");
        assert_eq!(read.meta.annotations[CONTAINERS], r#"{"c0ffee":"main"}"#);
        for annotations in [json!([]), json!("text")] {
            let odd = json!({"metadata": {"name": "a", "annotations": annotations}});
            assert!(super::read(odd).is_err());
        }
    }
}
