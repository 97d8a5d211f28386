//! [`MergeFacts`]: how a merged hint was chosen, as plain data for explanations.

use serde::Serialize;
use smallvec::SmallVec;

use super::budget::UnfinishedSearches;
use crate::cover::Narrow;

/// How a merged hint was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeFacts {
    /// The rule that chose the hint.
    pub decided_by: MergeRule,
    /// Why the hint is not preferred. `None` if it is, or if the policy ignores hints.
    pub no_preferred: Option<NoPreferred>,
    /// The best width of a hint that is not preferred: the largest, over all resources, of the width of the resource's
    /// narrowest mask. 0 if no resource has masks.
    pub best_width: usize,
    /// A summary of every resource's hints, in the order of the request.
    pub resources: SmallVec<[MergeResourceFacts; 4]>,
    /// The number of candidates for the answer, where it is known without an additional search.
    pub candidates: Option<usize>,
    /// With `prefer-closest-numa-nodes`: the distances of the answer.
    pub distance: Option<DistanceFacts>,
    /// The searches that ran out of steps. [`MergeSearch`](super::MergeSearch) says what holds for the answer then.
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

    /// Whether the hint is certainly the one that the kubelet's product of all hints gives.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.unfinished.is_empty()
    }
}

/// The rules that choose a merged hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeRule {
    /// The policy ignores hints.
    NoPolicy,
    /// A mask that every resource prefers.
    Preferred,
    /// No mask is preferred by all resources; the hint has the best width.
    BestWidth,
    /// No mask of the best width is reachable; the hint is the widest of the narrower ones.
    Narrower,
    /// No mask of the best width or narrower is reachable; the hint is the narrowest of the wider ones.
    Wider,
    /// The resources have no node in common.
    NoCommonNode,
}

/// Why no mask is preferred by all resources. A `resource` is an index in [`MergeFacts::resources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoPreferred {
    /// The resource fits on no NUMA nodes.
    Unsatisfiable {
        /// The resource.
        resource: usize,
    },
    /// The resource has masks but prefers none of them.
    PrefersNothing {
        /// The resource.
        resource: usize,
    },
    /// Two resources prefer masks of different widths.
    DifferentWidths {
        /// One of the resources.
        resource: usize,
        /// The other one.
        other: usize,
    },
    /// The width that the resource prefers, which is that of an empty machine, is too narrow for what is free now.
    TooNarrow {
        /// The resource.
        resource: usize,
    },
    /// Each resource prefers some masks, but no mask is preferred by all.
    NoCommonMask,
    /// None was found within the step budget; one may exist.
    BudgetExhausted,
}

/// The hints of one resource in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MergeResourceFacts {
    /// The index of its provider in the request.
    pub provider: usize,
    /// The index of the resource in the provider's hints; `None` for a provider without resources.
    pub row: Option<usize>,
    /// A summary of its hints.
    pub hints: HintSummary,
}

/// A summary of a resource's hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HintSummary {
    /// The resource has no topology preference.
    DontCare,
    /// The resource fits on no NUMA nodes.
    Unsatisfiable,
    /// The resource fits on some masks.
    Masks {
        /// The width of its narrowest mask.
        narrowest: WidthRange,
        /// The width of its narrowest preferred mask, or the one it would have on an empty machine; `None` if it
        /// prefers none.
        preferred_width: Option<usize>,
    },
}

/// A width, or bounds of a width that did not have to be determined.
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

    pub(super) fn of(narrow: Narrow) -> Self {
        Self {
            at_least: narrow.at_least,
            at_most: narrow.mask.len(),
        }
    }

    /// Whether the width is known.
    pub(crate) fn is_settled(self) -> bool {
        self.at_least == self.at_most
    }
}

/// The distances of a merged hint under `prefer-closest-numa-nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DistanceFacts {
    /// The sum of distances over all ordered pairs of the hint's nodes.
    pub sum: u64,
    /// A lower bound for the sums of all candidates: equal to `sum` if the hint is exact, 0 if another search than the
    /// one for the closest nodes is unfinished.
    pub at_least: u64,
}
