//! The product of parts, one per resource: few choices, however many masks there are.
//!
//! A choice is determined by the nodes W that all its universes have in common and the parts that can do without some
//! of them. Resources are folded in one by one; choices without a common node are dropped, equal ones merged. Fixed
//! masks hardly overlap with other parts of their resource, so about one choice per fixed mask and one for the rest
//! survive.

use smallvec::SmallVec;

use super::budget::{MergeSearch, UnfinishedSearches};
use super::problem::{MergeProblem, PartId, ProblemResource};
use crate::node_set::NodeSet;

/// One part per resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartChoice {
    /// The nodes that all universes have in common.
    pub(super) within: NodeSet,
    /// The open parts that can do without some of these nodes, ascending; the same part may occur several times.
    pub(super) parts: SmallVec<[PartId; 6]>,
}

/// One choice in this many visited ones is kept.
const KEPT: usize = 16;

/// All choices with a common node, widest first. `visits` are divided among the resources, and one in sixteen of the
/// choices is kept, the widest ones; leaving out any is recorded in `unfinished`.
pub(super) fn of(
    problem: &MergeProblem<'_>,
    visits: u32,
    unfinished: &mut UnfinishedSearches,
) -> Vec<PartChoice> {
    let visits = usize::try_from(visits).unwrap_or(usize::MAX);
    let most = (visits / KEPT).max(1);
    let visits = (visits / problem.resources.len().max(1)).max(KEPT);
    let mut choices = Vec::new();
    if !problem.all.is_empty() {
        choices.push(PartChoice {
            within: problem.all,
            parts: SmallVec::new(),
        });
    }
    for resource in problem
        .resources
        .iter()
        .filter(|resource| resource.width.is_some())
    {
        let pairs = choices
            .iter()
            .flat_map(|choice| options(resource).map(move |part| (choice, part)));
        let mut pairs = pairs.fuse();
        let looked_at = pairs.by_ref().take(visits);
        let mut next: Vec<PartChoice> = looked_at
            .filter_map(|(choice, part)| choice.and(problem, part))
            .collect();
        if pairs.next().is_some() {
            unfinished.insert(MergeSearch::Choices);
        }
        next.sort_by(PartChoice::order);
        next.dedup();
        if next.len() > most {
            unfinished.insert(MergeSearch::Choices);
            next.truncate(most);
        }
        choices = next;
    }
    choices
}

/// One part of a resource.
#[derive(Clone, Copy)]
enum Choose {
    Any,
    Open(PartId),
    Fixed(NodeSet),
}

/// The parts of a resource, the least restrictive first.
fn options<'m>(resource: &'m ProblemResource<'_>) -> impl Iterator<Item = Choose> + 'm {
    let any = resource.any.then_some(Choose::Any);
    let open = resource.open.iter().copied().map(Choose::Open);
    let fixed = resource.fixed.iter().copied().map(Choose::Fixed);
    any.into_iter().chain(open).chain(fixed)
}

impl PartChoice {
    /// The choice with one more part; `None` if no common node is left.
    fn and(&self, problem: &MergeProblem<'_>, option: Choose) -> Option<Self> {
        let mut choice = self.clone();
        match option {
            Choose::Any => {}
            Choose::Fixed(mask) => choice.within = choice.within & mask,
            Choose::Open(id) => {
                choice.within = choice.within & problem.part(id).universe;
                let place = choice.parts.partition_point(|&other| other <= id);
                choice.parts.insert(place, id);
            }
        }
        if choice.within.is_empty() {
            return None;
        }
        // A part whose universe is forced completely cannot drop any node.
        choice
            .parts
            .retain(|id| !choice.within.is_subset(problem.part(*id).forced));
        Some(choice)
    }

    fn order(a: &PartChoice, b: &PartChoice) -> std::cmp::Ordering {
        let wider = b.within.len().cmp(&a.within.len());
        wider
            .then(a.within.cmp(&b.within))
            .then_with(|| a.parts.cmp(&b.parts))
    }
}
