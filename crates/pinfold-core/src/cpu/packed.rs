//! [`take_packed`]: CPUs on as few sockets, NUMA nodes, caches and cores as the wish allows.
//!
//! Whole sockets and NUMA nodes first, then (if asked) CPUs of one L3 cache, then whole cores, then
//! single CPUs. Mirrors `takeByTopologyNUMAPacked`.

use super::accumulator::CpuAccumulator;
use super::take::{CpuOrder, TakeError};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;

/// How [`take_packed`] fills what whole sockets and NUMA nodes leave open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackingOptions {
    /// In which order single CPUs are taken.
    pub order: CpuOrder,
    /// Whether to stay inside one L3 cache where that is possible.
    pub align_by_cache: bool,
}

/// Takes `count` CPUs out of `available`.
///
/// # Errors
/// If there are not enough; in exact fidelity also where the original crashes.
pub fn take_packed(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    options: PackingOptions,
    fidelity: Fidelity,
) -> Result<CpuSet, TakeError> {
    let mut pile = CpuAccumulator::new(topology, available, count, options.order, fidelity);
    if pile.is_satisfied() {
        return Ok(pile.taken);
    }
    if pile.is_impossible() {
        return Err(TakeError::NotEnough {
            requested: count,
            available: available.len(),
        });
    }
    pile.take_whole_sockets_and_nodes();
    if options.align_by_cache && !pile.is_satisfied() {
        take_by_cache(&mut pile, fidelity)?;
    }
    if options.order == CpuOrder::Packed && !pile.is_satisfied() {
        pile.take_whole_cores();
    }
    if !pile.is_satisfied() {
        pile.take_single_cpus();
    }
    match pile.is_satisfied() {
        true => Ok(pile.taken),
        false => Err(TakeError::Incomplete),
    }
}

/// Whole caches while the need is at least an average cache, then the rest out of the first cache that
/// can serve it alone. Mirrors `takeUncoreCache`.
///
/// The original looks for whole caches again before every partial one. That never finds more than the
/// first time: the need only falls, so a cache that was too large stays too large.
fn take_by_cache(pile: &mut CpuAccumulator<'_>, fidelity: Fidelity) -> Result<(), TakeError> {
    let caches = pile.caches();
    if pile.needed() >= pile.topology.cpus_per_cache() {
        pile.take_whole_caches();
    }
    for cache in caches {
        if pile.is_satisfied() {
            break;
        }
        take_part_of_cache(pile, cache, fidelity)?;
    }
    Ok(())
}

/// Takes the rest of the need from one cache, or nothing. Mirrors `takePartialUncore`.
///
/// The lowest cores of the cache are considered, as many as the need fills if all of them were wholly
/// available; with an odd need the highest of their CPUs is left out. It must then fit exactly.
fn take_part_of_cache(
    pile: &mut CpuAccumulator<'_>,
    cache: usize,
    fidelity: Fidelity,
) -> Result<(), TakeError> {
    let levels = pile.topology.levels();
    let per_core = match pile.topology.cpus_per_core() {
        0 if fidelity.crashes_where_the_original_does() => return Err(TakeError::Crashes),
        0 => 1,
        some => some,
    };
    let needed = pile.needed();
    let open = levels.cores_in_cache[cache]
        .iter()
        .filter(|core| pile.free.count_of(&core.threads) > 0)
        .take(needed.div_ceil(per_core));
    let threads = open.map(|core| levels.threads_of_core[core.at].as_slice());
    let found: usize = threads
        .clone()
        .map(|threads| pile.free.count_of(threads))
        .sum();
    let one_too_many = found == needed + 1 && !needed.is_multiple_of(2) && per_core > 1;
    if found == needed || one_too_many {
        let mut cpus: CpuSet = threads.flatten().copied().collect();
        cpus &= &pile.free;
        if let (true, Some(highest)) = (one_too_many, cpus.last()) {
            cpus.remove(highest);
        }
        pile.take(&cpus);
    }
    Ok(())
}
