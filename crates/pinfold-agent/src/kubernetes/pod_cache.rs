//! [`PodCache`]: the specifications of the pods that are bound to this node, kept up to date by a watch.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_apiserver::object;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_kube::manifest::Document;
use pinfold_kube::pod::{self, PodObject};
use serde_json::Value;

/// Longest wait for a pod's watch event: runtimes give an NRI plugin two seconds per request.
pub const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Largest number of cached pods.
pub const MAX_PODS: usize = 2048;

/// Annotation of a mirror pod: the UID that the kubelet gave to the static pod. The mirror pod itself has another UID.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The pods that are bound to this node. Clones share one cache.
#[derive(Clone, Debug, Default)]
pub struct PodCache {
    shared: Arc<SharedPods>,
}

/// A pod that is bound to this node.
#[derive(Clone, Debug)]
pub struct CachedPod {
    /// Its requests, labels and annotations.
    pub object: Arc<PodObject>,
    /// Names of its containers by the runtime's container ids, from the pod's status.
    pub containers: BTreeMap<String, ContainerName>,
}

#[derive(Debug, Default)]
struct SharedPods {
    state: Mutex<CacheState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CacheState {
    pods: HashMap<PodUid, CachedPod>,
    /// Whether the first list has completed.
    synced: bool,
}

impl PodCache {
    /// The pod with this UID, which is the UID that the runtime has. If it is not in the cache yet, waits for its watch
    /// event for `wait`, but at most [`LONGEST_WAIT`].
    #[must_use]
    pub fn get(&self, uid: &PodUid, wait: Duration) -> Option<Arc<PodObject>> {
        let state = self.state();
        let missing = |state: &mut CacheState| !state.pods.contains_key(uid);
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, wait.min(LONGEST_WAIT), missing)
            .unwrap_or_else(PoisonError::into_inner);
        state.pods.get(uid).map(|pod| pod.object.clone())
    }

    /// All pods in the order of their UIDs; `None` until the first list has completed.
    #[must_use]
    pub fn all(&self) -> Option<Vec<CachedPod>> {
        let state = self.state();
        let mut pods: Vec<_> = state
            .synced
            .then(|| state.pods.values().cloned().collect())?;
        drop(state);
        pods.sort_by(|one: &CachedPod, other| one.object.pod.uid.cmp(&other.object.pod.uid));
        Some(pods)
    }

    /// Locks the state, also after a panic: no change of the map is left half done.
    fn state(&self) -> MutexGuard<'_, CacheState> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces all pods by those of a complete list.
    pub(super) fn replace(&self, pods: HashMap<PodUid, CachedPod>) {
        let mut state = self.state();
        state.pods = pods;
        state.synced = true;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Adds or updates a pod. Returns false if the cache is full.
    pub(super) fn put(&self, uid: PodUid, pod: CachedPod) -> bool {
        let mut state = self.state();
        let fits = state.pods.len() < MAX_PODS || state.pods.contains_key(&uid);
        if fits {
            state.pods.insert(uid, pod);
        }
        drop(state);
        self.shared.changed.notify_all();
        fits
    }

    /// Removes a deleted pod.
    pub(super) fn remove(&self, uid: &PodUid) {
        self.state().pods.remove(uid);
    }
}

/// The UID that the runtime has for a pod: for a mirror pod that of its static pod.
pub(super) fn uid(pod: &Value) -> Option<PodUid> {
    let meta = pod.get("metadata")?;
    let mirrored = meta.get("annotations").and_then(|all| all.get(MIRROR));
    let uid = mirrored.or_else(|| meta.get("uid"))?.as_str()?;
    (!uid.is_empty()).then(|| uid.into())
}

/// Reads a pod from the server's JSON. Its UID becomes the one that the runtime has.
pub(super) fn read(mut pod: Value) -> Result<CachedPod, String> {
    let name = object::full_name(&pod);
    let runtime_uid = uid(&pod);
    let Some(members) = pod.as_object_mut() else {
        return Err("expected a pod".to_owned());
    };
    // Only the container ids of the status are needed, and it is most of the text.
    let status = members.remove("status").unwrap_or_default();
    object::prune(&mut pod);
    let read = Document::of_json(&name, "v1", "Pod", &pod);
    let read = read.and_then(|document| pod::pods_of(&document));
    let read = read.map_err(|findings| findings.to_string())?;
    let object = read.value.into_iter().next();
    let mut object = object.ok_or_else(|| "expected a pod".to_owned())?;
    if let Some(uid) = runtime_uid {
        object.pod.uid = uid;
    }
    Ok(CachedPod {
        object: Arc::new(object),
        containers: containers(&status),
    })
}

/// Names of a pod's containers by the runtime's container ids.
fn containers(status: &Value) -> BTreeMap<String, ContainerName> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let lists = lists.iter().map(|list| status[*list].as_array());
    let all = lists.flat_map(|list| list.into_iter().flatten());
    all.filter_map(|one| {
        let (_, id) = one["containerID"].as_str()?.split_once("://")?;
        Some((id.to_owned(), one["name"].as_str()?.into()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mirror_pod_has_the_uid_of_its_static_pod() {
        let pod = json!({
            "metadata": {"name": "static-1", "uid": "of-the-server", "annotations": {MIRROR: "of-the-kubelet"}},
            "spec": {"containers": [{"name": "main"}]},
        });
        assert_eq!(uid(&pod), Some("of-the-kubelet".into()));
        let read = read(pod).expect("a pod");
        assert_eq!(read.object.pod.uid.as_str(), "of-the-kubelet");
    }

    #[test]
    fn container_ids_are_read_from_the_status() {
        let pod = json!({
            "metadata": {"name": "a", "uid": "a"},
            "spec": {"containers": [{"name": "main"}]},
            "status": {
                "containerStatuses": [{"name": "main", "containerID": "containerd://c0ffee"}],
                "initContainerStatuses": [{"name": "first", "containerID": ""}, {"name": "second"}, 7],
            },
        });
        let read = read(pod).expect("a pod");
        let names: Vec<(&str, &str)> = (read.containers.iter())
            .map(|(id, name)| (id.as_str(), name.as_str()))
            .collect();
        assert_eq!(names, [("c0ffee", "main")]);
        for annotations in [json!([]), json!("text")] {
            let odd = json!({"metadata": {"name": "a", "annotations": annotations}});
            assert!(super::read(odd).is_err());
        }
    }
}
