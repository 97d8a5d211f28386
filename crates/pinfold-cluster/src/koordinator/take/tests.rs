//! Tests of taking CPUs: worked examples, one test per rule of sound mode, and invariants.

use proptest::prelude::*;

use super::*;
use crate::koordinator::cpu_topology::tests::machine;
use crate::koordinator::cpu_topology::{CpuTotals, ReportedCpu};
use crate::koordinator::held_cpus::{HeldCpu, HeldPlace};
use pinfold_core::cpu_set::CpuId;

fn cpus(text: &str) -> CpuSet {
    CpuSet::parse(text).expect("a CPU list")
}

/// A request for all CPUs of `topology` with defaults; tests change fields of the result.
fn request<'a>(
    topology: &'a KoordinatorTopology,
    held: &'a HeldCpus,
    available: &'a CpuSet,
    needed: usize,
) -> TakeRequest<'a> {
    static NOTHING: std::sync::LazyLock<CpuSet> = std::sync::LazyLock::new(CpuSet::new);
    TakeRequest {
        topology,
        max_refs: 1,
        available,
        preferred: &NOTHING,
        held,
        needed,
        binding: CpuBinding::FullPcpus,
        exclusive: ExclusiveLevel::Nothing,
        strategy: NumaStrategy::LeastAllocated,
        fidelity: Fidelity::Sound,
    }
}

fn hold(topology: &KoordinatorTopology, text: &str, exclusive: ExclusiveLevel) -> HeldCpus {
    let mut held = HeldCpus::new();
    for cpu in &cpus(text) {
        let (core, node) = topology.ids(cpu).expect("a CPU of the machine");
        let place = Some(HeldPlace { core, node });
        held.insert(
            cpu,
            HeldCpu {
                place,
                refs: 1,
                exclusive,
            },
        );
    }
    held
}

fn per_node(topology: &KoordinatorTopology, taken: &CpuSet) -> Vec<usize> {
    topology
        .nodes
        .iter()
        .map(|node| node.cpus.common_len(taken))
        .collect()
}

#[test]
fn spreading_takes_one_cpu_of_every_core_before_a_sibling() {
    let topology = machine(2, 1, 4, 2);
    let held = HeldCpus::new();
    let mut take = request(&topology, &held, topology.all(), 8);
    take.binding = CpuBinding::SpreadByPcpus;
    assert_eq!(take.run(), Ok(cpus("0,2,4,6,8,10,12,14")));
    take.fidelity = Fidelity::Exact;
    assert_eq!(
        take.run(),
        Ok(cpus("0-7")),
        "Koordinator fills one NUMA node"
    );
}

#[test]
fn exclusive_replicas_share_no_core_and_a_plain_pod_may_take_their_siblings() {
    let topology = machine(1, 1, 4, 2);
    let none_held = HeldCpus::new();
    let mut replica = request(&topology, &none_held, topology.all(), 2);
    replica.binding = CpuBinding::SpreadByPcpus;
    replica.exclusive = ExclusiveLevel::Core;
    let first = replica.run().expect("enough CPUs");
    let held = hold(&topology, &first.to_string(), ExclusiveLevel::Core);
    let left = topology.all() - &first;
    (replica.held, replica.available) = (&held, &left);
    let second = replica.run().expect("enough CPUs");
    let cores = |taken: &CpuSet| -> Vec<i64> {
        let ids = taken.iter().filter_map(|cpu| topology.ids(cpu));
        ids.map(|(core, _)| core).collect()
    };
    assert_eq!((first.len(), second.len()), (2, 2));
    assert!(
        cores(&first)
            .iter()
            .all(|core| !cores(&second).contains(core))
    );

    let both = &first | &second;
    let held = hold(&topology, &both.to_string(), ExclusiveLevel::Core);
    let left = topology.all() - &both;
    let plain = request(&topology, &held, &left, 4);
    assert_eq!(plain.run(), Ok(left.clone()), "the siblings of both");
}

#[test]
fn preferred_whole_cores_fall_back_to_single_cpus() {
    let topology = machine(1, 1, 4, 2);
    let held = HeldCpus::new();
    let available = cpus("0-1,2,4,6");
    for fidelity in [Fidelity::Exact, Fidelity::Sound] {
        let take = TakeRequest {
            fidelity,
            ..request(&topology, &held, &available, 4)
        };
        assert_eq!(take.run(), Ok(cpus("0-2,4")));
    }
}

