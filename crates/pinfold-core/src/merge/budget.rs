//! Step budgets: every search ends, and says so when it ended early.
//!
//! Four of the searches behind a merge are NP-hard in general (packing, covering with overlapping device
//! groups, two kinds of memory with unrelated sizes, the closest nodes). Real machines are far from the hard
//! cases, but input can be made up, so each search has its own budget: one that runs dry must not starve
//! the others. Steps are counted, not time: the same input gives the same answer everywhere.
use serde::{Serialize, Serializer};

/// A search of the merge that may run out of steps, and what holds if it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeSearch {
    /// How wide is the narrowest mask of a resource? The smallest width that was found is used: the answer
    /// is reachable, but may be wider than it had to be.
    Width,
    /// Is there a mask that all resources prefer? Taken for "no" unless one was found: an answer is never
    /// called preferred without being it.
    Preferred,
    /// Which nodes can a choice of parts share? Some choices were left out: the answer is reachable (or all nodes, if
    /// none was found), but a better one may exist.
    Choices,
    /// Which nodes can be done without? Nodes in doubt were kept: the answer is reachable and, if every resource has
    /// one open part, of the right width, but a smaller mask may exist.
    Reach,
    /// Which nodes are closest to each other? The best set found is used: preferred flag and width are right.
    Closest,
    /// Amounts beyond 2^57 were rounded, to the safe side.
    Amounts,
    /// A family names nodes that the machine does not have; they were left out.
    UnknownNodes,
}

impl MergeSearch {
    /// All searches, in the order they are asked.
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

/// As a list.
impl Serialize for UnfinishedSearches {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// A set of searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedSearches(u8);

impl UnfinishedSearches {
    /// No search.
    pub const NONE: UnfinishedSearches = UnfinishedSearches(0);

    /// Adds one.
    pub fn insert(&mut self, search: MergeSearch) {
        self.0 |= 1 << search as u8;
    }

    /// Whether it is a member.
    #[must_use]
    pub fn contains(self, search: MergeSearch) -> bool {
        self.0 & 1 << search as u8 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members in the order the searches are asked.
    pub fn iter(self) -> impl Iterator<Item = MergeSearch> {
        let all = MergeSearch::ALL.into_iter();
        all.filter(move |&search| self.contains(search))
    }
}

/// How many steps each search may take. A look at one state of a search is a step, and one more for every sixteen
/// nodes and wide groups the search is about: a microsecond or less each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// For the width of one resource.
    pub width: u32,
    /// For the search for a preferred mask.
    pub preferred: u32,
    /// For the choices of one part per resource: how many are looked at; one in sixteen is kept.
    pub choices: u32,
    /// For one width class of masks that are not preferred.
    pub reach: u32,
    /// For the closest nodes of one class.
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

impl Budgets {
    /// The same number for every search: 1 shows every fallback.
    #[must_use]
    pub fn all(steps: u32) -> Self {
        Self {
            width: steps,
            preferred: steps,
            choices: steps,
            reach: steps,
            closest: steps,
        }
    }
}

/// What is left of the budget of one search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    left: u32,
    ran_dry: bool,
}

impl Budget {
    pub(super) fn new(steps: u32) -> Self {
        Self {
            left: steps,
            ran_dry: false,
        }
    }

    /// Takes the steps of one look at a state of so many nodes and groups, if there are enough left.
    pub(super) fn step(&mut self, size: usize) -> bool {
        let steps = 1 + u32::try_from(size / 16).unwrap_or(u32::MAX - 1);
        match self.left.checked_sub(steps) {
            Some(left) => self.left = left,
            None => self.ran_dry = true,
        }
        !self.ran_dry
    }

    /// Whether a step was rejected.
    pub(super) fn ran_dry(self) -> bool {
        self.ran_dry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_runs_dry_on_the_first_step_too_many() {
        let mut budget = Budget::new(2);
        assert!(budget.step(1) && budget.step(15));
        assert!(!budget.ran_dry());
        assert!(!budget.step(1));
        assert!(budget.ran_dry());
    }

    #[test]
    fn a_look_at_many_nodes_costs_more() {
        let mut budget = Budget::new(5);
        assert!(budget.step(64));
        assert!(!budget.step(1));
    }

    #[test]
    fn every_question_has_its_own_place_in_the_set() {
        let mut asked = UnfinishedSearches::NONE;
        for (count, search) in MergeSearch::ALL.into_iter().enumerate() {
            assert!(!asked.contains(search));
            asked.insert(search);
            assert_eq!(asked.iter().count(), count + 1);
        }
    }
}
