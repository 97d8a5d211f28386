//! [`DistributionSearch`]: the most even way to take CPUs from several NUMA nodes.
//!
//! Tries 1, 2, 3, ... nodes and stops at the first number that works. A choice is scored by the standard
//! deviation of the CPUs that all nodes have left, rounded to thousandths; the first of equal choices wins.
//! Mirrors the search inside `takeByTopologyNUMADistributed`.
//!
//! There are up to 3^n choices for n nodes. The search stops after a fixed number of steps: exact fidelity then fails
//! with an error, sound fidelity uses the best choice so far, or else the nodes with the most CPUs
//! ([`DistributionSearch::greedy`]).

use super::accumulator::{CpuAccumulator, Visits};
use super::combinations::{Combinations, Kept};
use super::distributed::DistributionOptions;
use super::take::TakeError;
use crate::fidelity::Fidelity;
use crate::machine::cpus::CpuTopology;

/// The nodes that CPUs are taken from, as indexes in the topology.
pub(super) struct DistributionPlan {
    /// Each provides `share` CPUs.
    pub(super) nodes: Visits,
    pub(super) share: usize,
    /// These provide one more group in turn, until the remainder is zero.
    pub(super) extra: Visits,
    pub(super) remainder: usize,
}

/// The standard deviation of the CPUs left per node, in thousandths of a CPU.
type Balance = u64;

/// The maximum number of steps, one per node of every combination, under exact fidelity: about half a second. All
/// choices of thirteen nodes take fewer.
const EXACT_STEPS: usize = 1 << 24;
/// The maximum number of steps under sound fidelity: some milliseconds. All choices of ten nodes take fewer.
const SOUND_STEPS: usize = 1 << 18;

/// The search for the best nodes to take from.
pub(super) struct DistributionSearch {
    /// Nodes with available CPUs, in the order in which they are tried.
    nodes: Visits,
    /// Available CPUs by the node's index in the topology.
    free: [i64; 64],
    /// The average CPUs left per node afterwards, in thousandths. The same for every choice.
    mean: i64,
    /// The number of distinct nodes.
    distinct: usize,
    count: usize,
    group: usize,
    /// The smallest and the largest number of nodes to try.
    range: (usize, usize),
    /// The index of the one socket that each node is on, if NUMA nodes of one socket are preferred.
    socket_of_node: Option<Vec<Option<usize>>>,
    fidelity: Fidelity,
    steps_left: usize,
}

/// Why the search ended early.
enum Stop {
    /// Out of steps.
    Exhausted,
    /// The kubelet would fail or never return here.
    Failed(TakeError),
}

impl From<TakeError> for Stop {
    fn from(error: TakeError) -> Self {
        Stop::Failed(error)
    }
}

