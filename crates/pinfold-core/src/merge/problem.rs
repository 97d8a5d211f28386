//! [`MergeProblem`]: all resources of one merge, made ready for searching.
//!
//! The hints of a resource are a union of parts. A *fixed* part is one mask; an explicit list is a union of those. An
//! *open* part is all masks inside a universe that contain some forced nodes and meet some thresholds; it is
//! up-closed in its universe, and everything the searches do rests on that.

use smallvec::SmallVec;

use super::budget::{MergeSearch, UnfinishedSearches};
use super::facts::{HintSummary, WidthRange};
use super::prepared_threshold::PreparedThreshold;
use super::resources::{Hints, MergeResource};
use super::width::Narrow;
use crate::hint::{Component, Family, Preference};
use crate::node_set::NodeSet;

/// All resources of one merge.
pub(super) struct MergeProblem<'a> {
    /// All nodes of the machine.
    pub(super) all: NodeSet,
    pub(super) members: SmallVec<[ProblemResource<'a>; 8]>,
    parts: SmallVec<[Part; 4]>,
    thresholds: Vec<PreparedThreshold>,
    pub(super) unfinished: UnfinishedSearches,
}

/// An open part: all masks inside `universe` that contain `forced` and meet the thresholds.
pub(super) struct Part {
    pub(super) universe: NodeSet,
    pub(super) forced: NodeSet,
    first_gauge: usize,
    thresholds: usize,
    /// A mask of the part with few nodes.
    pub(super) narrow: Narrow,
}

/// The position of an open part in its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartId(u16);

/// One resource.
pub(super) struct ProblemResource<'a> {
    hints: Hints<'a>,
    /// A resource with the very same family, earlier in the problem. Its parts are shared.
    pub(super) copy_of: Option<usize>,
    /// Whether "any node" is among its hints, preferred or not.
    pub(super) any: bool,
    /// Whether "any node" is among its preferred hints.
    pub(super) any_preferred: bool,
    /// Its single masks, ascending; those that an open part contains are left out.
    pub(super) fixed: SmallVec<[NodeSet; 4]>,
    /// Of a list: the preferred masks, ascending.
    preferred: Vec<NodeSet>,
    pub(super) open: SmallVec<[PartId; 1]>,
    /// The width of its narrowest mask, if it has masks.
    pub(super) width: Option<WidthRange>,
}

