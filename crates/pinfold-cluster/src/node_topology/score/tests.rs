use proptest::{prop_assert_eq, proptest};

use super::*;
use crate::node_topology::filter::tests::{amounts, pod, topology, zone};
use crate::node_topology::{Attribute, Zone};
use pinfold_core::pod::Pod;

fn scored(
    topology: &NodeTopology,
    pod: &Pod,
    strategy: ScoringStrategy,
    fidelity: Fidelity,
) -> i64 {
    let request = TopologyPodRequest {
        pod,
        overhead: &ResourceList::new(),
    };
    score(
        Some(topology),
        &request,
        strategy,
        &ResourceWeights::new(),
        fidelity,
    )
}

fn of_zones(zones: Vec<Zone>, strategy: ScoringStrategy) -> i64 {
    let pod = pod(&[&[("cpu", "4"), ("memory", "8Gi")]]);
    scored(&topology("pod", zones), &pod, strategy, Fidelity::Exact)
}

#[test]
fn the_scores_of_the_worked_examples() {
    let roomy = || zone(0, &[("cpu", "8"), ("memory", "32Gi")]);
    let small = || zone(1, &[("cpu", "1"), ("memory", "1Gi")]);
    let table = [
        (vec![roomy()], ScoringStrategy::LeastAllocated, 62),
        (vec![roomy(), small()], ScoringStrategy::LeastAllocated, 62),
        (vec![small(), roomy()], ScoringStrategy::LeastAllocated, 62),
        (vec![roomy()], ScoringStrategy::MostAllocated, 37),
        (vec![roomy()], ScoringStrategy::BalancedAllocation, 96),
        (
            vec![roomy(), small()],
            ScoringStrategy::BalancedAllocation,
            96,
        ),
        (vec![roomy()], ScoringStrategy::LeastNumaNodes, 94),
        (vec![small()], ScoringStrategy::LeastAllocated, 0),
        (vec![small()], ScoringStrategy::LeastNumaNodes, 0),
        (Vec::new(), ScoringStrategy::LeastAllocated, 0),
        (Vec::new(), ScoringStrategy::LeastNumaNodes, 100),
    ];
    for (zones, strategy, expected) in table {
        assert_eq!(
            of_zones(zones.clone(), strategy),
            expected,
            "{strategy:?} {zones:?}"
        );
    }
}

#[test]
fn two_numa_nodes_score_lower_the_larger_their_distance() {
    let half = |id| zone(id, &[("cpu", "2"), ("memory", "8Gi")]);
    let least = ScoringStrategy::LeastNumaNodes;
    assert_eq!(of_zones(vec![half(0), half(1)], least), 82);
    // NUMA nodes 0 and 1 are close, but node 1 is too small.
    let mut zones = vec![
        half(0),
        zone(1, &[("cpu", "1"), ("memory", "8Gi")]),
        half(2),
    ];
    zones[0].costs[1].value = 11;
    zones[1].costs[0].value = 11;
    assert_eq!(of_zones(zones, least), 76);
}

#[test]
fn weights_below_one_count_as_one() {
    let node = topology("pod", vec![zone(0, &[("cpu", "8"), ("memory", "32Gi")])]);
    let pod = pod(&[&[("cpu", "4"), ("memory", "8Gi")]]);
    let request = TopologyPodRequest {
        pod: &pod,
        overhead: &amounts(&[]),
    };
    for (cpu, expected) in [(-5, 62), (0, 62), (1, 62), (3, 56)] {
        let weights = ResourceWeights::from([("cpu".into(), cpu)]);
        let least = ScoringStrategy::LeastAllocated;
        let found = score(Some(&node), &request, least, &weights, Fidelity::Exact);
        assert_eq!(found, expected, "weight {cpu}");
    }
}

#[test]
fn huge_amounts_do_not_wrap_around_in_sound_scores() {
    let node = topology("pod", vec![zone(0, &[("cpu", "8"), ("memory", "4Ei")])]);
    let pod = pod(&[&[("cpu", "4"), ("memory", "1Ei")]]);
    let most = ScoringStrategy::MostAllocated;
    assert_eq!(scored(&node, &pod, most, Fidelity::Sound), (50 + 25) / 2);
    assert_ne!(scored(&node, &pod, most, Fidelity::Exact), (50 + 25) / 2);
}

#[test]
fn containers_without_a_request_score_without_a_panic() {
    let node = topology(
        "container",
        vec![zone(0, &[("cpu", "8"), ("memory", "8Gi")])],
    );
    let both: &[(&str, &str)] = &[("cpu", "1"), ("memory", "1Gi")];
    let mut pod = pod(&[both, both]);
    // The pod is still Guaranteed: only the sums are compared.
    pod.containers[0].requests = amounts(&[("cpu", "2"), ("memory", "2Gi")]);
    pod.containers[1].requests.clear();
    assert_eq!(
        scored(
            &node,
            &pod,
            ScoringStrategy::LeastAllocated,
            Fidelity::Sound
        ),
        37
    );
    assert_eq!(
        scored(
            &node,
            &pod,
            ScoringStrategy::BalancedAllocation,
            Fidelity::Sound
        ),
        100
    );
    assert_eq!(
        scored(
            &node,
            &pod,
            ScoringStrategy::LeastNumaNodes,
            Fidelity::Sound
        ),
        94
    );
}

