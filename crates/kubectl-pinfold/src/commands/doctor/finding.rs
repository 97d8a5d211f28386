//! [`Finding`]: one problem, the nodes and pods that have it, and what to do about it.

use std::collections::BTreeMap;

use serde::Serialize;

/// How bad a finding is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Pods run unpinned, are pinned twice, or decisions rest on wrong data.
    Error,
    /// Pods are rejected or less isolated than they may expect.
    Warning,
    /// Worth knowing; the exit code ignores it.
    Info,
}

impl Severity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The name of the check.
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    /// What is wrong.
    pub(super) problem: String,
    /// What to do; empty if there is nothing to do.
    pub(super) remedy: String,
    /// The nodes that have the problem.
    pub(super) nodes: Vec<String>,
    /// The pods that have it, as `namespace/name`.
    pub(super) pods: Vec<String>,
}

impl Finding {
    /// A finding about the whole cluster.
    pub(super) fn new(severity: Severity, problem: impl Into<String>, remedy: &str) -> Self {
        Self {
            check: "",
            severity,
            problem: problem.into(),
            remedy: remedy.to_owned(),
            nodes: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// The same as the result of a check of this name.
    pub(super) fn of(self, check: &'static str) -> Self {
        Self { check, ..self }
    }
}

/// Findings by problem: nodes with the same problem share one.
#[derive(Default)]
pub(super) struct Grouped {
    findings: BTreeMap<Problem, Affected>,
}

/// What findings have in common that become one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    severity: Severity,
    problem: String,
    remedy: String,
}

/// The nodes and pods that have a problem, in order.
#[derive(Default)]
struct Affected {
    nodes: Vec<String>,
    pods: Vec<String>,
}

impl Grouped {
    /// Adds a problem of a node.
    pub(super) fn node(&mut self, severity: Severity, node: &str, problem: String, remedy: &str) {
        self.add(severity, problem, remedy, Some(node), None);
    }

    /// Adds a problem of a pod on a node.
    pub(super) fn pod(
        &mut self,
        severity: Severity,
        (node, pod): (Option<&str>, &str),
        problem: String,
        remedy: &str,
    ) {
        self.add(severity, problem, remedy, node, Some(pod));
    }

    fn add(
        &mut self,
        severity: Severity,
        problem: String,
        remedy: &str,
        node: Option<&str>,
        pod: Option<&str>,
    ) {
        let remedy = remedy.to_owned();
        let problem = Problem {
            severity,
            problem,
            remedy,
        };
        let Affected { nodes, pods } = self.findings.entry(problem).or_default();
        for (list, name) in [(nodes, node), (pods, pod)] {
            let Some(name) = name else { continue };
            if let Err(at) = list.binary_search_by(|own| own.as_str().cmp(name)) {
                list.insert(at, name.to_owned());
            }
        }
    }

    /// One finding for each problem.
    pub(super) fn finish(self) -> Vec<Finding> {
        let found = self.findings.into_iter();
        let finding = |(problem, affected): (Problem, Affected)| Finding {
            check: "",
            severity: problem.severity,
            problem: problem.problem,
            remedy: problem.remedy,
            nodes: affected.nodes,
            pods: affected.pods,
        };
        found.map(finding).collect()
    }
}
