//! Promises: pods that are being bound, until the API server says so or the time is over.

use std::sync::Arc;
use std::time::Instant;

use pinfold_core::cluster::{NodeRejection, PlaceError, Placement};
use pinfold_core::name::{NodeName, PodUid};

use super::firm::Demand;
use super::node::NodeRecord;
use super::pod::{Asked, Phase};
use super::{Cache, PodRecord, holds};

/// A pod that was promised a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Where.
    pub node: NodeName,
    /// Since when.
    pub since: Instant,
    /// The API server has taken the binding; only its news are missing.
    pub bound: bool,
    /// The API server did not answer: the binding may have happened or not. It may be tried again, but only there.
    pub doubtful: bool,
}

/// What was promised.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// The place.
    pub placement: Placement,
    /// The state of the node that it was decided on, if its report names one.
    pub generation: Option<String>,
}

/// Why nothing was promised. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReserved {
    /// It has a place already.
    #[error("the pod is on node {0} already")]
    Already(NodeName),
    /// It has left.
    #[error("the pod is gone")]
    Gone,
    /// The node would take it, but perhaps not if somebody leaves before.
    #[error("the place depends on who leaves first; it is asked again after the next report")]
    NotFirm,
    /// The node does not take it.
    #[error("{}", crate::extender::reason::of(.0))]
    Rejected(NodeRejection),
}

/// What is known about a pod that leaves its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It never was there.
    NeverCame,
    /// It was there, or may have been. Whom the node has not reported yet it let in before that or after, and that makes a
    /// difference to where they are.
    Left,
}

impl Cache {
    /// Promises a pod its place on a node: whatever is decided from now on counts it. A node whose promise would not be
    /// firm, as `firm.rs` says, promises nothing before its next report.
    ///
    /// # Errors
    /// If the node does not take it, or it has a place.
    pub fn reserve(
        &mut self,
        asked: &Arc<Asked>,
        node: &NodeName,
        now: Instant,
    ) -> Result<Reserved, NotReserved> {
        let uid = asked.uid();
        if self.gone.contains_key(uid) {
            return Err(NotReserved::Gone);
        }
        if self.doubtful(uid) == Some(node) {
            self.release(uid, now);
        }
        if let Some(place) = self.pods.get(uid).and_then(|pod| pod.node.clone()) {
            return Err(NotReserved::Already(place));
        }
        let firm = |record: &NodeRecord| record.is_firm_for(&Demand::of(asked));
        if self.minds_doubts(asked) && !self.nodes.get(node).is_none_or(firm) {
            return Err(NotReserved::NotFirm);
        }
        let placement = match self.cluster.place_on(&asked.ask, node) {
            Ok(placement) => placement,
            Err(PlaceError::AlreadyPlaced { node, .. }) => return Err(NotReserved::Already(node)),
            Err(PlaceError::NoNode { rejections, .. }) => {
                let rejection = rejections
                    .into_iter()
                    .next()
                    .map(|(_, rejection)| rejection);
                let rejection = rejection.unwrap_or(NodeRejection::UnknownNode);
                return Err(NotReserved::Rejected(rejection));
            }
        };
        let order = self.next_order();
        let holds = holds(&placement);
        let record = PodRecord {
            asked: asked.clone(),
            node: Some(node.clone()),
            order,
            phase: Phase::Waiting,
            started: None,
            holds,
        };
        self.pods.insert(uid.clone(), record);
        self.nodes
            .entry(node.clone())
            .or_default()
            .tenants
            .insert(order, uid.clone());
        let reservation = Reservation {
            node: node.clone(),
            since: now,
            bound: false,
            doubtful: false,
        };
        self.reservations.insert(uid.clone(), reservation);
        self.changed.insert(node.clone());
        if holds {
            self.comes(asked, node);
            self.judge(node, now);
        }
        let report = self
            .nodes
            .get(node)
            .and_then(|record| record.report.as_ref());
        let generation = report
            .and_then(|heard| heard.what.as_ref().ok())
            .and_then(|report| report.generation.clone());
        Ok(Reserved {
            placement,
            generation,
        })
    }

    /// The API server has taken the binding.
    pub fn bound(&mut self, pod: &PodUid) {
        if let Some(reservation) = self.reservations.get_mut(pod) {
            reservation.bound = true;
        }
    }

    /// Nobody knows what came of the binding.
    pub fn doubt(&mut self, pod: &PodUid) {
        if let Some(reservation) = self.reservations.get_mut(pod) {
            reservation.doubtful = true;
        }
    }

    /// Where a pod was promised a place that it may have by now or not.
    pub(crate) fn doubtful(&self, pod: &PodUid) -> Option<&NodeName> {
        let reservation = self.reservations.get(pod)?;
        (reservation.doubtful && !reservation.bound).then_some(&reservation.node)
    }

    /// The binding did not happen: the place is free again. Without effect if the API server says otherwise.
    pub fn release(&mut self, pod: &PodUid, now: Instant) {
        let Some(reservation) = self.reservations.remove(pod) else {
            return;
        };
        let mut order = None;
        if let Some(record) = self.pods.get_mut(pod) {
            record.node = None;
            record.holds = false;
            order = Some(record.order);
        }
        self.vacate(pod, &reservation.node, order, Departure::NeverCame, now);
    }

    /// Takes a pod off its node.
    pub(super) fn vacate(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        order: Option<u64>,
        departure: Departure,
        now: Instant,
    ) {
        if let (Some(record), Some(order)) = (self.nodes.get_mut(node), order) {
            record.tenants.remove(&order);
            record.misfits.retain(|misfit| misfit != pod);
        }
        if departure == Departure::Left {
            self.doubt_places(node);
        }
        self.changed.insert(node.clone());
        // Who was placed after one that never came will be placed without it, and what was left for sure is left again. And
        // if its node's report counts it, only a new picture is one without it.
        let replay = departure == Departure::NeverCame;
        match replay || self.cluster.remove(pod).is_none() {
            true => self.rebuild(node, now),
            false => self.judge(node, now),
        }
    }

    /// Promises that nobody kept in time. One that the API server took is kept until its news come in. Of one whose
    /// outcome is not known it must be clear that it did not happen: news of pods come in order, so something must have
    /// been heard since the time was over.
    pub(super) fn expire(&mut self, now: Instant) {
        let patience = self.policy.reports.reservation;
        let heard = self.pods_heard;
        let late = self.reservations.iter().filter(|(_, reservation)| {
            let end = reservation.since.checked_add(patience);
            !reservation.bound && end.is_some_and(|end| now >= end && heard >= Some(end))
        });
        let late: Vec<PodUid> = late.map(|(pod, _)| pod.clone()).collect();
        for pod in late {
            let name = self.pods.get(&pod).map(|pod| pod.asked.full_name());
            let words = "nobody has heard of its binding: its place is free again";
            self.tell("reservation timed out", name.unwrap_or_default(), words);
            self.release(&pod, now);
        }
        // Reports that still list a pod after an hour are not worth remembering it.
        const MEMORY: std::time::Duration = std::time::Duration::from_secs(3600);
        self.gone
            .retain(|_, at| now.saturating_duration_since(*at) < MEMORY);
    }
}
