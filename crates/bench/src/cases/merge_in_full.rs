//! The hints of all three managers for a container with five resources and their merge, on real machines; and the
//! merge of made-up scenes, at its worst.

use std::hint::black_box;

use pinfold_core::cpu::{CpuOptions, Reservation, StaticCpus, StaticSettings};
use pinfold_core::cpu_set::{CpuList, CpuSet};
use pinfold_core::demand::PodLevel;
use pinfold_core::device::{self, Reusable};
use pinfold_core::ledger::Ledger;
use pinfold_core::memory::MemoryPolicy;
use pinfold_core::merge::{Budgets, MergeRequest, merge};

use crate::case::{Case, Group, Work};
use crate::fixture;
use crate::scenes::{Load, Random, SHAPES, Scene, adversarial, machine_scene};

/// How long the merge of five resources may take, by number of nodes.
const LIMITS_US: [(usize, f64); 3] = [(8, 15.0), (16, 50.0), (64, 500.0)];
/// The same at 64 nodes if distances count.
const CLOSEST_US: f64 = 2_000.0;
/// The same at 64 nodes for inputs made to be hard.
const ADVERSARIAL_US: f64 = 20_000.0;
/// How many random scenes or histories are tried.
const SEEDS: u64 = 12;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (nodes, limit) in LIMITS_US {
        let idle = format!("managers and merge, {nodes} nodes, idle");
        cases.push(
            Case::new(Group::MergeInFull, idle, move || {
                ask(fixture::rich_node(nodes))
            })
            .within_us(limit),
        );
        let crowded = format!("managers and merge, {nodes} nodes, crowded");
        cases.push(
            Case::worst_of(Group::MergeInFull, crowded, move || {
                let histories = (0..SEEDS).map(|seed| fixture::crowded_node(nodes, seed));
                histories
                    .map(|node| Box::new(ask(node)) as Work)
                    .collect()
            })
            .within_us(limit),
        );
        for load in [Load::Idle, Load::Wide, Load::Crowded] {
            let name = format!("scenes, {nodes} nodes, {load:?}").to_lowercase();
            cases.push(
                worst_scene(name, move |random| {
                    machine_scene(random, nodes, 5, load, false)
                })
                .within_us(limit),
            );
        }
    }
    for load in [Load::Idle, Load::Wide, Load::Crowded] {
        let name = format!("scenes, 64 nodes, {load:?}, closest").to_lowercase();
        cases.push(
            worst_scene(name, move |random| machine_scene(random, 64, 5, load, true))
                .within_us(CLOSEST_US),
        );
    }
    let shapes = SHAPES.into_iter().map(Some);
    for shape in [None].into_iter().chain(shapes) {
        let distances = match shape {
            None => "no distances".to_owned(),
            Some(shape) => format!("distances {shape:?}").to_lowercase(),
        };
        cases.push(
            worst_scene(
                format!("adversarial scenes, 64 nodes, {distances}"),
                move |random| adversarial(random, 64, shape),
            )
            .within_us(ADVERSARIAL_US),
        );
    }
    cases
}

/// The worst of some random scenes, each with a copy of its families in every operation.
fn worst_scene(name: String, make: impl Fn(&mut Random) -> Scene + 'static) -> Case {
    scenes(Group::MergeInFull, name, make)
}

/// The same for another group.
pub(super) fn scenes(
    group: Group,
    name: String,
    make: impl Fn(&mut Random) -> Scene + 'static,
) -> Case {
    let merge_copy = |scene: Scene| {
        move || {
            let providers = scene.providers.clone();
            let request = MergeRequest {
                providers: &providers,
                ..scene.request()
            };
            black_box(merge(&request));
        }
    };
    Case::worst_of(group, name, move || {
        let scenes = (0..SEEDS).map(|seed| make(&mut Random(seed)));
        scenes
            .map(|scene| Box::new(merge_copy(scene)) as Work)
            .collect()
    })
}

/// All hints of a container with five resources, and their merge.
pub(super) fn ask(node: Ledger) -> impl FnMut() {
    let rules = node.rules().clone();
    let (settings, machine) = (rules.settings(), rules.machine());
    let cpus = StaticSettings {
        options: CpuOptions::default(),
        reservation: Reservation {
            count: 2,
            cpus: CpuList::default(),
        },
        topology_policy: rules.policy().name(),
        pod_level: PodLevel::Ignored,
        fidelity: settings.fidelity,
    };
    let cpus = StaticCpus::new(rules.topology().clone(), cpus).expect("a good policy");
    let memory = MemoryPolicy::new(
        "Static",
        machine,
        &settings.node_reservation,
        &settings.reserved_memory,
        PodLevel::Ignored,
        settings.fidelity,
    );
    let memory = memory.expect("a good policy");
    let amounts = [
        ("cpu", "24"),
        ("memory", "24Gi"),
        ("hugepages-2Mi", "1Gi"),
        (fixture::DEVICES[0], "3"),
        (fixture::DEVICES[1], "2"),
    ];
    let pod = fixture::pod("pod", &amounts);
    let (nodes, policy, nothing) = (machine.node_ids(), rules.policy(), CpuSet::new());
    move || {
        let (state, container) = (node.state(), &pod.containers[0]);
        let reusable = Reusable::before(state.devices(), &pod, &container.name);
        let devices =
            device::container_hints(state.pool(), state.devices(), &pod, container, &reusable);
        let providers = [
            devices,
            cpus.container_hints(state.cpus(), &nothing, &pod, container),
            memory.container_hints(state.memory(), &pod, container).hints,
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
