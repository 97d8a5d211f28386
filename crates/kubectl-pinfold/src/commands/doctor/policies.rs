//! The policies of each node, and what they mean for pods with NUMA needs.

use super::evidence::{Evidence, ReportFacts};
use super::finding::{Finding, Grouped, Severity};

/// What the policies of the nodes do to pods with NUMA needs.
pub(super) fn policies(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Grouped::default();
    for (node, report) in &evidence.reports {
        // An invalid report has no policy.
        if report.topology_policy.is_empty() {
            continue;
        }
        let (severity, meaning, remedy) = meaning(report);
        let problem = format!("{}: {meaning}", described(report));
        found.node(severity, node, problem, remedy);
    }
    found.finish()
}

/// `topologyManagerPolicy none, cpuManagerPolicy static, memoryManagerPolicy unknown`.
fn described(report: &ReportFacts) -> String {
    let scope = match report.topology_policy.as_str() {
        "none" => String::new(),
        _ => format!(" (scope {})", report.scope),
    };
    let known = |policy: &Option<String>| policy.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "topologyManagerPolicy {}{scope}, cpuManagerPolicy {}, memoryManagerPolicy {}",
        report.topology_policy,
        known(&report.cpu_policy),
        known(&report.memory_policy)
    )
}

fn meaning(report: &ReportFacts) -> (Severity, &'static str, &'static str) {
    let is = |policy: &Option<String>, name: &str| policy.as_deref() == Some(name);
    let topology = report.topology_policy.as_str();
    if is(&report.cpu_policy, "none") {
        return (
            Severity::Warning,
            "no pod has CPUs of its own; CPUs are not aligned",
            "set cpuManagerPolicy: static, or run the agent in mode manage",
        );
    }
    match topology {
        "none" => (
            Severity::Warning,
            "exclusive CPUs, memory and devices may be on different NUMA nodes",
            "set topologyManagerPolicy: single-numa-node, restricted or best-effort",
        ),
        "best-effort" => (
            Severity::Info,
            "a pod that fits no single NUMA node is admitted and spread",
            "",
        ),
        _ if is(&report.memory_policy, "None") => (
            Severity::Info,
            "CPUs and devices are aligned, memory is not pinned; a pod that cannot be aligned is rejected",
            "",
        ),
        "restricted" => (
            Severity::Info,
            "a pod is rejected that needs more NUMA nodes than its size demands",
            "",
        ),
        _ => (
            Severity::Info,
            "a pod is rejected that fits no single NUMA node",
            "",
        ),
    }
}
