//! The hints of each resource, as the kubelet's merge reads them.
//!
//! Mirrors `filterProvidersHints`: a provider without resources and a resource without a list have no preference; a
//! resource with an empty list is unsatisfiable.

use smallvec::SmallVec;

use super::facts::{HintSummary, MergeResourceFacts};
use crate::hint::{Component, Family, Hint, ProviderHints, ResourceHints};

/// The hints of one resource, and its position in the request.
pub(super) struct MergeResource<'a> {
    provider: usize,
    row: Option<usize>,
    pub(super) hints: Hints<'a>,
}

/// The hints of one resource. Lists and families here have at least one hint.
#[derive(Clone, Copy)]
pub(super) enum Hints<'a> {
    DontCare,
    Unsatisfiable,
    List(&'a [Hint]),
    Family(&'a Family),
}

pub(super) type MergeResources<'a> = SmallVec<[MergeResource<'a>; 8]>;

/// All resources in the order of their providers.
pub(super) fn of(providers: &[ProviderHints]) -> MergeResources<'_> {
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
    pub(super) fn facts(&self, hints: HintSummary) -> MergeResourceFacts {
        MergeResourceFacts {
            provider: self.provider,
            row: self.row,
            hints,
        }
    }
}
