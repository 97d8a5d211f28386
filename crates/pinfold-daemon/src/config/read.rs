//! Parsing of configuration fields. Every error is reported with its position, so that one run shows them all.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_kube::diagnostic::DiagnosticReport;
use pinfold_kube::manifest::field::FieldRef;

use super::{Access, ConfigField, section_fields};

/// The shortest interval or timeout: shorter ones would only cost CPU time.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest interval or timeout: longer ones are mistakes.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The values of an enumeration by their names in the file.
pub type Choices<T> = &'static [(&'static str, T)];

/// The section `name`. Fields that are not in `table` are reported as errors.
pub fn section<'n>(
    whole: &FieldRef<'n>,
    table: &[ConfigField],
    name: &str,
    report: &mut DiagnosticReport,
) -> Option<FieldRef<'n>> {
    let section = whole.get_map(name, "a mapping", report)?;
    section.reject_unknown(&section_fields(table, name), report);
    Some(section)
}

/// Parses the name of an enumeration value.
pub fn choice<T: Copy>(
    field: &FieldRef<'_>,
    choices: Choices<T>,
    report: &mut DiagnosticReport,
) -> Option<T> {
    let known: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let found = field.word(&known, report)?;
    let choice = choices.iter().find(|(name, _)| *name == found);
    choice.map(|(_, value)| *value)
}

/// Parses a field that is the name of an enumeration value.
pub fn one_of<T: Copy>(
    section: &FieldRef<'_>,
    key: &str,
    choices: Choices<T>,
    into: &mut T,
    report: &mut DiagnosticReport,
) {
    let Some(field) = section.get(key) else {
        return;
    };
    if let Some(value) = choice(&field, choices, report) {
        *into = value;
    }
}

/// Parses a boolean field.
pub fn boolean(section: &FieldRef<'_>, key: &str, into: &mut bool, report: &mut DiagnosticReport) {
    let Some(field) = section.get(key) else {
        return;
    };
    if let Some(on) = field.boolean("true or false", report) {
        *into = on;
    }
}

/// Parses an absolute path. Relative ones are rejected: a daemon has no meaningful working directory.
pub fn absolute_path(
    field: &FieldRef<'_>,
    what: &str,
    report: &mut DiagnosticReport,
) -> Option<PathBuf> {
    let text = field.text(what, report)?;
    match Path::new(text).is_absolute() && !text.contains('\0') {
        true => Some(text.into()),
        false => {
            field.unexpected(what, report);
            None
        }
    }
}

/// Parses a field that is an absolute path.
pub fn path(section: &FieldRef<'_>, key: &str, into: &mut PathBuf, report: &mut DiagnosticReport) {
    let Some(field) = section.get(key) else {
        return;
    };
    if let Some(path) = absolute_path(&field, "an absolute path", report) {
        *into = path;
    }
}

/// Parses a field that is an absolute path or `none`.
pub fn path_or_none(
    section: &FieldRef<'_>,
    key: &str,
    into: &mut Option<PathBuf>,
    report: &mut DiagnosticReport,
) {
    const WHAT: &str = "an absolute path, or none";
    let Some(field) = section.get(key) else {
        return;
    };
    match field.text(WHAT, report) {
        Some(text) if is_none(text) => *into = None,
        Some(_) => *into = absolute_path(&field, WHAT, report).or(into.take()),
        None => {}
    }
}

/// Parses a field that is a duration.
pub fn duration(
    section: &FieldRef<'_>,
    key: &str,
    into: &mut Duration,
    report: &mut DiagnosticReport,
) {
    const WHAT: &str = "a duration between 100ms and 24h, such as 10s or 1m";
    let Some(field) = section.get(key) else {
        return;
    };
    match field.duration(WHAT, report) {
        Some(found) if (SHORTEST..=LONGEST).contains(&found) => *into = found,
        Some(_) => field.unexpected(WHAT, report),
        None => {}
    }
}

/// Parses a field that is an address with a port, or `none`.
pub fn listen_address(
    section: &FieldRef<'_>,
    key: &str,
    into: &mut Option<SocketAddr>,
    report: &mut DiagnosticReport,
) {
    const WHAT: &str = "an address with a port, such as 127.0.0.1:9464, or none";
    let Some(field) = section.get(key) else {
        return;
    };
    let Some(text) = field.text(WHAT, report) else {
        return;
    };
    match text.parse() {
        Ok(address) => *into = Some(address),
        Err(_) if is_none(text) => *into = None,
        Err(_) => field.unexpected(WHAT, report),
    }
}

/// Parses the field `kubeconfig`.
pub fn access(section: &FieldRef<'_>, into: &mut Access, report: &mut DiagnosticReport) {
    const WHAT: &str = "the absolute path of a kubeconfig file, inCluster, or none";
    let Some(field) = section.get("kubeconfig") else {
        return;
    };
    match field.text(WHAT, report) {
        Some("inCluster") => *into = Access::InCluster,
        Some(text) if is_none(text) => *into = Access::None,
        Some(_) => {
            if let Some(path) = absolute_path(&field, WHAT, report) {
                *into = Access::File(path);
            }
        }
        None => {}
    }
}

/// Whether a text is the word for an absent value.
fn is_none(text: &str) -> bool {
    text == "none"
}
