//! `kubectl pinfold doctor`: what is wrong with NUMA placement in a cluster, and what to do about it, worst first.
//!
//! ```text
//! API server or files ──► sources ──► Evidence ──► one module per subject ──► Finding ──► text, JSON, YAML
//! ```
//!
//! A check reads the objects of the cluster only: nothing runs on a node, and nothing is changed.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pinfold_render::text::{count, paragraph};
use pinfold_terminal::{Failure, REJECTED, output};
use serde::Serialize;

use self::evidence::Evidence;
use self::finding::{Finding, Severity};
use super::cluster_state::named;
use crate::args::{DoctorArgs, FailOn, ObjectsArgs};

mod agents;
mod definitions;
mod evidence;
mod finding;
mod managers;
mod pins;
mod policies;
mod rejections;
mod reports;
mod sources;
#[cfg(test)]
mod tests;
mod versions;

/// A check: its findings in the evidence.
type Check = fn(&Evidence) -> Vec<Finding>;

/// The checks in the order of the page, by name.
const CHECKS: [(&str, Check); 18] = [
    ("two-managers", managers::two_managers),
    ("not-pinned", pins::not_pinned),
    ("cpus-differ", pins::cpus_differ),
    ("runtime-disconnected", agents::runtime_disconnected),
    ("agent-not-ready", agents::not_ready),
    ("agent-silent", agents::silent),
    ("agent-missing", agents::missing),
    ("report-stale", reports::stale),
    ("report-orphaned", reports::orphaned),
    ("report-invalid", reports::invalid),
    ("other-writer", reports::other_writers),
    ("definition", definitions::foreign),
    ("prediction-failed", rejections::mispredicted),
    ("rejected-pods", rejections::rejected),
    ("kubelet-policies", policies::policies),
    ("takeover", managers::takeover),
    ("runtime-version", versions::runtime),
    ("kubelet-version", versions::kubelet),
];

/// The result as JSON or YAML.
#[derive(Serialize)]
pub(super) struct DoctorReport {
    nodes: usize,
    errors: usize,
    warnings: usize,
    /// What was found, worst first.
    findings: Vec<Finding>,
    /// What could not be checked, and why.
    not_checked: Vec<String>,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let evidence = sources::read(&args.objects)?;
    if evidence.nodes.is_empty() && evidence.reports.is_empty() {
        return Err(Failure::BadInput(
            "no nodes: expected Node or NodeResourceTopology objects".to_owned(),
        ));
    }
    let report = examine(evidence);
    output::print_as(args.output, &report, || text(&report))?;
    let warnings = match args.fail_on {
        FailOn::Warning => report.warnings,
        FailOn::Error => 0,
    };
    Ok(match report.errors + warnings {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REJECTED),
    })
}

/// The report, and the kubelet's version on each node where it is known.
pub(super) fn report(
    args: &ObjectsArgs,
) -> Result<(DoctorReport, BTreeMap<String, String>), Failure> {
    let evidence = sources::read(args)?;
    let versions = evidence.nodes.iter();
    let versions = versions.filter(|(_, node)| !node.kubelet.is_empty());
    let versions = versions.map(|(name, node)| (name.clone(), node.kubelet.clone()));
    let versions = versions.collect();
    Ok((examine(evidence), versions))
}

/// Runs every check.
fn examine(mut evidence: Evidence) -> DoctorReport {
    let mut findings: Vec<Finding> = Vec::new();
    for (name, check) in CHECKS {
        let found = check(&evidence);
        findings.extend(found.into_iter().map(|finding| finding.of(name)));
    }
    // Stable: findings of one severity stay in the order of the checks.
    findings.sort_by_key(|finding| finding.severity);
    let of = |severity| {
        let found = findings.iter();
        found.filter(|finding| finding.severity == severity).count()
    };
    DoctorReport {
        nodes: evidence.nodes.len(),
        errors: of(Severity::Error),
        warnings: of(Severity::Warning),
        not_checked: std::mem::take(&mut evidence.not_checked),
        findings,
    }
}

fn text(report: &DoctorReport) -> String {
    let width = output::width();
    let mut text = match report.errors + report.warnings {
        0 => format!(
            "{}: nothing is wrong.\n",
            count(report.nodes, "node", "nodes")
        ),
        _ => format!(
            "{}: {}, {}.\n",
            count(report.nodes, "node", "nodes"),
            count(report.errors, "error", "errors"),
            count(report.warnings, "warning", "warnings")
        ),
    };
    for finding in &report.findings {
        let severity = finding.severity.name();
        let lead = format!("\n{severity:<8} ");
        let about = match finding.nodes.is_empty() {
            true => finding.check.to_owned(),
            false => format!("{}: {}", finding.check, named(&finding.nodes)),
        };
        text.push_str(&paragraph(&lead, &about, 9, width + 1));
        let mut problem = finding.problem.clone();
        if !finding.pods.is_empty() {
            problem.push_str(&format!(" ({})", named(&finding.pods)));
        }
        text.push_str(&paragraph("  ", &problem, 2, width));
        if !finding.remedy.is_empty() {
            text.push_str(&paragraph("  Do: ", &finding.remedy, 6, width));
        }
    }
    if !report.not_checked.is_empty() {
        text.push('\n');
        for missing in &report.not_checked {
            text.push_str(&paragraph("Not checked: ", missing, 13, width));
        }
    }
    text
}
