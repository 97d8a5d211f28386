//! [`Extender`]: the verbs of kube-scheduler's extender protocol.
//!
//! | verb | request | response |
//! |---|---|---|
//! | filter | a pod and nodes | the nodes that will admit the pod, and the reason for each other node |
//! | prioritize | a pod and nodes | scores from 0 to 10, relative to the worst node |
//! | preempt | a pod, and possible victims on each node | the fewest victims that make the pod fit, for each node where this is possible |
//! | bind | a pod and a node | reserves the pod after another check, and sends the binding to the API server |

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_core::name::PodUid;
use pinfold_kube::api_object::InvalidObject;
use serde::Deserialize;
use serde_json::value::RawValue;

pub mod bind;
pub mod filter;
pub mod preempt;
pub mod prioritize;
pub mod reason;
pub mod wire;

use crate::cache::Cache;
use crate::cache::pod_info::{self, PodInfo};
use crate::weights::Weights;

/// The most parsed pods that are kept: filter, prioritize and bind are called with the same pod.
const MAX_RECENT: usize = 128;

/// Handles the requests of kube-scheduler.
pub struct Extender {
    cache: Arc<Mutex<Cache>>,
    weights: Mutex<Weights>,
    recent: Mutex<VecDeque<Arc<PodInfo>>>,
}

/// A malformed request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// The body cannot be parsed.
    #[error("expected the arguments of a scheduler extender: {0}")]
    NotArguments(String),
    /// The pod cannot be parsed.
    #[error(transparent)]
    Pod(#[from] InvalidObject),
}

/// The fields that identify a version of a pod.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodVersion {
    metadata: PodVersionMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodVersionMeta {
    uid: String,
    resource_version: String,
}

impl Extender {
    /// An extender that decides with `cache`.
    #[must_use]
    pub fn new(cache: Arc<Mutex<Cache>>, weights: Weights) -> Self {
        Self {
            cache,
            weights: Mutex::new(weights),
            recent: Mutex::default(),
        }
    }

    /// Changes the weights of the scores.
    pub fn set_weights(&self, weights: Weights) {
        // While the cache is locked, so that no score with the old weights is stored afterwards.
        let mut cache = self.cache();
        *self.weights.lock().unwrap_or_else(PoisonError::into_inner) = weights;
        cache.cluster().clear_cache();
    }

    fn weights(&self) -> Weights {
        let weights = self.weights.lock();
        weights.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Locks the cache. All requests and watch events wait for the lock.
    pub fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pod of a request. A version that was parsed before is not parsed again.
    fn pod_info(&self, pod: &RawValue) -> Result<Arc<PodInfo>, BadRequest> {
        let version: PodVersion = serde_json::from_str(pod.get())
            .map_err(|error| BadRequest::NotArguments(error.to_string()))?;
        let PodVersionMeta {
            uid,
            resource_version: version,
        } = version.metadata;
        if let Some(known) = self.known(&uid.as_str().into(), Some(&version)) {
            return Ok(known);
        }
        let info = pod_info::parse(pod.get())?.info;
        self.remember(&info);
        Ok(info)
    }

    /// A pod that was parsed before, in this version or in any.
    fn known(&self, uid: &PodUid, version: Option<&str>) -> Option<Arc<PodInfo>> {
        let matches = |info: &Arc<PodInfo>| {
            info.uid() == uid && version.is_none_or(|version| info.version == version)
        };
        let cached = self.cache().pod(uid).map(|record| record.info.clone());
        if let Some(info) = cached.filter(matches) {
            return Some(info);
        }
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().rev().find(|info| matches(info)).cloned()
    }

    fn remember(&self, info: &Arc<PodInfo>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MAX_RECENT {
            recent.pop_front();
        }
        recent.push_back(info.clone());
    }
}
