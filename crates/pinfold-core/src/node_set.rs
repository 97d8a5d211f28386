//! [`NodeSet`]: a set of NUMA node IDs, 0 to 63, in one machine word.
//!
//! Mirrors the kubelet's `bitmask` package: the order of sets ([`NodeSet::is_narrower_than`]), the order
//! in which all subsets are visited ([`NodeSet::subsets_by_width`]) and the printed form are part of its decisions.

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The ID of a NUMA node as the kernel numbers it. IDs may be sparse and are never indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(u8);

/// A NUMA node ID outside 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bit number must be in range 0-63")]
pub struct NodeIdOutOfRange {
    /// The invalid ID.
    pub id: i64,
}

impl NodeId {
    /// The lowest valid ID.
    pub const MIN: NodeId = NodeId(0);
    /// The largest valid ID.
    pub const MAX: NodeId = NodeId(63);

    /// Checks the range.
    ///
    /// # Errors
    /// If `id` is not in 0 to 63.
    pub fn new(id: i64) -> Result<Self, NodeIdOutOfRange> {
        match u8::try_from(id) {
            Ok(small) if small < 64 => Ok(Self(small)),
            _ => Err(NodeIdOutOfRange { id }),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a bit position of a u64 is below 64"
    )]
    fn at(bit: u32) -> Self {
        Self(bit as u8)
    }

    /// The ID as an index into a table of 64 rows.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The ID as a number.
    #[must_use]
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A set of NUMA nodes. Ordered as a number: node 0 is the lowest bit.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet(u64);

impl NodeSet {
    /// The empty set.
    pub const EMPTY: NodeSet = NodeSet(0);
    /// All 64 IDs.
    pub const FULL: NodeSet = NodeSet(u64::MAX);

    /// The set of the nodes whose bits are set in `bits`.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The nodes as bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set of one node.
    #[must_use]
    pub fn single(node: NodeId) -> Self {
        Self(1 << node.0)
    }

    /// Collects IDs, in any order, repeated or not.
    ///
    /// # Errors
    /// If an ID is not in 0 to 63.
    pub fn from_ids<I>(ids: I) -> Result<Self, NodeIdOutOfRange>
    where
        I: IntoIterator<Item = i64>,
    {
        ids.into_iter().map(NodeId::new).collect()
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of nodes: the width of a hint.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether `node` is in the set.
    #[must_use]
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 >> node.0 & 1 == 1
    }

    /// Whether every node of `self` is in `other`.
    #[must_use]
    pub const fn is_subset(self, other: NodeSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether some node is in both sets.
    #[must_use]
    pub const fn intersects(self, other: NodeSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds `node`.
    pub fn insert(&mut self, node: NodeId) {
        self.0 |= 1 << node.0;
    }

    /// Removes `node`.
    pub fn remove(&mut self, node: NodeId) {
        self.0 &= !(1 << node.0);
    }

    /// The lowest node.
    #[must_use]
    pub fn first(self) -> Option<NodeId> {
        self.iter().next()
    }

    /// The nodes in ascending order.
    #[must_use]
    pub fn iter(self) -> Nodes {
        Nodes(self.0)
    }

    /// Fewer nodes, or as many and the smaller number. Mirrors `IsNarrowerThan`, which prefers low node IDs.
    #[must_use]
    pub fn is_narrower_than(self, other: NodeSet) -> bool {
        (self.len(), self.0) < (other.len(), other.0)
    }

    /// All non-empty subsets in the order of the kubelet's `IterateBitMasks`: by width, inside one width in
    /// lexicographic order of the ascending IDs.
    ///
    /// There are 2^n - 1 of them: for display, test vectors, and walks that stop after a stated number of steps.
    #[must_use]
    pub fn subsets_by_width(self) -> SubsetsByWidth {
        SubsetsByWidth::of(self.iter().collect())
    }

    /// The set as the kubelet prints a mask: binary digits, node 0 last.
    #[must_use]
    pub fn binary(self) -> Binary {
        Binary(self)
    }
}

impl BitAnd for NodeSet {
    type Output = NodeSet;
    fn bitand(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & other.0)
    }
}

impl BitOr for NodeSet {
    type Output = NodeSet;
    fn bitor(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 | other.0)
    }
}

impl Sub for NodeSet {
    type Output = NodeSet;
    fn sub(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & !other.0)
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = NodeSet::EMPTY;
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

impl IntoIterator for NodeSet {
    type Item = NodeId;
    type IntoIter = Nodes;
    fn into_iter(self) -> Nodes {
        self.iter()
    }
}

/// The Linux list format: `0-3,8`.
impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::list_format::write(f, self.iter().map(NodeId::get))
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Prints a set as binary digits. See [`NodeSet::binary`].
#[derive(Clone, Copy, Debug)]
pub struct Binary(NodeSet);

/// An even number of digits, except that a single bit at an even position has no leading zero.
impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.bits();
        let digits = 64 - bits.saturating_sub(1).leading_zeros() as usize;
        let width = digits.next_multiple_of(2).max(2);
        write!(f, "{bits:0width$b}")
    }
}

/// Serialized as a list of IDs.
impl Serialize for NodeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for NodeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ids = Vec::<i64>::deserialize(deserializer)?;
        NodeSet::from_ids(ids).map_err(serde::de::Error::custom)
    }
}

/// The nodes of a [`NodeSet`] in ascending order.
#[derive(Clone, Debug)]
pub struct Nodes(u64);

impl Iterator for Nodes {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        if self.0 == 0 {
            return None;
        }
        let lowest = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(NodeId::at(lowest))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.0.count_ones() as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Nodes {}

impl DoubleEndedIterator for Nodes {
    fn next_back(&mut self) -> Option<NodeId> {
        if self.0 == 0 {
            return None;
        }
        let highest = 63 - self.0.leading_zeros();
        self.0 &= !(1 << highest);
        Some(NodeId::at(highest))
    }
}

/// See [`NodeSet::subsets_by_width`].
#[derive(Clone, Debug)]
pub struct SubsetsByWidth {
    members: Vec<NodeId>,
    /// Indexes in `members`, ascending.
    chosen: Vec<usize>,
    width: usize,
}

impl SubsetsByWidth {
    /// The subsets of a list whose own order decides inside one width.
    #[must_use]
    pub fn of(members: Vec<NodeId>) -> Self {
        Self {
            members,
            chosen: Vec::new(),
            width: 0,
        }
    }

    /// Advances to the next combination of the same width, if there is one.
    fn advance(&mut self) -> bool {
        let n = self.members.len();
        let Some(turn) = (0..self.width)
            .rev()
            .find(|&i| self.chosen[i] < n - self.width + i)
        else {
            return false;
        };
        self.chosen[turn] += 1;
        for later in turn + 1..self.width {
            self.chosen[later] = self.chosen[later - 1] + 1;
        }
        true
    }
}

impl Iterator for SubsetsByWidth {
    type Item = NodeSet;

    fn next(&mut self) -> Option<NodeSet> {
        if !self.advance() {
            if self.width == self.members.len() {
                return None;
            }
            self.width += 1;
            self.chosen = (0..self.width).collect();
        }
        Some(self.chosen.iter().map(|&i| self.members[i]).collect())
    }
}
