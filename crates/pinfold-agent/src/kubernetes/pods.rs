//! [`PodSpecs`]: the pods of this node as the API server knows them, for whoever must not wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_apiserver::object;
use pinfold_core::name::PodUid;
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
    if let Some(members) = pod.as_object_mut() {
        // Nothing of it decides anything here.
        members.remove("status");
    }
    let text = object::text(pod, "v1", "Pod");
    let read = pod::read(&name, text.as_bytes()).map_err(|findings| findings.to_string())?;
    read.value
        .into_iter()
        .next()
        .ok_or_else(|| "expected a pod".to_owned())
}
