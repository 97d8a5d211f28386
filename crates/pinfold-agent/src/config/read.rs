//! Reads the configuration's fields from YAML, and reports all errors of the file at once.

use pinfold_daemon::config::read::{
    Choices, access, boolean, choice, duration, listen_address, one_of, path, path_or_none, section,
};
use pinfold_daemon::config::section_fields;
use pinfold_kube::diagnostic::DiagnosticReport;
use pinfold_kube::manifest::field::FieldRef;
use pinfold_kube::pod_fingerprint::FingerprintMethod;

use super::{
    AgentConfig, DirectWrites, FIELDS, Mode, NodeDialect, PartitionKind, PublishedObject,
    UnknownContainerPolicy,
};
use crate::kubernetes::{OtherWriterPolicy, Taint};

pub(super) fn config(whole: &FieldRef<'_>, report: &mut DiagnosticReport) -> AgentConfig {
    let mut config = AgentConfig::default();
    whole.reject_unknown(&section_fields(FIELDS, ""), report);
    one_of(whole, "mode", MODES, &mut config.mode, report);
    one_of(whole, "dialect", DIALECTS, &mut config.dialect, report);
    if let Some(place) = whole.get("nodeName") {
        config.node_name = node_name(&place, report);
    }
    let state_directory = &mut config.state_directory;
    path(whole, "stateDirectory", state_directory, report);
    let unknown = &mut config.unknown_containers;
    one_of(whole, "unknownContainers", UNKNOWN, unknown, report);
    if let Some(section) = section(whole, FIELDS, "kubelet", report) {
        let kubelet = &mut config.kubelet;
        path_or_none(&section, "configFile", &mut kubelet.config_file, report);
        path(
            &section,
            "rootDirectory",
            &mut kubelet.root_directory,
            report,
        );
        endpoint(&section, &mut kubelet.endpoint, report);
        path(&section, "caFile", &mut kubelet.ca_file, report);
        path(&section, "tokenFile", &mut kubelet.token_file, report);
    }
    if let Some(section) = section(whole, FIELDS, "koordinator", report) {
        let file = &mut config.koordinator.scheduler_config_file;
        path_or_none(&section, "schedulerConfigFile", file, report);
        let koordinator = &mut config.koordinator;
        boolean(
            &section,
            "suppression",
            &mut koordinator.suppression,
            report,
        );
        percentage(
            &section,
            "suppressionThreshold",
            &mut koordinator.suppression_threshold,
            report,
        );
    }
    if let Some(section) = section(whole, FIELDS, "runtime", report) {
        let runtime = &mut config.runtime;
        path_or_none(&section, "nriSocket", &mut runtime.nri_socket, report);
        plugin_index(&section, &mut config.runtime.plugin_index, report);
        niceness(&section, &mut config.runtime.niceness, report);
    }
    if let Some(section) = section(whole, FIELDS, "cgroups", report) {
        let cgroups = &mut config.cgroups;
        one_of(
            &section,
            "directWrites",
            DIRECT_WRITES,
            &mut cgroups.direct_writes,
            report,
        );
        path_or_none(&section, "systemdBus", &mut cgroups.systemd_bus, report);
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
        let interval = &mut cgroups.check_interval;
        duration(&section, "checkInterval", interval, report);
    }
    if let Some(section) = section(whole, FIELDS, "devices", report) {
        let devices = &mut config.devices;
        boolean(
            &section,
            "managePlugins",
            &mut devices.manage_plugins,
            report,
        );
        let directory = &mut devices.plugin_directory;
        path(&section, "pluginDirectory", directory, report);
    }
    if let Some(section) = section(whole, FIELDS, "podResources", report) {
        path_or_none(&section, "socket", &mut config.pod_resources.socket, report);
        path(
            &section,
            "kubeletSocket",
            &mut config.pod_resources.kubelet_socket,
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
        let interval = &mut config.kubernetes.publish_interval;
        duration(&section, "publishInterval", interval, report);
        let writers = &mut config.kubernetes.other_writers;
        one_of(&section, "otherWriters", OTHER_WRITERS, writers, report);
        let method = &mut config.kubernetes.fingerprint_method;
        one_of(&section, "fingerprintMethod", FINGERPRINTS, method, report);
        let condition = &mut config.kubernetes.node_condition;
        boolean(&section, "nodeCondition", condition, report);
        startup_taint(&section, &mut config.kubernetes.startup_taint, report);
    }
    if let Some(section) = section(whole, FIELDS, "takeover", report) {
        let takeover = &mut config.takeover;
        let disable = &mut takeover.disable_query_kubelet_config;
        boolean(&section, "disableQueryKubeletConfig", disable, report);
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
const DIALECTS: Choices<NodeDialect> = &[
    ("kubelet", NodeDialect::Kubelet),
    ("koordinator", NodeDialect::Koordinator),
];
const DIRECT_WRITES: Choices<DirectWrites> = &[
    ("auto", DirectWrites::Auto),
    ("always", DirectWrites::Always),
    ("never", DirectWrites::Never),
];
const PARTITIONS: Choices<PartitionKind> = &[
    ("none", PartitionKind::None),
    ("root", PartitionKind::Root),
    ("isolated", PartitionKind::Isolated),
];
const UNKNOWN: Choices<UnknownContainerPolicy> = &[
    ("adopt", UnknownContainerPolicy::Adopt),
    ("reject", UnknownContainerPolicy::Reject),
];
const PUBLICATIONS: Choices<PublishedObject> = &[
    ("v1alpha2", PublishedObject::V1alpha2),
    ("v1alpha1", PublishedObject::V1alpha1),
    ("numatopology", PublishedObject::Numatopology),
];

const OTHER_WRITERS: Choices<OtherWriterPolicy> = &[
    ("yield", OtherWriterPolicy::Yield),
    ("repair", OtherWriterPolicy::Repair),
];
const FINGERPRINTS: Choices<FingerprintMethod> = &[
    (
        "with-exclusive-resources",
        FingerprintMethod::WithExclusiveResources,
    ),
    ("all", FingerprintMethod::All),
    ("exclude-terminal", FingerprintMethod::ExcludeTerminal),
];

/// Reads the name of a Node object: a DNS subdomain.
fn node_name(place: &FieldRef<'_>, report: &mut DiagnosticReport) -> Option<String> {
    const WHAT: &str = "a node name: lower-case letters, digits, hyphens and dots";
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

fn plugin_index(within: &FieldRef<'_>, into: &mut String, report: &mut DiagnosticReport) {
    const WHAT: &str = "two digits in quotes, such as \"10\"";
    let Some(place) = within.get("pluginIndex") else {
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

fn percentage(within: &FieldRef<'_>, key: &str, into: &mut u32, report: &mut DiagnosticReport) {
    const WHAT: &str = "a percentage from 1 to 100";
    let Some(place) = within.get(key) else {
        return;
    };
    let Some(number) = place.integer(WHAT, report) else {
        return;
    };
    match u32::try_from(number) {
        Ok(percent @ 1..=100) => *into = percent,
        _ => place.unexpected(WHAT, report),
    }
}

/// Reads the URL of the kubelet's server. Plain HTTP is accepted only for loopback addresses, because a token is sent.
fn endpoint(within: &FieldRef<'_>, into: &mut Option<String>, report: &mut DiagnosticReport) {
    const WHAT: &str = "https://HOST:PORT (http:// only for loopback addresses), or none";
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

fn startup_taint(within: &FieldRef<'_>, into: &mut Option<Taint>, report: &mut DiagnosticReport) {
    const WHAT: &str = "KEY:NoSchedule, KEY:PreferNoSchedule, KEY:NoExecute, or none";
    let Some(place) = within.get("startupTaint") else {
        return;
    };
    let Some(text) = place.text(WHAT, report) else {
        return;
    };
    match text.parse() {
        Ok(taint) => *into = Some(taint),
        Err(()) if text == "none" => *into = None,
        Err(()) => place.unexpected(WHAT, report),
    }
}

fn publish(within: &FieldRef<'_>, into: &mut Vec<PublishedObject>, report: &mut DiagnosticReport) {
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
