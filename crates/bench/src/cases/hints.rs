//! Section (b): the static CPU policy's hints for one container of 8 CPUs on an idle machine.

use std::hint::black_box;
use std::sync::Arc;

use pinfold_core::cpu::{
    CpuOptions, CpuReservation, CpuState, PodCpus, StaticCpus, StaticSettings,
};
use pinfold_core::cpu_set::CpuList;
use pinfold_core::demand::{PodDemand, PodLevel};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::cpus::CpuTopology;
use pinfold_core::policy::TopologyPolicy;

use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::reference;

pub(super) fn cases() -> Vec<BenchCase> {
    let rows = reference::section('b').into_iter().map(|shape| {
        let (nodes, cpus) = (shape.number("NUMA"), shape.number("CPUs"));
        let case = case(Group::Hints, nodes, cpus).beside(shape.reference());
        match (nodes, cpus) {
            (8, 512) => case.within_us(5.0),
            _ => case,
        }
    });
    rows.collect()
}

/// The case on any machine.
pub(super) fn case(group: Group, nodes: usize, cpus: usize) -> BenchCase {
    let name = format!("hints, {nodes} nodes, {cpus} CPUs");
    BenchCase::new(group, name, move || {
        let shape = fixture::MachineShape {
            nodes,
            cpus,
            caches: 2,
            hugepages: 0,
        };
        let topology = Arc::new(CpuTopology::of(&shape.machine()));
        let settings = StaticSettings {
            options: CpuOptions::default(),
            reservation: CpuReservation {
                count: 2,
                cpus: CpuList::default(),
            },
            topology_policy: TopologyPolicy::BestEffort,
            pod_level: PodLevel::Ignored,
            fidelity: Fidelity::default(),
        };
        let policy = StaticCpus::new(topology, settings).expect("a good policy");
        let mut state = CpuState::default();
        for edit in policy.start(&state).expect("an empty state fits") {
            state.apply(&edit).expect("made for this state");
        }
        let pod = fixture::pod("pod", &[("cpu", "8"), ("memory", "1Gi")]);
        let own = PodCpus::default();
        move || {
            let demand = PodDemand::new(&pod, PodLevel::Ignored);
            black_box(policy.container_hints(&state, &own, &demand, &pod.containers[0]));
        }
    })
}
