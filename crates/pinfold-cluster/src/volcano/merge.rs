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
use pinfold_core::node_set::NodeSet;

mod narrowest;

use narrowest::narrowest_and;

/// The best common hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolcanoMerge {
    /// The hint. Its mask is always present.
    pub hint: Hint,
    /// Whether it is certainly the best one. It is not certain only if several resources have so many different minimal
    /// masks that trying all their ANDs would take too long; the hint is then a possible one, but there may be a
    /// narrower one.
    pub certain: bool,
}

/// The best common hint of all resources of all providers on the NUMA nodes `all`.
#[must_use]
pub fn merge(all: NodeSet, providers: &[ProviderHints]) -> VolcanoMerge {
    let rows = HintRows::of(providers);
    let mut certain = true;
    for preferred in [true, false] {
        if let Some((mask, is_certain)) = rows.narrowest(all, preferred) {
            return VolcanoMerge {
                hint: Hint::on(mask, preferred),
                certain: certain && is_certain,
            };
        }
        certain &= rows.lists_are_complete(all);
    }
    VolcanoMerge {
        hint: Hint::on(all, false),
        certain,
    }
}

/// The best common hint among preferred hints on one node and those without mask: the merge under the policy
/// `single-numa-node`. Mirrors `filterSingleNumaHints`.
#[must_use]
pub fn merge_single(all: NodeSet, providers: &[ProviderHints]) -> Hint {
    let rows = HintRows::of(providers);
    let (mut possible, mut named, mut any) = (all, NodeSet::EMPTY, !rows.impossible);
    for hints in &rows.hints {
        let (nodes, also_any) = preferred_single_nodes(hints, all);
        named = named | nodes;
        if !also_any {
            possible = possible & nodes;
            any = false;
        }
    }
    match (possible & named).first() {
        Some(node) if !rows.impossible => Hint::on(NodeSet::single(node), true),
        _ => Hint::on(all, any && !all.is_empty()),
    }
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

    /// The narrowest non-empty AND of one hint of each resource, and whether it is certainly the narrowest.
    fn narrowest(&self, all: NodeSet, preferred: bool) -> Option<(NodeSet, bool)> {
        if all.is_empty() || preferred && self.impossible {
            return None;
        }
        match self.hints.as_slice() {
            [] => Some((all, true)),
            [ResourceHints::Family(family)] if is_plain(family, all) => {
                let mask = narrowest_member(family, preferred)?;
                Some((mask, true))
            }
            rows => {
                let lists: SmallVec<[Vec<NodeSet>; 4]> = rows
                    .iter()
                    .map(|hints| masks(hints, all, preferred))
                    .collect();
                let (mask, is_certain) = narrowest_and(all, &lists)?;
                Some((mask, is_certain && self.lists_are_complete(all)))
            }
        }
    }

    /// Whether [`masks`] lists every family completely.
    fn lists_are_complete(&self, all: NodeSet) -> bool {
        let plain = matches!(self.hints.as_slice(), [ResourceHints::Family(family)] if is_plain(family, all));
        plain
            || self.hints.iter().all(|hints| match hints {
                ResourceHints::Family(family) => universe(family).len() <= MAX_LISTED_NODES,
                _ => true,
            })
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

/// The nodes on which a resource has a preferred hint of one node, and whether it also has one without mask.
fn preferred_single_nodes(hints: &ResourceHints, all: NodeSet) -> (NodeSet, bool) {
    match hints {
        ResourceHints::List(list) => list.iter().filter(|hint| hint.preferred).fold(
            (NodeSet::EMPTY, false),
            |(nodes, any), hint| match hint.mask {
                None => (nodes, true),
                Some(mask) if mask.len() == 1 => (nodes | mask, any),
                Some(_) => (nodes, any),
            },
        ),
        ResourceHints::Family(family) => {
            let alone = |node: &_| {
                let mask = NodeSet::single(*node);
                family.contains(mask) && family.preference.holds(mask)
            };
            (all.iter().filter(alone).collect(), false)
        }
        ResourceHints::DontCare => (NodeSet::EMPTY, true),
        ResourceHints::Unsatisfiable => (NodeSet::EMPTY, false),
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
