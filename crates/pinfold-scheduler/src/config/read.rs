//! Parsing of the configuration. Every error is reported with its position, so that one run shows them all.

use pinfold_daemon::config::read::{
    Choices, access, boolean, duration, listen_address, one_of, path_or_none, section,
};
use pinfold_daemon::config::section_fields;
use pinfold_kube::diagnostic::DiagnosticReport;
use pinfold_kube::manifest::field::FieldRef;

use super::{Access, ExtenderConfig, FIELDS, Fallback};
use crate::weights::Prefer;

pub(super) fn config(whole: &FieldRef<'_>, report: &mut DiagnosticReport) -> ExtenderConfig {
    let mut config = ExtenderConfig::default();
    whole.reject_unknown(&section_fields(FIELDS, ""), report);
    let mut address = Some(config.listen);
    listen_address(whole, "listen", &mut address, report);
    match address {
        Some(address) => config.listen = address,
        None => {
            if let Some(field) = whole.get("listen") {
                field.unexpected("an address with a port", report);
            }
        }
    }
    if let Some(section) = section(whole, FIELDS, "tls", report) {
        let tls = &mut config.tls;
        path_or_none(&section, "certificate", &mut tls.certificate, report);
        path_or_none(&section, "key", &mut tls.key, report);
        path_or_none(&section, "clientCA", &mut tls.client_ca, report);
        if tls.certificate.is_some() != tls.key.is_some() {
            section.unexpected("both certificate and key, or neither", report);
        }
        if tls.client_ca.is_some() && tls.certificate.is_none() {
            section.unexpected("a certificate, which a client CA requires", report);
        }
    }
    if let Some(section) = section(whole, FIELDS, "metrics", report) {
        listen_address(&section, "listen", &mut config.metrics.listen, report);
    }
    if let Some(section) = section(whole, FIELDS, "kubernetes", report) {
        access(&section, &mut config.kubernetes.kubeconfig, report);
        if config.kubernetes.kubeconfig == Access::None {
            section.unexpected("a kubeconfig file, or inCluster", report);
        }
    }
    if let Some(section) = section(whole, FIELDS, "leader", report) {
        let leader = &mut config.leader;
        boolean(&section, "elect", &mut leader.elect, report);
        name(&section, "namespace", &mut leader.namespace, report);
        name(&section, "name", &mut leader.name, report);
        let mut identity = String::new();
        name(&section, "identity", &mut identity, report);
        leader.identity = (!identity.is_empty()).then_some(identity);
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

/// Parses a field that is the name of an object.
fn name(section: &FieldRef<'_>, key: &str, into: &mut String, report: &mut DiagnosticReport) {
    const WHAT: &str = "a name of lower case letters, digits, hyphens and dots";
    let Some(field) = section.get(key) else {
        return;
    };
    let Some(text) = field.text(WHAT, report) else {
        return;
    };
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
    match !text.is_empty() && text.len() <= 253 && text.bytes().all(is_plain) {
        true => text.clone_into(into),
        false => field.unexpected(WHAT, report),
    }
}

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
