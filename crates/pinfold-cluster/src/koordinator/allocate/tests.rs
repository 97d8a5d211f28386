//! Tests of the allocator.

use proptest::prelude::*;

use super::*;
use crate::koordinator::amounts::CPU;
use crate::koordinator::cpu_topology::ReportedCpu;
use crate::koordinator::cpu_topology::tests::machine;
use crate::koordinator::hints::{HintLists, KoordinatorHints};
use crate::koordinator::policy_values::NumaPolicy;
use crate::koordinator::rejection::ResourcePreference;
use pinfold_core::cpu_set::CpuId;

fn zone(id: i64, cpu: i64, memory: i64) -> NodeAmounts {
    NodeAmounts {
        node: NodeId::new(id).expect("small"),
        amounts: Amounts::from([("cpu", cpu), ("memory", memory)]),
    }
}

/// A node and the requests of one pod.
struct Setup {
    topology: KoordinatorTopology,
    reserved: CpuSet,
    zones: Vec<NodeAmounts>,
    ledger: KoordinatorLedger,
    requests: Amounts,
    none: CpuSet,
}

impl Setup {
    fn new(
        topology: KoordinatorTopology,
        zones: Vec<NodeAmounts>,
        fidelity: Fidelity,
        requests: Amounts,
    ) -> Self {
        Self {
            topology,
            reserved: CpuSet::new(),
            zones,
            ledger: KoordinatorLedger::new(fidelity),
            requests,
            none: CpuSet::new(),
        }
    }

    fn hold(&mut self, pod: &str, cpus: &str) {
        let allocation = Allocation {
            cpus: CpuSet::parse(cpus).expect("a CPU list"),
            ..Allocation::default()
        };
        self.ledger.update(pod.into(), allocation, &self.topology);
    }

    fn node(&self) -> AllocationNode<'_> {
        AllocationNode {
            topology: Some(&self.topology),
            reserved: &self.reserved,
            max_refs: 1,
            zones: &self.zones,
            cpu_ratio: 1.0,
            strategy: NumaStrategy::LeastAllocated,
            ledger: &self.ledger,
        }
    }

    fn request(
        &self,
        bind: bool,
        binding: Option<CpuBinding>,
        required: bool,
    ) -> AllocationRequest<'_> {
        let cpu = self.requests.get(CPU);
        AllocationRequest {
            cpus: usize::try_from(cpu / MILLI).expect("not negative"),
            bind,
            requests: &self.requests,
            plain_requests: &self.requests,
            binding,
            required,
            exclusive: ExclusiveLevel::Nothing,
            preferred: &self.none,
            preemptible: &self.none,
            reusable: &[],
            offered: &[],
        }
    }
}

fn both() -> Option<NodeSet> {
    Some(NodeSet::from_bits(0b11))
}

#[test]
fn the_free_cpus_limit_the_share_of_a_numa_node_in_sound_mode() {
    // A pod without NUMA resources holds all CPUs of NUMA node 0 but one.
    for (fidelity, fits) in [(Fidelity::Exact, false), (Fidelity::Sound, true)] {
        let zones = vec![zone(0, 8000, 100), zone(1, 8000, 100)];
        let requests = Amounts::from([("cpu", 6000)]);
        let mut setup = Setup::new(machine(2, 1, 4, 2), zones, fidelity, requests);
        setup.hold("other", "0-6");
        let request = setup.request(true, Some(CpuBinding::SpreadByPcpus), false);
        let allocation = Allocator::new(setup.node(), request).allocate(both());
        assert_eq!(allocation.is_ok(), fits, "{fidelity:?} {allocation:?}");
    }
}

#[test]
fn amounts_are_distributed_evenly_and_the_last_numa_node_provides_the_rest() {
    let zones = vec![zone(0, 8000, 10), zone(1, 8000, 100)];
    let requests = Amounts::from([("cpu", 3001), ("memory", 51)]);
    let setup = Setup::new(machine(2, 1, 4, 2), zones, Fidelity::Sound, requests);
    let allocator = Allocator::new(setup.node(), setup.request(false, None, false));
    let allocation = allocator.allocate(both()).expect("it fits");
    assert_eq!(allocation.numa, [zone(0, 1500, 10), zone(1, 1501, 41)]);
}

#[test]
fn a_rejection_lists_every_insufficient_resource() {
    let zones = vec![zone(0, 1000, 10), zone(1, 1000, 10)];
    let requests = Amounts::from([("cpu", 3000), ("memory", 51), ("example.com/elsewhere", 7)]);
    let setup = Setup::new(machine(2, 1, 4, 2), zones, Fidelity::Exact, requests);
    let allocator = Allocator::new(setup.node(), setup.request(false, None, false));
    let rejection = allocator.allocate(both()).expect_err("too much");
    assert_eq!(
        rejection.to_string(),
        "Insufficient NUMA cpu, Insufficient NUMA memory"
    );
}

#[test]
fn required_whole_cores_must_be_free_as_a_whole() {
    let requests = Amounts::from([("cpu", 4000)]);
    let mut setup = Setup::new(
        machine(1, 1, 4, 2),
        vec![zone(0, 8000, 0)],
        Fidelity::Sound,
        requests,
    );
    setup.hold("other", "2,4,6");
    let rejection = |required| {
        let request = setup.request(true, Some(CpuBinding::FullPcpus), required);
        Allocator::new(setup.node(), request)
            .allocate(None)
            .err()
            .map(|rejection| rejection.to_string())
    };
    assert_eq!(rejection(false), None);
    assert_eq!(
        rejection(true).as_deref(),
        Some("not enough cpus available to satisfy request")
    );
}

