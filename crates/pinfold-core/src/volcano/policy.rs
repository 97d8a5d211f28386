//! What a node's topology policy makes of the hints.
//!
//! Mirrors the four `Policy` implementations. The **node's** policy text picks the rule; a text that is none
//! of the four behaves like `none`.

use super::merge::{merge, merge_single};
use crate::hint::{Hint, ProviderHints};
use crate::node_set::NodeSet;
use crate::policy::TopologyPolicy;

/// What a policy says to one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyDecision {
    /// Where its resources should come from.
    pub hint: Hint,
    /// Whether it may run at all.
    pub admit: bool,
}

/// The policy a node's text stands for.
#[must_use]
pub fn policy_of(text: &str) -> TopologyPolicy {
    text.parse().unwrap_or(TopologyPolicy::None)
}

/// Merges the hints and decides. Mirrors `Predicate`.
#[must_use]
pub fn decide(policy: TopologyPolicy, all: NodeSet, providers: &[ProviderHints]) -> PolicyDecision {
    let hint = match policy {
        TopologyPolicy::None => Hint::NONE,
        TopologyPolicy::BestEffort | TopologyPolicy::Restricted => merge(all, providers).hint,
        TopologyPolicy::SingleNumaNode => merge_single(all, providers),
    };
    PolicyDecision {
        hint,
        admit: policy.admits(hint),
    }
}
