//! Parsing of the configuration. Every error is reported with its position, so that one run shows them all.

use pinfold_daemon::config::read::{
    Choices, access, duration, listen_address, one_of, path, section,
};
use pinfold_daemon::config::section_fields;
use pinfold_kube::diagnostic::DiagnosticReport;
use pinfold_kube::manifest::field::FieldRef;

use super::{Access, EngineConfig, FIELDS, Fallback};
use crate::weights::Prefer;

pub(super) fn config(whole: &FieldRef<'_>, report: &mut DiagnosticReport) -> EngineConfig {
    let mut config = EngineConfig::default();
    whole.reject_unknown(&section_fields(FIELDS, ""), report);
    path(whole, "socket", &mut config.socket, report);
    if let Some(section) = section(whole, FIELDS, "metrics", report) {
        listen_address(&section, "listen", &mut config.metrics.listen, report);
    }
    if let Some(section) = section(whole, FIELDS, "kubernetes", report) {
        access(&section, &mut config.kubernetes.kubeconfig, report);
        if config.kubernetes.kubeconfig == Access::None {
            section.unexpected("a kubeconfig file, or inCluster", report);
        }
    }
    if let Some(section) = section(whole, FIELDS, "nodes", report) {
        let nodes = &mut config.nodes;
        one_of(
            &section,
            "withoutReport",
            FALLBACKS,
            &mut nodes.without_report,
            report,
        );
        one_of(
            &section,
            "staleReport",
            FALLBACKS,
            &mut nodes.stale_report,
            report,
        );
        one_of(
            &section,
            "incompleteReport",
            FALLBACKS,
            &mut nodes.incomplete_report,
            report,
        );
    }
    if let Some(section) = section(whole, FIELDS, "reports", report) {
        let reports = &mut config.reports;
        duration(&section, "staleAfter", &mut reports.stale_after, report);
        duration(&section, "countedAfter", &mut reports.counted_after, report);
        duration(
            &section,
            "bindingTimeout",
            &mut reports.binding_timeout,
            report,
        );
    }
    if let Some(section) = section(whole, FIELDS, "weights", report) {
        let weights = &mut config.weights;
        weight(&section, "span", &mut weights.span, report);
        weight(&section, "dialect", &mut weights.dialect, report);
        weight(&section, "utilization", &mut weights.utilization, report);
        weight(&section, "distance", &mut weights.distance, report);
        weight(
            &section,
            "fragmentation",
            &mut weights.fragmentation,
            report,
        );
        one_of(&section, "prefer", PREFER, &mut weights.prefer, report);
    }
    config
}

const FALLBACKS: Choices<Fallback> = &[("pass", Fallback::Pass), ("reject", Fallback::Reject)];
const PREFER: Choices<Prefer> = &[("pack", Prefer::Pack), ("spread", Prefer::Spread)];

/// Parses a weight.
fn weight(section: &FieldRef<'_>, key: &str, into: &mut u32, report: &mut DiagnosticReport) {
    const WHAT: &str = "a whole number from 0 to 100";
    let Some(field) = section.get(key) else {
        return;
    };
    match field.integer(WHAT, report).map(u32::try_from) {
        Some(Ok(weight)) if weight <= 100 => *into = weight,
        Some(_) => field.unexpected(WHAT, report),
        None => {}
    }
}