#[test]
fn sound_mode_subtracts_from_the_zone_with_the_id_and_not_at_that_index() {
    // Zone 1 is listed first. Both containers need zone 0, which has enough for one of them; the plugin subtracts the
    // amounts of the first one from zone 1.
    let zones = vec![
        zone(1, &[("cpu", "2"), ("memory", "8Gi")]),
        zone(0, &[("cpu", "4"), ("memory", "8Gi")]),
    ];
    let node = topology("container", zones);
    let four_cpus: &[(&str, &str)] = &[("cpu", "4"), ("memory", "1Gi")];
    let pod = pod(&[four_cpus, four_cpus]);
    let least = ScoringStrategy::LeastNumaNodes;
    assert_eq!(scored(&node, &pod, least, Fidelity::Sound), 0);
    assert_eq!(scored(&node, &pod, least, Fidelity::Exact), 94);
}

#[test]
fn sixty_four_zones_terminate() {
    let mut zones: Vec<Zone> = (0..64)
        .map(|id| zone(id, &[("cpu", "1"), ("memory", "1Gi")]))
        .collect();
    for (id, zone) in zones.iter_mut().enumerate() {
        zone.resources[0].available = i64::try_from(id % 7).expect("small").into();
        for (to, cost) in zone.costs.iter_mut().enumerate() {
            cost.value = i64::try_from((id * 31 + to * 17) % 90 + 10).expect("small");
        }
    }
    let mut node = topology("pod", zones);
    node.attributes.push(Attribute {
        name: "topologyManagerMaxNUMANodes".into(),
        value: "64".into(),
    });
    let pod = pod(&[&[("cpu", "100"), ("memory", "20Gi")]]);
    let found = scored(
        &node,
        &pod,
        ScoringStrategy::LeastNumaNodes,
        Fidelity::Sound,
    );
    // At least 20 NUMA nodes for the memory; every one costs 1.
    assert!((100 - 64..=100 - 20).contains(&found), "{found}");
}

/// The score by trying every combination.
fn by_all_combinations(zones: &[Zone], cpu: i64) -> i64 {
    let average = |places: &[usize]| {
        let pairs = places
            .iter()
            .flat_map(|&from| places.iter().map(move |&to| (from, to)));
        let cost = |(from, to): (usize, usize)| zones[from].costs[to].value;
        let sum: i64 = pairs.map(cost).sum();
        sum * 1_000_000 / i64::try_from(places.len() * places.len()).expect("small")
    };
    for size in 1..=zones.len() {
        let all: Vec<Vec<usize>> = (1_usize..1 << zones.len())
            .filter(|bits| bits.count_ones() as usize == size)
            .map(|bits| (0..zones.len()).filter(|at| bits >> at & 1 == 1).collect())
            .collect();
        let closest = all.iter().map(|places| average(places)).min();
        let has_room = |places: &&Vec<usize>| {
            let sum: i64 = places
                .iter()
                .map(|&at| zones[at].resources[0].available.value())
                .sum();
            sum >= cpu
        };
        let found = all
            .iter()
            .filter(has_room)
            .map(|places| average(places))
            .min();
        if let Some(found) = found {
            let share = 12 * i64::try_from(size).expect("small");
            return 100 - share + if Some(found) == closest { 6 } else { 0 };
        }
    }
    0
}

proptest! {
    #[test]
    fn skipping_combinations_does_not_change_the_score(
        cpus in proptest::collection::vec(0_i64..5, 1..7),
        costs in proptest::collection::vec(10_i64..16, 49),
        asked in 1_i64..14,
    ) {
        let mut zones: Vec<Zone> = Vec::new();
        for (id, cpu) in cpus.iter().enumerate() {
            let mut zone = zone(id, &[("cpu", "0"), ("memory", "8Gi")]);
            zone.resources[0].available = (*cpu).into();
            zone.costs = (0..cpus.len())
                .map(|to| crate::node_topology::Cost {
                    name: format!("node-{to}"),
                    value: costs[id * 7 + to],
                })
                .collect();
            zones.push(zone);
        }
        let text = asked.to_string();
        let pod = pod(&[&[("cpu", text.as_str()), ("memory", "1Gi")]]);
        let expected = by_all_combinations(&zones, asked);
        let node = topology("pod", zones);
        let found = scored(&node, &pod, ScoringStrategy::LeastNumaNodes, Fidelity::Exact);
        prop_assert_eq!(found, expected);
    }
}
