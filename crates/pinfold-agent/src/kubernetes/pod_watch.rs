//! [`PodWatchSink`]: applies the list and watch events of this node's pods to the [`PodCache`].

use std::collections::HashMap;
use std::sync::Arc;

use pinfold_apiserver::{ReflectorStatus, Store, WatchTarget};
use pinfold_kube::pod::{ApiPod, PodIdentity};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::pod_cache::{CachedPod, MAX_PODS, PodCache};
use super::sync_events::{PODS, SyncCounters, SyncEvent, SyncEventLog};

/// Number of pods in one page of a list.
const PAGE: usize = 50;

/// The list and watch of the pods that are bound to a node.
pub(super) fn pods_of_node(node: &str) -> WatchTarget {
    WatchTarget {
        paths: vec!["/api/v1/pods".to_owned()],
        field_selector: format!("spec.nodeName={node}"),
        page_size: PAGE,
        optional: false,
    }
}

/// Receives lists and watch events of pods.
pub(super) struct PodWatchSink {
    pub(super) pods: PodCache,
    pub(super) log: SyncEventLog,
    pub(super) counts: Arc<SyncCounters>,
    /// During a list: number of pods read so far.
    pub(super) listed: Option<usize>,
    /// Wakes the publisher, whose objects have a fingerprint of the pods.
    pub(super) wake: Arc<Notify>,
}

impl Store for PodWatchSink {
    type Item = (PodIdentity, CachedPod);

    /// Parses a pod. An invalid pod is logged and skipped.
    fn parse(&mut self, object: &RawValue) -> Option<Self::Item> {
        if let Some(listed) = &mut self.listed {
            *listed += 1;
            if *listed > MAX_PODS {
                return None;
            }
        }
        match ApiPod::parse(object.get()) {
            Ok(pod) => {
                let cached = CachedPod {
                    containers: pod.containers,
                    phase: pod.phase,
                    status_phase: pod.status_phase,
                    object: Arc::new(pod.object),
                };
                Some((cached.object.identity(), cached))
            }
            Err(invalid) => {
                self.log.log(SyncEvent::InvalidPod(invalid));
                None
            }
        }
    }

    fn replace(&mut self, all: Vec<Self::Item>) {
        let all: HashMap<_, _> = all.into_iter().collect();
        let pods = all.len();
        self.pods.replace(all);
        self.wake.notify_one();
        if self.listed.take() > Some(MAX_PODS) {
            self.log
                .log(SyncEvent::PodLimitExceeded { limit: MAX_PODS });
        }
        self.log.log(SyncEvent::PodsListed { pods });
    }

    fn apply(&mut self, (identity, pod): Self::Item) {
        self.wake.notify_one();
        if !self.pods.put(identity, pod) {
            self.log
                .log(SyncEvent::PodLimitExceeded { limit: MAX_PODS });
        }
    }

    fn delete(&mut self, object: &RawValue) {
        if let Some(identity) = PodIdentity::parse(object.get()) {
            self.pods.remove(&identity);
            self.wake.notify_one();
        }
    }

    fn record_status(&mut self, status: ReflectorStatus<'_>) {
        match status {
            ReflectorStatus::Listing => {
                self.listed = Some(0);
                self.counts.lists.add(1);
            }
            ReflectorStatus::Watching => self.counts.watches.add(1),
            ReflectorStatus::Receiving => self.log.recovered(PODS),
            ReflectorStatus::NotServed => {}
            ReflectorStatus::Failed { error, retry_in } => {
                self.listed = None;
                self.counts.failures.add(1);
                let error = error.clone();
                self.log.log(SyncEvent::PodWatchFailed { error, retry_in });
            }
        }
    }
}
