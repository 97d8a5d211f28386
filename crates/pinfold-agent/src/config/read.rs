//! Reading: every field with its place, so that one run shows all that is to mend.

use pinfold_daemon::config::read::{
    Choices, access, boolean, choice, duration, listen_address, one_of, path, path_or_none, section,
};
use pinfold_daemon::config::section_fields;
use pinfold_kube::diagnostic::DiagnosticReport;
use pinfold_kube::manifest::field::FieldRef;

use super::{AgentConfig, Dialect, Direct, FIELDS, Mode, Partitions, Publication, Unknown};

pub(super) fn config(whole: &FieldRef<'_>, report: &mut DiagnosticReport) -> AgentConfig {
    let mut config = AgentConfig::default();
    whole.reject_unknown(&section_fields(FIELDS, ""), report);
    one_of(whole, "mode", MODES, &mut config.mode, report);
    one_of(whole, "dialect", DIALECTS, &mut config.dialect, report);
    if let Some(place) = whole.get("node") {
        config.node = node_name(&place, report);
    }
    path(whole, "state", &mut config.state, report);
    let unknown = &mut config.unknown_containers;
    one_of(whole, "unknownContainers", UNKNOWN, unknown, report);
    if let Some(section) = section(whole, FIELDS, "kubelet", report) {
        path_or_none(&section, "config", &mut config.kubelet.config, report);
        let kubelet = &mut config.kubelet;
        path(&section, "root", &mut kubelet.root, report);
        endpoint(&section, &mut kubelet.endpoint, report);
        path(&section, "authority", &mut kubelet.authority, report);
        path(&section, "token", &mut kubelet.token, report);
    }
    if let Some(section) = section(whole, FIELDS, "koordinator", report) {
        let scheduler = &mut config.koordinator.scheduler;
        path_or_none(&section, "scheduler", scheduler, report);
    }
    if let Some(section) = section(whole, FIELDS, "runtime", report) {
        path_or_none(&section, "nri", &mut config.runtime.nri, report);
        index(&section, &mut config.runtime.index, report);
        niceness(&section, &mut config.runtime.niceness, report);
    }
    if let Some(section) = section(whole, FIELDS, "cgroups", report) {
        let cgroups = &mut config.cgroups;
        one_of(&section, "direct", DIRECT, &mut cgroups.direct, report);
        boolean(
            &section,
            "migrateMemory",
            &mut cgroups.migrate_memory,
            report,
        );
        one_of(
            &section,
            "partitions",
            PARTITIONS,
            &mut cgroups.partitions,
            report,
        );
        duration(&section, "checkEvery", &mut cgroups.check_every, report);
    }
    if let Some(section) = section(whole, FIELDS, "devices", report) {
        boolean(&section, "manage", &mut config.devices.manage, report);
        path(&section, "directory", &mut config.devices.directory, report);
    }
    if let Some(section) = section(whole, FIELDS, "podResources", report) {
        path_or_none(&section, "serve", &mut config.pod_resources.serve, report);
        path(
            &section,
            "kubelet",
            &mut config.pod_resources.kubelet,
            report,
        );
    }
    if let Some(section) = section(whole, FIELDS, "api", report) {
        path_or_none(&section, "socket", &mut config.api.socket, report);
    }
    if let Some(section) = section(whole, FIELDS, "metrics", report) {
        listen_address(&section, "listen", &mut config.metrics.listen, report);
    }
    if let Some(section) = section(whole, FIELDS, "kubernetes", report) {
        access(&section, &mut config.kubernetes.kubeconfig, report);
        publish(&section, &mut config.kubernetes.publish, report);
        duration(&section, "every", &mut config.kubernetes.every, report);
    }
    if let Some(section) = section(whole, FIELDS, "takeover", report) {
        let takeover = &mut config.takeover;
        let quiet = &mut takeover.disable_query_kubelet_config;
        boolean(&section, "disableQueryKubeletConfig", quiet, report);
        boolean(
            &section,
            "cpuSetAllocator",
            &mut takeover.cpu_set_allocator,
            report,
        );
    }
    config
}

