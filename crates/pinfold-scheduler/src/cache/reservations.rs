//! Reservations: pods that count on a node from [`Cache::reserve`] until a watch event shows their binding, or until it
//! failed or timed out.

use std::sync::Arc;
use std::time::Instant;

use pinfold_cluster::{NodeRejection, PlaceError, Placement};
use pinfold_core::name::{NodeName, PodUid};

use super::node::NodeEntry;
use super::pending_headroom::MaxDemand;
use super::pod_info::{PodInfo, PodPhase};
use super::{Cache, PodEntry, ProblemKind, has_assignment};

/// The reservation of a pod on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The node.
    pub node: NodeName,
    /// When the pod was reserved.
    pub since: Instant,
    /// Whether the result of the binding request is unknown. It may be retried, but only on the same node.
    pub unconfirmed: bool,
}

/// The result of a successful reservation.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The placement of the pod.
    pub placement: Placement,
    /// The generation of the report that the placement was made with, if the report has one.
    pub generation: Option<String>,
}

/// Why a pod cannot be reserved. The cache is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// The pod is bound or reserved already.
    #[error("the pod is on node {0} already")]
    AlreadyPlaced(NodeName),
    /// The pod was deleted.
    #[error("the pod was deleted")]
    PodDeleted,
    /// The pod fits, but may not if another pod is deleted first.
    #[error(
        "the node has to report its newly bound pods first, or pods of it were deleted just now"
    )]
    NoHeadroom,
    /// The node rejects the pod.
    #[error("{}", crate::engine::reason::of(.0))]
    Rejected(NodeRejection),
}

/// Why a pod is removed from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalCause {
    /// The pod was never bound to the node.
    NeverBound,
    /// The pod was bound to the node and deleted. The kubelet admitted unreported pods before that or after, which
    /// leads to different placements.
    Deleted,
}

impl Cache {
    /// Reserves a pod on a node: all later decisions count it. Fails if the node has no headroom for the pod (see the
    /// module `pending_headroom`).
    ///
    /// # Errors
    /// If the node rejects the pod, or the pod has a node already.
    pub fn reserve(
        &mut self,
        info: &Arc<PodInfo>,
        node: &NodeName,
        now: Instant,
    ) -> Result<Reserved, ReserveError> {
        let uid = info.uid();
        if self.deleted.contains_key(uid) {
            return Err(ReserveError::PodDeleted);
        }
        if self.unconfirmed_node(uid) == Some(node) {
            self.release(uid, now);
        }
        if let Some(node) = self.pods.get(uid).and_then(|pod| pod.node.clone()) {
            return Err(ReserveError::AlreadyPlaced(node));
        }
        let has_headroom =
            |record: &NodeEntry| !record.stale && record.has_headroom_for(&MaxDemand::of(info));
        if self.requires_headroom(info) && !self.nodes.get(node).is_none_or(has_headroom) {
            return Err(ReserveError::NoHeadroom);
        }
        let placement = match self.cluster.place_on(&info.request, node) {
            Ok(placement) => placement,
            Err(PlaceError::AlreadyPlaced { node, .. }) => {
                return Err(ReserveError::AlreadyPlaced(node));
            }
            Err(PlaceError::NoNode { rejections, .. }) => {
                let rejection = rejections
                    .into_iter()
                    .next()
                    .map(|(_, rejection)| rejection);
                let rejection = rejection.unwrap_or(NodeRejection::UnknownNode);
                return Err(ReserveError::Rejected(rejection));
            }
        };
        let has_assignment = has_assignment(&placement);
        self.insert_reservation(info, node, has_assignment, now);
        self.changed.insert(node.clone());
        if has_assignment {
            self.take_headroom(info, node);
            self.update_staleness(node, now);
        }
        let report = self
            .nodes
            .get(node)
            .and_then(|record| record.report.as_ref());
        let generation = report
            .and_then(|report| report.parsed.as_ref().ok())
            .and_then(|report| report.generation.clone());
        Ok(Reserved {
            placement,
            generation,
        })
    }

    /// Marks a reservation whose binding request had an unknown result. Its timeout starts now.
    pub fn mark_unconfirmed(&mut self, pod: &PodUid, now: Instant) {
        if let Some(reservation) = self.reservations.get_mut(pod) {
            reservation.unconfirmed = true;
            reservation.since = now;
        }
    }

    /// Marks all reservations: the scheduler that made them is gone, and may have bound them.
    pub fn mark_all_unconfirmed(&mut self, now: Instant) {
        for reservation in self.reservations.values_mut() {
            reservation.unconfirmed = true;
            reservation.since = now;
        }
    }

