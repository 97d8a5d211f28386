//! Chooses the CPUs of a pod out of the free ones.
//!
//! Mirrors `takePreferredCPUs`, `takeCPUs` and `cpuAccumulator`. In short:
//!
//! 1. `FullPCPUs` (and any machine with one CPU per core): whole free cores of one NUMA node, else of
//!    one socket, else of whole sockets from the emptiest on, then core by core from the fullest.
//! 2. `SpreadByPCPUs`: the CPUs of one NUMA node, else of one socket, first one CPU per core that avoids
//!    the CPUs of exclusive pods, then any.
//! 3. The missing rest: CPU by CPU, near the CPUs taken already.
//!
//! If several NUMA nodes or sockets suffice, `MostAllocated` uses the fullest, any other strategy the emptiest.
//! Everything is counted on bit sets and small tables; time is O(CPUs · log CPUs).
//!
//! Sound mode differs by the switches of [`Fidelity`]: it never takes more than requested, measures each
//! core by its own CPUs, spreads over all cores before it uses siblings, supports `DistributeEvenly`,
//! and falls back from exclusive NUMA nodes to exclusive cores.

use crate::koordinator::KoordinatorDefects;
use smallvec::SmallVec;

use super::cpu_topology::KoordinatorTopology;
use super::held_cpus::HeldCpus;
use super::policy_values::{CpuBinding, ExclusiveLevel, NumaStrategy};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;

mod accumulator;
mod cpu_order;
mod distribute_evenly;

use accumulator::KoordinatorAccumulator;

/// A request to choose CPUs.
#[derive(Clone, Copy, Debug)]
pub struct TakeRequest<'a> {
    /// The machine.
    pub topology: &'a KoordinatorTopology,
    /// How many pods may share one CPU.
    pub max_refs: u32,
    /// The CPUs that may be taken.
    pub available: &'a CpuSet,
    /// The available CPUs to take first.
    pub preferred: &'a CpuSet,
    /// The CPUs that pods hold.
    pub held: &'a HeldCpus,
    /// The number of CPUs to take.
    pub needed: usize,
    /// How they are chosen.
    pub binding: CpuBinding,
    /// What the pod prefers to have exclusively.
    pub exclusive: ExclusiveLevel,
    /// Which NUMA node is used first.
    pub strategy: NumaStrategy,
    /// Whether to repeat Koordinator's defects.
    pub fidelity: Fidelity,
}

/// Why CPUs could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KoordinatorTakeError {
    /// Fewer CPUs are available than needed.
    #[error("not enough cpus available to satisfy request")]
    NotEnough,
    /// No step found enough CPUs.
    #[error("failed to allocate cpus")]
    Failed,
}

impl TakeRequest<'_> {
    /// Takes the CPUs, preferred ones first.
    ///
    /// # Errors
    /// If fewer are available than needed.
    pub fn run(&self) -> Result<CpuSet, KoordinatorTakeError> {
        let preferred = self.available & self.preferred;
        if preferred.is_empty() {
            return self.plain(self.available, self.needed);
        }
        let mut taken = self.plain(&preferred, self.needed.min(preferred.len()))?;
        let missing = self.needed.saturating_sub(taken.len());
        if missing > 0 {
            taken |= &self.plain(&(self.available - &preferred), missing)?;
        }
        Ok(taken)
    }

    fn plain(&self, available: &CpuSet, needed: usize) -> Result<CpuSet, KoordinatorTakeError> {
        if needed == 0 {
            return Ok(CpuSet::new());
        }
        let allocatable = self.topology.all() & available;
        if needed > allocatable.len() {
            return Err(KoordinatorTakeError::NotEnough);
        }
        let evenly = self.strategy == NumaStrategy::DistributeEvenly
            && !self.fidelity.ignores_distribute_evenly();
        match evenly {
            true => distribute_evenly::take(self, &allocatable, needed),
            false => KoordinatorAccumulator::new(self, allocatable, needed).run(),
        }
    }

    /// The levels of exclusivity to try in order, the strictest first and none last.
    fn exclusive_levels(&self) -> SmallVec<[ExclusiveLevel; 3]> {
        match self.exclusive {
            ExclusiveLevel::NumaNode if !self.fidelity.drops_numa_exclusivity() => {
                SmallVec::from_slice(&[
                    ExclusiveLevel::NumaNode,
                    ExclusiveLevel::Core,
                    ExclusiveLevel::Nothing,
                ])
            }
            level => SmallVec::from_slice(&[level, ExclusiveLevel::Nothing]),
        }
    }
}

#[cfg(test)]
mod tests;
