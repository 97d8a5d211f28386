//! [`take_packed`]: CPUs on as few sockets, NUMA nodes, caches and cores as possible.
//!
//! Whole sockets and NUMA nodes first, then (with `prefer-align-cpus-by-uncorecache`) CPUs of one L3 cache, then whole
//! cores, then single CPUs. Mirrors `takeByTopologyNUMAPacked`.

use super::accumulator::CpuAccumulator;
use super::take::{CpuSortingStrategy, TakeError};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;

/// How [`take_packed`] chooses CPUs after whole sockets and NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackingOptions {
    /// The order in which single CPUs are taken.
    pub order: CpuSortingStrategy,
    /// Whether to stay inside one L3 cache where possible.
    pub align_by_cache: bool,
}

/// Takes `count` CPUs out of `available`.
///
/// # Errors
/// If there are not enough; in exact fidelity also where the kubelet crashes.
pub fn take_packed(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    options: PackingOptions,
    fidelity: Fidelity,
) -> Result<CpuSet, TakeError> {
    let mut accumulator = CpuAccumulator::new(topology, available, count, options.order, fidelity);
    if accumulator.is_satisfied() {
        return Ok(accumulator.taken);
    }
    if accumulator.is_impossible() {
        return Err(TakeError::NotEnough {
            requested: count,
            available: available.len(),
        });
    }
    accumulator.take_whole_sockets_and_nodes();
    if options.align_by_cache && !accumulator.is_satisfied() {
        take_by_cache(&mut accumulator, fidelity)?;
    }
    if options.order == CpuSortingStrategy::Packed && !accumulator.is_satisfied() {
        accumulator.take_whole_cores();
    }
    if !accumulator.is_satisfied() {
        accumulator.take_single_cpus();
    }
    match accumulator.is_satisfied() {
        true => Ok(accumulator.taken),
        false => Err(TakeError::Incomplete),
    }
}

/// Takes whole caches while at least an average cache is needed, then the rest from the first cache that has enough.
/// Mirrors `takeUncoreCache`.
///
/// The kubelet looks for whole caches again before every partial one. That never finds more than the first time: the
/// need only falls, so a cache that was too large stays too large.
fn take_by_cache(
    accumulator: &mut CpuAccumulator<'_>,
    fidelity: Fidelity,
) -> Result<(), TakeError> {
    let caches = accumulator.caches();
    if accumulator.needed() >= accumulator.topology.cpus_per_cache() {
        accumulator.take_whole_caches();
    }
    for cache in caches {
        if accumulator.is_satisfied() {
            break;
        }
        take_part_of_cache(accumulator, cache, fidelity)?;
    }
    Ok(())
}

/// Takes the rest from one cache, or nothing. Mirrors `takePartialUncore`.
///
/// The lowest cores of the cache are considered, as many as the need fills if all of them were wholly available; with
/// an odd need the highest of their CPUs is left out. The result must fit exactly.
fn take_part_of_cache(
    accumulator: &mut CpuAccumulator<'_>,
    cache: usize,
    fidelity: Fidelity,
) -> Result<(), TakeError> {
    let levels = accumulator.topology.levels();
    let per_core = match accumulator.topology.cpus_per_core() {
        0 if fidelity.crashes_like_the_kubelet() => return Err(TakeError::Crashes),
        0 => 1,
        some => some,
    };
    let needed = accumulator.needed();
    let odd = fidelity.fits_odd_requests_into_caches();
    let cores = match odd {
        true => needed.div_ceil(per_core),
        false => needed / per_core,
    };
    let open = levels.cores_in_cache[cache]
        .iter()
        .filter(|core| accumulator.free.count_of(&core.threads) > 0)
        .take(cores);
    let threads = open.map(|core| levels.threads_of_core[core.at].as_slice());
    let found: usize = threads
        .clone()
        .map(|threads| accumulator.free.count_of(threads))
        .sum();
    let one_too_many = odd && found == needed + 1 && !needed.is_multiple_of(2) && per_core > 1;
    if found == needed || one_too_many {
        let mut cpus: CpuSet = threads.flatten().copied().collect();
        cpus &= &accumulator.free;
        if let (true, Some(highest)) = (one_too_many, cpus.last()) {
            cpus.remove(highest);
        }
        accumulator.take(&cpus);
    }
    Ok(())
}
