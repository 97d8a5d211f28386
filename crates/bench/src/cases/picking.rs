//! Section (c): picking CPUs on an idle and on a fragmented machine of four NUMA nodes.

use std::hint::black_box;

use pinfold_core::cpu::{
    CpuSortingStrategy, DistributionOptions, PackingOptions, take_distributed, take_packed,
};
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::cpus::CpuTopology;

use crate::case::{BenchCase, Group};
use crate::fixture;
use crate::reference::{self, ReferenceRow};

pub(super) fn cases() -> Vec<BenchCase> {
    reference::section('c').iter().map(recorded).collect()
}

fn recorded(shape: &ReferenceRow) -> BenchCase {
    let (cpus, request) = (shape.number("CPUs"), shape.number("request"));
    let pick = Pick {
        nodes: 4,
        cpus,
        request,
        fragmented: shape.text("available").starts_with("fragmented"),
        algorithm: shape.text("algorithm"),
    };
    let case = pick.case(Group::Picking).beside(shape.reference());
    match (cpus, request) {
        (256, 8) => case.within_us(3.0),
        _ => case,
    }
}

/// A request to pick CPUs.
#[derive(Clone, Copy)]
pub(super) struct Pick {
    pub(super) nodes: usize,
    pub(super) cpus: usize,
    pub(super) request: usize,
    pub(super) fragmented: bool,
    pub(super) algorithm: &'static str,
}

impl Pick {
    pub(super) fn case(self, group: Group) -> BenchCase {
        let Self {
            cpus,
            request,
            algorithm,
            ..
        } = self;
        let load = if self.fragmented {
            "fragmented"
        } else {
            "idle"
        };
        let name = format!("{request} of {cpus} CPUs, {load}, {algorithm}");
        BenchCase::new(group, name, move || self.prepare())
    }

    fn prepare(self) -> impl FnMut() {
        let shape = fixture::MachineShape {
            nodes: self.nodes,
            cpus: self.cpus,
            caches: 2,
            hugepages: 0,
        };
        let topology = CpuTopology::of(&shape.machine());
        let is_free = |cpu: &CpuId| !self.fragmented || (cpu.index() * 7919 + 13) % 10 >= 4;
        let available: CpuSet = topology.all().iter().filter(is_free).collect();
        let take = move || {
            let fidelity = Fidelity::default();
            match self.algorithm {
                "distributed" => take_distributed(
                    &topology,
                    &available,
                    self.request,
                    DistributionOptions::groups_of(1),
                    fidelity,
                ),
                algorithm => {
                    let packing = PackingOptions {
                        order: CpuSortingStrategy::Packed,
                        align_by_cache: algorithm == "packed, uncore-aligned",
                    };
                    take_packed(&topology, &available, self.request, packing, fidelity)
                }
            }
        };
        assert_eq!(take().map(|cpus| cpus.len()), Ok(self.request));
        move || drop(black_box(take()))
    }
}
