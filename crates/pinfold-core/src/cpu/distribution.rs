//! [`DistributionSearch`]: the most even way to take CPUs from several NUMA nodes.
//!
//! Tries 1, 2, 3, ... nodes and stops at the first number that works. A choice is scored by the standard
//! deviation of the CPUs that all nodes have left, rounded to thousandths; the first of equal choices wins.
//! Mirrors the search inside `takeByTopologyNUMADistributed`.
//!
//! There are up to 3^n choices for n nodes. The search stops after a fixed number of steps: exact fidelity
//! then says that it cannot tell, sound fidelity takes the best choice so far, or else the nodes with the
//! most CPUs ([`DistributionSearch::greedy`]).

use super::accumulator::{CpuAccumulator, Visits};
use super::combinations::{Combinations, Kept};
use super::take::TakeError;
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;

/// Which nodes give, as positions in the topology.
pub(super) struct DistributionPlan {
    /// Each gives `share` CPUs.
    pub(super) nodes: Visits,
    pub(super) share: usize,
    /// These give one group more in turn, until the remainder is gone.
    pub(super) extra: Visits,
    pub(super) remainder: usize,
}

/// How unlike the nodes are left: the standard deviation in thousandths of a CPU.
type Balance = u64;

/// Steps, one per node of every combination looked at, before a prediction of the original gives up:
/// about half a second. All choices of thirteen nodes take fewer.
const EXACT_STEPS: usize = 1 << 24;
/// Steps before a good choice is good enough: some milliseconds. All choices of ten nodes take fewer.
const SOUND_STEPS: usize = 1 << 18;

/// The search for the best nodes to take from.
pub(super) struct DistributionSearch {
    /// Nodes with available CPUs, in the order in which they are tried.
    nodes: Visits,
    /// Available CPUs by the node's position in the topology.
    free: [i64; 64],
    /// The average CPUs left per node afterwards, in thousandths. The same for every choice.
    mean: i64,
    /// How many different nodes there are.
    distinct: usize,
    count: usize,
    group: usize,
    /// The least and the largest number of nodes to try.
    range: (usize, usize),
    fidelity: Fidelity,
    steps_left: usize,
}

/// Why the search ended early.
enum Stop {
    /// Out of steps.
    Exhausted,
    /// Where the original does not end either.
    Failed(TakeError),
}

impl From<TakeError> for Stop {
    fn from(error: TakeError) -> Self {
        Stop::Failed(error)
    }
}

impl DistributionSearch {
    pub(super) fn new(
        pile: &CpuAccumulator<'_>,
        count: usize,
        group: usize,
        fidelity: Fidelity,
    ) -> Self {
        let topology = pile.topology;
        let mut free = [0; 64];
        for (slot, node) in free.iter_mut().zip(topology.nodes()) {
            *slot = signed(pile.free.common_len(&node.cpus));
        }
        let mut nodes = pile.nodes();
        if !fidelity.counts_repeated_groups() {
            let mut seen = 0_u64;
            nodes.retain(|&mut at| {
                let new = seen >> at & 1 == 0;
                seen |= 1 << at;
                new
            });
        }
        let distinct = free.iter().filter(|&&cpus| cpus > 0).count();
        let left = free.iter().sum::<i64>() - signed(count);
        Self {
            nodes,
            free,
            mean: thousandths(left, distinct),
            distinct,
            count,
            group,
            range: nodes_needed(topology, distinct, count, group),
            fidelity,
            steps_left: match fidelity.loops_where_the_original_does() {
                true => EXACT_STEPS,
                false => SOUND_STEPS,
            },
        }
    }

