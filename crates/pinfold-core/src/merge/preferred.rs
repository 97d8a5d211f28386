//! The preferred phase: a mask that every resource prefers.
//!
//! No product is needed: a combination is preferred only if all its hints are and all its masks are equal. So look
//! for one mask. It is a fixed mask of some resource, or it lies in an open part of every resource that insists:
//! then it has their common width, contains everybody's forced nodes and meets everybody's gauges. Several
//! resources with the very same family (the kinds of memory) count once.

use smallvec::SmallVec;

use super::budget::{Budget, Budgets, Question, Questions};
use super::closest::Closest;
use super::cover::{Cover, Goal};
use super::distances::Distances;
use super::facts::{MergeFacts, NoPreferred};
use super::rank::{Rank, keep_best};
use super::scene::{Member, PartId, Scene};
use crate::hint::{Preference, SocketRule};
use crate::node_set::NodeSet;

/// The best mask that all prefer, or why there is none.
pub(super) fn search(
    scene: &Scene<'_>,
    closest: Option<&Distances>,
    budgets: &Budgets,
    facts: &mut MergeFacts,
) -> Result<Rank, NoPreferred> {
    if let Some(reason) = obstacle(scene) {
        return Err(reason);
    }
    let mut search = Search {
        best: None,
        closest: closest.map(|distances| Closest::new(distances, budgets.closest)),
        budget: Budget::new(budgets.preferred),
        given_up: facts.given_up,
    };
    search.single_masks(scene);
    search.open_parts(scene, budgets);
    if search.budget.ran_dry() {
        search.given_up.insert(Question::Preferred);
    }
    let Search {
        best,
        closest,
        given_up,
        ..
    } = search;
    facts.given_up = given_up;
    // Rounded amounts might have let in a mask that falls short by next to nothing.
    let rounded = facts.given_up.contains(Question::Amounts);
    let accepted = |best: &Rank| !rounded || all_accept(scene, best.mask);
    let Some(best) = best.filter(accepted) else {
        return Err(match facts.given_up.contains(Question::Preferred) {
            true => NoPreferred::GaveUp,
            false => NoPreferred::NoCommonMask,
        });
    };
    if let Some(closest) = closest {
        facts.distance = Some(closest.facts(best.distance, &mut facts.given_up));
    }
    Ok(best)
}

fn all_accept(scene: &Scene<'_>, mask: NodeSet) -> bool {
    scene.members.iter().all(|member| member.accepts(mask))
}

/// The resources that insist on a mask of their own, with their positions.
fn insisting<'s, 'a>(scene: &'s Scene<'a>) -> impl Iterator<Item = (usize, &'s Member<'a>)> {
    scene
        .originals()
        .filter(|(_, member)| !member.any_preferred)
}

/// A reason that can be seen without looking at masks.
fn obstacle(scene: &Scene<'_>) -> Option<NoPreferred> {
    for (resource, member) in insisting(scene) {
        if member.width.is_none() {
            return Some(NoPreferred::Cannot { resource });
        }
        if member.prefers_nothing() {
            return Some(NoPreferred::PrefersNothing { resource });
        }
    }
    for (resource, member) in insisting(scene) {
        if let (Some(wanted), Some(width)) = (member.one_preferred_width(), member.width)
            && wanted < width.at_least
        {
            return Some(NoPreferred::TooNarrow { resource });
        }
    }
    let wanted =
        |(index, member): (usize, &Member<'_>)| Some((index, member.one_preferred_width()?));
    let mut widths = insisting(scene).filter_map(wanted);
    let (resource, width) = widths.next()?;
    let (other, _) = widths.find(|&(_, other)| other != width)?;
    Some(NoPreferred::DifferentWidths { resource, other })
}

/// A choice of open parts costs as much as so many choices of parts that are not searched.
const LOOKS_PER_COMMON: u32 = 64;

struct Search<'d> {
    best: Option<Rank>,
    closest: Option<Closest<'d>>,
    budget: Budget,
    given_up: Questions,
}

