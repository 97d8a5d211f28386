//! [`RejectedPods`]: pods that a node rejected, and those of them that a node takes now.
//!
//! kube-scheduler retries an unschedulable pod when an event occurs that may make it schedulable. It does not watch
//! reports, and an event does not say whether the pod fits now. So the engine remembers which nodes took a pod when it
//! was last evaluated. When another node changes and takes the pod, the plugin moves the pod to the active queue.
//!
//! All waiting pods are checked against the nodes that changed in rounds: by priority, and of equal priority those
//! first that wait longest. Changes during a round are for the next one, so that every pod gets its turn.
//!
//! A pod with so many containers that it was not evaluated on all nodes is requeued after a while, to be evaluated on the
//! others: one such pod in a second, because each costs as much as many others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinfold_cluster::DecisionBudget;
use pinfold_core::name::{NodeName, PodUid};

use crate::cache::Cache;
use crate::cache::pod_info::PodInfo;
use crate::engine::filter::NodeVerdict;
use crate::engine::pre_filter::FittingNodes;
use crate::engine::reason::RejectionClass;

/// The most rejected pods that are remembered.
const MAX_PODS: usize = 10_000;
/// A pod without a watch event is forgotten this long after its last rejection: kube-scheduler retries unschedulable
/// pods every five minutes.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// How long node changes are remembered, for pods that were rejected while a node changed. No call takes longer.
const REMEMBER_CHANGES: Duration = Duration::from_secs(10);
/// The most pods that are checked in one pass, which holds the lock of the cache.
const PODS_PER_PASS: usize = 200;
/// The most decisions about containers in one pass.
const DECISIONS_PER_PASS: usize = 20_000;
/// The most pods that are requeued in one second: if one node has room again, few of all that wait for it fit.
const REQUEUES_PER_SECOND: usize = 64;

/// Pods that a node rejected.
#[derive(Debug, Default)]
pub struct RejectedPods(Mutex<RejectedPodsState>);

#[derive(Debug, Default)]
struct RejectedPodsState {
    pods: HashMap<PodUid, RejectedPod>,
    /// The number of pods that were ever added.
    added: u64,
    /// The nodes of the current round, and the pods that were not checked against them yet.
    round: BTreeSet<NodeName>,
    to_check: VecDeque<PodUid>,
    /// Nodes that changed since the current round began.
    changed: BTreeSet<NodeName>,
    /// Pods whose reservation was rejected after other nodes had taken them too.
    retries: VecDeque<PodUid>,
    /// Recent changes of nodes.
    recent: BTreeMap<NodeName, Instant>,
    /// When the current second of requeues began, and their number in it.
    second: Option<(Instant, usize)>,
}

#[derive(Debug)]
struct RejectedPod {
    info: Arc<PodInfo>,
    /// The nodes that took the pod.
    fitting: FittingNodes,
    /// When the evaluation that last rejected the pod began.
    last_rejection: Instant,
    /// The position among all rejected pods.
    order: u64,
    /// Whether the pod was requeued since.
    requeued: bool,
    /// Whether nodes were not evaluated yet.
    postponed: bool,
}

impl RejectedPod {
    /// Whether the pod is still unbound, as far as the cache shows.
    fn is_pending(&self, cache: &Cache, now: Instant) -> bool {
        let uid = self.info.uid();
        match cache.pod(uid) {
            Some(pod) => pod.node.is_none(),
            None => {
                let since = now.saturating_duration_since(self.last_rejection);
                !cache.is_deleted(uid) && since < FORGET_AFTER
            }
        }
    }
}

impl RejectedPods {
    fn state(&self) -> MutexGuard<'_, RejectedPodsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a pod that some nodes rejected in an evaluation that began at `at`.
    /// Not all nodes were evaluated if it is `postponed`.
    pub fn add(&self, info: Arc<PodInfo>, fitting: FittingNodes, postponed: bool, at: Instant) {
        let mut state = self.state();
        let uid = info.uid().clone();
        let before = state.pods.get(&uid).map(|pod| pod.order);
        if state.pods.len() >= MAX_PODS && before.is_none() {
            return;
        }
        state.added += 1;
        let order = before.unwrap_or(state.added);
        // Nodes may have changed after they rejected the pod.
        let newer = state.recent.iter().filter(|(_, when)| **when >= at);
        let newer: Vec<NodeName> = newer.map(|(node, _)| node.clone()).collect();
        state.changed.extend(newer);
        state.pods.insert(
            uid,
            RejectedPod {
                info,
                fitting,
                last_rejection: at,
                order,
                requeued: false,
                postponed,
            },
        );
    }

