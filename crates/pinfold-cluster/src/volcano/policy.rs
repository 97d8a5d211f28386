//! Applies a node's topology policy to the hints.
//!
//! Mirrors the four `Policy` implementations. The **node's** policy text picks the rule; a text that is none
//! of the four behaves like `none`.

use super::merge::{merge, merge_single};
use pinfold_core::hint::{Hint, ProviderHints};
use pinfold_core::node_set::NodeSet;
use pinfold_core::policy::TopologyPolicy;

/// The decision of a policy about one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyDecision {
    /// The NUMA nodes that its resources should come from.
    pub hint: Hint,
    /// Whether the policy admits it.
    pub admit: bool,
}

/// Whether a policy text of a pod or a node is one at all: not absent, empty or `none`. Any other text counts, known or
/// not.
pub(super) fn is_set(text: &str) -> bool {
    !matches!(text, "" | "none")
}

/// Whether the kubelet's CPU manager policy pins CPUs.
pub(super) fn pins_cpus(cpu_manager: &str) -> bool {
    cpu_manager == "static"
}

/// Parses the policy text of a node; an unknown text is `none`.
#[must_use]
pub fn policy_of(text: &str) -> TopologyPolicy {
    text.parse().unwrap_or(TopologyPolicy::None)
}

/// Merges the hints and applies the policy. Mirrors `Predicate`.
#[must_use]
pub fn decide(policy: TopologyPolicy, all: NodeSet, providers: &[ProviderHints]) -> PolicyDecision {
    let hint = match policy {
        TopologyPolicy::None => Hint::NONE,
        TopologyPolicy::BestEffort | TopologyPolicy::Restricted => merge(all, providers),
        TopologyPolicy::SingleNumaNode => merge_single(all, providers),
    };
    PolicyDecision {
        hint,
        admit: policy.admits(hint),
    }
}