#[test]
fn distribute_evenly_splits_evenly_and_keeps_cores_whole() {
    let topology = machine(2, 1, 4, 2);
    let held = HeldCpus::new();
    let mut take = request(&topology, &held, topology.all(), 10);
    take.strategy = NumaStrategy::DistributeEvenly;
    let whole = take.run().expect("enough CPUs");
    assert_eq!(per_node(&topology, &whole), [6, 4]);
    take.binding = CpuBinding::SpreadByPcpus;
    let spread = take.run().expect("enough CPUs");
    assert_eq!(per_node(&topology, &spread), [5, 5]);
    take.fidelity = Fidelity::Exact;
    let exact = take.run().expect("enough CPUs");
    take.strategy = NumaStrategy::LeastAllocated;
    assert_eq!(
        take.run(),
        Ok(exact),
        "Koordinator treats it as LeastAllocated"
    );
}

#[test]
fn distribute_evenly_takes_more_from_other_numa_nodes_if_one_is_exhausted() {
    let topology = machine(2, 1, 4, 2);
    let held = HeldCpus::new();
    let available = cpus("0,8-15");
    let mut take = request(&topology, &held, &available, 6);
    take.strategy = NumaStrategy::DistributeEvenly;
    take.binding = CpuBinding::SpreadByPcpus;
    let taken = take.run().expect("enough CPUs");
    assert_eq!(per_node(&topology, &taken), [1, 5]);
}

#[test]
fn a_pod_without_an_exclusive_numa_node_gets_exclusive_cores() {
    let topology = machine(2, 1, 4, 2);
    let held = hold(&topology, "0,8", ExclusiveLevel::NumaNode);
    let available = topology.all() - held.cpus();
    let mut take = request(&topology, &held, &available, 2);
    take.binding = CpuBinding::SpreadByPcpus;
    take.exclusive = ExclusiveLevel::NumaNode;
    let taken = take.run().expect("enough CPUs");
    assert!(taken.is_disjoint(&cpus("0-1,8-9")), "{taken} shares a core");
    take.fidelity = Fidelity::Exact;
    let exact = take.run().expect("enough CPUs");
    assert!(
        exact.contains(CpuId::new(1).expect("small")),
        "Koordinator drops exclusivity: {exact}"
    );
}

#[test]
fn exclusive_cores_avoid_the_cores_of_other_exclusive_pods() {
    let topology = machine(1, 1, 4, 2);
    let held = hold(&topology, "0,2", ExclusiveLevel::Core);
    let available = topology.all() - held.cpus();
    let mut take = request(&topology, &held, &available, 2);
    take.binding = CpuBinding::SpreadByPcpus;
    take.exclusive = ExclusiveLevel::Core;
    assert_eq!(take.run(), Ok(cpus("4,6")));
    take.exclusive = ExclusiveLevel::Nothing;
    assert_eq!(take.run(), Ok(cpus("1,3")));
}

#[test]
fn the_strategy_chooses_the_fullest_or_the_emptiest_numa_node() {
    let topology = machine(2, 1, 4, 2);
    let held = HeldCpus::new();
    let available = cpus("0-1,8-13");
    let mut take = request(&topology, &held, &available, 2);
    take.strategy = NumaStrategy::MostAllocated;
    assert_eq!(take.run(), Ok(cpus("0-1")));
    take.strategy = NumaStrategy::LeastAllocated;
    assert_eq!(take.run(), Ok(cpus("8-9")));
}

/// Sockets of 1, 3 and 3 cores: the average size is not the size of any socket.
fn uneven() -> KoordinatorTopology {
    let sizes = [(0, 1), (1, 3), (2, 3)];
    let mut rows = Vec::new();
    for (socket, cores) in sizes {
        for _ in 0..cores * 2 {
            let at = u32::try_from(rows.len()).expect("small");
            let core = i64::from(at / 2);
            let cpu = CpuId::new(at).expect("small");
            rows.push(ReportedCpu {
                cpu,
                core,
                node: socket,
                socket,
            });
        }
    }
    let totals = CpuTotals {
        cpus: 14,
        cores: 7,
        nodes: 3,
        sockets: 3,
    };
    KoordinatorTopology::new(rows, totals)
}

#[test]
fn sound_mode_never_takes_more_cpus_than_requested() {
    let topology = uneven();
    let held = HeldCpus::new();
    let mut take = request(&topology, &held, topology.all(), 5);
    assert_eq!(take.run().map(|taken| taken.len()), Ok(5));
    take.fidelity = Fidelity::Exact;
    assert_eq!(
        take.run().map(|taken| taken.len()),
        Ok(6),
        "Koordinator takes a core too many"
    );
}

