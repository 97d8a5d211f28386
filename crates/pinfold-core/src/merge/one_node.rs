//! The commonest answer: one NUMA node that every resource prefers.
//!
//! Under `best-effort` and `restricted` a preferred mask wins, of several the narrowest, of several of one node the
//! lowest. So the lowest node that is a preferred hint of every resource by itself is the answer, and nothing has to be
//! prepared for a search. It is found only if every resource that has hints prefers single nodes; with distances it is
//! not tried.

use super::facts::{HintSummary, MergeFacts, MergeResourceFacts, MergeRule, WidthRange};
use super::{MergeRequest, MergeResult};
use crate::hint::{Component, Family, Hint, Preference, ResourceHints};
use crate::node_set::NodeSet;
use crate::policy::TopologyPolicy;

/// The merge, if its answer is one node that all resources prefer.
pub(super) fn merge(request: &MergeRequest<'_>) -> Option<MergeResult> {
    let searched = matches!(
        request.policy,
        TopologyPolicy::BestEffort | TopologyPolicy::Restricted
    );
    if !searched || request.closest.is_some() {
        return None;
    }
    let mut found = NodeSet::EMPTY;
    let mut open = request.nodes;
    while found.is_empty() {
        let mask = NodeSet::single(open.first()?);
        if all_prefer(request, mask)? {
            found = mask;
        }
        open = open - mask;
    }
    let mut facts = MergeFacts::new(MergeRule::Preferred);
    for (provider, hints) in request.providers.iter().enumerate() {
        let mut add = |row, hints| {
            facts.resources.push(MergeResourceFacts {
                provider,
                row,
                hints,
            });
        };
        if hints.rows.is_empty() {
            add(None, HintSummary::DontCare);
        }
        for (row, (_, hints)) in hints.rows.iter().enumerate() {
            let summary = match hints {
                ResourceHints::DontCare => HintSummary::DontCare,
                _ => HintSummary::Masks {
                    narrowest: WidthRange::exactly(1),
                    preferred_width: Some(1),
                },
            };
            add(Some(row), summary);
        }
    }
    facts.best_width = 1;
    let hint = Hint::on(found, true);
    Some(MergeResult {
        hint,
        admit: request.policy.admits(hint),
        facts,
    })
}

/// Whether one node is a preferred hint of every resource with hints. `None` if that is not the question: a resource has
/// a list or no hints, prefers more nodes than one or names nodes that the machine does not have; or none has hints.
fn all_prefer(request: &MergeRequest<'_>, mask: NodeSet) -> Option<bool> {
    let mut families = 0;
    for hints in request.resources() {
        match hints {
            ResourceHints::DontCare => {}
            ResourceHints::Family(family) if prefers_one_node(family, request.nodes) => {
                families += 1;
                if !family.contains(mask) {
                    return Some(false);
                }
            }
            _ => return None,
        }
    }
    (families > 0).then_some(true)
}

fn prefers_one_node(family: &Family, all: NodeSet) -> bool {
    let known = |part: &Component| part.universe.is_subset(all);
    let one = match &family.preference {
        Preference::Width(width) | Preference::WidthOrSockets(width, _) => *width == 1,
    };
    one && family.components.iter().all(known)
}
