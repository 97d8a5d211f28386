//! Preempt: the fewest pods that have to be evicted so that a node admits a pod.
//!
//! kube-scheduler's victims free enough resources in sum, but not necessarily on the NUMA nodes where the pod needs them.
//! So its choice is checked with the rules of the node, and reduced if possible; if it is not enough, other pods of lower
//! priority are added. A node on which no eviction makes the pod fit is removed from the candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_core::name::{NodeName, PodUid};
use serde::Deserialize;

use super::wire::{MetaPod, MetaVictims, PreemptionArgs, PreemptionResult};
use super::{BadRequest, Extender};
use crate::cache::Cache;
use crate::cache::pod_info::PodInfo;

/// Combinations of victims that are tried on one node. Beyond that the result may not be the smallest one.
const MAX_TRIALS: usize = 200;

#[derive(Deserialize)]
struct VictimPod {
    metadata: VictimPodMeta,
}

#[derive(Deserialize)]
struct VictimPodMeta {
    uid: String,
}

impl Cache {
    /// The fewest pods to evict from a node, preferably of `named`; `None` if no eviction makes the pod fit.
    #[must_use]
    pub fn victims(
        &self,
        info: &PodInfo,
        node: &NodeName,
        named: &[PodUid],
        now: Instant,
    ) -> Option<Vec<PodUid>> {
        let record = self.nodes.get(node)?;
        let mut others: Vec<(i32, std::cmp::Reverse<u64>, &PodUid)> = record
            .pods
            .iter()
            .filter(|(_, uid)| !named.contains(uid))
            .filter_map(|(order, uid)| {
                let priority = self.pods.get(uid)?.info.priority;
                (priority < info.priority).then_some((priority, std::cmp::Reverse(*order), uid))
            })
            .collect();
        // The lowest priority first, and of equal ones the last bound.
        others.sort_unstable();
        let mut candidates: Vec<PodUid> = named.to_vec();
        candidates.extend(others.into_iter().map(|(_, _, uid)| uid.clone()));
        let fits = |without: &BTreeSet<PodUid>| self.fits_without(node, info, without, now);
        // kube-scheduler's victims may include pods that are not in the cache yet.
        let own: BTreeSet<PodUid> = named.iter().cloned().collect();
        let all: BTreeSet<PodUid> = candidates.iter().cloned().collect();
        let start = match (fits(&own), fits(&all)) {
            (true, _) => own,
            (false, true) => all,
            (false, false) => return None,
        };
        let found = smallest(&candidates, start.len(), &fits).unwrap_or_else(|| {
            let mut left = start;
            // Drops the last candidates first: kube-scheduler did not choose them.
            for uid in candidates.iter().rev() {
                if left.remove(uid) && !fits(&left) {
                    left.insert(uid.clone());
                }
            }
            left
        });
        let found = candidates.into_iter().filter(|uid| found.contains(uid));
        Some(found.collect())
    }
}

/// The first combination of the smallest size that makes the pod fit, in the order of the candidates; `None` if too many
/// combinations would have to be tried.
fn smallest(
    candidates: &[PodUid],
    max_size: usize,
    fits: &impl Fn(&BTreeSet<PodUid>) -> bool,
) -> Option<BTreeSet<PodUid>> {
    let mut trials = 0;
    for size in 0..=max_size {
        let mut picked: Vec<usize> = (0..size).collect();
        loop {
            trials += 1;
            if trials > MAX_TRIALS {
                return None;
            }
            let victims = picked.iter().filter_map(|at| candidates.get(*at).cloned());
            let victims: BTreeSet<PodUid> = victims.collect();
            if fits(&victims) {
                return Some(victims);
            }
            if !next_combination(&mut picked, candidates.len()) {
                break;
            }
        }
    }
    None
}

/// Advances to the next combination of as many out of `of`, in ascending order. Returns whether there is one.
fn next_combination(picked: &mut [usize], of: usize) -> bool {
    let size = picked.len();
    for at in (0..size).rev() {
        if let Some(one) = picked.get_mut(at)
            && *one < of - (size - at)
        {
            *one += 1;
            let mut next = *one;
            for later in picked.iter_mut().skip(at + 1) {
                next += 1;
                *later = next;
            }
            return true;
        }
    }
    false
}

impl Extender {
    /// Handles a preempt request. The response is JSON.
    ///
    /// # Errors
    /// If the request is malformed.
    pub fn preempt(&self, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let bad = |error: serde_json::Error| BadRequest::NotArguments(error.to_string());
        let args: PreemptionArgs<'_> = serde_json::from_slice(body).map_err(bad)?;
        let info = self.pod_info(args.pod)?;
        let mut named: BTreeMap<&str, (Vec<PodUid>, i64)> = BTreeMap::new();
        for (node, victims) in args.node_name_to_meta_victims.iter().flatten() {
            let pods = victims.pods.iter().flatten();
            let pods = pods.map(|pod| PodUid::from(&*pod.uid)).collect();
            named.insert(&node.0, (pods, victims.violations));
        }
        for (node, victims) in args.node_name_to_victims.iter().flatten() {
            let mut pods = Vec::new();
            for pod in victims.pods.iter().flatten() {
                let pod: VictimPod = serde_json::from_str(pod.get()).map_err(bad)?;
                pods.push(PodUid::from(pod.metadata.uid));
            }
            named.entry(&node.0).or_insert((pods, victims.violations));
        }
        let now = Instant::now();
        let mut result = PreemptionResult::default();
        for (node, (pods, violations)) in named {
            let chosen = match info.needs_numa {
                true => self.cache().victims(&info, &node.into(), &pods, now),
                false => Some(pods.clone()),
            };
            let Some(chosen) = chosen else {
                continue;
            };
            // Added victims may be protected by a PodDisruptionBudget: count each as a violation, so that kube-scheduler
            // prefers other nodes.
            let added = chosen.iter().filter(|uid| !pods.contains(uid)).count();
            let violations = violations.saturating_add(i64::try_from(added).unwrap_or(i64::MAX));
            let pods = chosen.iter().map(|uid| MetaPod {
                uid: uid.to_string().into(),
            });
            let victims = MetaVictims {
                pods: Some(pods.collect()),
                violations,
            };
            result.node_name_to_meta_victims.insert(node, victims);
        }
        Ok(serde_json::to_vec(&result).unwrap_or_default())
    }
}
