//! The policies and scopes by name.

use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::TopologyScope;

use super::Reader;
use crate::finding::Report;
use crate::go::quote::quoted;

/// Who gets CPUs of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuPolicy {
    /// Nobody.
    #[default]
    None,
    /// Guaranteed containers with whole CPUs.
    Static,
}

/// Whose memory comes from chosen NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// Nobody's.
    #[default]
    None,
    /// That of guaranteed containers.
    Static,
    /// As static, without the promise; not on Linux.
    BestEffort,
}

const TOPOLOGY_POLICIES: &[&str] = &["none", "best-effort", "restricted", "single-numa-node"];
const TOPOLOGY_SCOPES: &[&str] = &["container", "pod"];
const CPU_POLICIES: &[&str] = &["none", "static"];
const MEMORY_POLICIES: &[&str] = &["None", "Static"];

impl CpuPolicy {
    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CpuPolicy::None => "none",
            CpuPolicy::Static => "static",
        }
    }
}

impl MemoryPolicy {
    /// The name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MemoryPolicy::None => "None",
            MemoryPolicy::Static => "Static",
            MemoryPolicy::BestEffort => "BestEffort",
        }
    }
}

impl Reader<'_> {
    pub(super) fn topology_policy(&self, report: &mut Report) -> TopologyPolicy {
        let read = self.word("topologyManagerPolicy", "a policy name", report);
        let Some((word, place)) = read else {
            return TopologyPolicy::default();
        };
        if let Ok(policy) = word.parse() {
            return policy;
        }
        let old = TopologyPolicy::from_old_name(word).filter(|_| self.reads_old_spellings);
        if let Some(policy) = old {
            Self::warn_old(&place, word, policy.name(), report);
            return policy;
        }
        let words = format!(
            "invalid configuration: topologyManagerPolicy (--topology-manager-policy) {} must be one of: \
             [\"none\" \"best-effort\" \"restricted\" \"single-numa-node\"]",
            quoted(word)
        );
        Self::reject_word(&place, word, words, TOPOLOGY_POLICIES, report);
        TopologyPolicy::default()
    }

    pub(super) fn topology_scope(&self, report: &mut Report) -> TopologyScope {
        let read = self.word("topologyManagerScope", "a scope name", report);
        let Some((word, place)) = read else {
            return TopologyScope::default();
        };
        match word.parse() {
            Ok(scope) => scope,
            Err(_) if word == "Pod" && self.reads_old_spellings => {
                Self::warn_old(&place, word, "pod", report);
                TopologyScope::Pod
            }
            Err(_) => {
                let words = format!(
                    "invalid configuration: topologyManagerScope (--topology-manager-scope) {} must be one \
                     of: \"container\", or \"pod\"",
                    quoted(word)
                );
                Self::reject_word(&place, word, words, TOPOLOGY_SCOPES, report);
                TopologyScope::default()
            }
        }
    }

    pub(super) fn cpu_policy(&self, report: &mut Report) -> CpuPolicy {
        match self.word("cpuManagerPolicy", "a policy name", report) {
            None | Some(("none", _)) => CpuPolicy::None,
            Some(("static", _)) => CpuPolicy::Static,
            Some((word, place)) => {
                let words = format!("unknown policy: \"{word}\"");
                Self::reject_word(&place, word, words, CPU_POLICIES, report);
                CpuPolicy::default()
            }
        }
    }

    pub(super) fn memory_policy(&self, report: &mut Report) -> MemoryPolicy {
        match self.word("memoryManagerPolicy", "a policy name", report) {
            None | Some(("None", _)) => MemoryPolicy::None,
            Some(("Static", _)) => MemoryPolicy::Static,
            Some(("BestEffort", _)) => MemoryPolicy::BestEffort,
            Some((word, place)) => {
                let words = format!("unknown policy: {}", quoted(word));
                Self::reject_word(&place, word, words, MEMORY_POLICIES, report);
                MemoryPolicy::default()
            }
        }
    }
}