const MODES: Choices<Mode> = &[("manage", Mode::Manage), ("mirror", Mode::Mirror)];
const DIALECTS: Choices<Dialect> = &[
    ("kubelet", Dialect::Kubelet),
    ("koordinator", Dialect::Koordinator),
];
const DIRECT: Choices<Direct> = &[
    ("auto", Direct::Auto),
    ("always", Direct::Always),
    ("never", Direct::Never),
];
const PARTITIONS: Choices<Partitions> = &[
    ("none", Partitions::None),
    ("root", Partitions::Root),
    ("isolated", Partitions::Isolated),
];
const UNKNOWN: Choices<Unknown> = &[("adopt", Unknown::Adopt), ("reject", Unknown::Reject)];
const PUBLICATIONS: Choices<Publication> = &[
    ("v1alpha2", Publication::V1alpha2),
    ("v1alpha1", Publication::V1alpha1),
    ("numatopology", Publication::Numatopology),
];

/// A name as the API server takes it: labels of letters, digits and hyphens, joined by dots.
fn node_name(place: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<String> {
    const WHAT: &str = "a node's name: small letters, digits, hyphens and dots";
    let name = place.text(WHAT, report)?;
    let is_label = |label: &str| {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let hyphen = label.starts_with('-') || label.ends_with('-');
        !label.is_empty() && label.bytes().all(plain) && !hyphen
    };
    match name.len() <= 253 && name.split('.').all(is_label) {
        true => Some(name.to_owned()),
        false => {
            place.unexpected(WHAT, report);
            None
        }
    }
}

fn index(within: &FieldRef<'_>, into: &mut String, report: &mut DiagnosticReport) {
    const WHAT: &str = "two digits in quotes, such as \"10\"";
    let Some(place) = within.get("index") else {
        return;
    };
    let Some(text) = place.text(WHAT, report) else {
        return;
    };
    match text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit()) {
        true => text.clone_into(into),
        false => place.unexpected(WHAT, report),
    }
}

fn niceness(within: &FieldRef<'_>, into: &mut i8, report: &mut DiagnosticReport) {
    const WHAT: &str = "a whole number from -20 to 19";
    let Some(place) = within.get("niceness") else {
        return;
    };
    let Some(number) = place.integer(WHAT, report) else {
        return;
    };
    match i8::try_from(number) {
        Ok(nice @ -20..=19) => *into = nice,
        _ => place.unexpected(WHAT, report),
    }
}

/// A server of this machine or another: nothing is sent in the clear but to ourselves.
fn endpoint(within: &FieldRef<'_>, into: &mut Option<String>, report: &mut DiagnosticReport) {
    const WHAT: &str = "https://HOST:PORT (http:// to this machine alone), or none";
    let Some(place) = within.get("endpoint") else {
        return;
    };
    let Some(text) = place.text(WHAT, report) else {
        return;
    };
    let local = ["http://127.0.0.1:", "http://[::1]:", "http://localhost:"];
    let safe = text.starts_with("https://") || local.iter().any(|local| text.starts_with(local));
    let url = text.parse::<http::Uri>();
    match url {
        _ if text == "none" => *into = None,
        Ok(url) if safe && url.host().is_some() && url.path() == "/" => {
            *into = Some(text.trim_end_matches('/').to_owned());
        }
        _ => place.unexpected(WHAT, report),
    }
}

fn publish(within: &FieldRef<'_>, into: &mut Vec<Publication>, report: &mut DiagnosticReport) {
    let Some(place) = within.get("publish") else {
        return;
    };
    into.clear();
    for item in place.items("a list of objects to publish", report) {
        if let Some(publication) = choice(&item, PUBLICATIONS, report)
            && !into.contains(&publication)
        {
            into.push(publication);
        }
    }
}
