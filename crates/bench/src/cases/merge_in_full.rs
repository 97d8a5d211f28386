//! The hints of all three managers for a container with five resources and their merge, on realistic machines; and the
//! slowest merge of random scenes.

use std::hint::black_box;

use pinfold_core::cpu::{CpuOptions, CpuReservation, PodCpus, StaticCpus, StaticSettings};
use pinfold_core::cpu_set::CpuList;
use pinfold_core::demand::{PodDemand, PodLevel};
use pinfold_core::device::{self, ReusableDevices};
use pinfold_core::hint::{Component, Family, Preference, ProviderHints, ResourceHints, Threshold};
use pinfold_core::ledger::Ledger;
use pinfold_core::memory::{MemoryPolicy, PodMemory};
use pinfold_core::merge::{Budgets, Distances, MergeRequest, merge};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::merge_cases::{Load, MergeCase, Random, SHAPES, adversarial, machine_case, node};

/// The limits of the merge of five resources in microseconds, by number of nodes.
const LIMITS_US: [(usize, f64); 3] = [(8, 15.0), (16, 50.0), (64, 500.0)];
/// The limit at 64 nodes with `prefer-closest-numa-nodes`.
const CLOSEST_US: f64 = 2_000.0;
/// The limit at 64 nodes for adversarial scenes.
const ADVERSARIAL_US: f64 = 20_000.0;
/// The number of random scenes or histories.
pub(super) const SEEDS: u64 = 12;
/// The number of adversarial scenes.
const ADVERSARIAL_SEEDS: u64 = 40;

const LOADS: [Load; 3] = [Load::Idle, Load::Wide, Load::Crowded];
const GROUP: Group = Group::MergeInFull;

pub(super) fn cases() -> Vec<BenchCase> {
    let mut cases = Vec::new();
    for (nodes, limit) in LIMITS_US {
        cases.push(idle(GROUP, nodes).within_us(limit));
        cases.push(crowded(GROUP, nodes, SEEDS).within_us(limit));
        for load in LOADS {
            let name = format!("scenes, {nodes} nodes, {load:?}").to_lowercase();
            let make = move |random: &mut Random| machine_case(random, nodes, 5, load, false);
            cases.push(scenes(GROUP, name, SEEDS, make).within_us(limit));
        }
    }
    for load in LOADS {
        let name = format!("scenes, 64 nodes, {load:?}, closest").to_lowercase();
        let make = move |random: &mut Random| machine_case(random, 64, 5, load, true);
        cases.push(scenes(GROUP, name, SEEDS, make).within_us(CLOSEST_US));
    }
    let name = "closest 5 of 20 nodes, no hierarchy".to_owned();
    cases.push(scenes(GROUP, name, 1, without_hierarchy).within_us(CLOSEST_US));
    let shapes = SHAPES.into_iter().map(Some);
    for shape in [None].into_iter().chain(shapes) {
        let distances = match shape {
            None => "no distances".to_owned(),
            Some(shape) => format!("distances {shape:?}").to_lowercase(),
        };
        let name = format!("adversarial scenes, 64 nodes, {distances}");
        let make = move |random: &mut Random| adversarial(random, 64, shape);
        cases.push(scenes(GROUP, name, ADVERSARIAL_SEEDS, make).within_us(ADVERSARIAL_US));
    }
    cases
}

/// One resource that prefers any 5 of 20 nodes, whose distances have no structure.
fn without_hierarchy(_: &mut Random) -> MergeCase {
    let nodes: NodeSet = (0..20).map(node).collect();
    let rows: Vec<Vec<u32>> = (0..20_u32)
        .map(|x| {
            (0..20)
                .map(|y| 10 + (x * y * 31 + x + y) % 17 * u32::from(x != y))
                .collect()
        })
        .collect();
    let component = Component {
        universe: nodes,
        forced: NodeSet::EMPTY,
        thresholds: [Threshold::new(5, nodes.iter().map(|node| (node, 1)))]
            .into_iter()
            .collect(),
    };
    let hints = ResourceHints::Family(Family {
        components: [component].into_iter().collect(),
        preference: Preference::Width(5),
    });
    MergeCase {
        nodes,
        policy: TopologyPolicy::BestEffort,
        distances: Some(Distances::from_rows(
            nodes.iter().zip(rows.iter().map(Vec::as_slice)),
        )),
        providers: vec![ProviderHints::one(ResourceName::from("cpu"), hints)],
    }
}

/// The case on a node without pods.
pub(super) fn idle(group: Group, nodes: usize) -> BenchCase {
    let name = format!("managers and merge, {nodes} nodes, idle");
    BenchCase::new(group, name, move || {
        hints_and_merge(fixture::rich_node(nodes))
    })
}

/// The case on nodes after random histories.
pub(super) fn crowded(group: Group, nodes: usize, seeds: u64) -> BenchCase {
    let name = format!("managers and merge, {nodes} nodes, crowded");
    BenchCase::worst_of(seeds, group, name, move |seed| {
        hints_and_merge(fixture::crowded_node(nodes, seed))
    })
}

/// The merge of random scenes, with a copy of the families in every operation.
pub(super) fn scenes(
    group: Group,
    name: String,
    seeds: u64,
    make: impl Fn(&mut Random) -> MergeCase + 'static,
) -> BenchCase {
    BenchCase::worst_of(seeds, group, name, move |seed| {
        let scene = make(&mut Random(seed));
        move || {
            let providers = scene.providers.clone();
            let request = MergeRequest {
                providers: &providers,
                ..scene.request()
            };
            black_box(merge(&request));
        }
    })
}

/// Computes all hints of a container with five resources and merges them.
fn hints_and_merge(node: Ledger) -> impl FnMut() {
    let rules = node.rules().clone();
    let (settings, machine) = (rules.settings(), rules.machine());
    let cpus = StaticSettings {
        options: CpuOptions::default(),
        reservation: CpuReservation {
            count: 2,
            cpus: CpuList::default(),
        },
        topology_policy: rules.policy(),
        pod_level: PodLevel::Ignored,
        fidelity: settings.fidelity,
    };
    let cpus = StaticCpus::new(rules.topology().clone(), cpus).expect("a good policy");
    let memory = MemoryPolicy::new(machine, settings).expect("a good policy");
    let memory = memory.as_static().expect("a static policy").clone();
    let amounts = [
        ("cpu", "24"),
        ("memory", "24Gi"),
        ("hugepages-2Mi", "1Gi"),
        (fixture::DEVICES[0], "3"),
        (fixture::DEVICES[1], "2"),
    ];
    let pod = fixture::pod("pod", &amounts);
    let (nodes, policy, own) = (machine.node_ids(), rules.policy(), PodCpus::default());
    move || {
        let (state, container) = (node.state(), &pod.containers[0]);
        let demand = PodDemand::new(&pod, PodLevel::Ignored);
        let reusable = ReusableDevices::before(state.devices(), &demand, &container.name);
        let memory_before = PodMemory::before(state.memory(), &demand, &container.name);
        let devices = device::container_hints(
            state.pool(),
            state.devices(),
            &pod,
            container,
            &reusable,
            device::DeviceMasks::NodesWithDevices,
        );
        let providers = [
            devices,
            cpus.container_hints(state.cpus(), &own, &demand, container),
            memory
                .container_hints(state.memory(), &memory_before, &demand, container)
                .hints,
        ];
        black_box(merge(&MergeRequest {
            nodes,
            policy,
            closest: None,
            providers: &providers,
            budgets: Budgets::default(),
        }));
    }
}
