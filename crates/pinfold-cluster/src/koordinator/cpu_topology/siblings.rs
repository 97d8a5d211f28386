//! [`Siblings`]: cores as bits, on machines where all siblings have the same distance.
//!
//! Nearly all machines number the CPUs of a core either consecutively or half the machine apart:
//!
//! ```text
//! cores  {0,4} {1,5} {2,6} {3,7}      first CPUs 0-3, distance 4
//! free    0,4   1     2,6     7
//! whole = first CPUs & free & (free >> 4) = 0,2
//! ```
//!
//! On these machines the free cores are computed with a few bit operations, however many cores there are.

use super::TopologyCore;
use pinfold_core::cpu_set::{CpuId, CpuSet};

/// The numbering of the CPUs of all cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Siblings {
    /// The first CPU of each core, which identifies the core here.
    firsts: CpuSet,
    /// The number of CPUs of each core.
    threads: usize,
    /// The difference between the numbers of two consecutive CPUs of a core.
    distance: usize,
}

impl Siblings {
    /// `None` if cores differ in size or in the distance of their CPUs.
    pub(super) fn of(cores: &[TopologyCore]) -> Option<Self> {
        let model = &cores.first()?.cpus;
        let apart = |pair: &[CpuId]| match pair {
            [low, high] => high.index().checked_sub(low.index()),
            _ => None,
        };
        let distance = match model.len() {
            0 => return None,
            1 => 0,
            _ => apart(&model[..2])?,
        };
        let alike = |core: &TopologyCore| {
            core.cpus.len() == model.len()
                && core
                    .cpus
                    .windows(2)
                    .all(|pair| apart(pair) == Some(distance))
        };
        cores.iter().all(alike).then(|| Self {
            firsts: cores.iter().map(|core| core.cpus[0]).collect(),
            threads: model.len(),
            distance,
        })
    }

    /// The cores of which all CPUs are in `cpus`, by their first CPUs.
    pub(super) fn whole(&self, cpus: &CpuSet) -> CpuSet {
        let mut whole = &self.firsts & cpus;
        for thread in 1..self.threads {
            whole &= &(cpus >> (thread * self.distance));
        }
        whole
    }

    /// All CPUs of the cores with these first CPUs.
    pub(super) fn cpus_of(&self, firsts: &CpuSet) -> CpuSet {
        let mut cpus = firsts.clone();
        for thread in 1..self.threads {
            cpus |= &(firsts << (thread * self.distance));
        }
        cpus
    }

    /// The lowest CPU of each core in `cpus`.
    pub(super) fn lowest(&self, cpus: &CpuSet) -> CpuSet {
        let mut served = &self.firsts & cpus;
        let mut lowest = served.clone();
        for thread in 1..self.threads {
            let distance = thread * self.distance;
            let new = &(&self.firsts & &(cpus >> distance)) - &served;
            lowest |= &(&new << distance);
            served |= &new;
        }
        lowest
    }
}
