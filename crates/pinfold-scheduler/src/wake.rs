//! [`Waiting`]: pods that were rejected, and waking them when a place for them comes free.
//!
//! kube-scheduler looks at a waiting pod again when something happens that it watches. Reports are nothing it watches:
//! a place that comes free there would be found minutes later. So when a node changes that rejected a pod and now takes
//! it, the pod is touched (an annotation), which kube-scheduler does watch.
//!
//! Nothing comes in an agreed order: a node may change while it rejects a pod, a pod may be rejected before it is heard of,
//! and the API server may be away when the pod is to be touched. In each case the pod is looked at once more.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use pinfold_apiserver::{Api, ApiError, escaped};
use pinfold_core::name::{NodeName, PodUid};
use serde_json::json;

use crate::cache::Cache;
use crate::cache::pod::Asked;
use crate::extender::filter::Said;

/// The annotation with which a waiting pod is touched: which node came free, and when, for without a new value nothing
/// would have changed.
pub const TOUCHED: &str = "pinfold.dev/reconsider";

/// So many waiting pods are remembered.
const MOST: usize = 10_000;
/// A pod is not touched more often.
const PAUSE: Duration = Duration::from_secs(5);
/// kube-scheduler asks again about a waiting pod every five minutes; one that it has not asked about for longer, and that
/// nobody has heard of, is gone.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// No answer takes longer: changes are remembered for so long for whoever was rejected meanwhile.
const RECENT: Duration = Duration::from_secs(10);
/// So many pods are looked at in one go, with the cache in hand; the others the next time.
const AT_ONCE: usize = 200;

/// Pods that no node took.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<Room>);

#[derive(Debug, Default)]
struct Room {
    pods: HashMap<PodUid, Rejected>,
    /// Nodes that changed, and the pods that were not looked at since.
    changed: BTreeSet<NodeName>,
    to_look_at: VecDeque<PodUid>,
    /// When nodes changed last, as far as that is not long ago.
    recent: BTreeMap<NodeName, Instant>,
}

#[derive(Debug)]
struct Rejected {
    asked: Arc<Asked>,
    /// When it was last rejected.
    at: Instant,
    touched: Option<Instant>,
}

impl Rejected {
    /// Whether it still waits, as far as anybody knows.
    fn waits(&self, cache: &Cache, now: Instant) -> bool {
        let uid = self.asked.uid();
        match cache.pod(uid) {
            Some(pod) => pod.node.is_none(),
            None => {
                let since = now.saturating_duration_since(self.at);
                !cache.has_left(uid) && since < FORGOTTEN
            }
        }
    }
}

/// A pod for which a place came free.
#[derive(Clone, Debug)]
pub struct Free {
    /// The pod.
    pub asked: Arc<Asked>,
    /// The node.
    pub node: NodeName,
}

impl Waiting {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod was rejected by every node; they were asked at `at`.
    pub fn rejected(&self, asked: Arc<Asked>, at: Instant) {
        let mut room = self.room();
        let uid = asked.uid().clone();
        if room.pods.len() >= MOST && !room.pods.contains_key(&uid) {
            return;
        }
        let touched = room.pods.get(&uid).and_then(|pod| pod.touched);
        let rejected = Rejected { asked, at, touched };
        room.pods.insert(uid.clone(), rejected);
        let Room {
            changed,
            recent,
            to_look_at,
            ..
        } = &mut *room;
        // They may have changed after they were asked.
        let mut missed = recent.iter().filter(|(_, when)| **when >= at).peekable();
        if missed.peek().is_some() {
            changed.extend(missed.map(|(node, _)| node.clone()));
            to_look_at.push_back(uid);
        }
    }

    /// A pod could not be touched: it is looked at again.
    pub fn not_touched(&self, free: Free) {
        let mut room = self.room();
        let uid = free.asked.uid().clone();
        if let Some(pod) = room.pods.get_mut(&uid) {
            pod.touched = None;
            room.changed.insert(free.node);
            room.to_look_at.push_back(uid);
        }
    }

    /// A pod found a node.
    pub fn found(&self, pod: &PodUid) {
        self.room().pods.remove(pod);
    }

    /// Waiting pods that one of these nodes would take now. Pods that wait no longer are forgotten.
    pub fn freed(&self, cache: &mut Cache, changed: Vec<NodeName>, now: Instant) -> Vec<Free> {
        let mut room = self.room();
        let Room {
            pods,
            changed: nodes,
            to_look_at,
            recent,
        } = &mut *room;
        recent.retain(|_, at| now.saturating_duration_since(*at) <= RECENT);
        recent.extend(changed.iter().map(|node| (node.clone(), now)));
        if !changed.is_empty() && !pods.is_empty() {
            pods.retain(|_, pod| pod.waits(cache, now));
            nodes.extend(changed);
            *to_look_at = pods.keys().cloned().collect();
        }
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        let mut freed = Vec::new();
        let mut later = Vec::new();
        for _ in 0..AT_ONCE {
            let Some(uid) = to_look_at.pop_front() else {
                break;
            };
            let Some(pod) = pods.get_mut(&uid) else {
                continue;
            };
            let rested = |at: Instant| now.saturating_duration_since(at) >= PAUSE;
            if !pod.touched.is_none_or(rested) {
                later.push(uid);
                continue;
            }
            let said = cache.filter(&pod.asked, &names);
            let place = said.iter().position(|said| *said == Said::Yes);
            if let Some(name) = place.and_then(|at| names.get(at)) {
                pod.touched = Some(now);
                freed.push(Free {
                    asked: pod.asked.clone(),
                    node: (*name).into(),
                });
            }
        }
        to_look_at.extend(later);
        if to_look_at.is_empty() {
            nodes.clear();
        }
        freed
    }
}

impl Free {
    /// Touches the pod. Whether that was done: one that changed meanwhile or is gone need not be touched.
    ///
    /// # Errors
    /// If the API server cannot do it now.
    pub async fn touch(&self, api: &Api) -> Result<bool, ApiError> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}?fieldManager=pinfold-scheduler",
            escaped(&self.asked.namespace),
            escaped(&self.asked.name)
        );
        let touched = format!("{} {:.3}", self.node, Timestamp::now());
        let body = json!({ "metadata": {
            "uid": self.asked.uid().as_str(),
            "annotations": { TOUCHED: touched },
        }});
        match api.merge_patch(&path, &body).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
