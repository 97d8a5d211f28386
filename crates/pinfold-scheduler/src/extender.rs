//! [`Extender`]: answers kube-scheduler: which nodes could take a pod, which is best, who has to leave, and binding.
//!
//! | verb | asks | answers |
//! |---|---|---|
//! | filter | a pod and nodes | the nodes that will take it, and for the others why not |
//! | prioritize | the same | how much better than the worst each is, from 0 to 10 |
//! | preempt | the pods that could leave each node | the fewest that really make room, or none for that node |
//! | bind | a pod and a node | the place is checked again, promised, and written to the API server |

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_core::name::PodUid;
use serde::Deserialize;
use serde_json::value::RawValue;

pub mod bind;
pub mod filter;
pub mod preempt;
pub mod prioritize;
pub mod reason;
pub mod wire;

use crate::cache::Cache;
use crate::cache::pod::{self, Asked};
use crate::weights::Weights;

/// So many pods that were read are remembered: filter, prioritize and bind speak of the same one.
const MOST_RECENT: usize = 128;

/// Answers kube-scheduler.
pub struct Extender {
    cache: Arc<Mutex<Cache>>,
    weights: Mutex<Weights>,
    recent: Mutex<VecDeque<Arc<Asked>>>,
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It is not the JSON that it should be.
    #[error("expected the arguments of a scheduler extender, found something else: {0}")]
    NotArguments(String),
    /// Its pod makes no sense.
    #[error(transparent)]
    Pod(#[from] pod::BadPod),
}

/// What tells two versions of a pod apart.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Glance {
    metadata: GlanceMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GlanceMeta {
    uid: String,
    resource_version: String,
}

impl Extender {
    /// Answers from this cache.
    #[must_use]
    pub fn new(cache: Arc<Mutex<Cache>>, weights: Weights) -> Self {
        Self {
            cache,
            weights: Mutex::new(weights),
            recent: Mutex::default(),
        }
    }

    /// What makes a node a good one from now on.
    pub fn set_weights(&self, weights: Weights) {
        // Under the cache's lock: nobody notes a score by the old ones afterwards.
        let mut cache = self.cache();
        *self.weights.lock().unwrap_or_else(PoisonError::into_inner) = weights;
        cache.cluster().clear_cache();
    }

    fn weights(&self) -> Weights {
        let weights = self.weights.lock();
        weights.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The cache. Whoever holds it keeps everybody else waiting.
    pub fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod of a request. One that was read before in the same version is not read again.
    fn asked(&self, pod: &RawValue) -> Result<Arc<Asked>, BadRequest> {
        let glance: Glance = serde_json::from_str(pod.get())
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let GlanceMeta {
            uid,
            resource_version: version,
        } = glance.metadata;
        if let Some(known) = self.known(&uid.as_str().into(), Some(&version)) {
            return Ok(known);
        }
        let value = serde_json::from_str(pod.get())
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let asked = pod::read(value)?.asked;
        self.remember(&asked);
        Ok(asked)
    }

    /// A pod that was read before, in this version or in any.
    fn known(&self, uid: &PodUid, version: Option<&str>) -> Option<Arc<Asked>> {
        let fits = |asked: &Arc<Asked>| {
            asked.uid() == uid && version.is_none_or(|version| asked.version == version)
        };
        let cached = self.cache().pod(uid).map(|record| record.asked.clone());
        if let Some(asked) = cached.filter(fits) {
            return Some(asked);
        }
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().rev().find(|asked| fits(asked)).cloned()
    }

    fn remember(&self, asked: &Arc<Asked>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MOST_RECENT {
            recent.pop_front();
        }
        recent.push_back(asked.clone());
    }
}