    /// Reserves a pod again that the scheduler holds, after this cache was built anew. The node is not asked: the pod
    /// may be bound already. Does nothing if the pod is bound, deleted, or reserved.
    pub fn restore_reservation(&mut self, info: &Arc<PodInfo>, node: &NodeName, now: Instant) {
        let uid = info.uid();
        if let Some(reservation) = self.reservations.get_mut(uid)
            && reservation.node == *node
        {
            reservation.unconfirmed = false;
            return;
        }
        let has_node = self.pods.get(uid).is_some_and(|pod| pod.node.is_some());
        if has_node || self.deleted.contains_key(uid) {
            return;
        }
        self.insert_reservation(info, node, false, now);
        self.rebuild(node, now);
    }

    /// Adds a reserved pod to its node.
    fn insert_reservation(
        &mut self,
        info: &Arc<PodInfo>,
        node: &NodeName,
        has_assignment: bool,
        now: Instant,
    ) {
        let (uid, order) = (info.uid(), self.next_bind_order());
        let record = PodEntry {
            info: info.clone(),
            node: Some(node.clone()),
            bind_order: order,
            phase: PodPhase::Pending,
            started: None,
            has_assignment,
        };
        self.pods.insert(uid.clone(), record);
        let record = self.nodes.entry(node.clone()).or_default();
        record.pods.insert(order, uid.clone());
        let reservation = Reservation {
            node: node.clone(),
            since: now,
            unconfirmed: false,
        };
        self.reservations.insert(uid.clone(), reservation);
    }

    /// The node of a reservation whose binding request had an unknown result.
    pub(crate) fn unconfirmed_node(&self, pod: &PodUid) -> Option<&NodeName> {
        let reservation = self.reservations.get(pod)?;
        reservation.unconfirmed.then_some(&reservation.node)
    }

    /// Releases the reservation of a pod that kube-scheduler reserves anew, unless the pod may be bound. kube-scheduler then
    /// holds no reservation of it: the one here was made by a call whose answer it did not get.
    pub(crate) fn release_lost(&mut self, pod: &PodUid, now: Instant) {
        let reservation = self.reservations.get(pod);
        if reservation.is_some_and(|reservation| !reservation.unconfirmed) {
            self.release(pod, now);
        }
    }

    /// Releases a reservation whose binding failed. Does nothing if a watch event has shown the binding.
    pub fn release(&mut self, pod: &PodUid, now: Instant) {
        let Some(reservation) = self.reservations.remove(pod) else {
            return;
        };
        let mut order = None;
        if let Some(record) = self.pods.get_mut(pod) {
            record.node = None;
            record.has_assignment = false;
            order = Some(record.bind_order);
        }
        self.remove_from_node(pod, &reservation.node, order, RemovalCause::NeverBound, now);
    }

    /// Removes a pod from its node.
    pub(super) fn remove_from_node(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        order: Option<u64>,
        cause: RemovalCause,
        now: Instant,
    ) {
        if let (Some(record), Some(order)) = (self.nodes.get_mut(node), order) {
            record.pods.remove(&order);
            record.misplaced.retain(|other| other != pod);
        }
        if cause == RemovalCause::Deleted {
            self.record_deletion(node, now);
        }
        self.changed.insert(node.clone());
        // The kubelet never sees a pod that was not bound: later pods are placed again without it, and its headroom is
        // released. A pod that the report counts can only be removed by building the node again.
        let replay = cause == RemovalCause::NeverBound || self.deferred.is_some();
        match replay || self.cluster.remove(pod).is_none() {
            true => self.rebuild(node, now),
            false => self.update_staleness(node, now),
        }
    }

    /// Releases reservations with an unknown result whose binding no watch event showed in time. All others stay until
    /// their watch event or until they are released. It must be certain that the binding did not happen: watch events
    /// arrive in order, so a pod event must have arrived after the timeout.
    pub(super) fn expire_reservations(&mut self, now: Instant) {
        let timeout = self.policy.reports.binding_timeout;
        let last_event = self.last_pod_event;
        let late = self.reservations.iter().filter(|(_, reservation)| {
            let end = reservation.since.checked_add(timeout);
            reservation.unconfirmed && end.is_some_and(|end| now >= end && last_event >= Some(end))
        });
        let late: Vec<PodUid> = late.map(|(pod, _)| pod.clone()).collect();
        for pod in late {
            let name = self.pods.get(&pod).map(|pod| pod.info.full_name());
            let message = "no watch event showed the binding in time; the reservation was released";
            let name = name.unwrap_or_default();
            self.report_problem(ProblemKind::BindingTimedOut, name, message);
            self.release(&pod, now);
        }
        // A report that still lists a pod an hour after its deletion is no longer corrected.
        const REMEMBER_DELETED: std::time::Duration = std::time::Duration::from_secs(3600);
        self.deleted
            .retain(|_, at| now.saturating_duration_since(*at) < REMEMBER_DELETED);
    }
}
