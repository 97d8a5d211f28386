//! Merges the hints of all resources by Volcano's rule, without the product of all combinations.
//!
//! Mirrors `mergeFilteredHints`. A combination takes one hint of every resource; its mask is the AND of the
//! masks (a hint without mask counts as all nodes), empty masks are dropped, and it is preferred if all its hints are,
//! whether or not the masks are equal. A preferred combination beats the others, then the narrower mask
//! wins, and if there is no combination the answer is all nodes, not preferred.
//!
//! Two facts make the product unnecessary. If the AND of any combination of preferred hints is not empty, only
//! preferred hints matter; otherwise all hints do, and only their masks. And among masks that contain a given node, one
//! that is contained in another leads to a result that is as narrow or narrower: so, node by node, only minimal masks
//! are kept.

use smallvec::SmallVec;

use pinfold_core::cover::{lowest_of_narrowest, lowest_of_width};
use pinfold_core::hint::{Family, Hint, Preference, ProviderHints, ResourceHints};
use pinfold_core::merge::{self, Budgets, MergeRequest};
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

mod narrowest;

use narrowest::narrowest_and;

/// The best common hint of all resources of all providers on the NUMA nodes `all`. Its mask is always present.
///
/// If several resources have so many different minimal masks that trying all their ANDs would take too long, there may
/// be a narrower hint.
#[must_use]
pub fn merge(all: NodeSet, providers: &[ProviderHints]) -> Hint {
    let rows = HintRows::of(providers);
    for preferred in [true, false] {
        if let Some(mask) = rows.narrowest(all, preferred) {
            return Hint::on(mask, preferred);
        }
    }
    Hint::on(all, false)
}

/// The best common hint among preferred hints on one node and those without mask: the merge under the policy
/// `single-numa-node`. Mirrors `filterSingleNumaHints`, which is the kubelet's rule.
#[must_use]
pub(crate) fn merge_single(all: NodeSet, providers: &[ProviderHints]) -> Hint {
    let merged = merge::merge(&MergeRequest {
        nodes: all,
        policy: TopologyPolicy::SingleNumaNode,
        closest: None,
        providers,
        budgets: Budgets::default(),
    });
    // The kubelet reports a result on all nodes as one without a mask.
    Hint::on(merged.hint.mask.unwrap_or(all), merged.hint.preferred)
}

/// The hints of all resources that have a preference.
struct HintRows<'a> {
    hints: SmallVec<[&'a ResourceHints; 4]>,
    /// Whether some resource has no hint: then no combination is preferred.
    impossible: bool,
}

impl<'a> HintRows<'a> {
    fn of(providers: &'a [ProviderHints]) -> Self {
        let mut rows = HintRows {
            hints: SmallVec::new(),
            impossible: false,
        };
        for (_, hints) in providers.iter().flat_map(|provider| &provider.rows) {
            match hints {
                ResourceHints::DontCare => {}
                ResourceHints::Unsatisfiable => rows.impossible = true,
                ResourceHints::List(list) if list.is_empty() => rows.impossible = true,
                ResourceHints::Family(_) | ResourceHints::List(_) => rows.hints.push(hints),
            }
        }
        rows
    }

    /// The narrowest non-empty AND of one hint of each resource.
    fn narrowest(&self, all: NodeSet, preferred: bool) -> Option<NodeSet> {
        if all.is_empty() || preferred && self.impossible {
            return None;
        }
        match self.hints.as_slice() {
            [] => Some(all),
            [ResourceHints::Family(family)] if is_plain(family, all) => {
                narrowest_member(family, preferred)
            }
            rows => {
                let lists: SmallVec<[Vec<NodeSet>; 4]> = rows
                    .iter()
                    .map(|hints| masks(hints, all, preferred))
                    .collect();
                narrowest_and(all, &lists)
            }
        }
    }
}

/// Families on more nodes than this are not listed completely.
const MAX_LISTED_NODES: usize = 16;

fn universe(family: &Family) -> NodeSet {
    let parts = family.components.iter();
    parts.fold(NodeSet::EMPTY, |nodes, part| nodes | part.universe)
}

/// The non-empty masks of one resource, all nodes for a hint without mask.
fn masks(hints: &ResourceHints, all: NodeSet, preferred: bool) -> Vec<NodeSet> {
    match hints {
        ResourceHints::List(list) => list
            .iter()
            .filter(|hint| hint.preferred || !preferred)
            .map(|hint| hint.mask.map_or(all, |mask| mask & all))
            .filter(|mask| !mask.is_empty())
            .collect(),
        ResourceHints::Family(family) => {
            // Beyond the limit only the narrow ones, which are the most likely to win.
            let subsets = universe(family)
                .subsets_by_width()
                .take(1 << MAX_LISTED_NODES);
            subsets
                .filter(|&mask| {
                    family.contains(mask) && (!preferred || family.preference.holds(mask))
                })
                .map(|mask| mask & all)
                .filter(|mask| !mask.is_empty())
                .collect()
        }
        ResourceHints::DontCare | ResourceHints::Unsatisfiable => vec![all],
    }
}

/// Whether the family is a single threshold on the sum over the mask, as the CPU provider has it.
fn is_plain(family: &Family, all: NodeSet) -> bool {
    matches!(family.preference, Preference::Width(_))
        && matches!(
            family.components.as_slice(),
            [part] if part.forced.is_empty()
                && part.universe.is_subset(all)
                && matches!(part.thresholds.as_slice(), [threshold] if threshold.groups.is_empty())
        )
}

/// The narrowest member of a plain family, or the narrowest preferred one; among equally wide ones the lowest.
fn narrowest_member(family: &Family, preferred: bool) -> Option<NodeSet> {
    let part = family.components.first()?;
    match (preferred, &family.preference) {
        (true, Preference::Width(0)) => None,
        (true, Preference::Width(width)) => {
            lowest_of_width(part.universe, *width, &part.thresholds)
        }
        _ => lowest_of_narrowest(part.universe, NodeSet::EMPTY, &part.thresholds),
    }
}

#[cfg(test)]
mod tests;