    /// Records that a node rejects a pod that it took before.
    pub fn reject(&self, pod: &PodUid, node: &NodeName) {
        if let Some(pod) = self.state().pods.get_mut(pod)
            && let Some(at) = pod.fitting.names.index(node)
        {
            pod.fitting.fits.remove(at);
        }
    }

    /// Records that a node rejected the reservation of a pod that it took before. If other nodes took the pod too, it is
    /// requeued: none of them has to change first.
    pub fn retry_without(&self, uid: &PodUid, node: &NodeName) {
        self.reject(uid, node);
        let mut state = self.state();
        let others = state
            .pods
            .get(uid)
            .map_or(0, |pod| pod.fitting.fits.count());
        if others > 0 && state.retries.len() < MAX_PODS {
            state.retries.push_back(uid.clone());
        }
    }

    /// Removes a pod that was reserved.
    pub fn remove(&self, pod: &PodUid) {
        self.state().pods.remove(pod);
    }

    /// Removes all pods: another scheduler evaluates them anew.
    pub fn clear(&self) {
        *self.state() = RejectedPodsState::default();
    }

    /// The pods that one of the changed nodes takes now and rejected before, and those whose reservation was rejected.
    /// Forgets pods that were bound or deleted.
    pub fn requeues(&self, cache: &mut Cache, changed: Vec<NodeName>, now: Instant) -> Vec<PodUid> {
        let mut state = self.state();
        let state = &mut *state;
        state
            .recent
            .retain(|_, at| now.saturating_duration_since(*at) <= REMEMBER_CHANGES);
        state
            .recent
            .extend(changed.iter().map(|node| (node.clone(), now)));
        state.changed.extend(changed);
        state.start_round(cache, now);
        let is_over = |at: Instant| now.saturating_duration_since(at) >= Duration::from_secs(1);
        let mut requeues = Vec::new();
        let mut left = match state.second {
            Some((began, count)) if !is_over(began) => REQUEUES_PER_SECOND.saturating_sub(count),
            _ => {
                state.second = Some((now, 0));
                requeues.extend(state.requeue_postponed(cache, now));
                REQUEUES_PER_SECOND.saturating_sub(requeues.len())
            }
        };
        while left > 0
            && let Some(uid) = state.retries.pop_front()
        {
            let pod = state.pods.get_mut(&uid).filter(|pod| !pod.requeued);
            if let Some(pod) = pod {
                pod.requeued = true;
                left -= 1;
                requeues.push(uid);
            }
        }
        let mut budget = DecisionBudget::new(DECISIONS_PER_PASS);
        for _ in 0..PODS_PER_PASS {
            if left == 0 || budget.is_spent() {
                break;
            }
            let Some(uid) = state.to_check.pop_front() else {
                break;
            };
            let Some(pod) = state.pods.get_mut(&uid).filter(|pod| !pod.requeued) else {
                continue;
            };
            let nodes = state.round.iter();
            let names = nodes.filter(|node| !pod.fitting.took(node));
            let names: Vec<&str> = names.map(NodeName::as_str).collect();
            let verdicts = cache.filter_within(&pod.info, &names, &mut budget);
            if verdicts.contains(&NodeVerdict::Fits) {
                pod.requeued = true;
                left -= 1;
                requeues.push(uid);
                continue;
            }
            let is_postponed = |verdict: &NodeVerdict| {
                matches!(verdict, NodeVerdict::Rejected(RejectionClass::Postponed, _))
            };
            pod.postponed |= verdicts.iter().any(is_postponed);
        }
        if let Some((_, count)) = &mut state.second {
            *count += requeues.len();
        }
        requeues
    }
}

impl RejectedPodsState {
    /// The pod that waits longest for its evaluation on further nodes.
    fn requeue_postponed(&mut self, cache: &Cache, now: Instant) -> Option<PodUid> {
        let pods = self.pods.iter_mut();
        let postponed =
            pods.filter(|(_, pod)| pod.postponed && !pod.requeued && pod.is_pending(cache, now));
        let (uid, pod) = postponed.min_by_key(|(_, pod)| (pod.last_rejection, pod.order))?;
        pod.requeued = true;
        Some(uid.clone())
    }

    /// Starts a round with the nodes that changed, if the one before is over.
    fn start_round(&mut self, cache: &Cache, now: Instant) {
        if !self.to_check.is_empty() || self.changed.is_empty() {
            return;
        }
        self.round = std::mem::take(&mut self.changed);
        self.pods.retain(|_, pod| pod.is_pending(cache, now));
        let mut pods: Vec<(Reverse<i32>, u64, &PodUid)> = self
            .pods
            .iter()
            .map(|(uid, pod)| (Reverse(pod.info.priority), pod.order, uid))
            .collect();
        pods.sort_unstable();
        self.to_check = pods.into_iter().map(|(_, _, uid)| uid.clone()).collect();
    }
}
