//! The hint merge: one NUMA affinity from the hints of all resources, without enumerating all combinations.
//!
//! The kubelet's topology manager tries every combination of one hint per resource, ANDs the masks and
//! keeps the best: a product of lists of up to 2^n masks each. "Best" is a total order (`merge/rank.rs`), so the answer
//! follows from two sets alone: the masks that all resources prefer, and the masks reachable as an AND.
//!
//! ```text
//! hints of the providers      resources
//! policy single-numa-node     single_node
//! hints as lists              lists ── and_closure (fold, superset transform)
//! hints as families           families
//!   a mask that all prefer      preferred ── cover (search, surrogate)
//!   the best width              width ── cover
//!   masks reachable as an AND   part_product ── smallest_and ── packing
//!   the closest of them         closest ── linkage, neighbours
//! step budgets, explanation   budget, facts
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

/// The input of a merge.
#[derive(Clone, Copy, Debug)]
pub struct MergeRequest<'a> {
    /// All NUMA nodes of the machine.
    pub nodes: NodeSet,
    /// The topology policy.
    pub policy: TopologyPolicy,
    /// The distances, if the option `prefer-closest-numa-nodes` is on.
    pub closest: Option<&'a Distances>,
    /// The hints of the resource managers, in the order in which the managers are registered.
    pub providers: &'a [ProviderHints],
    /// The step budgets of the searches.
    pub budgets: Budgets,
}

/// The output of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeResult {
    /// The merged hint: the NUMA affinity of the pod or container.
    pub hint: Hint,
    /// Whether the topology policy admits the hint.
    pub admit: bool,
    /// How the hint was chosen.
    pub facts: MergeFacts,
}

/// Merges the hints of all resources as the kubelet's policies do (`Policy.Merge`).
///
/// Lists of hints on a machine of up to 16 nodes are merged as lists, everything else as families. Where a search runs
/// out of steps on such a machine, the families are written out as lists, so that up to 16 nodes the answer is always
/// exact; beyond, [`MergeFacts::unfinished`] names the searches that ran out of steps.
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

/// The same merge by searching, for any number of nodes: a list counts as a family of single masks.
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

/// The same merge by writing out all hints as lists. `None` beyond 16 nodes.
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
