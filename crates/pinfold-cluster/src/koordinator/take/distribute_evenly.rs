//! `DistributeEvenly`: the same number of CPUs from every NUMA node, as far as they are free.

use smallvec::SmallVec;

use super::accumulator::KoordinatorAccumulator;
use super::{KoordinatorTakeError, TakeRequest};
use crate::koordinator::policy_values::{CpuBinding, NumaStrategy};
use pinfold_core::cpu_set::CpuSet;

/// Splits `needed` over the NUMA nodes and takes each part separately.
///
/// Shares grow one unit at a time on the NUMA node with the smallest share (the lowest id among equals)
/// that has CPUs left. A unit is a whole free core for `FullPCPUs` as long as one fits, else one CPU.
pub(super) fn take(
    take: &TakeRequest<'_>,
    allocatable: &CpuSet,
    needed: usize,
) -> Result<CpuSet, KoordinatorTakeError> {
    let nodes: SmallVec<[CpuSet; 8]> = take
        .topology
        .nodes
        .iter()
        .map(|node| allocatable & &node.cpus)
        .collect();
    let mut shares: SmallVec<[usize; 8]> = SmallVec::from_elem(0, nodes.len());
    let mut missing = needed;
    if take.binding == CpuBinding::FullPcpus {
        let mut cores: SmallVec<[Vec<usize>; 8]> =
            nodes.iter().map(|node| whole_cores(take, node)).collect();
        while let Some(node) = (0..nodes.len())
            .filter(|&node| cores[node].last().is_some_and(|&size| size <= missing))
            .min_by_key(|&node| (shares[node], node))
        {
            let size = cores[node].pop().unwrap_or(0);
            shares[node] += size;
            missing -= size;
        }
    }
    while missing > 0 {
        let node = (0..nodes.len())
            .filter(|&node| shares[node] < nodes[node].len())
            .min_by_key(|&node| (shares[node], node))
            .ok_or(KoordinatorTakeError::NotEnough)?;
        shares[node] += 1;
        missing -= 1;
    }
    let part = TakeRequest {
        strategy: NumaStrategy::LeastAllocated,
        ..*take
    };
    let mut taken = CpuSet::new();
    for (node, share) in nodes
        .into_iter()
        .zip(shares)
        .filter(|(_, share)| *share > 0)
    {
        taken |= &KoordinatorAccumulator::new(&part, node, share).run()?;
    }
    Ok(taken)
}

/// The sizes of the cores that are free as a whole, the smallest last.
fn whole_cores(take: &TakeRequest<'_>, free: &CpuSet) -> Vec<usize> {
    let cores = take.topology.cores.iter();
    let mut sizes: Vec<usize> = cores
        .filter(|core| core.cpus.iter().all(|&cpu| free.contains(cpu)))
        .map(|core| core.cpus.len())
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}
