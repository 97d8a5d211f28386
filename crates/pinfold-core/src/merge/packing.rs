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
use crate::cover::{Budget, PreparedThreshold};
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
#[derive(Clone, Copy)]
struct PackingTask {
    must: NodeSet,
    optional: NodeSet,
    count: usize,
}

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

    /// Whether [`Bin::alone`] is exact.
    fn is_simple(&self) -> bool {
        match self.thresholds {
            [] => true,
            [prepared] => prepared.is_laminar(),
            _ => false,
        }
    }
}

/// The state of one packing search.
struct PackingSearch<'p, 's> {
    bins: &'p [Bin<'s>],
    /// The number of groups, which make a step more expensive.
    groups: usize,
    budget: &'p mut Budget,
}

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
        self.branch(load, task)
    }

    fn one_bin_drops_all(&self, load: &Load, task: PackingTask) -> Option<NodeSet> {
        let enough = task.must.len() + task.count;
        self.bins.iter().enumerate().find_map(|(index, bin)| {
            let dropped = bin.alone(load.dropped[index], load.surplus(bin), task)?;
            (dropped.len() >= enough).then_some(dropped)
        })
    }

    /// Tries every bin for the node of `must` that fits in the fewest; with none left, for such an optional node, which
    /// may also be kept.
    fn branch(&mut self, load: &Load, task: PackingTask) -> Option<NodeSet> {
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
                let fitting: NodeSet = (task.optional.iter())
                    .filter(|node| homes(node) > 0)
                    .collect();
                if fitting.len() < task.count {
                    return None;
                }
                let node = fitting.iter().min_by_key(homes)?;
                let optional = fitting - NodeSet::single(node);
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
            if !load.fits(self.bins, index, node) {
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
}
