//! Reading: every field with its place, so that one run shows all that is to mend.

use std::path::PathBuf;
use std::time::Duration;

use pinfold_kube::finding::Report;
use pinfold_kube::manifest::place::Place;

use super::{
    Access, AgentConfig, Dialect, Direct, Mode, Partitions, Publication, Unknown, fields,
    is_absolute, is_none,
};

/// The shortest time between two rounds of anything: shorter ones only heat the machine.
const SHORTEST: Duration = Duration::from_millis(100);
/// A day: longer ones are a slip of the pen.
const LONGEST: Duration = Duration::from_secs(86_400);

pub(super) fn config(whole: &Place<'_>, report: &mut Report) -> AgentConfig {
    let mut config = AgentConfig::default();
    whole.refuse_unknown(&fields::members(""), report);
    one_of(whole, "mode", MODES, &mut config.mode, report);
    one_of(whole, "dialect", DIALECTS, &mut config.dialect, report);
    if let Some(place) = whole.get("node") {
        config.node = node_name(&place, report);
    }
    path(whole, "state", &mut config.state, report);
    let unknown = &mut config.unknown_containers;
    one_of(whole, "unknownContainers", UNKNOWN, unknown, report);
    if let Some(section) = section(whole, "kubelet", report) {
        path_or_none(&section, "config", &mut config.kubelet.config, report);
        let kubelet = &mut config.kubelet;
        path(&section, "root", &mut kubelet.root, report);
        endpoint(&section, &mut kubelet.endpoint, report);
        path(&section, "authority", &mut kubelet.authority, report);
        path(&section, "token", &mut kubelet.token, report);
    }
    if let Some(section) = section(whole, "koordinator", report) {
        let scheduler = &mut config.koordinator.scheduler;
        path_or_none(&section, "scheduler", scheduler, report);
    }
    if let Some(section) = section(whole, "runtime", report) {
        path_or_none(&section, "nri", &mut config.runtime.nri, report);
        index(&section, &mut config.runtime.index, report);
    }
    if let Some(section) = section(whole, "cgroups", report) {
        let cgroups = &mut config.cgroups;
        one_of(&section, "direct", DIRECT, &mut cgroups.direct, report);
        switch(
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
        period(&section, "checkEvery", &mut cgroups.check_every, report);
    }
    if let Some(section) = section(whole, "devices", report) {
        switch(&section, "manage", &mut config.devices.manage, report);
        path(&section, "directory", &mut config.devices.directory, report);
    }
    if let Some(section) = section(whole, "podResources", report) {
        path_or_none(&section, "serve", &mut config.pod_resources.serve, report);
        path(
            &section,
            "kubelet",
            &mut config.pod_resources.kubelet,
            report,
        );
    }
    if let Some(section) = section(whole, "api", report) {
        path_or_none(&section, "socket", &mut config.api.socket, report);
    }
    if let Some(section) = section(whole, "metrics", report) {
        listen(&section, &mut config.metrics.listen, report);
    }
    if let Some(section) = section(whole, "kubernetes", report) {
        access(&section, &mut config.kubernetes.kubeconfig, report);
        publish(&section, &mut config.kubernetes.publish, report);
        period(&section, "every", &mut config.kubernetes.every, report);
    }
    if let Some(section) = section(whole, "takeover", report) {
        let takeover = &mut config.takeover;
        let quiet = &mut takeover.disable_query_kubelet_config;
        switch(&section, "disableQueryKubeletConfig", quiet, report);
        switch(
            &section,
            "cpuSetAllocator",
            &mut takeover.cpu_set_allocator,
            report,
        );
    }
    config
}

type Words<T> = &'static [(&'static str, T)];

const MODES: Words<Mode> = &[("manage", Mode::Manage), ("mirror", Mode::Mirror)];
const DIALECTS: Words<Dialect> = &[
    ("kubelet", Dialect::Kubelet),
    ("koordinator", Dialect::Koordinator),
];
const DIRECT: Words<Direct> = &[
    ("auto", Direct::Auto),
    ("always", Direct::Always),
    ("never", Direct::Never),
];
const PARTITIONS: Words<Partitions> = &[
    ("none", Partitions::None),
    ("root", Partitions::Root),
    ("isolated", Partitions::Isolated),
];
const UNKNOWN: Words<Unknown> = &[("adopt", Unknown::Adopt), ("refuse", Unknown::Refuse)];
const PUBLICATIONS: Words<Publication> = &[
    ("v1alpha2", Publication::V1alpha2),
    ("v1alpha1", Publication::V1alpha1),
    ("numatopology", Publication::Numatopology),
];

