//! [`take_distributed`]: CPUs spread evenly over the NUMA nodes that are needed.
//!
//! The fewest nodes that can serve the wish each give the same number of CPUs, in groups of a given
//! size. What does not divide evenly goes, group by group, to some of these nodes. Of all choices of
//! that many nodes and of nodes for the remainder, the one counts that leaves all nodes most alike: the
//! smallest standard deviation of the CPUs left. If no choice works, CPUs are packed. Mirrors
//! `takeByTopologyNUMADistributed`.

use super::accumulator::CpuAccumulator;
use super::distribution::{DistributionPlan, DistributionSearch};
use super::packed::{PackingOptions, take_packed};
use super::take::{CpuOrder, TakeError};
use crate::cpu_set::CpuSet;
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;

/// Takes `count` CPUs out of `available`, spread over NUMA nodes in groups of `group` CPUs.
///
/// # Errors
/// If there are not enough; in exact fidelity also where the original does not return or fails.
pub fn take_distributed(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    group: usize,
    order: CpuOrder,
    fidelity: Fidelity,
) -> Result<CpuSet, TakeError> {
    let group = match group {
        0 if fidelity.crashes_where_the_original_does() => return Err(TakeError::Crashes),
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
    let mut pile = CpuAccumulator::new(topology, available, count, order, fidelity);
    if pile.is_satisfied() {
        return Ok(pile.taken);
    }
    if pile.is_impossible() {
        return Err(TakeError::NotEnough {
            requested: count,
            available: available.len(),
        });
    }
    match DistributionSearch::new(&pile, count, group, fidelity).best()? {
        Some(plan) => {
            carry_out(&mut pile, &plan, group, packing, fidelity)?;
            match (pile.needed(), pile.surplus()) {
                (0, 0) => Ok(pile.taken),
                (0, surplus) => Err(TakeError::TookTooMany { surplus }),
                (missing, _) => Err(TakeError::TookTooFew { missing }),
            }
        }
        None => take_packed(topology, available, count, packing, fidelity),
    }
}

/// Takes what the plan says.
fn carry_out(
    pile: &mut CpuAccumulator<'_>,
    plan: &DistributionPlan,
    group: usize,
    packing: PackingOptions,
    fidelity: Fidelity,
) -> Result<(), TakeError> {
    let topology = pile.topology;
    let take_on = |pile: &mut CpuAccumulator<'_>, node: usize, count: usize| {
        let here = &topology.nodes()[node].cpus & &pile.free;
        // A node of an overwritten combination may have too few; the original then takes none there.
        let cpus = take_packed(topology, &here, count, packing, fidelity).unwrap_or_default();
        pile.take(&cpus);
    };
    for &node in &plan.nodes {
        take_on(pile, node, plan.share);
    }
    let mut left = plan.remainder;
    while left > 0 {
        let before = left;
        for &node in &plan.extra {
            if left > 0 && pile.free.common_len(&topology.nodes()[node].cpus) >= group {
                take_on(pile, node, group);
                left -= group;
            }
        }
        if left == before {
            return Err(TakeError::NeverReturns);
        }
    }
    Ok(())
}
