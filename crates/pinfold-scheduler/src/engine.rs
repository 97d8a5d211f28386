//! [`Engine`]: the decisions behind the extension points of kube-scheduler's plugin.
//!
//! | extension point | engine |
//! |---|---|
//! | PreFilter, Score | [`Cache::pre_filter`]: the nodes that take the pod with their scores, and the others by reason |
//! | AddPod, RemovePod, Filter | [`Cache::filter_changed`]: a node as it would be with pods added and removed |
//! | Reserve, Unreserve | [`Engine::reserve`], [`Engine::unreserve`]: the pod counts on its node |
//! | queueing hints | [`crate::requeue`]: rejected pods that a node takes now |

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinfold_core::name::PodUid;
use pinfold_kube::api_object::InvalidObject;

pub mod dialect_args;
pub mod filter;
pub mod pre_filter;
pub mod reason;
pub mod reserve;
pub mod session;
pub mod wire;

use crate::cache::Cache;
use crate::cache::pod_info::{self, PodInfo};
use crate::requeue::RejectedPods;
use crate::weights::Weights;
use wire::WirePod;

/// The most parsed pods that are kept: several calls are about the same pod.
const MAX_RECENT: usize = 128;
/// The longest uid, resource version or node name in a request.
const MAX_NAME: usize = 253;

/// Decides about the calls of the plugin.
pub struct Engine {
    cache: Arc<Mutex<Cache>>,
    weights: Mutex<Weights>,
    recent: Mutex<VecDeque<Arc<PodInfo>>>,
    /// Pods that a node rejected.
    pub rejected_pods: RejectedPods,
}

/// Why a request cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// A field is missing or too long.
    #[error("expected {expected} in {field}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// The arguments of another scheduler's plugin cannot be used.
    #[error("args of plugin Pinfold: {0}")]
    Args(String),
    /// The pod cannot be parsed.
    #[error(transparent)]
    Pod(#[from] InvalidObject),
}

impl Engine {
    /// An engine that decides with `cache`.
    #[must_use]
    pub fn new(cache: Arc<Mutex<Cache>>, weights: Weights) -> Self {
        Self {
            cache,
            weights: Mutex::new(weights),
            recent: Mutex::default(),
            rejected_pods: RejectedPods::default(),
        }
    }

    /// Changes the weights of the scores.
    pub fn set_weights(&self, weights: Weights) {
        // While the cache is locked, so that no score with the old weights is stored afterwards.
        let mut cache = self.cache();
        *self.weights.lock().unwrap_or_else(PoisonError::into_inner) = weights;
        cache.cluster().clear_cache();
    }

    /// The weights of the scores.
    pub(crate) fn weights(&self) -> Weights {
        let weights = self.weights.lock();
        weights.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Locks the cache. All calls and watch events wait for the lock.
    pub fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the cache unless another thread has locked it.
    pub fn try_cache(&self) -> Option<MutexGuard<'_, Cache>> {
        match self.cache.try_lock() {
            Ok(cache) => Some(cache),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// The pod of a request; `None` if its object is needed. A version that was parsed before is not parsed again.
    ///
    /// # Errors
    /// If the pod is missing or cannot be parsed.
    pub fn pod_info(&self, pod: Option<&WirePod>) -> Result<Option<Arc<PodInfo>>, BadRequest> {
        const UID: BadRequest = BadRequest::Field {
            field: "pod.uid",
            expected: "1 to 253 bytes",
        };
        let pod = pod.ok_or(UID)?;
        let is_name = |text: &str| !text.is_empty() && text.len() <= MAX_NAME;
        if !is_name(&pod.uid) {
            return Err(UID);
        }
        if let Some(known) = self.known(&pod.uid.as_str().into(), &pod.resource_version) {
            return Ok(Some(known));
        }
        if pod.json.is_empty() {
            return Ok(None);
        }
        let info = pod_info::parse(&String::from_utf8_lossy(&pod.json))?.info;
        if info.uid().as_str() != pod.uid {
            return Err(BadRequest::Field {
                field: "pod.uid",
                expected: "the uid of the object in pod.json",
            });
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MAX_RECENT {
            recent.pop_front();
        }
        recent.push_back(info.clone());
        Ok(Some(info))
    }

    /// The pod of a reservation: its object may be missing, and the cache may have another version by now.
    ///
    /// # Errors
    /// If the pod is missing or cannot be parsed.
    pub fn reserved_pod(&self, pod: Option<&WirePod>) -> Result<Option<Arc<PodInfo>>, BadRequest> {
        let info = self.pod_info(pod)?;
        Ok(info.or_else(|| {
            let uid = pod?.uid.as_str().into();
            self.cache().pod(&uid).map(|record| record.info.clone())
        }))
    }

    /// A pod that was parsed before in this version.
    fn known(&self, uid: &PodUid, version: &str) -> Option<Arc<PodInfo>> {
        let matches = |info: &Arc<PodInfo>| info.uid() == uid && info.version == version;
        let cached = self.cache().pod(uid).map(|record| record.info.clone());
        if let Some(info) = cached.filter(matches) {
            return Some(info);
        }
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().rev().find(|info| matches(info)).cloned()
    }
}
