//! Tests of the hint lists.

use super::*;
use crate::koordinator::allocate::{AllocationNode, AllocationRequest};
use crate::koordinator::amounts::Amounts;
use crate::koordinator::ledger::{Allocation, KoordinatorLedger};
use crate::koordinator::policy_values::{ExclusiveLevel, NumaStrategy};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeId;

fn zone(id: i64, cpu: i64) -> NodeAmounts {
    NodeAmounts {
        node: NodeId::new(id).expect("in range"),
        amounts: Amounts::from([("cpu", cpu)]),
    }
}

/// The widths of the hints of `cpu`, and of the preferred ones.
fn widths(
    zones: &[NodeAmounts],
    used: &[NodeAmounts],
    cpu: i64,
    policy: &NumaPolicy,
    fidelity: Fidelity,
) -> (Vec<usize>, Vec<usize>) {
    let none = CpuSet::new();
    let requests = Amounts::from([("cpu", cpu)]);
    let mut ledger = KoordinatorLedger::new(fidelity);
    let allocation = Allocation {
        numa: used.to_vec(),
        ..Allocation::default()
    };
    ledger.update(
        "other".into(),
        allocation,
        &crate::koordinator::cpu_topology::KoordinatorTopology::default(),
    );
    let node = AllocationNode {
        topology: None,
        reserved: &none,
        max_refs: 1,
        zones,
        cpu_ratio: 1.0,
        strategy: NumaStrategy::LeastAllocated,
        ledger: &ledger,
    };
    let request = AllocationRequest {
        cpus: 0,
        bind: false,
        requests: &requests,
        plain_requests: &requests,
        binding: None,
        required: false,
        exclusive: ExclusiveLevel::Nothing,
        preferred: &none,
        preemptible: &none,
        reusable: &[],
        offered: &[],
    };
    let allocator = Allocator::new(node, request);
    let lists = HintLists::complete(&allocator, Some(policy), None);
    let width = |hint: &ScoredHint| hint.mask.map_or(0, NodeSet::len);
    let hints = &lists.lists[0].hints;
    let preferred = hints.iter().filter(|hint| hint.preferred);
    (
        hints.iter().map(width).collect(),
        preferred.map(width).collect(),
    )
}

#[test]
fn the_width_of_an_empty_node_is_preferred_and_in_exact_mode_the_width_that_fits_now() {
    // One NUMA node would suffice if it were empty, but each has only half of it free.
    let zones = [zone(0, 4000), zone(1, 4000)];
    let used = [zone(0, 2000), zone(1, 2000)];
    let widths = |fidelity| widths(&zones, &used, 4000, &NumaPolicy::BestEffort, fidelity);
    assert_eq!(widths(Fidelity::Exact), (vec![2], vec![2]));
    assert_eq!(widths(Fidelity::Sound), (vec![2], vec![]));
}

#[test]
fn restricted_prefers_all_hints_only_in_exact_mode() {
    let zones = [zone(0, 4000), zone(1, 4000)];
    let widths = |fidelity| widths(&zones, &[], 2000, &NumaPolicy::Restricted, fidelity);
    assert_eq!(widths(Fidelity::Exact), (vec![1, 1, 2], vec![1, 1, 2]));
    assert_eq!(widths(Fidelity::Sound), (vec![1, 1, 2], vec![1, 1]));
}

#[test]
fn sixty_four_numa_nodes_are_tried_width_by_width_and_then_as_a_whole() {
    let zones: Vec<NodeAmounts> = (0..64).map(|id| zone(id, 1000)).collect();
    let (hints, preferred) = widths(&zones, &[], 2000, &NumaPolicy::BestEffort, Fidelity::Sound);
    assert_eq!(preferred.len(), 64 * 63 / 2);
    assert_eq!(hints.last(), Some(&64));
    assert!(hints.len() <= MAX_SETS + 1);
}

#[test]
fn no_hint_of_a_resource_contains_a_numa_node_without_it() {
    let zones = [zone(0, 0), zone(1, 4000)];
    let (hints, _) = widths(&zones, &[], 2000, &NumaPolicy::BestEffort, Fidelity::Exact);
    assert_eq!(hints, [1]);
}
