//! The versions of kubelets and container runtimes.

use pinfold_core::fidelity::{KubeletVersion, UnknownKubelet};

use super::evidence::Evidence;
use super::finding::{Finding, Grouped, Severity};

/// Kubelets whose decisions are not known.
pub(super) fn kubelet(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (name, node) in &evidence.nodes {
        let problem = match KubeletVersion::nearest(&node.kubelet) {
            Ok((newest, true)) => format!(
                "kubelet {}: its decisions are predicted as those of kubelet {newest}",
                node.kubelet
            ),
            Err(error @ UnknownKubelet::TooOld(_)) => error.to_string(),
            // Nodes of files may have no version.
            Ok((_, false)) | Err(_) => continue,
        };
        found.node(Severity::Info, name, problem, "");
    }
    found.finish()
}

/// Runtimes without NRI, which mode manage uses.
pub(super) fn runtime(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (name, node) in &evidence.nodes {
        let Some((runtime, version)) = node.runtime.split_once("://") else {
            continue;
        };
        let number = |part: Option<&str>| part.and_then(|part| part.parse::<u32>().ok());
        let mut parts = version.split('.');
        let version = (number(parts.next()), number(parts.next()));
        let without = match (runtime, version) {
            ("containerd", (Some(major), Some(minor))) => (major, minor) < (1, 7),
            ("cri-o", (Some(major), Some(minor))) => (major, minor) < (1, 26),
            ("docker", _) => true,
            _ => false,
        };
        let report = evidence.reports.get(name);
        let is_managed = report.is_some_and(|report| report.is_managed);
        if without {
            found.node(
                match is_managed {
                    true => Severity::Warning,
                    false => Severity::Info,
                },
                name,
                format!(
                    "{} has no NRI, with which mode manage pins containers before they start",
                    node.runtime
                ),
                "update the runtime before using mode manage (containerd 1.7 or CRI-O 1.26)",
            );
        } else if runtime == "containerd" && version == (Some(1), Some(7)) && !is_managed {
            found.node(
                Severity::Info,
                name,
                format!(
                    "{} has NRI switched off unless its configuration says otherwise",
                    node.runtime
                ),
                "",
            );
        }
    }
    found.finish()
}