impl Search<'_> {
    fn offer(&mut self, mask: NodeSet) {
        if !mask.is_empty() {
            let distances = self.closest.as_ref().map(|closest| closest.distances);
            keep_best(&mut self.best, Rank::of(mask, distances));
        }
    }

    /// Masks that some resource has as a single mask.
    fn single_masks(&mut self, scene: &Scene<'_>) {
        // Whoever insists and has nothing else must be followed.
        let bound = insisting(scene).find(|(_, member)| member.open.is_empty());
        let followed = bound.map(|(index, _)| index);
        for (index, member) in scene.originals() {
            if followed.is_some_and(|followed| followed != index) {
                continue;
            }
            for &mask in &member.fixed {
                if member.prefers(mask) && all_accept(scene, mask) {
                    self.offer(mask & scene.all);
                }
            }
        }
        if insisting(scene).next().is_none() {
            self.offer(scene.all);
        }
    }

    /// Masks in the open parts of all resources that insist.
    fn open_parts(&mut self, scene: &Scene<'_>, budgets: &Budgets) {
        let mut commons = vec![Common::everything()];
        let looks = usize::try_from(budgets.choices / LOOKS_PER_COMMON).unwrap_or(usize::MAX);
        let mut insists = false;
        for (_, member) in insisting(scene) {
            insists = true;
            let pairs = commons
                .iter()
                .flat_map(|common| member.open.iter().map(move |id| (common, *id)));
            let mut pairs = pairs.fuse();
            let looked_at = pairs.by_ref().take(looks.max(1));
            let next = looked_at
                .filter_map(|(common, id)| common.and(scene, id))
                .collect();
            if pairs.next().is_some() {
                self.given_up.insert(Question::Preferred);
            }
            commons = next;
        }
        if !insists {
            return;
        }
        for common in &mut commons {
            if !common.within.is_subset(scene.all) {
                self.given_up.insert(Question::UnknownNodes);
                common.within = common.within & scene.all;
            }
        }
        for size in sizes(scene) {
            if self.best.is_some_and(|best| best.mask.len() < size) {
                break;
            }
            for common in &commons {
                self.common_mask(scene, common, size);
            }
        }
    }

    fn common_mask(&mut self, scene: &Scene<'_>, common: &Common, size: usize) {
        let Some(mut cover) = Cover::new(common.within, common.forced, size) else {
            return;
        };
        if !self.budget.step(common.within.len()) {
            return;
        }
        for &part in &common.parts {
            cover = cover.with_gauges(scene.gauges(scene.part(part)));
        }
        for (width, rule) in insisting(scene).filter_map(|(_, member)| socket_rule(member)) {
            // Of its own width the resource prefers a mask on any sockets.
            if width != size {
                cover = cover.with_sockets(rule);
            }
        }
        let goal = match &mut self.closest {
            Some(closest) => Goal::Closest(closest),
            None => Goal::Smallest,
        };
        if let Some(mask) = cover.solve(goal, &mut self.budget) {
            self.offer(mask);
        }
    }
}

/// The sizes a common mask may have, smallest first: the one width that somebody insists on, or, if all accept other
/// widths on the right sockets, every size from the narrowest on.
fn sizes(scene: &Scene<'_>) -> std::ops::RangeInclusive<usize> {
    let fixed = insisting(scene).find_map(|(_, member)| member.one_preferred_width());
    let narrowest = insisting(scene).filter_map(|(_, member)| member.width);
    match fixed {
        Some(width) => width..=width,
        None => narrowest.map(|width| width.at_least).max().unwrap_or(1)..=scene.all.len(),
    }
}

fn socket_rule<'a>(member: &Member<'a>) -> Option<(usize, &'a SocketRule)> {
    match member.preference()? {
        Preference::Width(_) => None,
        Preference::WidthOrSockets(width, rule) => Some((*width, rule)),
    }
}

/// One open part per resource that insists: where a mask of all of them must lie.
struct Common {
    within: NodeSet,
    forced: NodeSet,
    parts: SmallVec<[PartId; 6]>,
}

impl Common {
    fn everything() -> Self {
        Self {
            within: NodeSet::FULL,
            forced: NodeSet::EMPTY,
            parts: SmallVec::new(),
        }
    }

    /// With one more part; `None` if nothing is left.
    fn and(&self, scene: &Scene<'_>, id: PartId) -> Option<Self> {
        let part = scene.part(id);
        let within = self.within & part.universe;
        let forced = self.forced | part.forced;
        let mut parts = self.parts.clone();
        parts.push(id);
        (!within.is_empty() && forced.is_subset(within)).then_some(Self {
            within,
            forced,
            parts,
        })
    }
}
