//! Reading: every field with its place, so that one run shows all that is to mend.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_kube::diagnostic::DiagnosticReport;
use pinfold_kube::manifest::field::FieldRef;

use super::{Access, Field, members};

/// The shortest time between two rounds of anything: shorter ones only heat the machine.
const SHORTEST: Duration = Duration::from_millis(100);
/// A day: longer ones are a slip of the pen.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Words and what they mean.
pub type Words<T> = &'static [(&'static str, T)];

/// The section of that name, with its unknown members rejected.
pub fn section<'n>(
    whole: &FieldRef<'n>,
    table: &[Field],
    name: &str,
    report: &mut DiagnosticReport,
) -> Option<FieldRef<'n>> {
    let section = whole.get_map(name, "a mapping", report)?;
    section.reject_unknown(&members(table, name), report);
    Some(section)
}

/// A word of a few, and what it means.
pub fn word<T: Copy>(
    place: &FieldRef<'_>,
    words: Words<T>,
    report: &mut DiagnosticReport,
) -> Option<T> {
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let found = place.word(&known, report)?;
    let meant = words.iter().find(|(word, _)| *word == found);
    meant.map(|(_, meant)| *meant)
}

/// A member that is a word of a few.
pub fn one_of<T: Copy>(
    within: &FieldRef<'_>,
    key: &str,
    words: Words<T>,
    into: &mut T,
    report: &mut DiagnosticReport,
) {
    let Some(place) = within.get(key) else { return };
    if let Some(meant) = word(&place, words, report) {
        *into = meant;
    }
}

/// A member that is true or false.
pub fn switch(within: &FieldRef<'_>, key: &str, into: &mut bool, report: &mut DiagnosticReport) {
    let Some(place) = within.get(key) else { return };
    if let Some(on) = place.boolean("true or false", report) {
        *into = on;
    }
}

/// A path that must be absolute: a daemon has no folder of its own to start from.
pub fn absolute(
    place: &FieldRef<'_>,
    what: &str,
    report: &mut DiagnosticReport,
) -> Option<PathBuf> {
    let text = place.text(what, report)?;
    match Path::new(text).is_absolute() && !text.contains('\0') {
        true => Some(text.into()),
        false => {
            place.unexpected(what, report);
            None
        }
    }
}

/// A member that is an absolute path.
pub fn path(within: &FieldRef<'_>, key: &str, into: &mut PathBuf, report: &mut DiagnosticReport) {
    let Some(place) = within.get(key) else { return };
    if let Some(path) = absolute(&place, "an absolute path", report) {
        *into = path;
    }
}

/// A member that is an absolute path, or `none`.
pub fn path_or_none(
    within: &FieldRef<'_>,
    key: &str,
    into: &mut Option<PathBuf>,
    report: &mut DiagnosticReport,
) {
    const WHAT: &str = "an absolute path, or none";
    let Some(place) = within.get(key) else { return };
    match place.text(WHAT, report) {
        Some(text) if is_none(text) => *into = None,
        Some(_) => *into = absolute(&place, WHAT, report).or(into.take()),
        None => {}
    }
}

/// A member that is a duration.
pub fn period(
    within: &FieldRef<'_>,
    key: &str,
    into: &mut Duration,
    report: &mut DiagnosticReport,
) {
    const WHAT: &str = "a duration between 100ms and 24h, such as 10s or 1m";
    let Some(place) = within.get(key) else { return };
    match place.duration(WHAT, report) {
        Some(period) if (SHORTEST..=LONGEST).contains(&period) => *into = period,
        Some(_) => place.unexpected(WHAT, report),
        None => {}
    }
}

/// A member that is an address with its port, or `none`.
pub fn listen(
    within: &FieldRef<'_>,
    key: &str,
    into: &mut Option<SocketAddr>,
    report: &mut DiagnosticReport,
) {
    const WHAT: &str = "an address with its port, such as 127.0.0.1:9464, or none";
    let Some(place) = within.get(key) else {
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

/// The member `kubeconfig`.
pub fn access(within: &FieldRef<'_>, into: &mut Access, report: &mut DiagnosticReport) {
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

/// Whether a word stands for "nothing".
fn is_none(word: &str) -> bool {
    word == "none"
}
