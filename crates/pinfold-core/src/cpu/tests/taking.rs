//! Defects of the kubelet's algorithms, each with a small machine that shows it.

use super::machines::{cpus, even, misreported, topology};
use crate::cpu::{
    CpuSortingStrategy, DistributionOptions, PackingOptions, TakeError, take_distributed,
    take_packed,
};
use crate::fidelity::Fidelity::{Exact, Sound};

const PACKED: PackingOptions = PackingOptions {
    order: CpuSortingStrategy::Packed,
    align_by_cache: false,
};
const BY_CACHE: PackingOptions = PackingOptions {
    order: CpuSortingStrategy::Packed,
    align_by_cache: true,
};

#[test]
fn partly_used_cores_are_taken_before_whole_ones() {
    let machine = even(1, 1, 4, 2);
    let available = cpus("1,2-7");
    let take = |count| take_packed(&machine, &available, count, PACKED, Sound).unwrap();
    assert_eq!(take(1), cpus("1"));
    assert_eq!(take(2), cpus("2-3"));
    assert_eq!(take(3), cpus("1-3"));
}

#[test]
fn an_unavailable_thread_is_taken_only_under_exact_fidelity() {
    // Two cores of two threads and two of one: 6 CPUs on 4 cores make "one thread per core".
    let machine = topology(&[vec![(0, None, 2), (0, None, 2), (0, None, 1), (0, None, 1)]]);
    let available = cpus("1-3");
    let take = |fidelity| take_packed(&machine, &available, 2, PACKED, fidelity).unwrap();
    assert_eq!(take(Exact), cpus("0-1"));
    assert_eq!(take(Sound), cpus("2-3"));
}

#[test]
fn a_cache_on_two_nodes_is_counted_twice_only_under_exact_fidelity() {
    // One socket, two nodes, one cache of four CPUs across both and one of four on each.
    let node = |own: u32| {
        let mut cores = vec![(0, Some(0), 1); 2];
        cores.extend(vec![(0, Some(own), 1); 4]);
        cores
    };
    let machine = topology(&[node(1), node(2)]);
    // Of the caches only the one across both nodes is wholly available.
    let available = cpus("0-4,6-7,9");
    let take = |fidelity| take_packed(&machine, &available, 8, BY_CACHE, fidelity).unwrap();
    assert_eq!(take(Exact), cpus("0-1,6-7"), "half of what was requested");
    assert_eq!(take(Sound), available);
}

#[test]
fn a_group_that_no_node_has_is_packed_or_reported_as_endless() {
    // Four nodes of six CPUs with one missing each: 20 CPUs, but only eight pairs.
    let machine = even(2, 4, 3, 2);
    let available = machine.all() - &cpus("0,6,12,18");
    let take = |count, fidelity| {
        take_distributed(
            &machine,
            &available,
            count,
            DistributionOptions::groups_of(2),
            fidelity,
        )
    };
    assert_eq!(take(14, Exact), Err(TakeError::NeverReturns));
    let sound = take(14, Sound).unwrap();
    assert_eq!(sound.len(), 14);
    assert!(sound.is_subset(&available));
}

#[test]
fn cpus_are_spread_evenly_over_as_few_nodes_as_needed() {
    let machine = even(2, 4, 4, 2);
    let take = |count, group| {
        let all = machine.all();
        take_distributed(
            &machine,
            all,
            count,
            DistributionOptions::groups_of(group),
            Sound,
        )
        .unwrap()
    };
    assert_eq!(take(8, 1), cpus("0-7"), "one node is enough");
    assert_eq!(take(12, 1), cpus("0-5,8-13"), "six of each");
    assert_eq!(
        take(10, 2),
        cpus("0-5,8-11"),
        "whole pairs, the remainder on one"
    );
    assert_eq!(take(9, 2), cpus("0-8"), "not a number of pairs: packed");
}

#[test]
fn the_search_over_many_nodes_is_bounded() {
    // 40 nodes of two CPUs, half of them with one: 2^40 choices.
    let machine = even(1, 40, 2, 1);
    let available = (0..40).map(|at| at * 2).chain((0..20).map(|at| at * 4 + 1));
    let available = available
        .map(|id| crate::cpu_set::CpuId::new(id).unwrap())
        .collect();
    let take = |fidelity| {
        take_distributed(
            &machine,
            &available,
            45,
            DistributionOptions::groups_of(1),
            fidelity,
        )
    };
    assert_eq!(take(Sound).unwrap().len(), 45);
    assert!(matches!(
        take(Exact),
        Err(TakeError::TooManyCombinations { .. })
    ));
}

#[test]
fn fewer_cpus_than_cores_fail_only_under_exact_fidelity() {
    // 1 CPU reported on 2 cores makes "no thread per core".
    let machine = misreported(&[vec![(0, None, 1); 2]], 1);
    assert_eq!(machine.cpus_per_core(), 0);
    let group = machine.cpus_per_core();
    let take = |fidelity| {
        let available = machine.all();
        take_distributed(
            &machine,
            available,
            1,
            DistributionOptions::groups_of(group),
            fidelity,
        )
    };
    assert_eq!(take(Exact), Err(TakeError::Crashes));
    assert_eq!(take(Sound), Ok(cpus("0")));
}
