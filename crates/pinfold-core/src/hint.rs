//! Hints: what each resource manager says about NUMA placement before anything is decided.
//!
//! The kubelet's managers list every set of NUMA nodes that could serve a request. Such a list has up to
//! 2^n members, so our managers hand over the rule behind the list instead, a [`Family`]; the list
//! itself can be written out for people and for comparison ([`Family::list`]).

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::name::ResourceName;
use crate::node_set::NodeSet;

mod family;

pub use family::{Component, Family, Preference, SocketRule, Threshold, WideGroup};

/// A set of NUMA nodes that could serve a request, and whether it is a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hint {
    /// The nodes; `None` means "no preference at all".
    pub mask: Option<NodeSet>,
    /// Whether a machine without other pods could not do better.
    pub preferred: bool,
}

impl Hint {
    /// A hint on exactly these nodes.
    #[must_use]
    pub fn on(mask: NodeSet, preferred: bool) -> Self {
        Self {
            mask: Some(mask),
            preferred,
        }
    }

    /// "Any node will do."
    pub const ANY: Hint = Hint {
        mask: None,
        preferred: true,
    };
    /// "No node will do."
    pub const NONE: Hint = Hint {
        mask: None,
        preferred: false,
    };
}

/// What is known about the placement of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a boxed family would cost an allocation per decision"
)]
pub enum ResourceHints {
    /// The resource does not mind (the kubelet's nil list, nil map or empty map).
    DontCare,
    /// The request cannot be served here (the kubelet's empty list).
    Unsatisfiable,
    /// Every member of the family would do.
    Family(Family),
    /// Exactly these, as another program listed them.
    List(Vec<Hint>),
}

/// The hints of one manager, by resource. An empty list of rows means that it has no opinion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderHints {
    /// One row per resource, ascending by name.
    pub rows: SmallVec<[(ResourceName, ResourceHints); 4]>,
}

impl ProviderHints {
    /// A manager without an opinion.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The hints for a single resource.
    #[must_use]
    pub fn one(resource: ResourceName, hints: ResourceHints) -> Self {
        Self {
            rows: SmallVec::from_iter([(resource, hints)]),
        }
    }
}