/// The section of that name, with its unknown members refused.
fn section<'n>(whole: &Place<'n>, name: &str, report: &mut Report) -> Option<Place<'n>> {
    let section = whole.get_map(name, "a mapping", report)?;
    section.refuse_unknown(&fields::members(name), report);
    Some(section)
}

fn word<T: Copy>(place: &Place<'_>, words: Words<T>, report: &mut Report) -> Option<T> {
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = place.word(&known, report)?;
    let meant = words.iter().find(|(word, _)| *word == found);
    meant.map(|(_, meant)| *meant)
}

fn one_of<T: Copy>(
    within: &Place<'_>,
    key: &str,
    words: Words<T>,
    into: &mut T,
    report: &mut Report,
) {
    let Some(place) = within.get(key) else { return };
    if let Some(meant) = word(&place, words, report) {
        *into = meant;
    }
}

fn switch(within: &Place<'_>, key: &str, into: &mut bool, report: &mut Report) {
    let Some(place) = within.get(key) else { return };
    if let Some(on) = place.boolean("true or false", report) {
        *into = on;
    }
}

fn absolute(place: &Place<'_>, what: &str, report: &mut Report) -> Option<PathBuf> {
    let text = place.text(what, report)?;
    match is_absolute(text) && !text.contains('\0') {
        true => Some(text.into()),
        false => {
            place.unexpected(what, report);
            None
        }
    }
}

fn path(within: &Place<'_>, key: &str, into: &mut PathBuf, report: &mut Report) {
    let Some(place) = within.get(key) else { return };
    if let Some(path) = absolute(&place, "an absolute path", report) {
        *into = path;
    }
}

fn path_or_none(within: &Place<'_>, key: &str, into: &mut Option<PathBuf>, report: &mut Report) {
    const WHAT: &str = "an absolute path, or none";
    let Some(place) = within.get(key) else { return };
    match place.text(WHAT, report) {
        Some(text) if is_none(text) => *into = None,
        Some(_) => *into = absolute(&place, WHAT, report).or(into.take()),
        None => {}
    }
}

/// A name as the API server takes it: labels of letters, digits and hyphens, joined by dots.
fn node_name(place: &Place<'_>, report: &mut Report) -> Option<String> {
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

fn index(within: &Place<'_>, into: &mut String, report: &mut Report) {
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

fn period(within: &Place<'_>, key: &str, into: &mut Duration, report: &mut Report) {
    const WHAT: &str = "a duration between 100ms and 24h, such as 10s or 1m";
    let Some(place) = within.get(key) else { return };
    match place.duration(WHAT, report) {
        Some(period) if (SHORTEST..=LONGEST).contains(&period) => *into = period,
        Some(_) => place.unexpected(WHAT, report),
        None => {}
    }
}

/// A server of this machine or another: nothing is sent in the clear but to ourselves.
fn endpoint(within: &Place<'_>, into: &mut Option<String>, report: &mut Report) {
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
        _ if is_none(text) => *into = None,
        Ok(url) if safe && url.host().is_some() && url.path() == "/" => {
            *into = Some(text.trim_end_matches('/').to_owned());
        }
        _ => place.unexpected(WHAT, report),
    }
}

fn listen(within: &Place<'_>, into: &mut Option<std::net::SocketAddr>, report: &mut Report) {
    const WHAT: &str = "an address with its port, such as 127.0.0.1:9464, or none";
    let Some(place) = within.get("listen") else {
        return;
    };
    let Some(text) = place.text(WHAT, report) else {
        return;
    };
    match text.parse() {
        Ok(address) => *into = Some(address),
        Err(_) if is_none(text) => *into = None,
        Err(_) => place.unexpected(WHAT, report),
    }
}

fn access(within: &Place<'_>, into: &mut Access, report: &mut Report) {
    const WHAT: &str = "the absolute path of a kubeconfig file, inCluster, or none";
    let Some(place) = within.get("kubeconfig") else {
        return;
    };
    match place.text(WHAT, report) {
        Some("inCluster") => *into = Access::InCluster,
        Some(text) if is_none(text) => *into = Access::None,
        Some(_) => {
            if let Some(path) = absolute(&place, WHAT, report) {
                *into = Access::File(path);
            }
        }
        None => {}
    }
}

fn publish(within: &Place<'_>, into: &mut Vec<Publication>, report: &mut Report) {
    let Some(place) = within.get("publish") else {
        return;
    };
    into.clear();
    for item in place.items("a list of objects to publish", report) {
        if let Some(publication) = word(&item, PUBLICATIONS, report)
            && !into.contains(&publication)
        {
            into.push(publication);
        }
    }
}
