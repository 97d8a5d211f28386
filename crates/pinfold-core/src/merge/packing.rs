//! [`Bins`]: which nodes can be dropped from a choice of one part per resource?
//!
//! Choose one part per resource and let W be the nodes that all their universes have in common. A non-empty S inside W
//! is the AND of one mask per part **iff the nodes of W outside S can be distributed to the parts so that each part's
//! universe without its share is still a resource**: the AND of those members is S; and given any members with AND S,
//! each node outside S is missing from one of them, and as parts are up-closed, that part's universe without just its
//! share is a resource too. So "is S reachable?" is a packing problem: parts are bins, their surplus is the room in them.
//! Nodes of a universe outside W are never dropped; they always help.
//!
//! It follows that every set between S and W is reachable if S is: distribute fewer nodes.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use super::problem::{MergeProblem, PartId};
use crate::cover::{Budget, PreparedThreshold, share};
use crate::node_set::{NodeId, NodeSet};

/// The parts that can do without some nodes of W.
pub(super) struct Bins<'s> {
    /// W: the nodes that all parts have in common.
    pub(super) within: NodeSet,
    bins: SmallVec<[Bin<'s>; 8]>,
    groups: usize,
    /// Nodes that some bin drops at no cost.
    free: NodeSet,
    /// Nodes that no bin can drop.
    stuck: NodeSet,
    /// The load before any node is dropped.
    empty: Load,
    /// Masks of single bins with few nodes: all of W outside one of them can be dropped.
    pub(super) known: SmallVec<[NodeSet; 8]>,
}

struct Bin<'s> {
    part: PartId,
    universe: NodeSet,
    /// The nodes that it can drop, each by itself.
    droppable: NodeSet,
    thresholds: &'s [PreparedThreshold],
    /// The index of its first surplus in a [`Load`].
    first: usize,
    /// For each threshold without groups: the nodes it can drop, heaviest first.
    heaviest: SmallVec<[SmallVec<[NodeId; 64]>; 2]>,
}

/// The nodes that each bin has dropped so far.
#[derive(Clone)]
struct Load {
    dropped: SmallVec<[NodeSet; 8]>,
    /// The value above the need, by bin and threshold.
    surplus: SmallVec<[u64; 12]>,
}

/// Drop all of `must` and at least `count` of `optional`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PackingTask {
    must: NodeSet,
    optional: NodeSet,
    count: usize,
}

/// The maximum number of failures that one search remembers.
const MAX_FAILURES: usize = 64;
/// Tolerance for rounding in the bound by shares.
const TOLERANCE: f64 = 1e-6;

