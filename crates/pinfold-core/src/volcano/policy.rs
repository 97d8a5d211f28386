//! What a node's topology policy makes of the hints.
//!
//! Mirrors the four `Policy` implementations. The **node's** policy text picks the rule; a text that is none
//! of the four behaves like `none`.

use super::merge::{merge, merge_single};
use crate::hint::{Hint, ProviderHints};
use crate::node_set::NodeSet;

/// The four topology policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Hints are not looked at.
    None,
    /// The best common hint, whatever it is.
    BestEffort,
    /// Only a preferred common hint.
    Restricted,
    /// Only a preferred common hint on one node.
    SingleNumaNode,
}

/// What a policy says to one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where its resources should come from.
    pub hint: Hint,
    /// Whether it may run at all.
    pub admit: bool,
}

impl Policy {
    /// The policy a node's text stands for.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        match text {
            "best-effort" => Policy::BestEffort,
            "restricted" => Policy::Restricted,
            "single-numa-node" => Policy::SingleNumaNode,
            _ => Policy::None,
        }
    }

    /// Merges the hints and decides. Mirrors `Predicate`.
    #[must_use]
    pub fn decide(self, all: NodeSet, providers: &[ProviderHints]) -> Verdict {
        let hint = match self {
            Policy::None => Hint::NONE,
            Policy::BestEffort | Policy::Restricted => merge(all, providers).hint,
            Policy::SingleNumaNode => merge_single(all, providers),
        };
        let admit = match self {
            Policy::None | Policy::BestEffort => true,
            Policy::Restricted | Policy::SingleNumaNode => hint.preferred,
        };
        Verdict { hint, admit }
    }
}
