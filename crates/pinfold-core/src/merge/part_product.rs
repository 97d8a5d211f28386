//! Combinations of parts, one per resource: few, however many masks there are.
//!
//! What matters of a combination are the nodes W that all its universes share and the parts that can do without
//! some of them. MergeResources are folded in one by one; combinations without a common node vanish, equal ones fall
//! together. Fixed masks hardly overlap with other parts of their resource, so about one combination per fixed mask and
//! one for the rest survive.

use smallvec::SmallVec;

use super::budget::{MergeSearch, UnfinishedSearches};
use super::problem::{MergeProblem, PartId, ProblemResource};
use crate::node_set::NodeSet;

/// One part per resource, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartChoice {
    /// The nodes that all universes share.
    pub(super) within: NodeSet,
    /// The open parts that may do without some of them, ascending; the same part may occur several times.
    pub(super) parts: SmallVec<[PartId; 6]>,
}

/// How many combinations are kept of those looked at.
const KEPT: usize = 16;

/// All combinations with a common node, widest first. `looks` are shared among the resources, and one in sixteen of
/// the combinations is kept, the widest; leaving any out is noted.
pub(super) fn of(
    problem: &MergeProblem<'_>,
    looks: u32,
    unfinished: &mut UnfinishedSearches,
) -> Vec<PartChoice> {
    let looks = usize::try_from(looks).unwrap_or(usize::MAX);
    let most = (looks / KEPT).max(1);
    let looks = (looks / problem.members.len().max(1)).max(KEPT);
    let mut combos = Vec::new();
    if !problem.all.is_empty() {
        combos.push(PartChoice {
            within: problem.all,
            parts: SmallVec::new(),
        });
    }
    for member in problem
        .members
        .iter()
        .filter(|member| member.width.is_some())
    {
        let pairs = combos
            .iter()
            .flat_map(|combo| options(member).map(move |part| (combo, part)));
        let mut pairs = pairs.fuse();
        let looked_at = pairs.by_ref().take(looks);
        let mut next: Vec<PartChoice> = looked_at
            .filter_map(|(combo, part)| combo.and(problem, part))
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
        combos = next;
    }
    combos
}

/// One part of a resource.
#[derive(Clone, Copy)]
enum Choose {
    Any,
    Open(PartId),
    Fixed(NodeSet),
}

/// The parts of a resource, those that leave most open first.
fn options<'m>(member: &'m ProblemResource<'_>) -> impl Iterator<Item = Choose> + 'm {
    let any = member.any.then_some(Choose::Any);
    let open = member.open.iter().copied().map(Choose::Open);
    let fixed = member.fixed.iter().copied().map(Choose::Fixed);
    any.into_iter().chain(open).chain(fixed)
}

impl PartChoice {
    /// With one more part; `None` if no common node is left.
    fn and(&self, problem: &MergeProblem<'_>, option: Choose) -> Option<Self> {
        let mut combo = self.clone();
        match option {
            Choose::Any => {}
            Choose::Fixed(mask) => combo.within = combo.within & mask,
            Choose::Open(id) => {
                combo.within = combo.within & problem.part(id).universe;
                let place = combo.parts.partition_point(|&other| other <= id);
                combo.parts.insert(place, id);
            }
        }
        if combo.within.is_empty() {
            return None;
        }
        // A part that must keep everything cannot do without anything.
        combo
            .parts
            .retain(|id| !combo.within.is_subset(problem.part(*id).forced));
        Some(combo)
    }

    fn order(a: &PartChoice, b: &PartChoice) -> std::cmp::Ordering {
        let wider = b.within.len().cmp(&a.within.len());
        wider
            .then(a.within.cmp(&b.within))
            .then_with(|| a.parts.cmp(&b.parts))
    }
}
