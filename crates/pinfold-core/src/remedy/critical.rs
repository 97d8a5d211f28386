//! The amounts of memory at which the decision can change.
//!
//! The decision depends on a memory request only through comparisons with sums: of free and allocatable memory over
//! sets of NUMA nodes, minus the requests of other containers of the pod. Between two such sums nothing changes, so the
//! largest amount that fits is one of them (or the last step before one). That leaves a short list instead of every
//! amount.
//!
//! The sums are complete for machines of up to [`EVERY_SET`] nodes with memory and pods of up to [`EVERY_PART`] other
//! containers with that type of memory. Beyond, single nodes, existing groups and the `k` largest nodes are used for
//! every `k`, and the largest containers one by one and all together; a larger amount may exist then.

use std::collections::BTreeSet;

use super::amounts::Candidates;
use super::request_change::Slot;
use crate::demand::PodDemand;
use crate::ledger::Ledger;
use crate::memory::NodeMemory;
use crate::node_set::NodeSet;
use crate::pod::Pod;

/// Up to this number of nodes every set of them is summed up.
const EVERY_SET: usize = 8;
/// Up to this number of other containers every choice of them is summed up.
const EVERY_PART: usize = 4;
/// The number of sizes of other containers that are used one by one, the largest first: the search stays linear in the
/// containers of the pod.
const MOST_PARTS: usize = 64;

/// The amounts below the requested one at which the decision can change, largest first.
pub(super) fn amounts(ledger: &Ledger, pod: &Pod, slot: &Slot) -> Candidates {
    let (sums, every_set) = node_sums(ledger, slot);
    let (parts, every_part) = part_sums(ledger, pod, slot);
    let mut amounts = BTreeSet::new();
    let mut add = |sum: u64| {
        for edge in [sum, sum.saturating_sub(1)] {
            let whole = edge / slot.grain * slot.grain;
            if whole < slot.change.from && whole >= slot.least {
                amounts.insert(whole);
            }
        }
    };
    for &part in &parts {
        add(part);
        for sum in sums.iter().filter_map(|sum| sum.checked_sub(part)) {
            add(sum);
        }
    }
    add(slot.least);
    add(slot.change.from);
    Candidates {
        amounts: amounts.into_iter().rev().collect(),
        complete: every_set && every_part,
    }
}

/// Sums of free and allocatable memory over sets of nodes, and whether these are all sets.
fn node_sums(ledger: &Ledger, slot: &Slot) -> (BTreeSet<u64>, bool) {
    let memory = ledger.state().memory();
    let resource = &slot.change.resource;
    let has_some = |node: &NodeMemory| node.amounts(resource).allocatable > 0;
    let rows = memory.nodes().iter().filter(|(_, node)| has_some(node));
    let nodes: NodeSet = rows.map(|(&id, _)| id).collect();
    let mut sums = BTreeSet::new();
    let mut add = |set: NodeSet| {
        sums.insert(memory.free(set, resource));
        sums.insert(memory.allocatable(set, resource));
    };
    if nodes.len() <= EVERY_SET {
        for set in nodes.subsets_by_width() {
            add(set);
        }
        return (sums, true);
    }
    for node in nodes {
        add(NodeSet::single(node));
    }
    for node in memory.nodes().values() {
        add(node.cells);
    }
    let by = |amount: &dyn Fn(NodeSet) -> u64| {
        let mut order: Vec<_> = nodes.iter().collect();
        order.sort_by_key(|&node| std::cmp::Reverse(amount(NodeSet::single(node))));
        order
    };
    for order in [
        by(&|set| memory.free(set, resource)),
        by(&|set| memory.allocatable(set, resource)),
    ] {
        let mut set = NodeSet::EMPTY;
        for node in order {
            set.insert(node);
            add(set);
        }
    }
    (sums, false)
}

/// Sums of the requests of other containers of the pod, and whether these are all choices of them.
fn part_sums(ledger: &Ledger, pod: &Pod, slot: &Slot) -> (BTreeSet<u64>, bool) {
    let demand = PodDemand::new(pod, ledger.rules().pod_level());
    let others = pod
        .all_containers()
        .filter(|other| slot.change.container.as_ref() != Some(&other.name));
    let requested = |other| demand.container_memory(other).unwrap_or_default();
    let amounts: Vec<u64> = others
        .filter_map(|other| requested(other).get(&slot.change.resource).copied())
        .filter(|&bytes| bytes > 0)
        .collect();
    let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(0, u64::saturating_add);
    if amounts.len() <= EVERY_PART {
        let choice = |choice: u32| {
            let chosen = amounts
                .iter()
                .enumerate()
                .filter(|(at, _)| choice >> at & 1 == 1);
            sum(&mut chosen.map(|(_, &bytes)| bytes))
        };
        return ((0..1_u32 << amounts.len()).map(choice).collect(), true);
    }
    let all = sum(&mut amounts.iter().copied());
    let sizes: BTreeSet<u64> = amounts.into_iter().collect();
    let largest = sizes.into_iter().rev().take(MOST_PARTS);
    (largest.chain([0, all]).collect(), false)
}
