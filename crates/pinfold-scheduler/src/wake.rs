//! [`Waiting`]: pods that were refused, and waking them when a place for them comes free.
//!
//! kube-scheduler looks at a waiting pod again when something happens that it watches. Reports are nothing it watches:
//! a place that comes free there would be found minutes later. So when a node changes that refused a pod and now takes
//! it, the pod is touched (an annotation), which kube-scheduler does watch.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinfold_apiserver::{Api, escaped};
use pinfold_core::name::{NodeName, PodUid};
use serde_json::json;

use crate::cache::Cache;
use crate::cache::pod::Asked;
use crate::extender::filter::Said;

/// The annotation with which a waiting pod is touched: which node came free.
pub const TOUCHED: &str = "pinfold.dev/reconsider";

/// So many waiting pods are remembered.
const MOST: usize = 10_000;
/// A pod is not touched more often.
const PAUSE: Duration = Duration::from_secs(5);
/// So many pods are looked at in one go, with the cache in hand; the others the next time.
const AT_ONCE: usize = 200;

/// Pods that no node took.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<Room>);

#[derive(Debug, Default)]
struct Room {
    pods: HashMap<PodUid, Refused>,
    /// Nodes that changed, and the pods that were not looked at since.
    changed: BTreeSet<NodeName>,
    to_look_at: VecDeque<PodUid>,
}

#[derive(Debug)]
struct Refused {
    asked: Arc<Asked>,
    touched: Option<Instant>,
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

    /// A pod was refused by every node.
    pub fn refused(&self, asked: Arc<Asked>) {
        let mut room = self.room();
        let uid = asked.uid().clone();
        if room.pods.len() >= MOST && !room.pods.contains_key(&uid) {
            return;
        }
        let touched = room.pods.get(&uid).and_then(|pod| pod.touched);
        room.pods.insert(uid, Refused { asked, touched });
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
        } = &mut *room;
        if !changed.is_empty() && !pods.is_empty() {
            pods.retain(|uid, _| cache.pod(uid).is_some_and(|pod| pod.node.is_none()));
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
    /// Touches the pod. One that changed meanwhile need not be touched: kube-scheduler has seen it.
    pub async fn touch(&self, api: &Api) -> bool {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}?fieldManager=pinfold-scheduler",
            escaped(&self.asked.namespace),
            escaped(&self.asked.name)
        );
        let body = json!({ "metadata": {
            "uid": self.asked.uid().as_str(),
            "annotations": { TOUCHED: self.node.as_str() },
        }});
        api.merge_patch(&path, &body).await.is_ok()
    }
}