impl<'s> Bins<'s> {
    pub(super) fn new(problem: &'s MergeProblem<'_>, within: NodeSet, parts: &[PartId]) -> Self {
        let mut all = Self {
            within,
            bins: SmallVec::new(),
            groups: 0,
            free: NodeSet::EMPTY,
            stuck: within,
            empty: Load {
                dropped: SmallVec::new(),
                surplus: SmallVec::new(),
            },
            known: SmallVec::new(),
        };
        let mut first = 0;
        for &id in parts {
            let part = problem.part(id);
            let thresholds = problem.thresholds(part);
            let whole = part.universe;
            let surplus: SmallVec<[u64; 2]> = thresholds
                .iter()
                .map(|prepared| prepared.value(whole).saturating_sub(prepared.need))
                .collect();
            let fits = |node: &NodeId| {
                let mut costs = thresholds.iter().zip(&surplus);
                costs.all(|(prepared, &room)| prepared.loss(whole, *node) <= room)
            };
            let droppable: NodeSet = (within - part.forced).iter().filter(fits).collect();
            if droppable.is_empty() {
                continue;
            }
            let costs_nothing =
                |node: &NodeId| thresholds.iter().all(|prepared| prepared.ignores(*node));
            let free: NodeSet = droppable.iter().filter(costs_nothing).collect();
            all.free = all.free | free;
            all.stuck = all.stuck - droppable;
            all.known.push(part.narrow.mask);
            all.bins.push(Bin {
                part: id,
                universe: part.universe,
                droppable,
                thresholds,
                first,
                heaviest: thresholds
                    .iter()
                    .map(|prepared| heaviest_first(prepared, droppable))
                    .collect(),
            });
            first += thresholds.len();
            all.groups += thresholds
                .iter()
                .map(|prepared| prepared.groups().len())
                .sum::<usize>();
            all.empty.dropped.push(NodeSet::EMPTY);
            all.empty.surplus.extend(surplus);
        }
        all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    /// Whether two nodes of W are interchangeable for all bins.
    pub(super) fn treat_alike(&self, x: NodeId, y: NodeId) -> bool {
        self.bins.iter().all(|bin| {
            bin.droppable.contains(x) == bin.droppable.contains(y)
                && bin
                    .thresholds
                    .iter()
                    .all(|prepared| prepared.treats_alike(x, y))
        })
    }

    /// Nodes that can be dropped together, with all of `must` and at least `count` of `optional` among them. `None` if
    /// there are none or the budget ran out.
    pub(super) fn can_drop(
        &self,
        must: NodeSet,
        optional: NodeSet,
        count: usize,
        budget: &mut Budget,
    ) -> Option<NodeSet> {
        let at_no_cost = (must | optional) & self.free;
        let optional = optional - self.stuck;
        let task = PackingTask {
            must: must - self.free,
            optional: optional - self.free,
            count: count.saturating_sub((optional & self.free).len()),
        };
        if must.intersects(self.stuck) || task.optional.len() < task.count {
            return None;
        }
        if task.must.is_empty() && task.count == 0 {
            return Some(at_no_cost);
        }
        let mut packing = PackingSearch {
            bins: &self.bins,
            groups: self.groups,
            failed: Vec::new(),
            budget,
        };
        let dropped = packing.solve(&self.empty, task)?;
        Some(dropped | at_no_cost)
    }
}

fn heaviest_first(prepared: &PreparedThreshold, nodes: NodeSet) -> SmallVec<[NodeId; 64]> {
    let mut sorted: SmallVec<[NodeId; 64]> = SmallVec::new();
    if !prepared.has_groups() {
        sorted.extend(nodes);
        sorted.sort_by_key(|&node| std::cmp::Reverse(prepared.weight(node)));
    }
    sorted
}

impl Load {
    fn surplus<'l>(&'l self, bin: &Bin<'_>) -> &'l [u64] {
        &self.surplus[bin.first..][..bin.thresholds.len()]
    }

