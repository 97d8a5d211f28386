//! [`RejectedPods`]: pods that every node rejected, and their requeueing when a node has room for them.
//!
//! kube-scheduler retries an unschedulable pod when an event occurs that it watches. It does not watch reports: it would
//! retry a pod that fits after a new report only minutes later. So when a node changes that rejected a pod and would now
//! admit it, the extender patches an annotation of the pod, which kube-scheduler does watch.
//!
//! Events have no fixed order: a node may change while it rejects a pod, a pod may be rejected before its watch event
//! arrives, and the API server may be unreachable when the pod is to be patched. In each case the pod is checked again.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use pinfold_apiserver::{ApiClient, ApiError, percent_encode};
use pinfold_core::name::{NodeName, PodUid};
use serde_json::json;

use crate::cache::Cache;
use crate::cache::pod_info::PodInfo;
use crate::extender::filter::NodeVerdict;

/// The annotation that requeues a pod. Its value is the node that has room and the time, which makes every value new.
pub const REQUEUE_ANNOTATION: &str = "pinfold.dev/requeue";

/// The most rejected pods that are remembered.
const MAX_PODS: usize = 10_000;
/// The least time between two requeues of a pod.
const REQUEUE_INTERVAL: Duration = Duration::from_secs(5);
/// A pod without a watch event is forgotten this long after its last rejection: kube-scheduler retries unschedulable pods
/// every five minutes.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// How long node changes are remembered, for pods that were rejected while a node changed. No request takes longer.
const REMEMBER_CHANGES: Duration = Duration::from_secs(10);
/// The most pods that are checked in one pass, which holds the lock of the cache.
const PODS_PER_PASS: usize = 200;

/// Pods that every node rejected.
#[derive(Debug, Default)]
pub struct RejectedPods(Mutex<RejectedPodsState>);

#[derive(Debug, Default)]
struct RejectedPodsState {
    pods: HashMap<PodUid, RejectedPod>,
    /// Nodes that changed since the pods in `to_check` were last checked.
    changed: BTreeSet<NodeName>,
    to_check: VecDeque<PodUid>,
    /// Recent changes of nodes.
    recent: BTreeMap<NodeName, Instant>,
}

#[derive(Debug)]
struct RejectedPod {
    info: Arc<PodInfo>,
    /// When the filter request that last rejected the pod began.
    last_rejection: Instant,
    /// When the pod was last requeued.
    requeued: Option<Instant>,
}

impl RejectedPod {
    /// Whether the pod is still unbound, as far as the cache shows.
    fn is_pending(&self, cache: &Cache, now: Instant) -> bool {
        let uid = self.info.uid();
        match cache.pod(uid) {
            Some(pod) => pod.node.is_none(),
            None => {
                let since = now.saturating_duration_since(self.last_rejection);
                !cache.is_deleted(uid) && since < FORGET_AFTER
            }
        }
    }
}

/// A pod to requeue.
#[derive(Clone, Debug)]
pub struct Requeue {
    /// The pod.
    pub info: Arc<PodInfo>,
    /// The node that has room for it.
    pub node: NodeName,
}

impl RejectedPods {
    fn state(&self) -> MutexGuard<'_, RejectedPodsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a pod that every node rejected in a filter request that began at `at`.
    pub fn add(&self, info: Arc<PodInfo>, at: Instant) {
        let mut state = self.state();
        let uid = info.uid().clone();
        if state.pods.len() >= MAX_PODS && !state.pods.contains_key(&uid) {
            return;
        }
        let requeued = state.pods.get(&uid).and_then(|pod| pod.requeued);
        let rejected = RejectedPod {
            info,
            last_rejection: at,
            requeued,
        };
        state.pods.insert(uid.clone(), rejected);
        let RejectedPodsState {
            changed,
            recent,
            to_check,
            ..
        } = &mut *state;
        // Nodes may have changed after they rejected the pod.
        let mut newer = recent.iter().filter(|(_, when)| **when >= at).peekable();
        if newer.peek().is_some() {
            changed.extend(newer.map(|(node, _)| node.clone()));
            to_check.push_back(uid);
        }
    }

    /// Schedules another check of a pod whose requeue failed.
    pub fn retry(&self, requeue: Requeue) {
        let mut state = self.state();
        let uid = requeue.info.uid().clone();
        if let Some(pod) = state.pods.get_mut(&uid) {
            pod.requeued = None;
            state.changed.insert(requeue.node);
            state.to_check.push_back(uid);
        }
    }

    /// Removes a pod that a node admitted.
    pub fn remove(&self, pod: &PodUid) {
        self.state().pods.remove(pod);
    }

    /// The pods that one of the changed nodes would admit now. Forgets pods that were bound or deleted.
    pub fn requeues(
        &self,
        cache: &mut Cache,
        changed: Vec<NodeName>,
        now: Instant,
    ) -> Vec<Requeue> {
        let mut state = self.state();
        let RejectedPodsState {
            pods,
            changed: nodes,
            to_check,
            recent,
        } = &mut *state;
        recent.retain(|_, at| now.saturating_duration_since(*at) <= REMEMBER_CHANGES);
        recent.extend(changed.iter().map(|node| (node.clone(), now)));
        if !changed.is_empty() && !pods.is_empty() {
            pods.retain(|_, pod| pod.is_pending(cache, now));
            nodes.extend(changed);
            *to_check = pods.keys().cloned().collect();
        }
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        let mut requeues = Vec::new();
        let mut later = Vec::new();
        for _ in 0..PODS_PER_PASS {
            let Some(uid) = to_check.pop_front() else {
                break;
            };
            let Some(pod) = pods.get_mut(&uid) else {
                continue;
            };
            let is_due = |at: Instant| now.saturating_duration_since(at) >= REQUEUE_INTERVAL;
            if !pod.requeued.is_none_or(is_due) {
                later.push(uid);
                continue;
            }
            let verdicts = cache.filter(&pod.info, &names);
            let mut fitting = names.iter().zip(verdicts);
            let fitting = fitting.find(|(_, verdict)| *verdict == NodeVerdict::Fits);
            if let Some((name, _)) = fitting {
                pod.requeued = Some(now);
                requeues.push(Requeue {
                    info: pod.info.clone(),
                    node: (*name).into(),
                });
            }
        }
        to_check.extend(later);
        if to_check.is_empty() {
            nodes.clear();
        }
        requeues
    }
}

impl Requeue {
    /// Patches the annotation of the pod. `false` if the pod was deleted or replaced by another one of the same name.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn patch_pod(&self, api: &ApiClient) -> Result<bool, ApiError> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}?fieldManager=pinfold-scheduler",
            percent_encode(&self.info.namespace),
            percent_encode(&self.info.name)
        );
        let requeued = format!("{} {:.3}", self.node, Timestamp::now());
        let body = json!({ "metadata": {
            "uid": self.info.uid().as_str(),
            "annotations": { REQUEUE_ANNOTATION: requeued },
        }});
        match api.merge_patch(&path, &body).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