#[test]
fn a_core_with_an_offline_cpu_is_whole_if_its_other_cpus_are_free() {
    let rows = [(0, 0), (1, 0), (2, 1), (4, 2), (5, 2)].map(|(cpu, core)| ReportedCpu {
        cpu: CpuId::new(cpu).expect("small"),
        core,
        node: 0,
        socket: 0,
    });
    let topology = KoordinatorTopology::from_report(rows, Fidelity::Sound);
    let held = HeldCpus::new();
    let take = request(&topology, &held, topology.all(), 4);
    assert_eq!(take.run(), Ok(cpus("0-1,4-5")));
}

prop_compose! {
    fn any_machine()(
        rows in proptest::collection::vec((0_i64..3, 0_i64..3, 0_i64..4, 1_usize..4), 1..12),
        fidelity in prop_oneof![Just(Fidelity::Exact), Just(Fidelity::Sound)],
    ) -> KoordinatorTopology {
        let mut cpus = Vec::new();
        for (socket, node, core, threads) in rows {
            for _ in 0..threads {
                let cpu = CpuId::new(u32::try_from(cpus.len()).expect("small")).expect("small");
                cpus.push(ReportedCpu { cpu, core, node: socket * 3 + node, socket });
            }
        }
        KoordinatorTopology::from_report(cpus, fidelity)
    }
}

proptest! {
    /// On any machine: exactly the requested number of CPUs, all of them available, or `NotEnough`.
    #[test]
    fn sound_mode_takes_exactly_the_requested_number_of_available_cpus(
        topology in any_machine(),
        picks in proptest::collection::vec(0_u8..6, 36),
        needed in 0_usize..40,
        (binding, exclusive, strategy) in (
            prop_oneof![Just(CpuBinding::FullPcpus), Just(CpuBinding::SpreadByPcpus)],
            prop_oneof![Just(ExclusiveLevel::Nothing), Just(ExclusiveLevel::Core), Just(ExclusiveLevel::NumaNode)],
            prop_oneof![Just(NumaStrategy::MostAllocated), Just(NumaStrategy::LeastAllocated), Just(NumaStrategy::DistributeEvenly)],
        ),
    ) {
        let mut held = HeldCpus::new();
        let mut preferred = CpuSet::new();
        for (cpu, pick) in topology.all().iter().zip(picks) {
            let exclusive = [ExclusiveLevel::Nothing, ExclusiveLevel::Core, ExclusiveLevel::NumaNode].get(usize::from(pick));
            let place = topology.ids(cpu).map(|(core, node)| HeldPlace { core, node });
            match exclusive {
                Some(&exclusive) => held.insert(cpu, HeldCpu { place, refs: 1, exclusive }),
                None if pick == 3 => _ = preferred.insert(cpu),
                None => {}
            }
        }
        let available = topology.all() - held.cpus();
        let take = TakeRequest { binding, exclusive, strategy, preferred: &preferred, ..request(&topology, &held, &available, needed) };
        match take.run() {
            Ok(taken) => {
                prop_assert_eq!(taken.len(), needed);
                prop_assert!(taken.is_subset(&available));
            }
            Err(error) => {
                prop_assert_eq!(error, KoordinatorTakeError::NotEnough);
                prop_assert!(available.len() < needed);
            }
        }
        // Koordinator may take too many CPUs, but only available ones.
        let exact = TakeRequest { fidelity: Fidelity::Exact, ..take }.run();
        prop_assert_eq!(exact.is_ok(), available.len() >= needed);
        prop_assert!(exact.unwrap_or_default().is_subset(&available));
    }

    /// No core gives two CPUs while another core has none taken.
    #[test]
    fn spreading_is_even_across_cores(needed in 1_usize..=16, taken_before in proptest::collection::btree_set(0_u32..16, 0..8)) {
        let topology = machine(2, 2, 2, 2);
        let held = HeldCpus::new();
        let gone: CpuSet = taken_before.into_iter().filter_map(CpuId::new).collect();
        let available = topology.all() - &gone;
        let take = TakeRequest { binding: CpuBinding::SpreadByPcpus, ..request(&topology, &held, &available, needed) };
        let Ok(taken) = take.run() else { return Ok(()) };
        let doubled = topology.cores.iter().any(|core| core.cpus.iter().filter(|cpu| taken.contains(**cpu)).count() > 1);
        let untouched = topology.cores.iter().any(|core| {
            core.cpus.iter().any(|cpu| available.contains(*cpu)) && !core.cpus.iter().any(|cpu| taken.contains(*cpu))
        });
        prop_assert!(!(doubled && untouched), "{} of {}", taken, available);
    }
}