    /// Whether bin `index` can drop one more node.
    fn fits(&self, bins: &[Bin<'_>], index: usize, node: NodeId) -> bool {
        let bin = &bins[index];
        let kept = bin.universe - self.dropped[index];
        let mut costs = bin.thresholds.iter().zip(self.surplus(bin));
        bin.droppable.contains(node)
            && costs.all(|(prepared, &room)| prepared.loss(kept, node) <= room)
    }

    /// Drops `node`, which fits, from bin `index`.
    fn drop(&mut self, bins: &[Bin<'_>], index: usize, node: NodeId) {
        let bin = &bins[index];
        let kept = bin.universe - self.dropped[index];
        for (offset, prepared) in bin.thresholds.iter().enumerate() {
            let room = &mut self.surplus[bin.first + offset];
            *room = room.saturating_sub(prepared.loss(kept, node));
        }
        self.dropped[index].insert(node);
    }

    /// Whether everything that fits on top of `other` fits on top of this load.
    fn has_at_least_the_room_of(&self, other: &Load, bins: &[Bin<'_>]) -> bool {
        bins.iter().enumerate().all(|(index, bin)| {
            if bin.thresholds.iter().any(PreparedThreshold::has_groups) {
                return self.dropped[index].is_subset(other.dropped[index]);
            }
            let rooms = self.surplus(bin).iter().zip(other.surplus(bin));
            rooms.into_iter().all(|(mine, theirs)| mine >= theirs)
        })
    }
}

impl Bin<'_> {
    /// A large part of `task` that this bin alone can drop on top of its load: all of `must`, and as much of `optional`
    /// as it can; the maximum with one laminar threshold. `None` if it cannot drop all of `must`.
    fn alone(&self, dropped: NodeSet, surplus: &[u64], task: PackingTask) -> Option<NodeSet> {
        if !task.must.is_subset(self.droppable) {
            return None;
        }
        let mut out = task.must | task.optional & self.droppable;
        for ((prepared, heaviest), &room) in self.thresholds.iter().zip(&self.heaviest).zip(surplus)
        {
            if prepared.has_groups() {
                let kept = self.universe - dropped - out;
                out = out - prepared.greedy(kept, out - task.must)?;
            } else {
                let total: u64 = out.iter().map(|node| prepared.weight(node)).sum();
                let mut excess = total.saturating_sub(room);
                let mut back = heaviest
                    .iter()
                    .filter(|&&node| task.optional.contains(node));
                while excess > 0 {
                    let &node = back.next()?;
                    if out.contains(node) {
                        out.remove(node);
                        excess = excess.saturating_sub(prepared.weight(node));
                    }
                }
            }
        }
        Some(out)
    }

    /// An upper bound for how many of `nodes` it can drop on top of its load.
    fn most(&self, dropped: NodeSet, surplus: &[u64], nodes: NodeSet) -> usize {
        let nodes = nodes & self.droppable;
        let mut most = nodes.len();
        for ((prepared, heaviest), &room) in self.thresholds.iter().zip(&self.heaviest).zip(surplus)
        {
            let back = if prepared.has_groups() {
                let kept = self.universe - dropped - nodes;
                prepared
                    .fewest_to_add(kept, nodes)
                    .map_or(nodes.len(), NodeSet::len)
            } else {
                let total: u64 = nodes.iter().map(|node| prepared.weight(node)).sum();
                let mut excess = total.saturating_sub(room);
                let mut back = 0;
                for &node in heaviest.iter().filter(|&&node| nodes.contains(node)) {
                    if excess == 0 {
                        break;
                    }
                    excess = excess.saturating_sub(prepared.weight(node));
                    back += 1;
                }
                back
            };
            most = most.min(nodes.len() - back);
        }
        most
    }

    /// Whether [`Bin::alone`] is exact.
    fn is_simple(&self) -> bool {
        match self.thresholds {
            [] => true,
            [prepared] => prepared.is_laminar(),
            _ => false,
        }
    }

    /// The share of its room that a node takes, averaged over its thresholds and without groups. The shares of the
    /// nodes that a bin drops add up to at most 1.
    fn share(&self, surplus: &[u64], node: NodeId) -> f64 {
        let mut sum = 0.0;
        for (prepared, &room) in self.thresholds.iter().zip(surplus) {
            let weight = prepared.weight(node);
            if weight > room {
                return f64::INFINITY;
            }
            sum += share(weight, room);
        }
        sum / share(self.thresholds.len().max(1) as u64, 1)
    }
}

/// The state of one packing search.
struct PackingSearch<'p, 's> {
    bins: &'p [Bin<'s>],
    /// The number of groups, which make a step more expensive.
    groups: usize,
    failed: Vec<(PackingTask, Load)>,
    budget: &'p mut Budget,
}

/// Nodes with the smallest share that each takes in any bin.
type FractionalShares = SmallVec<[(f64, NodeId); 64]>;

impl PackingSearch<'_, '_> {
    fn solve(&mut self, load: &Load, task: PackingTask) -> Option<NodeSet> {
        if !self
            .budget
            .step(task.must.len() + task.optional.len() + self.groups)
        {
            return None;
        }
        if task.must.is_empty() && task.count == 0 {
            return Some(NodeSet::EMPTY);
        }
        if let Some(dropped) = self.one_bin_drops_all(load, task) {
            return Some(dropped);
        }
        if let [bin] = self.bins
            && bin.is_simple()
        {
            return None;
        }
        if !self.bin_maxima_suffice(load, task) {
            return None;
        }
        let must = self.shares(load, task.must);
        let mut optional = self.shares(load, task.optional);
        if must.iter().any(|&(share, _)| share.is_infinite()) {
            return None;
        }
        optional.retain(|&mut (share, _)| share.is_finite());
        let task = PackingTask {
            optional: optional.iter().map(|&(_, node)| node).collect(),
            ..task
        };
        if optional.len() < task.count || !self.shares_suffice(&must, &optional, task.count) {
            return None;
        }
        if let Some(dropped) = self.greedy(load, &must, &optional, task.count) {
            return Some(dropped);
        }
        let known = self.failed.iter().any(|(failed, roomier)| {
            failed.must == task.must
                && failed.optional == task.optional
                && failed.count <= task.count
                && roomier.has_at_least_the_room_of(load, self.bins)
        });
        if known {
            return None;
        }
        let found = self.branch(load, task, optional.last().map(|&(_, node)| node));
        if found.is_none() && !self.budget.ran_out() && self.failed.len() < MAX_FAILURES {
            self.failed.push((task, load.clone()));
        }
        found
    }

    fn one_bin_drops_all(&self, load: &Load, task: PackingTask) -> Option<NodeSet> {
        let enough = task.must.len() + task.count;
        self.bins.iter().enumerate().find_map(|(index, bin)| {
            let dropped = bin.alone(load.dropped[index], load.surplus(bin), task)?;
            (dropped.len() >= enough).then_some(dropped)
        })
    }

