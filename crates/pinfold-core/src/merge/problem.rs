//! [`MergeProblem`]: the hints of all resources of one merge, prepared for searching.
//!
//! The hints of a resource are a union of parts. A *fixed* part is one mask; an explicit list is a union of those. An
//! *open* part is all masks inside a universe that contain some forced nodes and meet some thresholds; it is up-closed
//! in its universe, and all searches rely on that.

use smallvec::SmallVec;

use super::budget::{MergeSearch, UnfinishedSearches};
use super::facts::{HintSummary, WidthRange};
use super::{Hints, MergeResource};
use crate::cover::{Narrow, PreparedThreshold};
use crate::hint::{Component, Family, Preference};
use crate::node_set::NodeSet;

/// All resources of one merge.
pub(super) struct MergeProblem<'a> {
    /// All nodes of the machine.
    pub(super) all: NodeSet,
    pub(super) resources: SmallVec<[ProblemResource<'a>; 8]>,
    parts: SmallVec<[Part; 4]>,
    thresholds: Vec<PreparedThreshold>,
    pub(super) unfinished: UnfinishedSearches,
}

/// An open part: all masks inside `universe` that contain `forced` and meet the thresholds.
pub(super) struct Part {
    pub(super) universe: NodeSet,
    pub(super) forced: NodeSet,
    first_threshold: usize,
    thresholds: usize,
    /// A mask of the part with few nodes, and a lower bound for the width of its masks.
    pub(super) narrow: Narrow,
}

/// The index of an open part in its problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartId(u16);

/// The hints of one resource.
pub(super) struct ProblemResource<'a> {
    hints: Hints<'a>,
    /// The index of an earlier resource with the same family, whose parts are shared.
    pub(super) copy_of: Option<usize>,
    /// Whether "any node" is among its hints, preferred or not.
    pub(super) any: bool,
    /// Whether "any node" is among its preferred hints.
    pub(super) any_preferred: bool,
    /// Its fixed masks, ascending, without those that an open part contains.
    pub(super) fixed: SmallVec<[NodeSet; 4]>,
    /// For a list: the preferred masks, ascending.
    preferred: Vec<NodeSet>,
    pub(super) open: SmallVec<[PartId; 1]>,
    /// The width of its narrowest mask, if it has masks.
    pub(super) width: Option<WidthRange>,
}

impl<'a> MergeProblem<'a> {
    pub(super) fn new(all: NodeSet, resources: &[MergeResource<'a>]) -> Self {
        let mut problem = Self {
            all,
            resources: SmallVec::new(),
            parts: SmallVec::new(),
            thresholds: Vec::new(),
            unfinished: UnfinishedSearches::NONE,
        };
        problem.thresholds.reserve(resources.len() + 2);
        for resource in resources {
            let resource = problem.resource(resource.hints);
            problem.resources.push(resource);
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
        &self.thresholds[part.first_threshold..][..part.thresholds]
    }

    /// Resources with a family of their own, without copies.
    pub(super) fn originals(&self) -> impl Iterator<Item = (usize, &ProblemResource<'a>)> {
        let members = self.resources.iter().enumerate();
        members.filter(|(_, resource)| resource.copy_of.is_none())
    }

    fn resource(&mut self, hints: Hints<'a>) -> ProblemResource<'a> {
        let mut resource = ProblemResource {
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
            Hints::DontCare => (resource.any, resource.any_preferred) = (true, true),
            Hints::Unsatisfiable => resource.any = true,
            Hints::List(list) => {
                for hint in list {
                    match hint.mask {
                        None => {
                            resource.any = true;
                            resource.any_preferred |= hint.preferred;
                        }
                        Some(mask) => {
                            resource.fixed.push(mask);
                            if hint.preferred {
                                resource.preferred.push(mask);
                            }
                        }
                    }
                }
                resource.preferred.sort_unstable();
                resource.preferred.dedup();
            }
            Hints::Family(family) => match self.same_family(family) {
                Some(original) => {
                    resource.copy_of = Some(original);
                    resource.fixed = self.resources[original].fixed.clone();
                    resource.open = self.resources[original].open.clone();
                    resource.width = self.resources[original].width;
                    return resource;
                }
                None => self.take_family(family, &mut resource),
            },
        }
        resource.fixed.sort_unstable();
        resource.fixed.dedup();
        let fixed = resource
            .fixed
            .iter()
            .map(|mask| WidthRange::exactly(mask.len()));
        let open = resource
            .open
            .iter()
            .map(|&part| WidthRange::of(self.part(part).narrow));
        resource.width = fixed.chain(open).reduce(narrowest);
        resource
    }

    fn same_family(&self, family: &Family) -> Option<usize> {
        let same = |resource: &ProblemResource<'_>| match resource.hints {
            Hints::Family(other) => other == family,
            _ => false,
        };
        self.resources.iter().position(same)
    }

    fn take_family(&mut self, family: &Family, resource: &mut ProblemResource<'_>) {
        for part in family.components.iter().filter(|part| !part.is_empty()) {
            match part.universe == part.forced {
                true => resource.fixed.push(part.universe),
                false => resource.open.extend(self.open_part(part)),
            }
        }
        let open: SmallVec<[&Component; 1]> = family
            .components
            .iter()
            .filter(|part| part.universe != part.forced)
            .collect();
        resource
            .fixed
            .retain(|mask| !open.iter().any(|part| part.contains(*mask)));
    }

    fn open_part(&mut self, part: &Component) -> Option<PartId> {
        let first_threshold = self.thresholds.len();
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
            first_threshold,
            thresholds: self.thresholds.len() - first_threshold,
            narrow: Narrow::of(
                part.universe,
                part.forced,
                &self.thresholds[first_threshold..],
            ),
        });
        Some(PartId(id))
    }

    /// The largest of the resources' narrowest widths.
    pub(super) fn best_width(&self) -> usize {
        let widths = self.resources.iter().filter_map(|resource| resource.width);
        widths.map(|width| width.at_most).max().unwrap_or(0)
    }
}

/// The width of the narrowest mask of a union.
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

    /// Whether this resource has a preferred hint that is compatible with `mask`.
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

    /// The width of its preferred masks, if all have the same.
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

    /// Whether it prefers no mask.
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
