//! The facts behind a merged hint, as plain data: what an explanation is made of.

use serde::Serialize;
use smallvec::SmallVec;

use super::budget::UnfinishedSearches;

/// Why a merged hint is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeFacts {
    /// The rule that chose the answer.
    pub decided_by: MergeRule,
    /// Why there is no preferred answer. `None` if there is one, or if no hint was looked at.
    pub no_preferred: Option<NoPreferred>,
    /// The best width for an answer that is not preferred: the largest, over all resources, of the
    /// resource's narrowest mask. 0 if no resource has masks.
    pub best_width: usize,
    /// What every resource brought, in the order of the request.
    pub resources: SmallVec<[MergeResourceFacts; 8]>,
    /// How many masks were left at the end, where that is known without looking for it.
    pub candidates: Option<usize>,
    /// With prefer-closest: how good the answer is.
    pub distance: Option<DistanceFacts>,
    /// The searches whose step budget ran out. See [`MergeSearch`](super::MergeSearch) for what holds then.
    pub unfinished: UnfinishedSearches,
}

impl MergeFacts {
    pub(super) fn new(decided_by: MergeRule) -> Self {
        Self {
            decided_by,
            no_preferred: None,
            best_width: 0,
            resources: SmallVec::new(),
            candidates: None,
            distance: None,
            unfinished: UnfinishedSearches::NONE,
        }
    }

    /// Whether the answer is certainly the one that the full product of all hints would give.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.unfinished.is_empty()
    }
}

/// The rule that chose an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeRule {
    /// The policy does not look at hints.
    NoPolicy,
    /// A mask that every resource prefers.
    Preferred,
    /// None is preferred by all; the answer is as wide as the neediest resource at its narrowest.
    BestWidth,
    /// Nothing of that width is reachable; this is the widest of what is narrower.
    Narrower,
    /// Nothing of that width or narrower is reachable; this is the narrowest of what is wider.
    Wider,
    /// The resources have no node in common.
    NoCommonNode,
}

/// Why no mask is preferred by all. MergeResources are positions in [`MergeFacts::resources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoPreferred {
    /// The resource cannot be had at all.
    Unsatisfiable {
        /// Which.
        resource: usize,
    },
    /// The resource has masks but prefers none of them.
    PrefersNothing {
        /// Which.
        resource: usize,
    },
    /// Two resources prefer masks of different widths.
    DifferentWidths {
        /// One of them.
        resource: usize,
        /// The other.
        other: usize,
    },
    /// What the resource would prefer on an empty machine is too narrow for what is free now.
    TooNarrow {
        /// Which.
        resource: usize,
    },
    /// Each resource prefers some masks, but no mask is preferred by all.
    NoCommonMask,
    /// None was found within the step budget; there may be one.
    BudgetExhausted,
}

/// What one resource brought into the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MergeResourceFacts {
    /// The position of its provider in the request.
    pub provider: usize,
    /// The position of its row in the provider's hints; `None` for a provider without an opinion.
    pub row: Option<usize>,
    /// What it wants.
    pub hints: HintSummary,
}

/// What a resource wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintSummary {
    /// Any node will do.
    DontCare,
    /// No node will do.
    Unsatisfiable,
    /// One of its masks.
    Masks {
        /// How wide its narrowest mask is.
        narrowest: WidthRange,
        /// How wide its narrowest preferred mask is, or would be on an empty machine; `None` if it prefers none.
        preferred_width: Option<usize>,
    },
}

/// A width, or the bounds of one that was not worth settling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WidthRange {
    /// No mask is narrower.
    pub at_least: usize,
    /// There is a mask of this width.
    pub at_most: usize,
}

impl WidthRange {
    /// A known width.
    #[must_use]
    pub fn exactly(width: usize) -> Self {
        Self {
            at_least: width,
            at_most: width,
        }
    }

    /// Whether the width is known.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.at_least == self.at_most
    }
}

/// How good an answer is under prefer-closest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DistanceFacts {
    /// The sum of distances over all ordered pairs of the answer's nodes.
    pub sum: u64,
    /// No other candidate of the class has a smaller sum than this; equal to `sum` if the answer is exact, 0 if
    /// more than the search for the closest nodes was given up.
    pub at_least: u64,
}
