//! [`PodSpecs`]: the pods of this node as the API server knows them, for whoever must not wait for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_apiserver::object;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_kube::manifest::Document;
use pinfold_kube::pod::{self, PodObject};
use serde_json::Value;

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

/// A pod of this node.
#[derive(Clone, Debug)]
pub struct KnownPod {
    /// What it asks for, and its words.
    pub object: Arc<PodObject>,
    /// The names of its containers by the ids that the runtime knows them by, as far as its status tells.
    pub containers: BTreeMap<String, ContainerName>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<PodUid, KnownPod>,
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
        state.pods.get(uid).map(|pod| pod.object.clone())
    }

    /// All pods in the order of their ids; `None` until they were listed for the first time.
    #[must_use]
    pub fn all(&self) -> Option<Vec<KnownPod>> {
        let state = self.state();
        let mut pods: Vec<_> = state
            .known
            .then(|| state.pods.values().cloned().collect())?;
        drop(state);
        pods.sort_by(|one: &KnownPod, other| one.object.pod.uid.cmp(&other.object.pod.uid));
        Some(pods)
    }

    /// The map is changed in single steps, so a panic elsewhere leaves it whole.
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// These are all pods.
    pub(super) fn replace(&self, pods: HashMap<PodUid, KnownPod>) {
        let mut state = self.state();
        state.pods = pods;
        state.known = true;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// A pod is there, or is different. Says whether there was room for it.
    pub(super) fn put(&self, uid: PodUid, pod: KnownPod) -> bool {
        let mut state = self.state();
        let room = state.pods.len() < MAX_PODS || state.pods.contains_key(&uid);
        if room {
            state.pods.insert(uid, pod);
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

/// Reads a pod as the server sends it. Its uid is the one that the runtime knows.
pub(super) fn read(mut pod: Value) -> Result<KnownPod, String> {
    let name = object::full_name(&pod);
    let known_as = uid(&pod);
    let Some(members) = pod.as_object_mut() else {
        return Err("expected a pod".to_owned());
    };
    // Most of the text, and nothing else of it decides anything here.
    let status = members.remove("status").unwrap_or_default();
    object::prune(&mut pod);
    let read = Document::of_json(&name, "v1", "Pod", &pod);
    let read = read.and_then(|document| pod::pods_of(&document));
    let read = read.map_err(|findings| findings.to_string())?;
    let object = read.value.into_iter().next();
    let mut object = object.ok_or_else(|| "expected a pod".to_owned())?;
    if let Some(uid) = known_as {
        object.pod.uid = uid;
    }
    Ok(KnownPod {
        object: Arc::new(object),
        containers: containers(&status),
    })
}

/// The names of a pod's containers by the runtime's ids, as its status says.
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
    fn a_pod_from_a_file_of_the_kubelet_goes_by_the_name_that_its_runtime_knows() {
        let pod = json!({
            "metadata": {"name": "static-1", "uid": "of-the-server", "annotations": {MIRROR: "of-the-kubelet"}},
            "spec": {"containers": [{"name": "main"}]},
        });
        assert_eq!(uid(&pod), Some("of-the-kubelet".into()));
        let read = read(pod).expect("a pod");
        assert_eq!(read.object.pod.uid.as_str(), "of-the-kubelet");
    }

    #[test]
    fn the_ids_of_containers_are_those_of_the_status() {
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
