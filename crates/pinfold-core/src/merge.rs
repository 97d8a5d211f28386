//! The hint merge: one NUMA affinity from the hints of all resources, without enumerating all combinations.
//!
//! The kubelet's topology manager tries every combination of one hint per resource, ANDs the masks and keeps the best: a
//! product of lists of up to 2^n masks each. "Best" is a total order (`HintMerger.compare`):
//!
//! 1. preferred before not preferred;
//! 2. among those not preferred, by width against the *best width*: exactly that wide, then narrower ones from wide to
//!    narrow, then wider ones from narrow to wide;
//! 3. fewer nodes, then (with prefer-closest) the smaller sum of distances, then the smaller number.
//!
//! So the answer follows from two sets alone: the masks that all resources prefer, and the masks reachable as an AND.
//!
//! # Why each algorithm exists
//! Rows are those of `make bench`.
//!
//! * `one_node`: nearly always one node is preferred by all resources; then nothing is prepared and nothing searched
//!   (`merge: 2 nodes, cpu, best-effort`, and every row of `admission`).
//! * `single_node`: under `single-numa-node` only single nodes count, one pass over the resources decides
//!   (`merge: 16 nodes, ..., single-numa-node`).
//! * `lists` and `and_closure`: hints of other programs are lists, and a search that ran out of steps on a machine
//!   of up to 16 nodes is repeated over all masks, so that the answer is exact there whatever the input. The fold by a
//!   transform costs n 2^n per list instead of a product. No row: no resource manager of ours returns lists.
//! * `families`, `preferred` with [`crate::cover`]: one mask that meets the thresholds of all resources, instead of
//!   a product of all their masks. The filter at the root of a cover decides nearly always; the depth-first search
//!   behind it is for several kinds of memory and overlapping groups of devices (`scenes, 64 nodes, crowded`). It
//!   remembers no failures and does not know equal nodes: both helped a few random cases of `tests/merge_large.rs`, and
//!   no realistic one.
//! * `part_product`: a family is a union of parts; most choices of one part per resource have no node in common and
//!   are dropped before anything is searched (`managers and merge, 64 nodes, crowded`: every node in use is a part).
//! * `packing` and `smallest_and`: whether a mask is an AND of one mask per resource is a packing problem, and the
//!   smallest such mask is found by dropping nodes from the highest down (`scenes, 64 nodes, crowded`). One resource
//!   can nearly always drop all nodes by itself; the search behind that has no bounds of its own.
//! * `closest` with `linkage`: of all solutions the one with the smallest sum of distances; the bound by single
//!   linkage is exact on hierarchical machines (`scenes, 64 nodes, crowded, closest`). The bound by neighbours is for
//!   machines without a hierarchy, rings and meshes of boards, where linkage is weak: five of twenty nodes take more
//!   than 40,000 steps without it and fewer than 3,000 with it (`closest 5 of 20 nodes, no hierarchy`).
//! * `budget`, `facts`: each search is bounded, and the answer names the searches that ran out of steps.

mod and_closure;
mod budget;
mod closest;
mod distances;
mod facts;
mod families;
mod linkage;
mod lists;
mod one_node;
mod packing;
mod part_product;
mod preferred;
mod problem;
mod single_node;
mod smallest_and;

use smallvec::SmallVec;

pub use budget::{Budgets, MergeSearch, UnfinishedSearches};
pub use distances::Distances;
pub use facts::{
    DistanceFacts, HintSummary, MergeFacts, MergeResourceFacts, MergeRule, NoPreferred, WidthRange,
};

use crate::hint::{Component, Family, Hint, ProviderHints, ResourceHints};
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
    if let Some(merged) = one_node::merge(request) {
        return merged;
    }
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
                single_node::merge(self.nodes, &resources_of(self.providers))
            }
            TopologyPolicy::BestEffort | TopologyPolicy::Restricted => {
                method(&resources_of(self.providers))?
            }
        };
        Some(MergeResult {
            hint,
            admit: self.policy.admits(hint),
            facts,
        })
    }
}

/// The hints of one resource, and its position in the request.
struct MergeResource<'a> {
    provider: usize,
    row: Option<usize>,
    hints: Hints<'a>,
}

/// The hints of one resource. Lists and families here have at least one hint.
#[derive(Clone, Copy)]
enum Hints<'a> {
    DontCare,
    Unsatisfiable,
    List(&'a [Hint]),
    Family(&'a Family),
}

type MergeResources<'a> = SmallVec<[MergeResource<'a>; 8]>;

/// All resources in the order of their providers. Mirrors `filterProvidersHints`: a provider without resources and a
/// resource without a list have no preference; a resource with an empty list is unsatisfiable.
fn resources_of(providers: &[ProviderHints]) -> MergeResources<'_> {
    let mut resources = MergeResources::new();
    for (provider, hints) in providers.iter().enumerate() {
        if hints.rows.is_empty() {
            resources.push(MergeResource {
                provider,
                row: None,
                hints: Hints::DontCare,
            });
        }
        for (row, (_, hints)) in hints.rows.iter().enumerate() {
            resources.push(MergeResource {
                provider,
                row: Some(row),
                hints: Hints::of(hints),
            });
        }
    }
    resources
}

impl<'a> Hints<'a> {
    fn of(hints: &'a ResourceHints) -> Self {
        match hints {
            ResourceHints::DontCare => Hints::DontCare,
            ResourceHints::Unsatisfiable => Hints::Unsatisfiable,
            ResourceHints::List(list) if list.is_empty() => Hints::Unsatisfiable,
            ResourceHints::List(list) => Hints::List(list),
            ResourceHints::Family(family) => {
                match family.components.iter().all(Component::is_empty) {
                    true => Hints::Unsatisfiable,
                    false => Hints::Family(family),
                }
            }
        }
    }
}

impl MergeResource<'_> {
    /// The entry of this resource in the facts.
    fn facts(&self, hints: HintSummary) -> MergeResourceFacts {
        MergeResourceFacts {
            provider: self.provider,
            row: self.row,
            hints,
        }
    }
}
