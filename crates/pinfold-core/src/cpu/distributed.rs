//! [`take_distributed`]: CPUs spread evenly over the NUMA nodes that are needed.
//!
//! The fewest nodes that can satisfy the request each provide the same number of CPUs, in groups of a given size. The
//! remainder is taken, group by group, from some of these nodes. Of all choices of that many nodes and of nodes for the
//! remainder, the one with the smallest standard deviation of the CPUs left is used. If no choice works, CPUs are
//! packed. Mirrors `takeByTopologyNUMADistributed`.

use super::accumulator::CpuAccumulator;
use super::distribution::{DistributionPlan, DistributionSearch};
use super::packed::{PackingOptions, take_packed};
use super::take::{CpuSortingStrategy, TakeError};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;

/// How [`take_distributed`] chooses CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributionOptions {
    /// The number of CPUs that are taken together.
    pub group: usize,
    /// The order in which single CPUs are taken.
    pub order: CpuSortingStrategy,
    /// Whether NUMA nodes of one socket are preferred to more even ones of several.
    pub within_sockets: bool,
}

impl DistributionOptions {
    /// Groups of `group` CPUs, without regard to sockets.
    #[must_use]
    pub fn groups_of(group: usize) -> Self {
        Self {
            group,
            order: CpuSortingStrategy::Packed,
            within_sockets: false,
        }
    }
}

/// Takes `count` CPUs out of `available`, spread over NUMA nodes in groups of CPUs.
///
/// # Errors
/// If there are not enough; in exact fidelity also where the kubelet does not return or fails.
pub fn take_distributed(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    options: DistributionOptions,
    fidelity: Fidelity,
) -> Result<CpuSet, TakeError> {
    let order = options.order;
    let group = match options.group {
        0 if fidelity.crashes_like_the_kubelet() => return Err(TakeError::Crashes),
        0 => 1,
        some => some,
    };
    let packing = PackingOptions {
        order,
        align_by_cache: false,
    };
    if !count.is_multiple_of(group) {
        return take_packed(topology, available, count, packing, fidelity);
    }
    let mut accumulator = CpuAccumulator::new(topology, available, count, order, fidelity);
    if accumulator.is_satisfied() {
        return Ok(accumulator.taken);
    }
    if accumulator.is_impossible() {
        return Err(TakeError::NotEnough {
            requested: count,
            available: available.len(),
        });
    }
    let options = DistributionOptions { group, ..options };
    match DistributionSearch::new(&accumulator, count, options, fidelity).best()? {
        Some(plan) => {
            take_plan(&mut accumulator, &plan, group, packing, fidelity)?;
            match (accumulator.needed(), accumulator.surplus()) {
                (0, 0) => Ok(accumulator.taken),
                (0, surplus) => Err(TakeError::TookTooMany { surplus }),
                (missing, _) => Err(TakeError::TookTooFew { missing }),
            }
        }
        None => take_packed(topology, available, count, packing, fidelity),
    }
}

/// Takes the CPUs of a plan.
fn take_plan(
    accumulator: &mut CpuAccumulator<'_>,
    plan: &DistributionPlan,
    group: usize,
    packing: PackingOptions,
    fidelity: Fidelity,
) -> Result<(), TakeError> {
    let topology = accumulator.topology;
    let take_on = |accumulator: &mut CpuAccumulator<'_>, node: usize, count: usize| {
        let here = &topology.nodes()[node].cpus & &accumulator.free;
        // A node of an overwritten combination may have too few CPUs; the kubelet then takes none there.
        let cpus = take_packed(topology, &here, count, packing, fidelity).unwrap_or_default();
        accumulator.take(&cpus);
    };
    for &node in &plan.nodes {
        take_on(accumulator, node, plan.share);
    }
    let mut left = plan.remainder;
    while left > 0 {
        let before = left;
        for &node in &plan.extra {
            if left > 0 && accumulator.free.common_len(&topology.nodes()[node].cpus) >= group {
                take_on(accumulator, node, group);
                left -= group;
            }
        }
        if left == before {
            return Err(TakeError::NeverReturns);
        }
    }
    Ok(())
}
