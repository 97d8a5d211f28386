//! [`PreparedThreshold`]: a threshold prepared for searching.
//!
//! It has the same members as the [`Threshold`] it was made from; amounts are clipped to the need, wide groups are cut
//! to the universe and merged, and it is known whether a greedy search is exact on them.
//!
//! **Greedy on laminar groups.** If any two groups are disjoint or nested (per socket, per board: what
//! device plugins report), then adding nodes one at a time by largest gain gives the largest value for every number of
//! nodes. For let x gain most and O be an optimal set without x; let T be the smallest group around x that O hits
//! (everything, if none) and y a node of O in T. Put x in the place of y: groups from T outwards stay hit, x brings
//! its weight and all groups inside T around it, y takes away at most the same, and x gains at least as much as
//! y. So some optimum contains x; contract it and repeat.

use smallvec::SmallVec;

use super::largest_sums;
use crate::hint::{Threshold, WideGroup};
use crate::node_set::{NodeId, NodeSet};

/// No sum of a threshold exceeds this, so the sum of a few of them cannot overflow.
const LARGEST_TOTAL: u128 = 1 << 57;

/// "The nodes of the mask have enough together", prepared for searching.
#[derive(Clone)]
pub(crate) struct PreparedThreshold {
    /// The amount that must be reached.
    pub(crate) need: u64,
    /// By node ID.
    weights: [u64; 64],
    groups: SmallVec<[WideGroup; 2]>,
    laminar: bool,
}

/// A prepared threshold, and whether its amounts had to be rounded.
pub(crate) struct PreparedWithRounding {
    pub(crate) prepared: PreparedThreshold,
    pub(crate) rounded: bool,
}

impl PreparedThreshold {
    /// Prepares a threshold. `None` if every mask of the universe meets it.
    pub(crate) fn of(threshold: &Threshold, universe: NodeSet) -> Option<PreparedWithRounding> {
        let need = threshold.need;
        if need == 0 {
            return None;
        }
        let mut prepared = Self {
            need,
            weights: [0; 64],
            groups: SmallVec::new(),
            laminar: true,
        };
        for node in universe {
            prepared.weights[node.index()] = threshold.weight(node);
        }
        prepared.take_groups(&threshold.groups, universe);
        for node in universe {
            let weight = &mut prepared.weights[node.index()];
            *weight = (*weight).min(need);
        }
        let rounded = prepared.round();
        Some(PreparedWithRounding { prepared, rounded })
    }

    fn take_groups(&mut self, groups: &[WideGroup], universe: NodeSet) {
        for group in groups {
            let nodes = group.nodes & universe;
            let mut members = nodes.iter();
            match (members.next(), members.next()) {
                (None, _) => {}
                (Some(only), None) => {
                    let weight = &mut self.weights[only.index()];
                    *weight = weight.saturating_add(group.count);
                }
                (Some(_), Some(_)) => self.groups.push(WideGroup { nodes, ..*group }),
            }
        }
        if self.groups.is_empty() {
            return;
        }
        self.groups.sort_unstable();
        self.groups.dedup_by(|next, kept| {
            let same = next.nodes == kept.nodes;
            if same {
                kept.count = kept.count.saturating_add(next.count);
            }
            same
        });
        for group in &mut self.groups {
            group.count = group.count.min(self.need);
        }
        self.laminar = self.groups.len() < 64 && self.are_laminar();
    }

    /// Whether any two groups are disjoint or nested. At most 63 groups of several nodes can be.
    fn are_laminar(&self) -> bool {
        self.groups.iter().enumerate().all(|(index, a)| {
            self.groups[index + 1..].iter().all(|b| {
                let both = a.nodes & b.nodes;
                both.is_empty() || both == a.nodes || both == b.nodes
            })
        })
    }

    /// Scales amounts down if their sum is larger than on any real machine.
    fn round(&mut self) -> bool {
        let terms = self.weights.len() + self.groups.len();
        if u128::from(self.need) * terms as u128 <= LARGEST_TOTAL {
            return false;
        }
        let weights = self.weights.iter().map(|&weight| u128::from(weight));
        let groups = self.groups.iter().map(|group| u128::from(group.count));
        let total: u128 = weights.chain(groups).sum();
        let mut shift = 0;
        while total >> shift > LARGEST_TOTAL {
            shift += 1;
        }
        if shift == 0 {
            return false;
        }
        let old = self.need;
        let new = (old >> shift) + u64::from(old.trailing_zeros() < shift);
        // An amount that is enough alone stays so.
        let scale = |amount: &mut u64| {
            *amount = if *amount == old {
                new
            } else {
                *amount >> shift
            }
        };
        self.weights.iter_mut().for_each(scale);
        self.groups
            .iter_mut()
            .for_each(|group| scale(&mut group.count));
        self.need = new.min(self.value(NodeSet::FULL));
        true
    }

    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Whether choosing greedy by gain is exact.
    pub(crate) fn is_laminar(&self) -> bool {
        self.laminar
    }