impl DistributionSearch {
    pub(super) fn new(
        accumulator: &CpuAccumulator<'_>,
        count: usize,
        options: DistributionOptions,
        fidelity: Fidelity,
    ) -> Self {
        let group = options.group;
        let topology = accumulator.topology;
        let mut free = [0; 64];
        for (slot, node) in free.iter_mut().zip(topology.nodes()) {
            *slot = signed(accumulator.free.common_len(&node.cpus));
        }
        let mut nodes = accumulator.nodes();
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
            socket_of_node: options.within_sockets.then(|| sockets(topology)),
            fidelity,
            steps_left: match fidelity.loops_like_the_kubelet() {
                true => EXACT_STEPS,
                false => SOUND_STEPS,
            },
        }
    }

    /// The best plan; `None` if CPUs cannot be distributed.
    pub(super) fn best(mut self) -> Result<Option<DistributionPlan>, TakeError> {
        for width in self.range.0..=self.range.1 {
            let mut best = None;
            match self.try_width(width, &mut best) {
                Ok(()) => {}
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Exhausted) if self.fidelity.loops_like_the_kubelet() => {
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
        let share = match self.fidelity.distributes_within_sockets() {
            true => self.capped_share(&nodes),
            false => self.share(nodes.len()),
        };
        DistributionPlan {
            remainder: self.count - share * nodes.len(),
            share,
            nodes,
            extra: best.extra.clone(),
        }
    }

    /// The number of CPUs that each of `width` nodes provides.
    fn share(&self, width: usize) -> usize {
        self.count / width / self.group * self.group
    }

    /// The same, but no more than each of `nodes` has in whole groups.
    fn capped_share(&self, nodes: &[usize]) -> usize {
        let most = |&node: &usize| {
            let free = usize::try_from(self.free[node]).unwrap_or(0);
            free / self.group * self.group
        };
        let least = nodes.iter().map(most).min().unwrap_or(0);
        least.min(self.share(nodes.len()))
    }

    /// The number of CPUs that each of `nodes` provides while combinations are compared.
    fn compared_share(&self, nodes: &[usize]) -> usize {
        match self.socket_of_node {
            Some(_) => self.capped_share(nodes),
            None => self.share(nodes.len()),
        }
    }

    /// Whether sockets matter and all `nodes` are on one.
    fn are_in_one_socket(&self, nodes: &[usize]) -> bool {
        let Some(sockets) = &self.socket_of_node else {
            return false;
        };
        let first = nodes.first().and_then(|&node| sockets[node]);
        first.is_some() && nodes.iter().all(|&node| sockets[node] == first)
    }

    /// Spends the steps for one combination.
    fn spend_steps(&mut self, chosen: &[usize]) -> Result<(), Stop> {
        let left = self.steps_left.checked_sub(chosen.len());
        self.steps_left = left.ok_or(Stop::Exhausted)?;
        Ok(())
    }

    /// Tries every choice of `width` nodes.
    fn try_width(&mut self, width: usize, best: &mut Option<BestDistribution>) -> Result<(), Stop> {
        let mut combinations = Combinations::new(self.nodes.len(), width);
        while let Some(chosen) = combinations.next() {
            self.spend_steps(chosen)?;
            if let Some(best) = best {
                if self.fidelity.shares_combination_storage() {
                    best.nodes.overwrite(chosen);
                }
                if best.balance == 0 && (self.socket_of_node.is_none() || best.in_one_socket) {
                    break;
                }
            }
            let nodes: Visits = chosen.iter().map(|&at| self.nodes[at]).collect();
            let limit = best.as_ref().map_or(Balance::MAX, |best| best.balance);
            let best_in_one = best.as_ref().is_some_and(|best| best.in_one_socket);
            let in_one_socket = self.are_in_one_socket(&nodes);
            if let Some((balance, extra)) = self.try_nodes(&nodes)?
                && match in_one_socket == best_in_one {
                    true => balance < limit,
                    false => in_one_socket,
                }
            {
                *best = Some(BestDistribution {
                    balance,
                    in_one_socket,
                    nodes: Kept::new(chosen),
                    extra,
                });
            }
        }
        Ok(())
    }

    /// The best balance with exactly these `nodes`, and the nodes that then provide the remainder.
    fn try_nodes(&mut self, nodes: &[usize]) -> Result<Option<(Balance, Visits)>, Stop> {
        if !self.can_satisfy(nodes) {
            return Ok(None);
        }
        let share = self.compared_share(nodes);
        let mut left = self.free;
        for &node in nodes {
            left[node] -= signed(share);
        }
        let remainder = self.count - share * nodes.len();
        if remainder == 0 {
            return Ok(Some((
                self.balance(self.squared_deviations(&left)),
                Visits::new(),
            )));
        }
        let group = signed(self.group);
        let candidates: Visits = nodes
            .iter()
            .copied()
            .filter(|&at| left[at] >= group)
            .collect();
        self.try_remainders(&candidates, &left, remainder / self.group)
    }

    /// Whether these distinct nodes have enough CPUs in whole groups and even shares.
    fn can_satisfy(&self, nodes: &[usize]) -> bool {
        let mut seen = 0_u64;
        let mut cpus = 0;
        let mut groups = 0;
        let (group, share) = (signed(self.group), signed(self.compared_share(nodes)));
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

    /// The best way to take `groups` more groups, one at a time in turn, from some of `candidates`. Larger subsets are
    /// tried first and win ties.
    fn try_remainders(
        &mut self,
        candidates: &[usize],
        left: &[i64; 64],
        groups: usize,
    ) -> Result<Option<(Balance, Visits)>, Stop> {
        let squared_deviations = self.squared_deviations(left);
        let mut best: Option<(Balance, Kept)> = None;
        for size in (1..=candidates.len()).rev() {
            let mut combinations = Combinations::new(candidates.len(), size);
            while let Some(chosen) = combinations.next() {
                self.spend_steps(chosen)?;
                if let Some((_, kept)) = &mut best
                    && self.fidelity.shares_combination_storage()
                {
                    kept.overwrite(chosen);
                }
                let circle: Visits = chosen.iter().map(|&at| candidates[at]).collect();
                let Some(given) = self.take_in_turn(&circle, left, groups)? else {
                    continue;
                };
                let balance = self.balance(squared_deviations + given);
                if best.as_ref().is_none_or(|(least, _)| balance < *least) {
                    best = Some((balance, Kept::new(chosen)));
                }
            }
        }
        let named = |(balance, kept): (Balance, Kept)| {
            let extra = kept.positions().iter().map(|&at| candidates[at]).collect();
            (balance, extra)
        };
        Ok(best.map(named))
    }

    /// The increase of the sum of squared deviations when `groups` groups are taken from the subset, one at a time in
    /// turn; `None` if the subset does not have them.
    fn take_in_turn(
        &self,
        circle: &[usize],
        left: &[i64; 64],
        groups: usize,
    ) -> Result<Option<i64>, TakeError> {
        let group = signed(self.group);
        let enough = match self.fidelity.loops_like_the_kubelet() {
            true => circle.iter().map(|&at| left[at]).sum::<i64>() / group,
            false => circle.iter().map(|&at| left[at] / group).sum(),
        };
        if enough < signed(groups) {
            return Ok(None);
        }
        let mut left = *left;
        let mut change = 0;
        let mut groups_left = groups;
        while groups_left > 0 {
            let before = groups_left;
            for &at in circle {
                if groups_left > 0 && left[at] >= group {
                    change -= self.deviation(left[at]);
                    left[at] -= group;
                    change += self.deviation(left[at]);
                    groups_left -= 1;
                }
            }
            if groups_left == before {
                return Err(TakeError::NeverReturns);
            }
        }
        Ok(Some(change))
    }

    /// The squared deviation of one node from the mean, in millionths.
    fn deviation(&self, cpus: i64) -> i64 {
        let distance = cpus * 1000 - self.mean;
        distance * distance
    }

    /// The sum of squared deviations from the mean.
    fn squared_deviations(&self, left: &[i64; 64]) -> i64 {
        let involved = self.free.iter().zip(left).filter(|&(&free, _)| free > 0);
        involved.map(|(_, &left)| self.deviation(left)).sum()
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sums stay below 2^50: 64 nodes of at most 4096 CPUs"
    )]
    fn balance(&self, squared_deviations: i64) -> Balance {
        (squared_deviations as f64 / self.distinct as f64)
            .sqrt()
            .round() as Balance
    }

    /// A good choice without a search: the `width` nodes with the most CPUs, and for the remainder always the one with
    /// the most left.
    fn greedy(&self, width: usize) -> Option<DistributionPlan> {
        let mut nodes = self.nodes.clone();
        nodes.sort_by_key(|&at| std::cmp::Reverse(self.free[at]));
        nodes.truncate(width);
        if nodes.len() < width || !self.can_satisfy(&nodes) {
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
    /// Whether the nodes are on one socket; false if sockets do not matter.
    in_one_socket: bool,
    nodes: Kept,
    extra: Visits,
}

/// The smallest and the largest number of nodes that may be needed. Mirrors `rangeNUMANodesNeededToSatisfy`.
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

/// By NUMA node the index of its socket; `None` for a node on several sockets.
fn sockets(topology: &CpuTopology) -> Vec<Option<usize>> {
    let mut found = vec![None; topology.nodes().len()];
    let mut seen = vec![false; topology.nodes().len()];
    for (socket, nodes) in topology.levels().nodes_in_socket.iter().enumerate() {
        for node in nodes {
            found[node.at] = (!seen[node.at]).then_some(socket);
            seen[node.at] = true;
        }
    }
    found
}

/// `sum / n` in thousandths, rounded half away from zero as the kubelet does.
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
