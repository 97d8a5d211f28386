//! Preempt: the fewest pods that have to leave so that a node really takes a pod.
//!
//! kube-scheduler names pods that free enough in sum. Whether what they free is aligned, only the node's rules tell. So
//! first its own choice is tried, and made smaller where it can be; if it is not enough, other pods of lower priority
//! are tried too. A node on which nobody's leaving helps is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_core::name::{NodeName, PodUid};
use serde::Deserialize;

use super::wire::{MetaPod, MetaVictims, PreemptionArgs, PreemptionResult};
use super::{BadRequest, Extender};
use crate::cache::Cache;
use crate::cache::pod::Asked;

/// So many combinations are tried on one node before the answer need not be the smallest any more.
const MOST_TRIALS: usize = 200;

#[derive(Deserialize)]
struct Identified {
    metadata: IdentifiedMeta,
}

#[derive(Deserialize)]
struct IdentifiedMeta {
    uid: String,
}

impl Cache {
    /// The fewest pods that have to leave a node, `named` first; `None` if nobody's leaving helps.
    #[must_use]
    pub fn victims(
        &self,
        asked: &Asked,
        node: &NodeName,
        named: &[PodUid],
        now: Instant,
    ) -> Option<Vec<PodUid>> {
        let record = self.nodes.get(node)?;
        let mut others: Vec<(i32, std::cmp::Reverse<u64>, &PodUid)> = record
            .tenants
            .iter()
            .filter(|(_, uid)| !named.contains(uid))
            .filter_map(|(order, uid)| {
                let priority = self.pods.get(uid)?.asked.priority;
                (priority < asked.priority).then_some((priority, std::cmp::Reverse(*order), uid))
            })
            .collect();
        // Who matters least goes first, and of those who came last.
        others.sort_unstable();
        let mut candidates: Vec<PodUid> = named.to_vec();
        candidates.extend(others.into_iter().map(|(_, _, uid)| uid.clone()));
        let fits = |absent: &BTreeSet<PodUid>| self.fits_without(node, asked, absent, now);
        // kube-scheduler's own choice, made smaller; it may name pods that we have not heard of.
        let own: BTreeSet<PodUid> = named.iter().cloned().collect();
        let all: BTreeSet<PodUid> = candidates.iter().cloned().collect();
        let start = match (fits(&own), fits(&all)) {
            (true, _) => own,
            (false, true) => all,
            (false, false) => return None,
        };
        let found = smallest(&candidates, start.len(), &fits).unwrap_or_else(|| {
            let mut left = start;
            // The last ones first: they are the least welcome addition.
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

/// The first combination of the smallest size, in the order of the candidates; `None` if there are too many to try.
fn smallest(
    candidates: &[PodUid],
    most: usize,
    fits: &impl Fn(&BTreeSet<PodUid>) -> bool,
) -> Option<BTreeSet<PodUid>> {
    let mut trials = 0;
    for size in 0..=most {
        let mut picked: Vec<usize> = (0..size).collect();
        loop {
            trials += 1;
            if trials > MOST_TRIALS {
                return None;
            }
            let absent = picked.iter().filter_map(|at| candidates.get(*at).cloned());
            let absent: BTreeSet<PodUid> = absent.collect();
            if fits(&absent) {
                return Some(absent);
            }
            if !next_combination(&mut picked, candidates.len()) {
                break;
            }
        }
    }
    None
}

/// The next combination of as many out of `of`, ascending; whether there is one.
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
    /// Answers a request. The answer is JSON.
    ///
    /// # Errors
    /// If the request makes no sense.
    pub fn preempt(&self, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
        let bad = |error: serde_json::Error| BadRequest::NotArguments(error.to_string());
        let args: PreemptionArgs<'_> = serde_json::from_slice(body).map_err(bad)?;
        let asked = self.asked(args.pod)?;
        let mut named: BTreeMap<&str, (Vec<PodUid>, i64)> = BTreeMap::new();
        for (node, victims) in args.node_name_to_meta_victims.iter().flatten() {
            let pods = victims.pods.iter().flatten();
            let pods = pods.map(|pod| PodUid::from(&*pod.uid)).collect();
            named.insert(&node.0, (pods, victims.violations));
        }
        for (node, victims) in args.node_name_to_victims.iter().flatten() {
            let mut pods = Vec::new();
            for pod in victims.pods.iter().flatten() {
                let pod: Identified = serde_json::from_str(pod.get()).map_err(bad)?;
                pods.push(PodUid::from(pod.metadata.uid));
            }
            named.entry(&node.0).or_insert((pods, victims.violations));
        }
        let now = Instant::now();
        let mut result = PreemptionResult::default();
        for (node, (pods, violations)) in named {
            let chosen = match asked.needs {
                true => self.cache().victims(&asked, &node.into(), &pods, now),
                false => Some(pods.clone()),
            };
            let Some(chosen) = chosen else {
                continue;
            };
            // Who was not named may be protected by a budget; kube-scheduler then prefers other nodes.
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
