//! Tests of the pools.

use proptest::prelude::*;

use super::*;
use crate::koordinator::amounts::Amounts;
use crate::koordinator::cpu_topology::tests::machine;
use pinfold_core::cpu_set::CpuId;

fn cpus(text: &str) -> CpuSet {
    CpuSet::parse(text).expect("a CPU list")
}

fn example() -> CpuHolders {
    CpuHolders {
        lse: cpus("2-3"),
        lsr: cpus("4-5"),
        kubelet_pinned: cpus("6-7"),
        kubelet_reserved: cpus("0-1"),
        ..CpuHolders::default()
    }
}

#[test]
fn lse_and_pinned_cpus_are_in_no_pool_and_lsr_cpus_in_the_best_effort_pool_only() {
    let pools = Pools::of(&machine(1, 1, 8, 2), &example());
    assert_eq!(union(&pools.shared), cpus("0-1,8-15"));
    assert_eq!(union(&pools.best_effort), cpus("0-1,4-5,8-15"));
    assert_eq!(pools.best_effort_first, cpus("0-1"));
}

#[test]
fn pools_are_reported_per_numa_node_without_empty_ones() {
    let holders = CpuHolders {
        lsr: cpus("0-3"),
        ..CpuHolders::default()
    };
    let pools = Pools::of(&machine(2, 1, 2, 2), &holders);
    let part = |socket, node, cpuset| PoolPart {
        socket,
        node,
        cpuset: cpus(cpuset),
    };
    assert_eq!(pools.shared, [part(1, 1, "4-7")]);
    assert_eq!(pools.best_effort, [part(0, 0, "0-3"), part(1, 1, "4-7")]);
}

#[test]
fn the_first_rule_that_applies_determines_the_allowed_cpus() {
    use AllowedCpus::{Inherited, Own, Shared, Untouched};
    use KoordinatorQos::{Be, Ls, Lsr, System};
    let pools = Pools::of(&machine(2, 1, 4, 2), &example());
    let own = Allocation {
        cpus: cpus("4-5"),
        ..Allocation::default()
    };
    let on_node_1 = Allocation {
        numa: vec![NodeAmounts {
            node: NodeId::new(1).expect("small"),
            amounts: Amounts::from([("cpu", 1000)]),
        }],
        ..Allocation::default()
    };
    let (shared, be) = (|| Shared(cpus("0-1,8-15")), || Shared(cpus("0-1,4-5,8-15")));
    let (burst, best) = (QosClass::Burstable, QosClass::BestEffort);
    let (none, pins) = (KubeletPinning::None, KubeletPinning::Static);
    let (exact, sound) = (Fidelity::Exact, Fidelity::Sound);
    let table = [
        (
            Some(Lsr),
            QosClass::Guaranteed,
            Some(&own),
            none,
            sound,
            Own(cpus("4-5")),
        ),
        (
            Some(Ls),
            burst,
            Some(&on_node_1),
            none,
            sound,
            Shared(cpus("8-15")),
        ),
        (
            Some(Be),
            best,
            Some(&on_node_1),
            none,
            sound,
            Shared(cpus("8-15")),
        ),
        (Some(System), burst, None, pins, sound, Shared(cpus("15"))),
        (Some(Ls), burst, None, pins, sound, shared()),
        (None, best, None, none, exact, Inherited),
        (Some(Be), best, None, none, exact, Inherited),
        (Some(Be), best, None, none, sound, be()),
        (None, burst, None, none, sound, shared()),
        // A fraction of a CPU: no CPUs of its own.
        (None, QosClass::Guaranteed, None, none, sound, shared()),
        (None, burst, None, pins, sound, Untouched),
    ];
    for (qos, kube_qos, allocation, kubelet, fidelity, expected) in table {
        let terms = ContainerTerms {
            qos,
            kube_qos,
            allocation,
            system_cpus: &cpus("15"),
            kubelet,
            aligns_best_effort: true,
        };
        assert_eq!(
            pools.allowed_cpus(&terms, fidelity),
            expected,
            "{qos:?} {kube_qos:?} {fidelity:?}"
        );
    }
}

fn some_cpus() -> impl Strategy<Value = CpuSet> {
    proptest::collection::btree_set(0_u32..32, 0..12)
        .prop_map(|ids| ids.into_iter().filter_map(CpuId::new).collect())
}

proptest! {
    /// Every CPU is in exactly the pools that the table of the module doc lists.
    #[test]
    fn pools_follow_the_table(
        lse in some_cpus(), lsr in some_cpus(), kubelet_pinned in some_cpus(),
        node_reserved in some_cpus(), system_exclusive in some_cpus(), kubelet_reserved in some_cpus(),
    ) {
        let holders = CpuHolders { lse, lsr, kubelet_pinned, node_reserved, system_exclusive, kubelet_reserved };
        let topology = machine(2, 2, 4, 2);
        let pools = Pools::of(&topology, &holders);
        let (shared, best_effort) = (union(&pools.shared), union(&pools.best_effort));
        for cpu in topology.all() {
            let taken = [&holders.lse, &holders.kubelet_pinned, &holders.node_reserved, &holders.system_exclusive]
                .iter().any(|set| set.contains(cpu));
            prop_assert_eq!(best_effort.contains(cpu), !taken);
            prop_assert_eq!(shared.contains(cpu), !taken && !holders.lsr.contains(cpu));
        }
        prop_assert!(pools.best_effort_first.is_subset(&best_effort));
        let parts: usize = pools.shared.iter().map(|part| part.cpuset.len()).sum();
        prop_assert_eq!(parts, shared.len());
    }
}