#[test]
fn the_fullest_numa_node_of_the_hint_comes_first_except_in_exact_mode() {
    // The hint has NUMA nodes 2 and 3; Koordinator compares nodes 0 and 1 instead, and leaves the larger half to node
    // 3.
    let zones = [1000, 9000, 8000, 1000];
    let zones: Vec<NodeAmounts> = (0..).zip(zones).map(|(id, cpu)| zone(id, cpu, 0)).collect();
    for (fidelity, fits) in [(Fidelity::Exact, false), (Fidelity::Sound, true)] {
        let requests = Amounts::from([("cpu", 6000)]);
        let setup = Setup::new(machine(4, 1, 4, 2), zones.clone(), fidelity, requests);
        let allocator = Allocator::new(setup.node(), setup.request(false, None, false));
        let allocation = allocator.allocate(Some(NodeSet::from_bits(0b1100)));
        assert_eq!(allocation.is_ok(), fits, "{fidelity:?} {allocation:?}");
    }
}

#[test]
fn the_request_of_a_bound_pod_counts_in_real_cpus_except_in_exact_mode() {
    // 8000m with a ratio of 2 are four CPUs.
    for (fidelity, fits) in [(Fidelity::Exact, true), (Fidelity::Sound, false)] {
        let requests = Amounts::from([("cpu", 6000)]);
        let zones = vec![zone(0, 8000, 0)];
        let setup = Setup::new(machine(1, 1, 4, 2), zones, fidelity, requests);
        let node = AllocationNode {
            cpu_ratio: 2.0,
            ..setup.node()
        };
        let request = setup.request(true, Some(CpuBinding::FullPcpus), true);
        let allocation = Allocator::new(node, request).allocate(Some(NodeSet::from_bits(1)));
        assert_eq!(allocation.is_ok(), fits, "{fidelity:?} {allocation:?}");
    }
}

prop_compose! {
    fn any_machine()(rows in proptest::collection::vec((0_i64..3, 0_i64..4, 0_i64..3, 1_u32..3), 1..10), nested: bool) -> KoordinatorTopology {
        let mut cpus = Vec::new();
        for (socket, node, core, threads) in rows {
            for _ in 0..threads {
                let cpu = CpuId::new(u32::try_from(cpus.len()).expect("small")).expect("small");
                // Nested: each NUMA node in one socket, core numbers unique.
                let (socket, core) = if nested { (node / 2, node * 8 + core) } else { (socket, core) };
                cpus.push(ReportedCpu { cpu, core, node, socket });
            }
        }
        KoordinatorTopology::from_report(cpus, Fidelity::Exact)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// [`Allocator::fits`] agrees with [`Allocator::allocate`].
    #[test]
    fn a_set_of_numa_nodes_fits_if_and_only_if_it_can_be_allocated(
        topology in any_machine(),
        zones in proptest::collection::btree_map(0_i64..4, (0_i64..9, 0_i64..3, 0_i64..40), 1..5),
        held in proptest::collection::btree_set(0_u32..20, 0..8),
        (cpu, fraction, memory) in (0_i64..9, prop_oneof![4 => Just(0), 1 => Just(500)], 0_i64..80),
        (bind, binding, required) in (any::<bool>(), prop_oneof![Just(None), Just(Some(CpuBinding::FullPcpus)), Just(Some(CpuBinding::SpreadByPcpus))], any::<bool>()),
        mask in 1_u64..16,
        fidelity in prop_oneof![Just(Fidelity::Exact), Just(Fidelity::Sound)],
    ) {
        let zones = zones.into_iter().map(|(id, (cpu, half, memory))| zone(id, cpu * 1000 + half * 500, memory)).collect();
        let requests = Amounts::from([("cpu", cpu * 1000 + fraction), ("memory", memory)]);
        let mut setup = Setup::new(topology, zones, fidelity, requests);
        let cpus: CpuSet = held.into_iter().filter_map(CpuId::new).collect();
        setup.hold("other", &cpus.to_string());
        let allocator = Allocator::new(setup.node(), setup.request(bind, binding, required));
        let nodes = NodeSet::from_bits(mask);
        let allocation = allocator.allocate(Some(nodes));
        prop_assert_eq!(allocator.fits(nodes), allocation.is_ok());
        if let (Ok(allocation), Fidelity::Sound, true) = (&allocation, fidelity, bind && fraction == 0) {
            prop_assert!(allocation.cpus.is_disjoint(&cpus));
            prop_assert_eq!(allocation.cpus.len() as i64, cpu);
        }
        // Lazy hints are equal to the generated ones.
        let policy = Some(&NumaPolicy::Restricted);
        let lazy = HintLists::new(&allocator, policy, None).lazy();
        if let Some(lazy) = lazy.filter(|_| !allocator.lacks_topology()) {
            let lists = HintLists::complete(&allocator, policy, None).lists;
            let masks = |list: &KoordinatorHints, all: bool| -> Vec<Option<NodeSet>> {
                let hints = list.hints.iter().filter(|hint| all || hint.preferred);
                hints.map(|hint| hint.mask).collect()
            };
            let listed: Vec<ResourcePreference> = lists.iter().map(|list| ResourcePreference {
                name: list.name.clone(),
                possible: masks(list, true),
                preferred: masks(list, false),
            }).collect();
            prop_assert_eq!(lazy.preferences(), listed);
            let none: Vec<_> = lists.iter().filter(|list| list.hints.is_empty()).map(|list| &list.name).collect();
            prop_assert_eq!(lazy.impossible().collect::<Vec<_>>(), none);
        }
    }
}
