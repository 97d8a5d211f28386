//! Reading: every field with its place, so that one run shows all that is to mend.

use pinfold_daemon::config::read::{
    Choices, access, boolean, duration, listen_address, one_of, path_or_none, section,
};
use pinfold_daemon::config::section_fields;
use pinfold_kube::diagnostic::DiagnosticReport;
use pinfold_kube::manifest::field::FieldRef;

use super::{Access, Doubt, FIELDS, SchedulerConfig};
use crate::weights::Prefer;

pub(super) fn config(whole: &FieldRef<'_>, report: &mut DiagnosticReport) -> SchedulerConfig {
    let mut config = SchedulerConfig::default();
    whole.reject_unknown(&section_fields(FIELDS, ""), report);
    let mut address = Some(config.listen);
    listen_address(whole, "listen", &mut address, report);
    match address {
        Some(address) => config.listen = address,
        None => {
            if let Some(place) = whole.get("listen") {
                place.unexpected("an address with a port", report);
            }
        }
    }
    if let Some(place) = section(whole, FIELDS, "tls", report) {
        let tls = &mut config.tls;
        path_or_none(&place, "certificate", &mut tls.certificate, report);
        path_or_none(&place, "key", &mut tls.key, report);
        path_or_none(&place, "clientAuthority", &mut tls.client_authority, report);
        if tls.certificate.is_some() != tls.key.is_some() {
            place.unexpected("both certificate and key, or neither", report);
        }
        if tls.client_authority.is_some() && tls.certificate.is_none() {
            place.unexpected("a certificate, for clients to be asked for theirs", report);
        }
    }
    if let Some(place) = section(whole, FIELDS, "metrics", report) {
        listen_address(&place, "listen", &mut config.metrics.listen, report);
    }
    if let Some(place) = section(whole, FIELDS, "kubernetes", report) {
        access(&place, &mut config.kubernetes.kubeconfig, report);
        if config.kubernetes.kubeconfig == Access::None {
            place.unexpected("a kubeconfig file, or inCluster", report);
        }
    }
    if let Some(place) = section(whole, FIELDS, "leader", report) {
        let leader = &mut config.leader;
        boolean(&place, "elect", &mut leader.elect, report);
        name(&place, "namespace", &mut leader.namespace, report);
        name(&place, "name", &mut leader.name, report);
        let mut identity = String::new();
        name(&place, "identity", &mut identity, report);
        leader.identity = (!identity.is_empty()).then_some(identity);
    }
    if let Some(place) = section(whole, FIELDS, "nodes", report) {
        let nodes = &mut config.nodes;
        one_of(
            &place,
            "withoutReport",
            DOUBTS,
            &mut nodes.without_report,
            report,
        );
        one_of(&place, "behind", DOUBTS, &mut nodes.behind, report);
        one_of(&place, "uncertain", DOUBTS, &mut nodes.uncertain, report);
    }
    if let Some(place) = section(whole, FIELDS, "reports", report) {
        let reports = &mut config.reports;
        duration(&place, "confirmWithin", &mut reports.confirm_within, report);
        duration(&place, "settle", &mut reports.settle, report);
        duration(&place, "reservation", &mut reports.reservation, report);
    }
    if let Some(place) = section(whole, FIELDS, "weights", report) {
        let weights = &mut config.weights;
        weight(&place, "span", &mut weights.span, report);
        weight(&place, "dialect", &mut weights.dialect, report);
        weight(&place, "use", &mut weights.usage, report);
        weight(&place, "distance", &mut weights.distance, report);
        weight(&place, "fragmentation", &mut weights.fragmentation, report);
        one_of(&place, "prefer", PREFER, &mut weights.prefer, report);
    }
    config
}

const DOUBTS: Choices<Doubt> = &[("pass", Doubt::Pass), ("reject", Doubt::Reject)];
const PREFER: Choices<Prefer> = &[("pack", Prefer::Pack), ("spread", Prefer::Spread)];

/// A name as the API server takes it.
fn name(within: &FieldRef<'_>, key: &str, into: &mut String, report: &mut DiagnosticReport) {
    const WHAT: &str = "a name: small letters, digits, hyphens and dots";
    let Some(place) = within.get(key) else {
        return;
    };
    let Some(text) = place.text(WHAT, report) else {
        return;
    };
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
    match !text.is_empty() && text.len() <= 253 && text.bytes().all(is_plain) {
        true => text.clone_into(into),
        false => place.unexpected(WHAT, report),
    }
}

fn weight(within: &FieldRef<'_>, key: &str, into: &mut u32, report: &mut DiagnosticReport) {
    const WHAT: &str = "a whole number from 0 to 100";
    let Some(place) = within.get(key) else {
        return;
    };
    match place.integer(WHAT, report).map(u32::try_from) {
        Some(Ok(weight)) if weight <= 100 => *into = weight,
        Some(_) => place.unexpected(WHAT, report),
        None => {}
    }
}
