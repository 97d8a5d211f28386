//! One pod on one node under Volcano: the predicate.

use std::hint::black_box;

use pinfold_cluster::volcano::cpu_detail::{CpuDetail, CpuRow};
use pinfold_cluster::volcano::numa_amounts::NumaAmounts;
use pinfold_cluster::volcano::predicate::{NumaInfo, VolcanoTask, simulate};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;

use super::koordinator::BenchMachine;
use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::merge_cases::Random;
use crate::reference::volcano_predicate;

/// Every shape of Volcano's record without a reservation, and the same with too few CPUs on each NUMA node.
pub(super) fn cases() -> Vec<BenchCase> {
    let mut cases = Vec::new();
    for shape in volcano_predicate() {
        if shape.text("reserved") != "-" {
            continue;
        }
        let (cpus, nodes) = (shape.number("CPUs"), shape.number("NUMA"));
        let policy = shape.text("policy");
        let name =
            |end: &str| format!("predicate, {cpus} CPUs on {nodes} NUMA nodes, {policy}, {end}");
        let machine = BenchMachine { cpus, nodes };
        let used = BenchCase::new(Group::Volcano, name("admitted"), move || {
            let mut random = Random(1);
            let info = numa(machine, policy, |_| random.chance(70));
            let task = task(policy);
            move || assert!(fits(&task, &info))
        });
        cases.push(used.beside(shape.plugin_reference()).within_us(10.0));
        if policy != "single-numa-node" {
            continue;
        }
        let crowded = BenchCase::new(Group::Volcano, name("rejected"), move || {
            let mut left = vec![3; nodes];
            let info = numa(machine, policy, |core| {
                let left = &mut left[machine.node_of(core)];
                let free = *left > 0;
                *left -= usize::from(free);
                free
            });
            let task = task(policy);
            move || assert!(!fits(&task, &info))
        });
        cases.push(crowded.within_us(10.0));
    }
    cases
}

fn fits(task: &VolcanoTask, numa: &NumaInfo) -> bool {
    let (free, reserved) = (numa.free.as_ref(), CpuSet::new());
    black_box(simulate(
        task,
        Some(numa),
        free,
        &reserved,
        &NumaAmounts::default(),
        Fidelity::Sound,
    ))
    .is_ok()
}

/// The pod of the record.
pub(super) fn task(policy: &str) -> VolcanoTask {
    VolcanoTask {
        pod: fixture::pod("p", &[("cpu", "8"), ("memory", "16Gi")]),
        policy: Some(policy.to_owned()),
    }
}

/// What a node reports of which these cores are free.
pub(super) fn numa(
    machine: BenchMachine,
    policy: &str,
    mut is_free: impl FnMut(usize) -> bool,
) -> NumaInfo {
    let half = machine.cpus / 2;
    let small = |value: usize| u32::try_from(value).expect("a small machine");
    let row = |at: usize| CpuRow {
        cpu: BenchMachine::cpu(at),
        core: small(at % half),
        node: fixture::node_id(machine.node_of(at)),
        socket: small(at % half / (half / 2)),
    };
    let free = (0..half)
        .filter(|&core| is_free(core))
        .flat_map(|core| [BenchMachine::cpu(core), BenchMachine::cpu(core + half)]);
    NumaInfo {
        cpu_manager: "static".into(),
        topology: policy.to_owned(),
        free: Some(free.collect()),
        cpus: CpuDetail::new((0..machine.cpus).map(row)),
        reserved: None,
    }
}
