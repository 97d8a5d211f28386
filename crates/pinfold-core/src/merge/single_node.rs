//! The policy single-numa-node: one node that all resources prefer, or none.
//!
//! Mirrors `singleNumaNodePolicy.Merge`, which keeps only preferred hints that are mask-less or on one node.
//! Two different one-node masks have nothing in common, so the product comes down to the lowest node that every
//! resource with masks prefers alone. Distances are ignored. A result on all nodes is reported as no mask, also when
//! the machine has only one node.

use super::facts::{HintSummary, MergeFacts, MergeRule, NoPreferred, WidthRange};
use super::{Hints, MergeResource};
use crate::hint::Hint;
use crate::node_set::NodeSet;

pub(super) fn merge(all: NodeSet, resources: &[MergeResource<'_>]) -> (Hint, MergeFacts) {
    let mut facts = MergeFacts::new(MergeRule::NoCommonNode);
    // Nodes that no resource excludes, and nodes that some resource prefers.
    let mut common = all;
    let mut preferred = NodeSet::EMPTY;
    let mut anywhere = true;
    for (index, resource) in resources.iter().enumerate() {
        let alone = SingleNodeMasks::of(resource.hints, all);
        facts
            .resources
            .push(resource.facts(alone.summary(resource.hints)));
        if !alone.anywhere && alone.nodes.is_empty() {
            facts.no_preferred.get_or_insert(match resource.hints {
                Hints::Unsatisfiable => NoPreferred::Unsatisfiable { resource: index },
                _ => NoPreferred::PrefersNothing { resource: index },
            });
        }
        if !alone.anywhere {
            anywhere = false;
            common = common & alone.nodes;
        }
        preferred = preferred | alone.nodes;
    }
    facts.best_width = usize::from(!preferred.is_empty());

    let nodes = common & preferred;
    let merged = match nodes.first() {
        Some(node) => Hint::on(NodeSet::single(node), true),
        None => Hint::on(all, anywhere && !all.is_empty()),
    };
    if merged.preferred {
        facts.decided_by = MergeRule::Preferred;
        facts.candidates = Some(nodes.len().max(1));
    } else {
        facts.no_preferred.get_or_insert(NoPreferred::NoCommonMask);
    }
    let mask = merged.mask.filter(|&mask| mask != all);
    (Hint { mask, ..merged }, facts)
}

/// The one-node masks that a resource prefers, and whether it has a preferred hint without a mask.
struct SingleNodeMasks {
    nodes: NodeSet,
    anywhere: bool,
}

impl SingleNodeMasks {
    fn of(hints: Hints<'_>, all: NodeSet) -> Self {
        let mut alone = Self {
            nodes: NodeSet::EMPTY,
            anywhere: matches!(hints, Hints::DontCare),
        };
        match hints {
            Hints::DontCare | Hints::Unsatisfiable => {}
            Hints::List(list) => {
                for hint in list.iter().filter(|hint| hint.preferred) {
                    match hint.mask {
                        None => alone.anywhere = true,
                        Some(mask) if mask.len() == 1 => alone.nodes = alone.nodes | mask & all,
                        Some(_) => {}
                    }
                }
            }
            Hints::Family(family) => {
                for node in all {
                    let mask = NodeSet::single(node);
                    if family.preference.holds(mask) && family.contains(mask) {
                        alone.nodes.insert(node);
                    }
                }
            }
        }
        alone
    }

    fn summary(&self, hints: Hints<'_>) -> HintSummary {
        match hints {
            Hints::DontCare => HintSummary::DontCare,
            Hints::Unsatisfiable => HintSummary::Unsatisfiable,
            Hints::List(_) | Hints::Family(_) if self.nodes.is_empty() => match self.anywhere {
                true => HintSummary::DontCare,
                false => HintSummary::Unsatisfiable,
            },
            Hints::List(_) | Hints::Family(_) => HintSummary::Masks {
                narrowest: WidthRange::exactly(1),
                preferred_width: Some(1),
            },
        }
    }
}
