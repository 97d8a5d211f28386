//! Placing pods: one, one on a given node, or several together or not at all.

use super::member::{Before, Held};
use super::states::States;
use super::verdict::{NotPlaced, Placement, Rejection};
use super::{Cluster, PodAsk, Tenant};
use crate::name::{NodeName, PodUid};

/// What has to be put back to undo one placement.
struct Undo {
    pod: PodUid,
    node: NodeName,
    generation: u64,
    before: Before,
}

impl Cluster {
    /// Places a pod on the best node; if that rejects when it comes to binding, on the next best.
    ///
    /// # Errors
    /// If no node takes it.
    pub fn place(&mut self, ask: &PodAsk) -> Result<Placement, NotPlaced> {
        self.place_best(ask).map(|(placement, _)| placement)
    }

    /// Places a pod on this node.
    ///
    /// # Errors
    /// If the node does not take it.
    pub fn place_on(&mut self, ask: &PodAsk, node: &NodeName) -> Result<Placement, NotPlaced> {
        self.check_new(ask)?;
        match self.reserve(ask, node) {
            Ok((placement, _)) => Ok(placement),
            Err(rejection) => Err(NotPlaced::NoNode {
                pod: ask.uid().clone(),
                rejections: vec![(node.clone(), rejection)],
            }),
        }
    }

    /// Places all pods, in this order, or none.
    ///
    /// # Errors
    /// If one of them finds no place; the cluster is as it was before.
    pub fn place_all(&mut self, asks: &[PodAsk]) -> Result<Vec<Placement>, NotPlaced> {
        let mut placements = Vec::with_capacity(asks.len());
        let mut done = Vec::with_capacity(asks.len());
        for ask in asks {
            match self.place_best(ask) {
                Ok((placement, undo)) => {
                    placements.push(placement);
                    done.push(undo);
                }
                Err(error) => {
                    for undo in done.into_iter().rev() {
                        self.undo(undo);
                    }
                    return Err(error);
                }
            }
        }
        Ok(placements)
    }

    /// The pod left: what it held is free again. Returns the node it was on.
    pub fn remove(&mut self, pod: &PodUid) -> Option<NodeName> {
        let Tenant { node, held } = self.pods.remove(pod)?;
        let generation = self.tick();
        if let Some(seat) = self.seat_mut(&node) {
            seat.tenants.remove(pod);
            seat.member.release(pod, &held);
            seat.generation = generation;
        }
        Some(node)
    }

    fn place_best(&mut self, ask: &PodAsk) -> Result<(Placement, Undo), NotPlaced> {
        self.check_new(ask)?;
        self.refresh(ask, 0..self.seats.len());
        let candidates: Vec<NodeName> = self
            .ranked()
            .into_iter()
            .map(|(node, ..)| node.clone())
            .collect();
        let mut late = Vec::new();
        for node in candidates {
            match self.reserve(ask, &node) {
                Ok(placed) => return Ok(placed),
                Err(rejection) => late.push((node, rejection)),
            }
        }
        let early = self.ask_all(ask).into_iter().filter_map(|answer| {
            let rejection = answer.verdict.rejection()?;
            Some((answer.node.clone(), rejection.clone()))
        });
        let mut rejections: Vec<(NodeName, Rejection)> = early.chain(late).collect();
        rejections.sort_by(|(one, _), (other, _)| one.cmp(other));
        Err(NotPlaced::NoNode {
            pod: ask.uid().clone(),
            rejections,
        })
    }

    fn check_new(&self, ask: &PodAsk) -> Result<(), NotPlaced> {
        match self.whereabouts(ask.uid()) {
            Some(node) => Err(NotPlaced::Already {
                pod: ask.uid().clone(),
                node: node.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Gives the pod its place on one node.
    fn reserve(&mut self, ask: &PodAsk, node: &NodeName) -> Result<(Placement, Undo), Rejection> {
        let next = self.clock + 1;
        let seat = self.seat_mut(node).ok_or(Rejection::UnknownNode)?;
        let reserved = seat.member.reserve(ask, &mut States::of(ask))?;
        let generation = std::mem::replace(&mut seat.generation, next);
        seat.tenants.insert(ask.uid().clone());
        self.clock = next;
        let tenant = Tenant {
            node: node.clone(),
            held: Held {
                requests: ask.requests().clone(),
                koordinator: ask.koordinator().requests.clone(),
                cpus: reserved.cpus.clone(),
                amounts: reserved.amounts,
            },
        };
        let pod = ask.uid();
        self.pods.insert(pod.clone(), tenant);
        let undo = Undo {
            pod: pod.clone(),
            node: node.clone(),
            generation,
            before: reserved.before,
        };
        let placement = Placement {
            pod: pod.clone(),
            node: node.clone(),
            cpus: reserved.cpus,
            numa: reserved.numa,
            decided: reserved.decided,
        };
        Ok((placement, undo))
    }

    /// Takes the last placement back. The node has its old generation again, for it is in its old state.
    fn undo(&mut self, undo: Undo) {
        self.pods.remove(&undo.pod);
        if let Some(seat) = self.seat_mut(&undo.node) {
            seat.tenants.remove(&undo.pod);
            seat.member.undo(undo.before);
            seat.generation = undo.generation;
        }
    }
}