    pub(crate) fn groups(&self) -> &[WideGroup] {
        &self.groups
    }

    /// The weight of a node by itself, without groups.
    pub(crate) fn weight(&self, node: NodeId) -> u64 {
        self.weights[node.index()]
    }

    /// Whether a node adds nothing to any mask.
    pub(crate) fn ignores(&self, node: NodeId) -> bool {
        self.weight(node) == 0 && !self.groups.iter().any(|group| group.nodes.contains(node))
    }

    /// The sum of the weights of `set` and of the groups it intersects.
    pub(crate) fn value(&self, set: NodeSet) -> u64 {
        let nodes: u64 = set.iter().map(|node| self.weight(node)).sum();
        nodes + self.groups_with(|group| group.nodes.intersects(set))
    }

    /// The sum of some groups.
    fn groups_with(&self, counts: impl Fn(&WideGroup) -> bool) -> u64 {
        let groups = self.groups.iter().filter(|group| counts(group));
        groups.map(|group| group.count).sum()
    }

    pub(crate) fn is_met(&self, set: NodeSet) -> bool {
        self.value(set) >= self.need
    }

    /// The increase in value by adding `node` to a set that does not contain it.
    pub(crate) fn gain(&self, set: NodeSet, node: NodeId) -> u64 {
        let new = |group: &WideGroup| group.nodes.contains(node) && !group.nodes.intersects(set);
        self.weight(node) + self.groups_with(new)
    }

    /// The decrease in value by removing `node` from a set that contains it.
    pub(crate) fn loss(&self, set: NodeSet, node: NodeId) -> u64 {
        let alone = NodeSet::single(node);
        self.weight(node) + self.groups_with(|group| group.nodes & set == alone)
    }

    /// The largest value of `set` with `places` more nodes of `open`, clipped to the need; an upper bound of it if
    /// groups overlap.
    pub(crate) fn best_value(&self, set: NodeSet, open: NodeSet, places: usize) -> u64 {
        let mut value = self.value(set);
        if !self.laminar || !self.has_groups() {
            let gains = self.gains(set, open);
            let sums = largest_sums(gains.iter().map(|&(gain, _)| gain));
            let best = places.min(sums.len()).checked_sub(1);
            return value + best.map_or(0, |at| sums[at]);
        }
        let (mut set, mut open) = (set, open);
        for _ in 0..places {
            if value >= self.need {
                break;
            }
            let Some((gain, node)) = self.best_gain(set, open) else {
                break;
            };
            value += gain;
            set.insert(node);
            open.remove(node);
        }
        value
    }

    /// The fewest nodes of `open` that must be added to `set` to meet the need: a solution if the groups are laminar,
    /// else a lower bound in number. `None` if all of `open` is not enough.
    pub(crate) fn fewest_to_add(&self, set: NodeSet, open: NodeSet) -> Option<NodeSet> {
        let mut value = self.value(set);
        let mut added = NodeSet::EMPTY;
        if self.laminar && self.has_groups() {
            return self.greedy(set, open);
        }
        if value >= self.need {
            return Some(added);
        }
        let mut gains = self.gains(set, open);
        // Often one node is enough.
        if let Some(&(gain, node)) = gains.iter().max()
            && value + gain >= self.need
        {
            return Some(NodeSet::single(node));
        }
        gains.sort_unstable_by(|a, b| b.cmp(a));
        for (gain, node) in gains {
            value += gain;
            added.insert(node);
            if value >= self.need {
                return Some(added);
            }
        }
        None
    }

    /// Nodes of `open` that together with `set` meet the need, chosen by largest gain. `None` if all of `open` is not
    /// enough.
    pub(crate) fn greedy(&self, set: NodeSet, open: NodeSet) -> Option<NodeSet> {
        let mut value = self.value(set);
        let mut added = NodeSet::EMPTY;
        while value < self.need {
            let (gain, node) = self.best_gain(set | added, open - added)?;
            value += gain;
            added.insert(node);
        }
        Some(added)
    }

    /// The node with the largest gain; `None` if no node has any.
    fn best_gain(&self, set: NodeSet, open: NodeSet) -> Option<(u64, NodeId)> {
        let gains = open.iter().map(|node| (self.gain(set, node), node));
        let best = gains.max_by_key(|&(gain, _)| gain);
        best.filter(|&(gain, _)| gain > 0)
    }

    /// The gain of each node of `open`.
    pub(crate) fn gains(&self, set: NodeSet, open: NodeSet) -> SmallVec<[(u64, NodeId); 64]> {
        open.iter()
            .map(|node| (self.gain(set, node), node))
            .collect()
    }
}
