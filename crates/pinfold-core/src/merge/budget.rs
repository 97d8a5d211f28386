//! Step budgets: every search is bounded, and the facts of the merge name the searches that ran out of steps.
//!
//! Four of the searches are NP-hard in general (packing, covering with overlapping device groups, two kinds of memory
//! with unrelated sizes, the closest nodes). Real machines are far from the hard cases, but input can be adversarial,
//! so each search has its own budget and none can use up the steps of another. Steps are counted, not time: the same
//! input gives the same answer everywhere.

use serde::{Serialize, Serializer};

/// A search of the merge that may be unfinished, and what holds for the answer then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeSearch {
    /// The narrowest mask of a resource. The narrowest one found is used: the answer is reachable, but may be wider
    /// than necessary.
    Width,
    /// A mask that all resources prefer. None was found, so the answer is not preferred although a preferred one may
    /// exist.
    Preferred,
    /// The nodes that a choice of one part per resource has in common. Some choices were left out: the answer is
    /// reachable (or all nodes, if none was found), but a better one may exist.
    Choices,
    /// The nodes that can be dropped from a choice. Nodes that were not decided were kept: the answer is reachable and,
    /// if every resource has one open part, of the right width, but a smaller mask may exist.
    Reach,
    /// The nodes that are closest to each other. The best set found is used: preferred flag and width are right.
    Closest,
    /// Amounts above 2^57 were rounded, to the safe side.
    Amounts,
    /// A family contains nodes that the machine does not have; they were left out.
    UnknownNodes,
}

impl MergeSearch {
    /// All searches, in the order they run.
    pub const ALL: [MergeSearch; 7] = [
        MergeSearch::Amounts,
        MergeSearch::UnknownNodes,
        MergeSearch::Width,
        MergeSearch::Preferred,
        MergeSearch::Choices,
        MergeSearch::Reach,
        MergeSearch::Closest,
    ];
}

/// Serialized as a list.
impl Serialize for UnfinishedSearches {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// The set of searches that ran out of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedSearches(u8);

impl UnfinishedSearches {
    /// No search.
    pub const NONE: UnfinishedSearches = UnfinishedSearches(0);

    /// Adds a search.
    pub fn insert(&mut self, search: MergeSearch) {
        self.0 |= 1 << search as u8;
    }

    /// Whether a search is in the set.
    #[must_use]
    pub fn contains(self, search: MergeSearch) -> bool {
        self.0 & 1 << search as u8 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The searches of the set, in the order they run.
    pub fn iter(self) -> impl Iterator<Item = MergeSearch> {
        let all = MergeSearch::ALL.into_iter();
        all.filter(move |&search| self.contains(search))
    }
}

/// The number of steps of each search. Visiting one state is one step, plus one for every sixteen nodes and wide groups
/// of the search; a step takes a microsecond or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// The width of one resource.
    pub width: u32,
    /// The search for a preferred mask.
    pub preferred: u32,
    /// The choices of one part per resource that are visited; one in sixteen is kept.
    pub choices: u32,
    /// One width class of masks that are not preferred.
    pub reach: u32,
    /// The closest nodes of one width class.
    pub closest: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            width: 8_000,
            preferred: 12_000,
            choices: 1 << 16,
            reach: 12_000,
            closest: 3_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_search_has_its_own_bit_in_the_set() {
        let mut seen = UnfinishedSearches::NONE;
        for (count, search) in MergeSearch::ALL.into_iter().enumerate() {
            assert!(!seen.contains(search));
            seen.insert(search);
            assert_eq!(seen.iter().count(), count + 1);
        }
    }
}
