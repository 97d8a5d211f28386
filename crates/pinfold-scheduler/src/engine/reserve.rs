//! Reserve and Unreserve: a pod counts on its node from its reservation on, before it is bound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use pinfold_cluster::{ClusterNode, Dialect, PlacementDetail};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_kube::generation::GENERATION;
use pinfold_kube::koordinator::{self, ResourceStatus, keys};

use super::Engine;
use crate::cache::pod_info::PodInfo;
use crate::cache::{Cache, ReserveError, Reserved};

impl Engine {
    /// Reserves a pod on a node. Returns the annotations that its binding has to write onto it.
    ///
    /// # Errors
    /// If the node rejects the pod, or the pod has a node already.
    pub fn reserve(
        &self,
        info: &Arc<PodInfo>,
        node: &NodeName,
        now: Instant,
    ) -> Result<BTreeMap<String, String>, ReserveError> {
        let mut cache = self.cache();
        cache.release_lost(info.uid(), now);
        match cache.reserve(info, node, now) {
            Ok(reserved) => {
                self.rejected_pods.remove(info.uid());
                Ok(annotations(&cache, info, node, &reserved))
            }
            Err(error) => {
                let may_fit_elsewhere =
                    matches!(error, ReserveError::Rejected(_) | ReserveError::NoHeadroom);
                match may_fit_elsewhere {
                    true => self.rejected_pods.retry_without(info.uid(), node),
                    false => self.rejected_pods.reject(info.uid(), node),
                }
                Err(error)
            }
        }
    }

    /// Releases a reservation. If the binding may have happened, it stays until that is known.
    pub fn unreserve(&self, uid: &PodUid, maybe_bound: bool, now: Instant) {
        let mut cache = self.cache();
        match maybe_bound {
            true => cache.mark_unconfirmed(uid, now),
            false => cache.release(uid, now),
        }
    }

    /// Starts the session of a scheduler: the result of every earlier reservation is unknown.
    pub fn start_session(&self, now: Instant) {
        self.rejected_pods.clear();
        self.cache().mark_all_unconfirmed(now);
    }

    /// Makes the reservations those of the scheduler: of the pods `named`, and those with an unknown result. Those of `held`
    /// are added if they are missing.
    pub fn restore(
        &self,
        named: &BTreeSet<PodUid>,
        held: &[(Arc<PodInfo>, NodeName)],
        now: Instant,
    ) {
        let mut cache = self.cache();
        let released: Vec<PodUid> = cache
            .reservations()
            .filter(|(uid, reservation)| !reservation.unconfirmed && !named.contains(*uid))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in released {
            cache.release(&uid, now);
        }
        for (info, node) in held {
            cache.restore_reservation(info, node, now);
        }
    }
}

/// The annotations that the binding writes onto the pod: Koordinator's allocation.
fn annotations(
    cache: &Cache,
    info: &PodInfo,
    node: &NodeName,
    reserved: &Reserved,
) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    let PlacementDetail::Koordinator { status, spec } = &reserved.placement.detail else {
        return annotations;
    };
    let member = cache.cluster.node(node).map(ClusterNode::dialect);
    if let (Some(status), Some(Dialect::Koordinator { node, .. })) = (status, member)
        && let Some(report) = &node.report
    {
        let status = ResourceStatus::of(status, &report.topology, Fidelity::Sound);
        annotations.insert(keys::RESOURCE_STATUS.to_owned(), status.to_json());
        if let Some(generation) = &reserved.generation {
            annotations.insert(GENERATION.to_owned(), generation.clone());
        }
    }
    if let (Some(spec), Some(object)) = (spec, &info.object) {
        let text = koordinator::with_resource_spec(object, spec);
        annotations.insert(keys::RESOURCE_SPEC.to_owned(), text);
    }
    annotations
}
