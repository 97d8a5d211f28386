//! [`Family`]: all hints of one resource, as the rule that generates them.

use smallvec::SmallVec;

use super::Hint;
use crate::node_set::{NodeId, NodeSet};

/// "The nodes of the mask have enough together": a sum over the mask that must reach `need`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The sum that must be reached.
    pub need: u64,
    /// The weight of each node, indexed by node ID; IDs beyond the end have weight 0.
    pub weights: SmallVec<[u64; 8]>,
    /// Devices on several nodes, which count once when the mask touches any of them.
    pub groups: Vec<WideGroup>,
}

/// Devices that span several NUMA nodes: they add `count` once the mask touches any of `nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WideGroup {
    /// At least two nodes.
    pub nodes: NodeSet,
    /// The number of devices.
    pub count: u64,
}

impl Threshold {
    /// A threshold without wide groups. Weights of the same node in `rows` are added.
    pub fn new(need: u64, rows: impl IntoIterator<Item = (NodeId, u64)>) -> Self {
        let mut weights: SmallVec<[u64; 8]> = SmallVec::new();
        for (node, weight) in rows {
            // Rows nearly always come in the order of the nodes.
            if weights.len() == node.index() {
                weights.push(weight);
                continue;
            }
            if weights.len() < node.index() {
                weights.resize(node.index() + 1, 0);
            }
            weights[node.index()] = weights[node.index()].saturating_add(weight);
        }
        Self {
            need,
            weights,
            groups: Vec::new(),
        }
    }

    /// The weight of one node by itself, without wide groups.
    #[must_use]
    pub fn weight(&self, node: NodeId) -> u64 {
        self.weights.get(node.index()).copied().unwrap_or(0)
    }

    /// The sum over `mask`, wide groups included.
    #[must_use]
    pub fn value(&self, mask: NodeSet) -> u64 {
        let nodes = mask
            .iter()
            .fold(0_u64, |sum, node| sum.saturating_add(self.weight(node)));
        let wide = self
            .groups
            .iter()
            .filter(|group| group.nodes.intersects(mask));
        wide.fold(nodes, |sum, group| sum.saturating_add(group.count))
    }

    /// Whether `mask` reaches the need.
    #[must_use]
    pub fn is_met(&self, mask: NodeSet) -> bool {
        self.value(mask) >= self.need
    }
}

/// All non-empty masks inside `universe` that contain `forced` and meet every threshold.
///
/// Up-closed: a superset of a member inside the universe is a member too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The nodes a mask may contain.
    pub universe: NodeSet,
    /// The nodes every mask must contain.
    pub forced: NodeSet,
    /// The amounts that the mask must have.
    pub thresholds: SmallVec<[Threshold; 1]>,
}

impl Component {
    /// The component whose only member is `mask`.
    #[must_use]
    pub fn fixed(mask: NodeSet) -> Self {
        Self {
            universe: mask,
            forced: mask,
            thresholds: SmallVec::new(),
        }
    }

    /// Whether `mask` is a member.
    #[must_use]
    pub fn contains(&self, mask: NodeSet) -> bool {
        !mask.is_empty()
            && mask.is_subset(self.universe)
            && self.forced.is_subset(mask)
            && self
                .thresholds
                .iter()
                .all(|threshold| threshold.is_met(mask))
    }

    /// Whether there are no members: not even the universe meets the thresholds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.contains(self.universe)
    }
}

/// Which members are preferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Masks of exactly this width, which an empty machine would need. Width 0 prefers nothing.
    Width(usize),
    /// Masks of that width, and masks that touch exactly this number of sockets (`align-by-socket`).
    WidthOrSockets(usize, SocketRule),
}

/// The second part of the `align-by-socket` preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketRule {
    /// The number of sockets that a mask must touch.
    pub sockets: usize,
    /// For each socket the NUMA nodes of its CPUs.
    pub nodes_of_socket: Vec<NodeSet>,
}

impl Preference {
    /// Whether a member with this mask is preferred.
    #[must_use]
    pub fn holds(&self, mask: NodeSet) -> bool {
        match self {
            Preference::Width(width) => mask.len() == *width,
            Preference::WidthOrSockets(width, rule) => mask.len() == *width || rule.holds(mask),
        }
    }
}

impl SocketRule {
    /// The number of sockets that `mask` touches.
    pub(crate) fn touched(&self, mask: NodeSet) -> usize {
        let sockets = self.nodes_of_socket.iter();
        sockets.filter(|nodes| nodes.intersects(mask)).count()
    }

    /// Whether `mask` touches the required number of sockets.
    #[must_use]
    pub fn holds(&self, mask: NodeSet) -> bool {
        self.touched(mask) == self.sockets
    }
}

/// All hints of one resource: the union of some components, and which of their members are preferred.
///
/// Never empty: a provider without hints returns another variant of [`ResourceHints`](super::ResourceHints).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The components; a mask may be a member of several.
    pub components: SmallVec<[Component; 1]>,
    /// Which members are preferred.
    pub preference: Preference,
}

impl Family {
    /// Whether `mask` is a hint of this resource.
    #[must_use]
    pub fn contains(&self, mask: NodeSet) -> bool {
        self.components
            .iter()
            .any(|component| component.contains(mask))
    }

    /// The hints written out in the kubelet's order: by width, then lexicographically. Visits all 2^n subsets of the
    /// universes: for display and comparison, not for decisions.
    #[must_use]
    pub fn list(&self) -> Vec<Hint> {
        self.members(usize::MAX).collect()
    }

    /// The first hints of [`Self::list`]. Visits at most 2^16 subsets, so that the hints of a machine with many NUMA
    /// nodes may be missing.
    #[must_use]
    pub fn first(&self, most: usize) -> Vec<Hint> {
        self.members(1 << 16).take(most).collect()
    }

    /// The members among this many subsets of the universes.
    fn members(&self, subsets: usize) -> impl Iterator<Item = Hint> {
        let universe = self
            .components
            .iter()
            .fold(NodeSet::EMPTY, |all, part| all | part.universe);
        universe
            .subsets_by_width()
            .take(subsets)
            .filter(|&mask| self.contains(mask))
            .map(|mask| Hint::on(mask, self.preference.holds(mask)))
    }
}
