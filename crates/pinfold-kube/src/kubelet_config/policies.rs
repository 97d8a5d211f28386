//! The policies and scopes by name.

use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, TopologyScope};

use super::ConfigReader;
use crate::diagnostic::DiagnosticReport;
use crate::go::quote::quoted;

const TOPOLOGY_POLICIES: &[&str] = &["none", "best-effort", "restricted", "single-numa-node"];
const TOPOLOGY_SCOPES: &[&str] = &["container", "pod"];
const CPU_POLICIES: &[&str] = &["none", "static"];
const MEMORY_POLICIES: &[&str] = &["None", "Static"];

impl ConfigReader<'_> {
    pub(super) fn topology_policy(&self, report: &mut DiagnosticReport) -> TopologyPolicy {
        let read = self.word("topologyManagerPolicy", "a policy name", report);
        let Some((word, field)) = read else {
            return TopologyPolicy::default();
        };
        if let Ok(policy) = word.parse() {
            return policy;
        }
        let old = TopologyPolicy::from_old_name(word).filter(|_| self.reads_old_spellings);
        if let Some(policy) = old {
            Self::warn_old(&field, word, policy.name(), report);
            return policy;
        }
        let message = format!(
            "invalid configuration: topologyManagerPolicy (--topology-manager-policy) {} must be one of: \
             [\"none\" \"best-effort\" \"restricted\" \"single-numa-node\"]",
            quoted(word)
        );
        Self::reject_word(&field, word, message, TOPOLOGY_POLICIES, report);
        TopologyPolicy::default()
    }

    pub(super) fn topology_scope(&self, report: &mut DiagnosticReport) -> TopologyScope {
        let read = self.word("topologyManagerScope", "a scope name", report);
        let Some((word, field)) = read else {
            return TopologyScope::default();
        };
        match word.parse() {
            Ok(scope) => scope,
            Err(_) if word == "Pod" && self.reads_old_spellings => {
                Self::warn_old(&field, word, "pod", report);
                TopologyScope::Pod
            }
            Err(_) => {
                let message = format!(
                    "invalid configuration: topologyManagerScope (--topology-manager-scope) {} must be one \
                     of: \"container\", or \"pod\"",
                    quoted(word)
                );
                Self::reject_word(&field, word, message, TOPOLOGY_SCOPES, report);
                TopologyScope::default()
            }
        }
    }

    pub(super) fn cpu_policy(&self, report: &mut DiagnosticReport) -> CpuManagerPolicy {
        let Some((word, field)) = self.word("cpuManagerPolicy", "a policy name", report) else {
            return CpuManagerPolicy::default();
        };
        word.parse().unwrap_or_else(|_| {
            let message = format!("unknown policy: \"{word}\"");
            Self::reject_word(&field, word, message, CPU_POLICIES, report);
            CpuManagerPolicy::default()
        })
    }

    pub(super) fn memory_policy(&self, report: &mut DiagnosticReport) -> MemoryManagerPolicy {
        let Some((word, field)) = self.word("memoryManagerPolicy", "a policy name", report) else {
            return MemoryManagerPolicy::default();
        };
        word.parse().unwrap_or_else(|_| {
            let message = format!("unknown policy: {}", quoted(word));
            Self::reject_word(&field, word, message, MEMORY_POLICIES, report);
            MemoryManagerPolicy::default()
        })
    }
}
