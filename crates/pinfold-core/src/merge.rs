//! The merge: one placement out of what all resources said, without the product of all combinations.
//!
//! The kubelet's topology manager tries every combination of one hint per resource, ANDs the masks and
//! keeps the best: a product of lists of up to 2^n masks each. "Best" is a total order (`merge/rank.rs`), so the answer
//! follows from two sets alone: the masks that all resources prefer, and the masks reachable as an AND.
//!
//! ```text
//! what the managers said      resources
//! policy single-numa-node     single_node
//! hints as lists              lists ── reachable (fold, superset transform)
//! hints as families           families
//!   a mask that all prefer      preferred ── cover (search, surrogate)
//!   the best width              width ── cover
//!   masks reachable as an AND   combos ── reach ── packing
//!   the closest of them         closest ── linkage, neighbours
//! what it costs, and why      budget, facts
//! ```

mod and_closure;
mod budget;
mod choice;
mod closest;
mod cover;
mod distances;
mod facts;
mod families;
mod linkage;
mod lists;
mod neighbours;
mod packing;
mod part_product;
mod preferred;
mod prepared_threshold;
mod problem;
mod rank;
mod resources;
mod single_node;
mod smallest_and;
mod width;

pub use budget::{Budgets, MergeSearch, UnfinishedSearches};
pub use distances::Distances;
pub use facts::{
    DistanceFacts, HintSummary, MergeFacts, MergeResourceFacts, MergeRule, NoPreferred, WidthRange,
};
pub use width::narrowest_width;

use self::resources::MergeResource;
use crate::hint::{Hint, ProviderHints, ResourceHints};
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
pub struct MergeResult {
    /// Where the pod or container goes.
    pub hint: Hint,
    /// Whether the policy lets it run.
    pub admit: bool,
    /// Why.
    pub facts: MergeFacts,
}

/// Merges the hints of all resources as the kubelet's policies do (`Policy.Merge`).
///
/// Hints that are lists on a machine of up to 16 nodes are merged as lists, everything else as families. Where
/// a search runs out of steps on such a machine, the families are listed after all, so up to 16 nodes the answer is
/// always exact; beyond, the facts tell.
#[must_use]
pub fn merge(request: &MergeRequest<'_>) -> MergeResult {
    let by_lists = || merge_by_lists(request);
    let only_lists = request
        .resources()
        .all(|hints| !matches!(hints, ResourceHints::Family(_)));
    if only_lists && let Some(merged) = by_lists() {
        return merged;
    }
    let merged = merge_by_families(request);
    match merged.facts.exact() {
        true => merged,
        false => by_lists().unwrap_or(merged),
    }
}

/// The same by searching, whatever the number of nodes: lists count as families of single masks.
#[must_use]
pub fn merge_by_families(request: &MergeRequest<'_>) -> MergeResult {
    let families = |resources: &[MergeResource<'_>]| {
        Some(families::merge(
            request.nodes,
            request.closest,
            resources,
            &request.budgets,
        ))
    };
    request
        .merge_by(families)
        .expect("families are always merged")
}

/// The same by writing out all hints. `None` beyond 16 nodes.
#[must_use]
pub fn merge_by_lists(request: &MergeRequest<'_>) -> Option<MergeResult> {
    request.merge_by(|resources| lists::merge(request.nodes, request.closest, resources))
}

impl MergeRequest<'_> {
    fn resources(&self) -> impl Iterator<Item = &ResourceHints> {
        let rows = self.providers.iter().flat_map(|provider| &provider.rows);
        rows.map(|(_, hints)| hints)
    }

    fn merge_by(
        &self,
        method: impl FnOnce(&[MergeResource<'_>]) -> Option<(Hint, MergeFacts)>,
    ) -> Option<MergeResult> {
        let (hint, facts) = match self.policy {
            TopologyPolicy::None => (Hint::NONE, MergeFacts::new(MergeRule::NoPolicy)),
            TopologyPolicy::SingleNumaNode => {
                single_node::merge(self.nodes, &resources::of(self.providers))
            }
            TopologyPolicy::BestEffort | TopologyPolicy::Restricted => {
                method(&resources::of(self.providers))?
            }
        };
        Some(MergeResult {
            hint,
            admit: self.policy.admits(hint),
            facts,
        })
    }
}
