//! Hints: the NUMA nodes that each resource manager reports for a request, before anything is decided.
//!
//! The kubelet's managers list every set of NUMA nodes that fits a request. Such a list has up to 2^n members, so our
//! managers return the rule behind the list instead, a [`Family`]; the list itself can be written out for display and
//! comparison ([`Family::list`]).

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::name::ResourceName;
use crate::node_set::NodeSet;

mod family;

pub use family::{Component, Family, Preference, SocketRule, Threshold, WideGroup};

/// A set of NUMA nodes that fits a request, and whether it is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hint {
    /// The nodes; `None` means "no preference".
    pub mask: Option<NodeSet>,
    /// Whether it is as narrow as on a machine without other pods.
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

    /// Any NUMA nodes, preferred: a resource without a preference.
    pub const ANY: Hint = Hint {
        mask: None,
        preferred: true,
    };
    /// No NUMA affinity, not preferred.
    pub const NONE: Hint = Hint {
        mask: None,
        preferred: false,
    };
}

/// The hints of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceHints {
    /// No preference (the kubelet's nil list, nil map or empty map).
    DontCare,
    /// The request fits nowhere on this machine (the kubelet's empty list).
    Unsatisfiable,
    /// All members of a family.
    Family(Family),
    /// An explicit list, as another program made it.
    List(Vec<Hint>),
}

/// The hints of one manager, by resource. No rows mean that the manager has no preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderHints {
    /// One row per resource, ascending by name.
    pub rows: SmallVec<[(ResourceName, ResourceHints); 1]>,
}

impl ProviderHints {
    /// No preference.
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