    /// The best plan, or none if CPUs cannot be distributed.
    pub(super) fn best(mut self) -> Result<Option<DistributionPlan>, TakeError> {
        for width in self.range.0..=self.range.1 {
            let mut best = None;
            match self.try_width(width, &mut best) {
                Ok(()) => {}
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Exhausted) if self.fidelity.loops_where_the_original_does() => {
                    return Err(TakeError::TooManyCombinations { steps: EXACT_STEPS });
                }
                Err(Stop::Exhausted) if best.is_none() => {
                    return Ok((width..=self.range.1).find_map(|width| self.greedy(width)));
                }
                Err(Stop::Exhausted) => {}
            }
            if let Some(best) = best {
                return Ok(Some(self.plan(&best)));
            }
        }
        Ok(None)
    }

    fn plan(&self, best: &BestDistribution) -> DistributionPlan {
        let node = |&position: &usize| self.nodes[position];
        let nodes: Visits = best.nodes.positions().iter().map(node).collect();
        let share = self.share(nodes.len());
        DistributionPlan {
            remainder: self.count - share * nodes.len(),
            share,
            nodes,
            extra: best.extra.clone(),
        }
    }

    /// What each of `width` nodes gives.
    fn share(&self, width: usize) -> usize {
        self.count / width / self.group * self.group
    }

    /// Pays for looking at one combination.
    fn look_at(&mut self, chosen: &[usize]) -> Result<(), Stop> {
        let left = self.steps_left.checked_sub(chosen.len());
        self.steps_left = left.ok_or(Stop::Exhausted)?;
        Ok(())
    }

    /// Looks at every choice of `width` nodes.
    fn try_width(&mut self, width: usize, best: &mut Option<BestDistribution>) -> Result<(), Stop> {
        let mut combinations = Combinations::new(self.nodes.len(), width);
        while let Some(chosen) = combinations.next() {
            self.look_at(chosen)?;
            if let Some(best) = best {
                if self.fidelity.shares_combination_storage() {
                    best.nodes.overwrite(chosen);
                }
                if best.balance == 0 {
                    break;
                }
            }
            let nodes: Visits = chosen.iter().map(|&at| self.nodes[at]).collect();
            let limit = best.as_ref().map_or(Balance::MAX, |best| best.balance);
            if let Some((balance, extra)) = self.try_nodes(&nodes)?
                && balance < limit
            {
                *best = Some(BestDistribution {
                    balance,
                    nodes: Kept::new(chosen),
                    extra,
                });
            }
        }
        Ok(())
    }

    /// The best balance when exactly `nodes` give, and who then gives the remainder.
    fn try_nodes(&mut self, nodes: &[usize]) -> Result<Option<(Balance, Visits)>, Stop> {
        if !self.can_serve(nodes) {
            return Ok(None);
        }
        let share = self.share(nodes.len());
        let mut left = self.free;
        for &node in nodes {
            left[node] -= signed(share);
        }
        let remainder = self.count - share * nodes.len();
        if remainder == 0 {
            return Ok(Some((self.balance(self.unlikeness(&left)), Visits::new())));
        }
        let group = signed(self.group);
        let givers: Visits = nodes
            .iter()
            .copied()
            .filter(|&at| left[at] >= group)
            .collect();
        self.try_remainders(&givers, &left, remainder / self.group)
    }

    /// Whether these distinct nodes have the CPUs, the whole groups and the even shares.
    fn can_serve(&self, nodes: &[usize]) -> bool {
        let mut seen = 0_u64;
        let mut cpus = 0;
        let mut groups = 0;
        let (group, share) = (signed(self.group), signed(self.share(nodes.len())));
        for &node in nodes {
            if self.free[node] < share {
                return false;
            }
            if seen >> node & 1 == 0 {
                seen |= 1 << node;
                cpus += self.free[node];
            }
            groups += self.free[node] / group;
        }
        cpus >= signed(self.count) && groups * group >= signed(self.count)
    }

    /// The best way to give `groups` groups more, one at a time in turn, by some of `givers`. Larger
    /// circles of givers are tried first and win ties.
    fn try_remainders(
        &mut self,
        givers: &[usize],
        left: &[i64; 64],
        groups: usize,
    ) -> Result<Option<(Balance, Visits)>, Stop> {
        let unlikeness = self.unlikeness(left);
        let mut best: Option<(Balance, Kept)> = None;
        for size in (1..=givers.len()).rev() {
            let mut combinations = Combinations::new(givers.len(), size);
            while let Some(chosen) = combinations.next() {
                self.look_at(chosen)?;
                if let Some((_, kept)) = &mut best
                    && self.fidelity.shares_combination_storage()
                {
                    kept.overwrite(chosen);
                }
                let circle: Visits = chosen.iter().map(|&at| givers[at]).collect();
                let Some(given) = self.give_in_turn(&circle, left, groups)? else {
                    continue;
                };
                let balance = self.balance(unlikeness + given);
                if best.as_ref().is_none_or(|(least, _)| balance < *least) {
                    best = Some((balance, Kept::new(chosen)));
                }
            }
        }
        let named = |(balance, kept): (Balance, Kept)| {
            let extra = kept.positions().iter().map(|&at| givers[at]).collect();
            (balance, extra)
        };
        Ok(best.map(named))
    }

    /// By how much the unlikeness grows when the circle gives `groups` groups, one at a time in turn;
    /// `None` if it does not have them.
    fn give_in_turn(
        &self,
        circle: &[usize],
        left: &[i64; 64],
        groups: usize,
    ) -> Result<Option<i64>, TakeError> {
        let group = signed(self.group);
        let enough = match self.fidelity.loops_where_the_original_does() {
            true => circle.iter().map(|&at| left[at]).sum::<i64>() / group,
            false => circle.iter().map(|&at| left[at] / group).sum(),
        };
        if enough < signed(groups) {
            return Ok(None);
        }
        let mut left = *left;
        let mut change = 0;
        let mut to_give = groups;
        while to_give > 0 {
            let before = to_give;
            for &at in circle {
                if to_give > 0 && left[at] >= group {
                    change -= self.deviation(left[at]);
                    left[at] -= group;
                    change += self.deviation(left[at]);
                    to_give -= 1;
                }
            }
            if to_give == before {
                return Err(TakeError::NeverReturns);
            }
        }
        Ok(Some(change))
    }

    /// The squared distance of one node from the mean, in millionths.
    fn deviation(&self, cpus: i64) -> i64 {
        let distance = cpus * 1000 - self.mean;
        distance * distance
    }

    /// The sum of squared distances from the mean.
    fn unlikeness(&self, left: &[i64; 64]) -> i64 {
        let involved = self.free.iter().zip(left).filter(|&(&free, _)| free > 0);
        involved.map(|(_, &left)| self.deviation(left)).sum()
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sums stay below 2^50: 64 nodes of at most 4096 CPUs"
    )]
    fn balance(&self, unlikeness: i64) -> Balance {
        (unlikeness as f64 / self.distinct as f64).sqrt().round() as Balance
    }

    /// A good choice without a search: the `width` nodes with the most CPUs, and for the remainder
    /// always the one that has the most left.
    fn greedy(&self, width: usize) -> Option<DistributionPlan> {
        let mut nodes = self.nodes.clone();
        nodes.sort_by_key(|&at| std::cmp::Reverse(self.free[at]));
        nodes.truncate(width);
        if nodes.len() < width || !self.can_serve(&nodes) {
            return None;
        }
        let share = self.share(width);
        let mut left = self.free;
        for &node in &nodes {
            left[node] -= signed(share);
        }
        let remainder = self.count - share * width;
        let mut extra = Visits::new();
        for _ in 0..remainder / self.group {
            let most = *nodes.iter().max_by_key(|&&at| left[at])?;
            left[most] -= signed(self.group);
            extra.push(most);
        }
        Some(DistributionPlan {
            nodes,
            share,
            extra,
            remainder,
        })
    }
}

/// The best choice so far.
struct BestDistribution {
    balance: Balance,
    nodes: Kept,
    extra: Visits,
}

/// How many nodes could be needed, at least and at most. Mirrors `rangeNUMANodesNeededToSatisfy`.
fn nodes_needed(
    topology: &CpuTopology,
    nodes_available: usize,
    count: usize,
    group: usize,
) -> (usize, usize) {
    let groups = topology.all().len().div_ceil(group);
    let groups_per_node = groups.div_ceil(topology.num_nodes().max(1)).max(1);
    let needed = count.div_ceil(group);
    (
        needed.div_ceil(groups_per_node),
        needed.min(nodes_available),
    )
}

/// `sum / n` in thousandths, rounded half away from zero as the original does.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "CPU counts stay below 2^20"
)]
fn thousandths(sum: i64, n: usize) -> i64 {
    (sum as f64 / n as f64 * 1000.0).round() as i64
}

/// CPU counts are far below 2^63.
fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