impl<'a> MergeProblem<'a> {
    pub(super) fn new(all: NodeSet, resources: &[MergeResource<'a>]) -> Self {
        let mut problem = Self {
            all,
            members: SmallVec::new(),
            parts: SmallVec::new(),
            thresholds: Vec::new(),
            unfinished: UnfinishedSearches::NONE,
        };
        problem.thresholds.reserve(resources.len() + 2);
        for resource in resources {
            let member = problem.member(resource.hints);
            problem.members.push(member);
        }
        problem
    }

    pub(super) fn part(&self, id: PartId) -> &Part {
        &self.parts[usize::from(id.0)]
    }

    pub(super) fn part_mut(&mut self, id: PartId) -> &mut Part {
        &mut self.parts[usize::from(id.0)]
    }

    pub(super) fn thresholds(&self, part: &Part) -> &[PreparedThreshold] {
        &self.thresholds[part.first_gauge..][..part.thresholds]
    }

    /// Members with a family of their own: copies left out.
    pub(super) fn originals(&self) -> impl Iterator<Item = (usize, &ProblemResource<'a>)> {
        let members = self.members.iter().enumerate();
        members.filter(|(_, member)| member.copy_of.is_none())
    }

    fn member(&mut self, hints: Hints<'a>) -> ProblemResource<'a> {
        let mut member = ProblemResource {
            hints,
            copy_of: None,
            any: false,
            any_preferred: false,
            fixed: SmallVec::new(),
            preferred: Vec::new(),
            open: SmallVec::new(),
            width: None,
        };
        match hints {
            Hints::DontCare => (member.any, member.any_preferred) = (true, true),
            Hints::Unsatisfiable => member.any = true,
            Hints::List(list) => {
                for hint in list {
                    match hint.mask {
                        None => {
                            member.any = true;
                            member.any_preferred |= hint.preferred;
                        }
                        Some(mask) => {
                            member.fixed.push(mask);
                            if hint.preferred {
                                member.preferred.push(mask);
                            }
                        }
                    }
                }
                member.preferred.sort_unstable();
                member.preferred.dedup();
            }
            Hints::Family(family) => match self.same_family(family) {
                Some(original) => {
                    member.copy_of = Some(original);
                    member.fixed = self.members[original].fixed.clone();
                    member.open = self.members[original].open.clone();
                    member.width = self.members[original].width;
                    return member;
                }
                None => self.take_family(family, &mut member),
            },
        }
        member.fixed.sort_unstable();
        member.fixed.dedup();
        let fixed = member
            .fixed
            .iter()
            .map(|mask| WidthRange::exactly(mask.len()));
        let open = member
            .open
            .iter()
            .map(|&part| self.part(part).narrow.width());
        member.width = fixed.chain(open).reduce(narrowest);
        member
    }

    fn same_family(&self, family: &Family) -> Option<usize> {
        let same = |member: &ProblemResource<'_>| match member.hints {
            Hints::Family(other) => other == family,
            _ => false,
        };
        self.members.iter().position(same)
    }

    fn take_family(&mut self, family: &Family, member: &mut ProblemResource<'_>) {
        for part in family.components.iter().filter(|part| !part.is_empty()) {
            match part.universe == part.forced {
                true => member.fixed.push(part.universe),
                false => member.open.extend(self.open_part(part)),
            }
        }
        let open: SmallVec<[&Component; 1]> = family
            .components
            .iter()
            .filter(|part| part.universe != part.forced)
            .collect();
        member
            .fixed
            .retain(|mask| !open.iter().any(|part| part.contains(*mask)));
    }

    fn open_part(&mut self, part: &Component) -> Option<PartId> {
        let first_gauge = self.thresholds.len();
        for threshold in &part.thresholds {
            if let Some(made) = PreparedThreshold::of(threshold, part.universe) {
                self.thresholds.push(made.prepared);
                if made.rounded {
                    self.unfinished.insert(MergeSearch::Amounts);
                }
            }
        }
        let Ok(id) = u16::try_from(self.parts.len()) else {
            self.unfinished.insert(MergeSearch::Choices);
            return None;
        };
        self.parts.push(Part {
            universe: part.universe,
            forced: part.forced,
            first_gauge,
            thresholds: self.thresholds.len() - first_gauge,
            narrow: Narrow::of(part.universe, part.forced, &self.thresholds[first_gauge..]),
        });
        Some(PartId(id))
    }

    /// The largest of the members' narrowest widths.
    pub(super) fn best_width(&self) -> usize {
        let widths = self.members.iter().filter_map(|member| member.width);
        widths.map(|width| width.at_most).max().unwrap_or(0)
    }
}

/// The width of a union.
fn narrowest(a: WidthRange, b: WidthRange) -> WidthRange {
    WidthRange {
        at_least: a.at_least.min(b.at_least),
        at_most: a.at_most.min(b.at_most),
    }
}

impl<'a> ProblemResource<'a> {
    /// The preference rule, if the hints are a family.
    pub(super) fn preference(&self) -> Option<&'a Preference> {
        match self.hints {
            Hints::Family(family) => Some(&family.preference),
            _ => None,
        }
    }

    /// Whether this resource has a preferred hint that goes with `mask`.
    pub(super) fn accepts(&self, mask: NodeSet) -> bool {
        self.any_preferred || self.prefers(mask)
    }

    /// Whether `mask` itself is a preferred hint.
    pub(super) fn prefers(&self, mask: NodeSet) -> bool {
        match self.hints {
            Hints::Family(family) => family.preference.holds(mask) && family.contains(mask),
            _ => self.preferred.binary_search(&mask).is_ok(),
        }
    }

    /// The width of every preferred mask, if there is only one.
    pub(super) fn one_preferred_width(&self) -> Option<usize> {
        match self.preference() {
            Some(Preference::Width(width)) => Some(*width),
            Some(Preference::WidthOrSockets(..)) => None,
            None => {
                let mut widths = self.preferred.iter().map(|mask| mask.len());
                let first = widths.next()?;
                widths.all(|width| width == first).then_some(first)
            }
        }
    }

    /// Whether no mask can be preferred.
    pub(super) fn prefers_nothing(&self) -> bool {
        match self.preference() {
            Some(Preference::Width(width)) => *width == 0,
            Some(Preference::WidthOrSockets(..)) => false,
            None => self.preferred.is_empty(),
        }
    }

    pub(super) fn summary(&self) -> HintSummary {
        let Some(narrowest) = self.width else {
            return match self.any_preferred {
                true => HintSummary::DontCare,
                false => HintSummary::Unsatisfiable,
            };
        };
        let preferred_width = match self.preference() {
            Some(Preference::Width(width) | Preference::WidthOrSockets(width, _)) => Some(*width),
            None => self.preferred.iter().map(|mask| mask.len()).min(),
        };
        HintSummary::Masks {
            narrowest,
            preferred_width: preferred_width.filter(|&width| width > 0),
        }
    }
}
