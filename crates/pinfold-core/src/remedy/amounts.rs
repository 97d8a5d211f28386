//! Other amounts: the largest one of each resource of each container with which the pod would be admitted, and the
//! smallest larger one where whole cores or a shared pool are missing.

use std::sync::Arc;

use super::critical;
use super::request_change::Slot;
use super::trial::{FirstAdmitted, RemedyTrial};
use super::{Alteration, Remedy, RemedySize, RequestChange};
use crate::decision::{RejectionReason, ResourceManager};
use crate::ledger::Ledger;
use crate::pod::Pod;

/// Remedies by one amount after the other; by all CPUs together only if no single amount of CPUs helps.
pub(super) fn remedies(
    ledger: &Ledger,
    pod: &Pod,
    reason: RejectionReason,
    trial: &mut RemedyTrial<'_>,
) -> Vec<Remedy> {
    let mut ledger = ledger.clone();
    let slots = Slot::all(&ledger, pod);
    let mut found = Vec::new();
    for slot in &slots {
        if trial.left == 0 {
            trial.complete = false;
            break;
        }
        let less = candidates(&ledger, pod, slot);
        found.extend(nearest(
            &mut ledger,
            pod,
            &single(slot, &less.amounts),
            less.complete,
            trial,
        ));
        let more = more(&ledger, slot, reason);
        found.extend(nearest(&mut ledger, pod, &single(slot, &more), true, trial));
    }
    let is_cpu = |slot: &&Slot| slot.change.manager == ResourceManager::Cpu;
    let helped = found
        .iter()
        .any(|remedy: &Remedy| match &remedy.alteration {
            Alteration::Request(changes) => changes
                .iter()
                .any(|change| change.manager == ResourceManager::Cpu),
            _ => false,
        });
    let cpus: Vec<&Slot> = slots
        .iter()
        .filter(is_cpu)
        .filter(|slot| slot.change.container.is_some())
        .collect();
    if cpus.len() > 1 && !helped {
        let together = together(&ledger, &cpus);
        found.extend(nearest(&mut ledger, pod, &together, true, trial));
    }
    found
}

/// Amounts to try, the nearest first.
pub(super) struct Candidates {
    pub(super) amounts: Vec<u64>,
    /// Whether the largest amount that fits is certainly among them.
    pub(super) complete: bool,
}

/// Amounts below the requested one, largest first. More CPUs than the machine has, and more devices than are
/// advertised, are never admitted.
fn candidates(ledger: &Ledger, pod: &Pod, slot: &Slot) -> Candidates {
    let most = match slot.change.manager {
        ResourceManager::Memory => return critical::amounts(ledger, pod, slot),
        ResourceManager::Cpu => ledger.rules().topology().all().len(),
        ResourceManager::Device => {
            let devices = ledger.state().pool().devices(&slot.change.resource);
            devices.map_or(0, std::collections::BTreeMap::len)
        }
    };
    let most = (most as u64).min(slot.change.from.saturating_sub(1));
    Candidates {
        amounts: (slot.least..=most).rev().collect(),
        complete: true,
    }
}

/// Amounts above the requested one, smallest first: up to the next whole core, or one step where the exclusive
/// containers leave nothing for the pod's shared pool.
fn more(ledger: &Ledger, slot: &Slot, reason: RejectionReason) -> Vec<u64> {
    let from = slot.change.from;
    let per_core = ledger.rules().topology().cpus_per_core() as u64;
    let steps = match (slot.change.manager, reason, &slot.change.container) {
        (ResourceManager::Cpu, RejectionReason::SMTAlignmentError, _) => 1..per_core,
        // An empty shared pool can also make the merge fail: a pod with pod-level resources gets one more step anyway.
        (ResourceManager::Cpu, _, None) => 1..per_core.max(1) + 1,
        (ResourceManager::Memory, _, None) => 1..2,
        _ => return Vec::new(),
    };
    let step = |steps: u64| {
        from.checked_next_multiple_of(slot.grain).and_then(|whole| {
            let above = if whole > from { steps - 1 } else { steps };
            whole.checked_add(above.checked_mul(slot.grain)?)
        })
    };
    steps.filter_map(step).collect()
}

fn single(slot: &Slot, amounts: &[u64]) -> Vec<Vec<RequestChange>> {
    amounts.iter().map(|&to| vec![slot.to(to)]).collect()
}

/// The CPUs of all containers with exclusive ones by one factor, the largest first; in whole cores with
/// `full-pcpus-only`.
fn together(ledger: &Ledger, cpus: &[&Slot]) -> Vec<Vec<RequestChange>> {
    let largest = cpus.iter().map(|slot| slot.change.from).max().unwrap_or(0);
    let all = ledger.rules().topology().all().len() as u64;
    let per_core = match ledger.rules().cpu_options() {
        Some(options) if options.full_pcpus_only => {
            (ledger.rules().topology().cpus_per_core() as u64).max(1)
        }
        _ => 1,
    };
    let mut vectors: Vec<Vec<RequestChange>> = Vec::new();
    for part in (1..=largest.saturating_sub(1).min(all)).rev() {
        let scaled = |slot: &&Slot| {
            let exact =
                u128::from(slot.change.from) * u128::from(part) / u128::from(largest.max(1));
            let exact = u64::try_from(exact).unwrap_or(u64::MAX);
            let whole = (exact / per_core * per_core).max(per_core);
            slot.to(whole.min(slot.change.from))
        };
        let vector: Vec<RequestChange> = cpus.iter().map(scaled).collect();
        if vectors.last() != Some(&vector) {
            vectors.push(vector);
        }
    }
    vectors
}

/// The first of `candidates` with which the pod is admitted.
fn nearest(
    ledger: &mut Ledger,
    pod: &Pod,
    candidates: &[Vec<RequestChange>],
    complete: bool,
    trial: &mut RemedyTrial<'_>,
) -> Option<Remedy> {
    let FirstAdmitted {
        at,
        assignment,
        nearest,
    } = trial.first(candidates.len(), |trial, at| {
        let changed = Alteration::Request(candidates[at].clone()).pod(pod)?;
        trial.admit(ledger, &Arc::new(changed))
    })?;
    let changes = candidates[at].clone();
    Some(Remedy {
        size: RemedySize::of_changes(&changes),
        alteration: Alteration::Request(changes),
        assignment,
        nearest: nearest && complete,
    })
}
