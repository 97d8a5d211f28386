//! Evictions: the smallest sets of running pods without which the pod would be admitted.
//!
//! One pod, then two, then three, in the order of their admission; as soon as sets of one size help, larger ones are
//! not tried. Only pods that hold exclusive CPUs, memory or devices are considered.

use std::sync::Arc;

use super::trial::RemedyTrial;
use super::{Alteration, PodRef, Remedy, RemedyScope, RemedySize};
use crate::ledger::{AdmittedPod, Ledger};
use crate::name::PodUid;
use crate::pod::Pod;

/// The number of sets of the smallest size that are kept: those with the fewest CPUs.
const KEPT: usize = 5;

/// The sets of at most `most` pods whose eviction helps, those with the fewest CPUs first.
pub(super) fn remedies(
    ledger: &Ledger,
    pod: &Arc<Pod>,
    most: usize,
    trial: &mut RemedyTrial<'_>,
) -> Vec<Remedy> {
    let holds = |admitted: &&AdmittedPod| {
        let assignment = ledger.assignment(&admitted.pod.uid);
        assignment.is_some_and(|assignment| !assignment.is_empty())
    };
    let holders: Vec<&AdmittedPod> = ledger.admitted_pods().into_iter().filter(holds).collect();
    let uids: Vec<PodUid> = holders
        .iter()
        .map(|admitted| admitted.pod.uid.clone())
        .collect();
    let mut search = EvictionSearch {
        ledger: ledger.clone(),
        pod,
        uids: &uids,
        trial,
        found: Vec::new(),
    };
    for size in 1..=most.min(holders.len()) {
        search.choose(0, size, &mut Vec::new());
        if !search.found.is_empty() {
            break;
        }
    }
    let complete = search.trial.left > 0;
    let remedy = |(set, assignment): (Vec<usize>, _)| {
        let evicted = || set.iter().map(|&at| &holders[at].pod);
        let loss = evicted()
            .map(|pod| ledger.exclusive_cpus(&pod.uid).len() as u64)
            .sum();
        Remedy {
            alteration: Alteration::Evict(evicted().map(PodRef::from).collect()),
            size: RemedySize {
                scope: RemedyScope::OtherPods,
                amount: set.len() as u64,
                loss,
            },
            assignment,
            nearest: complete,
        }
    };
    let mut found: Vec<Remedy> = search.found.into_iter().map(remedy).collect();
    found.sort_by_key(|remedy| remedy.size);
    found.truncate(KEPT);
    found
}

struct EvictionSearch<'s, 'p> {
    /// A copy of the ledger without the pods chosen so far.
    ledger: Ledger,
    pod: &'s Arc<Pod>,
    uids: &'s [PodUid],
    trial: &'s mut RemedyTrial<'p>,
    found: Vec<(Vec<usize>, crate::decision::Assignment)>,
}

impl EvictionSearch<'_, '_> {
    /// Releases `more` further pods, from index `from` on, in every possible way.
    fn choose(&mut self, from: usize, more: usize, left: &mut Vec<usize>) {
        if more == 0 {
            if let Some(assignment) = self.trial.admit(&mut self.ledger, self.pod) {
                self.found.push((left.clone(), assignment));
            }
            return;
        }
        for at in from..self.uids.len() {
            if self.trial.left == 0 {
                self.trial.complete = false;
                return;
            }
            let Ok(change) = self.ledger.release(&self.uids[at]) else {
                continue;
            };
            left.push(at);
            self.choose(at + 1, more - 1, left);
            left.pop();
            self.ledger
                .undo(&change)
                .expect("a release that was just made can be reverted");
        }
    }
}
