//! The free cores of a set of CPUs: whole cores, or one CPU of each.
//!
//! If the CPUs of all cores have the same distance ([`Siblings`](super::siblings)), a few bit operations compute it;
//! else cores are counted one by one. Both return the same.

use crate::koordinator::KoordinatorDefects;
use smallvec::SmallVec;

use super::{CpuPosition, KoordinatorTopology};
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::fidelity::Fidelity;

/// A core that counts as whole and free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::koordinator) struct WholeCore {
    /// The position of its first free CPU.
    pub(in crate::koordinator) place: CpuPosition,
    /// How many CPUs it has.
    pub(in crate::koordinator) cpus: u16,
}

/// The number of free CPUs of one core, and the first of them, whose NUMA node and socket count for the core.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::koordinator) struct CoreCount {
    pub(in crate::koordinator) free: u16,
    pub(in crate::koordinator) first: Option<CpuId>,
}

impl KoordinatorTopology {
    /// The cores whose CPUs are all in `cpus`, in the order of their ids.
    pub(in crate::koordinator) fn whole_cores(
        &self,
        cpus: &CpuSet,
        fidelity: Fidelity,
    ) -> SmallVec<[WholeCore; 64]> {
        if let Some(siblings) = &self.siblings {
            let size = u16::try_from(self.cpus_per_core()).unwrap_or(u16::MAX);
            let firsts = siblings.whole(cpus);
            let places = firsts.iter().filter_map(|cpu| self.place(cpu));
            let mut cores: SmallVec<[WholeCore; 64]> = places
                .map(|place| WholeCore { place, cpus: size })
                .collect();
            cores.sort_unstable_by_key(|core| core.place.core);
            return cores;
        }
        self.count_whole_cores(cpus, fidelity)
    }

    fn count_whole_cores(&self, cpus: &CpuSet, fidelity: Fidelity) -> SmallVec<[WholeCore; 64]> {
        let counts = self.count_cores(cpus);
        let whole = |(core, count): (usize, CoreCount)| {
            let is_whole = usize::from(count.free) == self.core_size(core, fidelity);
            let place = self.place(count.first.filter(|_| is_whole)?)?;
            Some(WholeCore {
                place,
                cpus: count.free,
            })
        };
        counts.into_iter().enumerate().filter_map(whole).collect()
    }

    /// The CPUs of `cpus` that belong to whole cores.
    #[must_use]
    pub fn in_whole_cores(&self, cpus: &CpuSet, fidelity: Fidelity) -> CpuSet {
        match &self.siblings {
            Some(siblings) => siblings.cpus_of(&siblings.whole(cpus)),
            None => self.keep(cpus, |core, free| {
                match free == self.core_size(core, fidelity) {
                    true => free,
                    false => 0,
                }
            }),
        }
    }

    /// The first CPU of each core in `cpus`.
    #[must_use]
    pub fn one_of_each_core(&self, cpus: &CpuSet) -> CpuSet {
        match &self.siblings {
            Some(siblings) => siblings.lowest(cpus),
            None => self.keep(cpus, |_, _| 1),
        }
    }

    /// The first CPUs of each core in `cpus`: `count` of the core and its number of CPUs in `cpus`.
    fn keep(&self, cpus: &CpuSet, count: impl Fn(usize, usize) -> usize) -> CpuSet {
        let mut kept = cpus.clone();
        for (at, core) in self.cores.iter().enumerate() {
            let free = cpus.count_of(&core.cpus);
            let own = core.cpus.iter().filter(|&&cpu| cpus.contains(cpu));
            for &cpu in own.skip(count(at, free)) {
                kept.remove(cpu);
            }
        }
        kept
    }

    /// The number of CPUs of a whole core.
    fn core_size(&self, core: usize, fidelity: Fidelity) -> usize {
        match fidelity.measures_cores_by_average() {
            true => self.cpus_per_core(),
            false => self.cores[core].cpus.len(),
        }
    }

    /// The number of CPUs of each core in `cpus`.
    pub(in crate::koordinator) fn count_cores(&self, cpus: &CpuSet) -> Vec<CoreCount> {
        let mut cores = vec![CoreCount::default(); self.cores.len()];
        for cpu in cpus {
            if let Some(place) = self.place(cpu) {
                let count = &mut cores[usize::from(place.core)];
                count.free += 1;
                count.first.get_or_insert(cpu);
            }
        }
        cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::koordinator::cpu_topology::ReportedCpu;
    use proptest::prelude::*;

    /// A machine whose siblings are adjacent, far apart, or in any order.
    fn any_machine() -> impl Strategy<Value = KoordinatorTopology> {
        let numbering = prop_oneof![Just(0_usize), Just(1), Just(2)];
        (1_usize..3, 1_usize..40, 1_usize..4, 0_u32..70, numbering).prop_map(
            |(nodes, cores, threads, first, numbering)| {
                let all = nodes * cores;
                let row = |at: usize| {
                    let core = match numbering {
                        0 => at / threads,
                        1 => at % all,
                        _ => at * 7 / 2 % all,
                    };
                    let id = |value: usize| i64::try_from(value).expect("small");
                    ReportedCpu {
                        cpu: CpuId::new(first + u32::try_from(at).expect("small")).expect("small"),
                        // Core ids need not ascend with CPU ids.
                        core: id(all - core),
                        node: id(core % nodes),
                        socket: 0,
                    }
                };
                KoordinatorTopology::from_report((0..all * threads).map(row), Fidelity::Sound)
            },
        )
    }

    #[test]
    fn adjacent_siblings_and_siblings_half_a_machine_apart_have_a_fixed_distance() {
        for distance in [1, 4] {
            let row = |cpu: u32| ReportedCpu {
                cpu: CpuId::new(cpu).expect("small"),
                core: i64::from(if distance == 1 { cpu / 2 } else { cpu % 4 }),
                node: 0,
                socket: 0,
            };
            let topology = KoordinatorTopology::from_report((0..8).map(row), Fidelity::Sound);
            assert!(topology.siblings.is_some(), "{distance}");
        }
    }

    proptest! {
        #[test]
        fn bit_operations_equal_counting(
            topology in any_machine(),
            free in proptest::collection::vec(any::<bool>(), 512),
        ) {
            let is_free = |cpu: &CpuId| free[cpu.index()];
            let cpus: CpuSet = topology.all().iter().filter(is_free).collect();
            let counting = KoordinatorTopology { siblings: None, ..topology.clone() };
            for fidelity in [Fidelity::Exact, Fidelity::Sound] {
                prop_assert_eq!(
                    topology.whole_cores(&cpus, fidelity),
                    counting.whole_cores(&cpus, fidelity)
                );
                prop_assert_eq!(
                    topology.in_whole_cores(&cpus, fidelity),
                    counting.in_whole_cores(&cpus, fidelity)
                );
            }
            prop_assert_eq!(topology.one_of_each_core(&cpus), counting.one_of_each_core(&cpus));
        }
    }
}
