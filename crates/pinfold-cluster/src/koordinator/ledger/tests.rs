//! Tests of the ledger.

use proptest::prelude::*;

use super::*;
use crate::koordinator::cpu_topology::tests::machine;

fn node(id: i64) -> NodeId {
    NodeId::new(id).expect("small")
}

fn allocation(cpus: &str, exclusive: ExclusiveLevel, numa: &[(i64, i64, i64)]) -> Allocation {
    let part = |&(id, cpu, memory): &(i64, i64, i64)| NodeAmounts {
        node: node(id),
        amounts: Amounts::from([("cpu", cpu), ("memory", memory)]),
    };
    Allocation {
        cpus: CpuSet::parse(cpus).expect("a CPU list"),
        exclusive,
        numa: numa.iter().map(part).collect(),
    }
}

#[test]
fn occupancy_separates_pods_on_one_numa_node_from_pods_that_span_several() {
    let topology = machine(3, 1, 2, 2);
    let mut ledger = KoordinatorLedger::new(Fidelity::Exact);
    ledger.update(
        "one".into(),
        allocation("0-1", ExclusiveLevel::Nothing, &[]),
        &topology,
    );
    ledger.update(
        "two".into(),
        allocation("3,4", ExclusiveLevel::Nothing, &[]),
        &topology,
    );
    ledger.update(
        "unbound".into(),
        allocation("", ExclusiveLevel::Nothing, &[(2, 1000, 0)]),
        &topology,
    );
    let occupancy = ledger.occupancy();
    assert_eq!(occupancy.single, NodeSet::single(node(0)));
    assert_eq!(occupancy.spanning, NodeSet::from_bits(0b11));
    ledger.release(&"two".into());
    assert_eq!(ledger.occupancy().spanning, NodeSet::EMPTY);
}

#[test]
fn exact_mode_amplifies_bound_cpus_only_on_numa_nodes_with_a_record() {
    let topology = machine(2, 1, 4, 2);
    for (fidelity, before) in [(Fidelity::Exact, None), (Fidelity::Sound, Some(4000))] {
        let mut ledger = KoordinatorLedger::new(fidelity);
        ledger.update(
            "bound".into(),
            allocation("0-1", ExclusiveLevel::Nothing, &[]),
            &topology,
        );
        let cpu = |ledger: &KoordinatorLedger| {
            ledger
                .allocated(node(0), 2.0)
                .map(|amounts| amounts.get(CPU))
        };
        assert_eq!(cpu(&ledger), before, "{fidelity:?}");
        ledger.update(
            "released".into(),
            allocation("", ExclusiveLevel::Nothing, &[(0, 500, 1)]),
            &topology,
        );
        ledger.release(&"released".into());
        let after = match fidelity {
            Fidelity::Exact => Some(2000),
            _ => Some(4000),
        };
        assert_eq!(cpu(&ledger), after, "{fidelity:?}");
    }
}

#[test]
fn a_cpu_the_machine_does_not_have_counts_for_node_0_only_in_exact_mode() {
    let topology = machine(2, 1, 2, 2);
    for (fidelity, counted) in [(Fidelity::Exact, 1), (Fidelity::Sound, 0)] {
        let mut ledger = KoordinatorLedger::new(fidelity);
        ledger.update(
            "pod".into(),
            allocation("100", ExclusiveLevel::Core, &[]),
            &topology,
        );
        assert_eq!(ledger.held().on_node(node(0)), counted);
    }
}

fn some_allocation() -> impl Strategy<Value = Allocation> {
    let cpus = proptest::collection::btree_set(0_u32..18, 0..6);
    let level = prop_oneof![
        Just(ExclusiveLevel::Nothing),
        Just(ExclusiveLevel::Core),
        Just(ExclusiveLevel::NumaNode)
    ];
    let numa = proptest::collection::btree_map(0_i64..4, (0_i64..5000, 0_i64..100), 0..3);
    (cpus, level, numa).prop_map(|(cpus, exclusive, numa)| Allocation {
        cpus: cpus.into_iter().filter_map(CpuId::new).collect(),
        exclusive,
        numa: numa
            .into_iter()
            .map(|(id, (cpu, memory))| NodeAmounts {
                node: node(id),
                amounts: if cpu % 2 == 0 {
                    Amounts::from([("cpu", cpu)])
                } else {
                    Amounts::from([("cpu", cpu), ("memory", memory)])
                },
            })
            .collect(),
    })
}

proptest! {
    /// In sound mode adding and releasing a pod restores the ledger, even if pods share CPUs.
    #[test]
    fn releasing_a_pod_restores_the_ledger(
        others in proptest::collection::vec(some_allocation(), 0..5),
        added in some_allocation(),
        ratio in prop_oneof![Just(1.0), Just(1.5)],
    ) {
        let topology = machine(2, 2, 2, 2);
        let mut ledger = KoordinatorLedger::new(Fidelity::Sound);
        for (at, allocation) in others.into_iter().enumerate() {
            ledger.update(format!("pod-{at}").into(), allocation, &topology);
        }
        let before = ledger.clone();
        ledger.update("added".into(), added.clone(), &topology);
        prop_assert_eq!(ledger.release(&"added".into()), Some(added));
        for id in 0..4 {
            prop_assert_eq!(ledger.allocated(node(id), ratio), before.allocated(node(id), ratio));
        }
        prop_assert_eq!(ledger, before);
    }
}