    /// Whether the maxima that each bin could drop by itself add up to enough.
    fn bin_maxima_suffice(&self, load: &Load, task: PackingTask) -> bool {
        let room = |nodes: NodeSet| -> usize {
            let bins = self.bins.iter().enumerate();
            bins.map(|(index, bin)| bin.most(load.dropped[index], load.surplus(bin), nodes))
                .sum()
        };
        room(task.must | task.optional) >= task.must.len() + task.count
            && (task.must.is_empty() || room(task.must) >= task.must.len())
    }

    /// For each node the smallest share it takes in any bin, smallest first; infinite if it fits in none.
    fn shares(&self, load: &Load, nodes: NodeSet) -> FractionalShares {
        let smallest = |node| {
            let bins = self.bins.iter().enumerate();
            let fitting = bins.filter(|&(index, _)| load.fits(self.bins, index, node));
            let shares = fitting.map(|(_, bin)| bin.share(load.surplus(bin), node));
            (shares.fold(f64::INFINITY, f64::min), node)
        };
        let mut shares: FractionalShares = nodes.iter().map(smallest).collect();
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        shares
    }

    /// Whether the smallest shares add up to no more than the number of bins.
    fn shares_suffice(
        &self,
        must: &FractionalShares,
        optional: &FractionalShares,
        count: usize,
    ) -> bool {
        let all = must.iter().chain(optional.iter().take(count));
        let sum: f64 = all.map(|&(share, _)| share).sum();
        sum <= share(self.bins.len() as u64, 1) + TOLERANCE
    }

    /// Drops the hardest nodes of `must` first, then the easiest optional ones, each from the bin where it takes the
    /// smallest share.
    fn greedy(
        &self,
        load: &Load,
        must: &FractionalShares,
        optional: &FractionalShares,
        count: usize,
    ) -> Option<NodeSet> {
        let mut load = load.clone();
        let mut dropped = NodeSet::EMPTY;
        for &(_, node) in must.iter().rev() {
            self.drop_somewhere(&mut load, node)?;
            dropped.insert(node);
        }
        let mut left = count;
        for &(_, node) in optional {
            if left == 0 {
                break;
            }
            if self.drop_somewhere(&mut load, node).is_some() {
                dropped.insert(node);
                left -= 1;
            }
        }
        (left == 0).then_some(dropped)
    }

    fn drop_somewhere(&self, load: &mut Load, node: NodeId) -> Option<()> {
        let bins = self.bins.iter().enumerate();
        let fitting = bins.filter(|&(index, _)| load.fits(self.bins, index, node));
        let (_, index) = fitting
            .map(|(index, bin)| (bin.share(load.surplus(bin), node), index))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        load.drop(self.bins, index, node);
        Some(())
    }

    /// Tries every bin for the node of `must` that fits in the fewest; with none left, for the `heaviest` optional
    /// node, which may also be kept.
    fn branch(
        &mut self,
        load: &Load,
        task: PackingTask,
        heaviest: Option<NodeId>,
    ) -> Option<NodeSet> {
        let homes = |node: &NodeId| {
            let bins = 0..self.bins.len();
            bins.filter(|&index| load.fits(self.bins, index, *node))
                .count()
        };
        let (node, rest) = match task.must.iter().min_by_key(homes) {
            Some(node) => {
                let must = task.must - NodeSet::single(node);
                (node, PackingTask { must, ..task })
            }
            None => {
                let node = heaviest?;
                let optional = task.optional - NodeSet::single(node);
                let without = PackingTask { optional, ..task };
                if optional.len() >= task.count
                    && let Some(dropped) = self.solve(load, without)
                {
                    return Some(dropped);
                }
                let count = task.count.checked_sub(1)?;
                (node, PackingTask { count, ..without })
            }
        };
        for index in 0..self.bins.len() {
            if self.budget.ran_out() {
                return None;
            }
            if !load.fits(self.bins, index, node) || self.has_equal_earlier_bin(load, index) {
                continue;
            }
            let mut more = load.clone();
            more.drop(self.bins, index, node);
            if let Some(dropped) = self.solve(&more, rest) {
                return Some(dropped | NodeSet::single(node));
            }
        }
        None
    }

    /// Whether an earlier bin is the same part in the same state.
    fn has_equal_earlier_bin(&self, load: &Load, index: usize) -> bool {
        (0..index).any(|earlier| {
            self.bins[earlier].part == self.bins[index].part
                && load.dropped[earlier] == load.dropped[index]
        })
    }
}
