//! [`Waiting`]: pods that were refused, and waking them when a place for them comes free.
//!
//! kube-scheduler looks at a waiting pod again when something happens that it watches. Reports are nothing it watches:
//! a place that comes free there would be found minutes later. So when a node changes that refused a pod and now takes
//! it, the pod is touched (an annotation), which kube-scheduler does watch.

use std::collections::{BTreeSet, HashMap};
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
/// So many pods are touched at once; the others the next time.
const AT_ONCE: usize = 50;

/// Pods that were refused.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<HashMap<PodUid, Refused>>);

#[derive(Debug)]
struct Refused {
    asked: Arc<Asked>,
    by: BTreeSet<NodeName>,
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
    fn pods(&self) -> MutexGuard<'_, HashMap<PodUid, Refused>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod was refused by these nodes.
    pub fn refused(&self, asked: Arc<Asked>, by: Vec<NodeName>) {
        let mut pods = self.pods();
        let uid = asked.uid().clone();
        if by.is_empty() || (pods.len() >= MOST && !pods.contains_key(&uid)) {
            pods.remove(&uid);
            return;
        }
        let touched = pods.get(&uid).and_then(|pod| pod.touched);
        let by = by.into_iter().collect();
        pods.insert(uid, Refused { asked, by, touched });
    }

    /// Waiting pods that one of these nodes refused and would take now. Pods that wait no longer are forgotten.
    pub fn freed(&self, cache: &mut Cache, changed: &[NodeName], now: Instant) -> Vec<Free> {
        let mut pods = self.pods();
        pods.retain(|uid, _| cache.pod(uid).is_some_and(|pod| pod.node.is_none()));
        let mut freed = Vec::new();
        for pod in pods.values_mut() {
            if freed.len() >= AT_ONCE {
                break;
            }
            let rested = |at: Instant| now.saturating_duration_since(at) >= PAUSE;
            if !pod.touched.is_none_or(rested) {
                continue;
            }
            let candidates = changed.iter().filter(|name| pod.by.contains(*name));
            let names: Vec<&str> = candidates.map(NodeName::as_str).collect();
            if names.is_empty() {
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
