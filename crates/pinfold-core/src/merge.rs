//! The merge: one placement out of what all resources said, without the product of all combinations.
//!
//! The kubelet's topology manager tries every combination of one hint per resource, ANDs the masks and
//! keeps the best. That is a product of lists of up to 2^n masks each. The best is the first of a
//! total [order](rank), so the answer follows from two sets alone: the masks that all resources prefer, and the masks
//! that are reachable as an AND.

mod budget;
mod distances;
mod facts;
mod lists;
mod rank;
mod reachable;
mod resources;
mod single_node;

pub use budget::{Budgets, Question, Questions};
pub use distances::Distances;
pub use facts::{DistanceFacts, MergeFacts, NoPreferred, ResourceFacts, Rule, WidthRange, Wish};

use crate::hint::{Hint, ProviderHints};
use crate::node_set::NodeSet;
use crate::policy::TopologyPolicy;

/// Everything a merge depends on.
#[derive(Clone, Copy, Debug)]
pub struct MergeRequest<'a> {
    /// All NUMA nodes of the machine.
    pub nodes: NodeSet,
    /// How strict to be.
    pub policy: TopologyPolicy,
    /// The distances, if the option `prefer-closest-numa-nodes` is on.
    pub closest: Option<&'a Distances>,
    /// What the managers said, in the order in which they are registered.
    pub providers: &'a [ProviderHints],
    /// How long to search.
    pub budgets: Budgets,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Where the pod or container goes.
    pub hint: Hint,
    /// Whether the policy lets it run.
    pub admit: bool,
    /// Why.
    pub facts: MergeFacts,
}

/// Merges the hints of all resources as the kubelet's policies do (`Policy.Merge`).
#[must_use]
pub fn merge(request: &MergeRequest<'_>) -> Merged {
    merge_by_families(request)
}

/// The same by the families.
#[must_use]
pub fn merge_by_families(request: &MergeRequest<'_>) -> Merged {
    merge_by_lists(request).expect("")
}

/// The same by writing out all hints, as long as there are at most 16 nodes to write them out for.
#[must_use]
pub fn merge_by_lists(request: &MergeRequest<'_>) -> Option<Merged> {
    let resources = resources::of(request.providers);
    let (hint, facts) = match request.policy {
        TopologyPolicy::None => (Hint::NONE, MergeFacts::new(Rule::NoPolicy)),
        TopologyPolicy::SingleNumaNode => single_node::merge(request.nodes, &resources),
        TopologyPolicy::BestEffort | TopologyPolicy::Restricted => {
            lists::merge(request.nodes, request.closest, &resources)?
        }
    };
    Some(request.answer(hint, facts))
}

impl MergeRequest<'_> {
    fn answer(&self, hint: Hint, facts: MergeFacts) -> Merged {
        Merged {
            hint,
            admit: self.policy.admits(hint),
            facts,
        }
    }
}
