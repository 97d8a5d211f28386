//! [`PodCache`]: the specifications of the pods that are bound to this node, kept up to date by a watch.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinfold_core::name::ContainerName;
use pinfold_kube::pod::{PodIdentity, PodObject, PodPhase, StatusPhase};

use crate::node::{PodStatus, PodStatusSource};

/// Longest wait for a pod's watch event: runtimes give an NRI plugin two seconds per request.
pub const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Largest number of cached pods.
pub const MAX_PODS: usize = 2048;

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
    /// Its phase.
    pub phase: PodPhase,
    /// Names of its containers by the runtime's container ids, from the pod's status.
    pub containers: BTreeMap<String, ContainerName>,
    /// `status.phase` as the API server has it.
    pub status_phase: StatusPhase,
}

#[derive(Debug, Default)]
struct SharedPods {
    state: Mutex<CacheState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct CacheState {
    pods: HashMap<PodIdentity, CachedPod>,
    /// Whether the first list has completed.
    synced: bool,
}

impl PodCache {
    /// The pod with the UID and name that the runtime has. If it is not in the cache yet, waits for its watch event for
    /// `wait`, but at most [`LONGEST_WAIT`].
    #[must_use]
    pub fn get(&self, pod: &PodIdentity, wait: Duration) -> Option<Arc<PodObject>> {
        let state = self.state();
        let missing = |state: &mut CacheState| !state.pods.contains_key(pod);
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, wait.min(LONGEST_WAIT), missing)
            .unwrap_or_else(PoisonError::into_inner);
        state.pods.get(pod).map(|pod| pod.object.clone())
    }

    /// Waits up to `wait` for the first list of pods to complete. Returns whether it has.
    #[must_use]
    pub fn wait_for_list(&self, wait: Duration) -> bool {
        let state = self.state();
        let unsynced = |state: &mut CacheState| !state.synced;
        let (state, _) = self
            .shared
            .changed
            .wait_timeout_while(state, wait, unsynced)
            .unwrap_or_else(PoisonError::into_inner);
        state.synced
    }

    /// All pods in the order of their UIDs; `None` until the first list has completed. Of pods with the same UID, only one
    /// that runs: the annotation of a mirror pod may claim any UID, but the kubelet runs no such pod.
    #[must_use]
    pub fn all(&self) -> Option<Vec<CachedPod>> {
        let state = self.state();
        let mut pods: Vec<_> = state
            .synced
            .then(|| state.pods.values().cloned().collect())?;
        drop(state);
        pods.sort_by_cached_key(|pod: &CachedPod| {
            let PodIdentity { uid, name } = pod.object.identity();
            (uid, pod.containers.is_empty(), name)
        });
        pods.dedup_by(|one, other| one.object.pod.uid == other.object.pod.uid);
        Some(pods)
    }

    /// Whether the first list has completed.
    pub(super) fn is_synced(&self) -> bool {
        self.state().synced
    }

    /// Locks the state, also after a panic: no change of the map is left half done.
    fn state(&self) -> MutexGuard<'_, CacheState> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces all pods by those of a complete list.
    pub(super) fn replace(&self, pods: HashMap<PodIdentity, CachedPod>) {
        let mut state = self.state();
        state.pods = pods;
        state.synced = true;
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Adds or updates a pod. Returns false if the cache is full.
    pub(super) fn put(&self, identity: PodIdentity, pod: CachedPod) -> bool {
        let mut state = self.state();
        let fits = state.pods.len() < MAX_PODS || state.pods.contains_key(&identity);
        if fits {
            state.pods.insert(identity, pod);
        }
        drop(state);
        self.shared.changed.notify_all();
        fits
    }

    /// Removes a deleted pod.
    pub(super) fn remove(&self, pod: &PodIdentity) {
        self.state().pods.remove(pod);
    }
}

impl PodStatusSource for PodCache {
    fn status(&self, pod: &PodIdentity) -> PodStatus {
        let state = self.state();
        match state.pods.get(pod).map(|pod| pod.phase) {
            Some(PodPhase::Terminated) => PodStatus::Terminated,
            Some(PodPhase::Pending | PodPhase::Started) => PodStatus::Active,
            None if state.synced => PodStatus::Absent,
            None => PodStatus::NotListed,
        }
    }

    fn spec(&self, pod: &PodIdentity) -> Option<Arc<PodObject>> {
        self.get(pod, Duration::ZERO)
    }
}
