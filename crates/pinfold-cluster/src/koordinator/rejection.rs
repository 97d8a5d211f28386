//! [`KoordinatorRejection`]: why the plugin rejects a pod, with the exact messages of the plugin.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::hints::LazyHints;
use super::policy_values::{CpuBinding, UnknownValue};
use pinfold_core::name::ResourceName;
use pinfold_core::node_set::NodeSet;

/// The status code that an extension point returns, as in the scheduler framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameworkCode {
    /// The pod passes.
    Success,
    /// An internal error.
    Error,
    /// The pod does not fit now; evicting other pods may help.
    Unschedulable,
    /// The pod does not fit this node; evicting other pods would not help.
    UnschedulableAndUnresolvable,
    /// The plugin does not apply to the pod.
    Skip,
}

/// A status other than success, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorRejection {
    /// The status code.
    pub code: FrameworkCode,
    /// The reasons; at least one.
    pub reasons: SmallVec<[KoordinatorReason; 1]>,
}

impl KoordinatorRejection {
    /// `Unschedulable`, for one reason.
    #[must_use]
    pub fn unschedulable(reason: KoordinatorReason) -> Self {
        Self::with(FrameworkCode::Unschedulable, reason)
    }

    /// `UnschedulableAndUnresolvable`, for one reason.
    #[must_use]
    pub fn unresolvable(reason: KoordinatorReason) -> Self {
        Self::with(FrameworkCode::UnschedulableAndUnresolvable, reason)
    }

    /// Any code, for one reason.
    #[must_use]
    pub fn with(code: FrameworkCode, reason: KoordinatorReason) -> Self {
        let reasons = SmallVec::from_iter([reason]);
        Self { code, reasons }
    }
}

impl fmt::Display for KoordinatorRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, reason) in self.reasons.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{reason}")?;
        }
        Ok(())
    }
}

/// One reason for a rejection. The messages are those of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KoordinatorReason {
    /// The NUMA policy of the pod differs from the one of the node.
    #[error("node(s) NUMA Topology policy not match")]
    NumaPolicyMismatch,
    /// The pod binds CPUs and does not request a whole number of them.
    #[error("the requested CPUs must be integer")]
    FractionalCpus,
    /// The node reports no valid CPU topology.
    #[error("node(s) invalid CPU Topology")]
    InvalidTopology,
    /// Whole cores are required and the request is not a multiple of the CPUs of a core.
    #[error("node(s) requested cpus not multiple cpus per core")]
    NotWholeCores,
    /// Pod and node require different bind policies.
    #[error("node(s) cpu bind policy conflicts with pod's required cpu bind policy")]
    BindPolicyConflict,
    /// The node's amplification annotation cannot be parsed.
    #[error("node(s) invalid CPU amplification ratio")]
    InvalidRatio,
    /// The same, with the message of the parser.
    #[error("failed to unmarshal node resource amplification ratio: {0}")]
    UnreadableRatio(String),
    /// The node has not enough amplified CPU free.
    #[error("Insufficient amplified cpu")]
    InsufficientAmplifiedCpu,
    /// The node has not enough free CPUs.
    #[error("not enough cpus available to satisfy request")]
    NotEnoughCpus,
    /// There are enough free CPUs, but the choice failed.
    #[error("failed to allocate cpus")]
    TakeFailed,
    /// There are enough free CPUs, but not as the required bind policy demands.
    #[error("insufficient CPUs to satisfy required cpu bind policy {}", .0.as_str())]
    BindPolicyUnsatisfied(CpuBinding),
    /// The node reports no NUMA resources, although a NUMA policy applies.
    #[error("node(s) missing NUMA resources")]
    MissingNumaResources,
    /// The same, as the resource manager words it.
    #[error("insufficient resources on NUMA Node")]
    NoNumaResources,
    /// No hints could be generated.
    #[error("node(s) Insufficient NUMA Node resources")]
    NoHints,
    /// The NUMA nodes of the hint do not have enough of a resource.
    #[error("Insufficient NUMA {0}")]
    InsufficientNuma(ResourceName),
    /// No set of NUMA nodes has enough of a resource.
    #[error("Unsatisfied NUMA {0}")]
    UnsatisfiedNuma(ResourceName),
    /// The resources cannot be aligned as the policy demands.
    #[error("Unaligned NUMA Hint cause {}", preferences_text(.preferences, .separator))]
    Unaligned {
        /// The hints of each resource.
        preferences: ResourcePreferences,
        /// The separator that the policy puts between resources.
        separator: &'static str,
    },
    /// A label or annotation has an unknown value (sound mode only).
    #[error("{0}")]
    UnknownValue(UnknownValue),
    /// No NUMA node has a shared pool as large as the pod's CPU limit (sound mode only).
    #[error(
        "no NUMA node has a shared pool of {milli}m CPU for the pod's limit; the largest has {largest}m"
    )]
    PoolTooSmall {
        /// The CPU limit, in milli-CPUs.
        milli: i64,
        /// The size of the largest shared pool of a NUMA node, in milli-CPUs.
        largest: i64,
    },
}

/// The hints of one resource in a rejection. Kept as sets and formatted on demand: there may be hundreds, and most
/// rejections are never displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePreference {
    /// The resource.
    pub name: ResourceName,
    /// The sets of NUMA nodes with enough of it, in the order in which they were generated.
    pub possible: Vec<Option<NodeSet>>,
    /// The preferred sets among them.
    pub preferred: Vec<Option<NodeSet>>,
}

impl fmt::Display for ResourcePreference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masks = |masks: &[Option<NodeSet>]| {
            let texts: Vec<String> = masks.iter().copied().map(mask_text).collect();
            texts.join(" ")
        };
        let (preferred, possible) = (masks(&self.preferred), masks(&self.possible));
        write!(f, "{} prefer [{preferred}] among [{possible}]", self.name)
    }
}

/// The hints of all resources in a rejection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourcePreferences {
    /// The hints of each resource.
    Listed(Vec<ResourcePreference>),
    /// A rule from which the hints are generated when the rejection is displayed.
    Lazy(Box<LazyHints>),
}

fn preferences_text(preferences: &ResourcePreferences, separator: &str) -> String {
    let preferences = match preferences {
        ResourcePreferences::Listed(preferences) => preferences,
        ResourcePreferences::Lazy(hints) => &hints.preferences(),
    };
    let mut texts: Vec<String> = preferences
        .iter()
        .map(ResourcePreference::to_string)
        .collect();
    texts.sort();
    texts.join(separator)
}

/// A set of NUMA nodes as Koordinator prints it, which is as the kubelet does. Mirrors `bitMask.String`.
fn mask_text(mask: Option<NodeSet>) -> String {
    mask.map_or_else(|| "<nil>".to_owned(), |mask| mask.binary().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_padded_to_an_even_width_except_single_even_bits() {
        let table = [
            (1, "01"),
            (2, "10"),
            (3, "11"),
            (4, "100"),
            (5, "0101"),
            (16, "10000"),
            (17, "010001"),
        ];
        for (bits, text) in table {
            assert_eq!(mask_text(Some(NodeSet::from_bits(bits))), text);
        }
        assert_eq!(mask_text(None), "<nil>");
    }
}
