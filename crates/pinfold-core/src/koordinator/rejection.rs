//! Why a pod does not fit: every reason the scheduler plugin can give, with its exact words.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::hints::LazyHints;
use super::policy_values::{CpuBinding, UnknownValue};
use crate::name::ResourceName;
use crate::node_set::NodeSet;

/// How a stage of the plugin ended. The names are the scheduler framework's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FrameworkCode {
    /// Go on.
    Success,
    /// Something that should not be is.
    Error,
    /// Not now; other pods leaving may help.
    Unschedulable,
    /// Not here; no pod leaving would help.
    UnschedulableAndUnresolvable,
    /// The plugin has nothing to say about the pod.
    Skip,
}

/// Why a stage said no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KoordinatorRejection {
    /// How it ended.
    pub code: FrameworkCode,
    /// Why. At least one.
    pub reasons: SmallVec<[KoordinatorReason; 1]>,
}

impl KoordinatorRejection {
    /// "Not now", for one reason.
    #[must_use]
    pub fn now(reason: KoordinatorReason) -> Self {
        Self::with(FrameworkCode::Unschedulable, reason)
    }

    /// "Not here", for one reason.
    #[must_use]
    pub fn here(reason: KoordinatorReason) -> Self {
        Self::with(FrameworkCode::UnschedulableAndUnresolvable, reason)
    }

    /// Any end, for one reason.
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

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KoordinatorReason {
    /// The pod asks for another NUMA policy than the node has.
    #[error("node(s) NUMA KoordinatorTopology policy not match")]
    NumaPolicyMismatch,
    /// CPUs are bound whole.
    #[error("the requested CPUs must be integer")]
    FractionalCpus,
    /// The node does not say what CPUs it has.
    #[error("node(s) invalid CPU KoordinatorTopology")]
    InvalidTopology,
    /// Whole cores are required and the request ends inside one.
    #[error("node(s) requested cpus not multiple cpus per core")]
    NotWholeCores,
    /// Pod and node require different ways to bind.
    #[error("node(s) cpu bind policy conflicts with pod's required cpu bind policy")]
    BindPolicyConflict,
    /// The node's amplification annotation cannot be read.
    #[error("node(s) invalid CPU amplification ratio")]
    InvalidRatio,
    /// The same where the original shows the parser's words.
    #[error("failed to unmarshal node resource amplification ratio: {0}")]
    UnreadableRatio(String),
    /// Not enough amplified CPU is left on the node.
    #[error("Insufficient amplified cpu")]
    InsufficientAmplifiedCpu,
    /// Not enough free CPUs.
    #[error("not enough cpus available to satisfy request")]
    NotEnoughCpus,
    /// Free CPUs enough, but none that could be chosen.
    #[error("failed to allocate cpus")]
    TakeFailed,
    /// CPUs enough, but not in the required way.
    #[error("insufficient CPUs to satisfy required cpu bind policy {}", .0.as_str())]
    BindPolicyUnsatisfied(CpuBinding),
    /// The node reports no NUMA resources, although a NUMA policy applies.
    #[error("node(s) missing NUMA resources")]
    MissingNumaResources,
    /// The same inside the resource manager.
    #[error("insufficient resources on NUMA KoordinatorNode")]
    NoNumaResources,
    /// Hints could not be made.
    #[error("node(s) Insufficient NUMA KoordinatorNode resources")]
    NoHints,
    /// The NUMA nodes of the hint do not hold enough of a resource.
    #[error("Insufficient NUMA {0}")]
    InsufficientNuma(ResourceName),
    /// No NUMA nodes can serve a resource.
    #[error("Unsatisfied NUMA {0}")]
    UnsatisfiedNuma(ResourceName),
    /// The resources cannot be aligned as the policy demands.
    #[error("Unaligned NUMA Hint cause {}", wishes_text(.wishes, .separator))]
    Unaligned {
        /// What each resource would like.
        wishes: ResourcePreferences,
        /// What the policy puts between them.
        separator: &'static str,
    },
    /// A word in a label or annotation that means nothing (sound mode only).
    #[error("{0}")]
    UnknownValue(UnknownValue),
    /// No NUMA node's shared pool can hold the pod's CPU limit (sound mode only).
    #[error(
        "no NUMA node has a shared pool of {milli}m CPU for the pod's limit; the largest has {largest}m"
    )]
    PoolTooSmall {
        /// What is needed, in thousandths.
        milli: i64,
        /// What the best NUMA node has.
        largest: i64,
    },
}

/// What one resource would have liked. Kept as sets: there may be hundreds, and most rejections are never read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePreference {
    /// The resource.
    pub name: ResourceName,
    /// The sets of NUMA nodes that could serve it, in the order they were found.
    pub possible: Vec<Option<NodeSet>>,
    /// Those of them it prefers.
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

/// What all resources would have liked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourcePreferences {
    /// One by one.
    Listed(Vec<ResourcePreference>),
    /// To be listed when somebody reads it.
    Lazy(Box<LazyHints>),
}

fn wishes_text(wishes: &ResourcePreferences, separator: &str) -> String {
    let wishes = match wishes {
        ResourcePreferences::Listed(wishes) => wishes,
        ResourcePreferences::Lazy(unlisted) => &unlisted.wishes(),
    };
    let mut texts: Vec<String> = wishes.iter().map(ResourcePreference::to_string).collect();
    texts.sort();
    texts.join(separator)
}

/// A set of NUMA nodes as the original prints it: binary, padded to an even width unless it is a lone
/// bit at an even place. Mirrors `bitMask.String`.
#[must_use]
pub fn mask_text(mask: Option<NodeSet>) -> String {
    let Some(bits) = mask.map(NodeSet::bits) else {
        return "<nil>".to_owned();
    };
    let width = (2..64)
        .step_by(2)
        .rev()
        .find(|shift| bits > 1 << shift)
        .map_or(2, |shift| shift + 2);
    format!("{bits:0width$b}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_padded_to_an_even_width_except_lone_even_bits() {
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
