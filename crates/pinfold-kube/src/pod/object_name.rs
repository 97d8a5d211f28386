//! The names of objects that create pods, as the API server validates them.

use super::ObjectMeta;
use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// Checks name and namespace. Adds an error for each invalid one; returns whether there is none.
pub(super) fn check(
    object: &FieldRef<'_>,
    meta: &ObjectMeta,
    report: &mut DiagnosticReport,
) -> bool {
    let section = object.get("metadata");
    let field = |key: &str| section.as_ref().and_then(|section| section.get(key));
    let mut valid = true;
    if !is_subdomain(&meta.name) {
        valid = false;
        let message = format!(
            "Invalid value: {:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and must start and end with an alphanumeric character, and be at most 253 long",
            meta.name
        );
        if let Some(name) = field("name").or_else(|| field("generateName")) {
            name.rejected(message, report);
        }
    }
    if !is_label(&meta.namespace) {
        valid = false;
        let message = format!(
            "Invalid value: {:?}: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
             '-', and must start and end with an alphanumeric character, and be at most 63 long",
            meta.namespace
        );
        if let Some(namespace) = field("namespace") {
            namespace.rejected(message, report);
        }
    }
    valid
}

/// Whether a name is a DNS subdomain: `IsDNS1123Subdomain`.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_part)
}

/// Whether a name is a DNS label: `IsDNS1123Label`.
pub(super) fn is_label(name: &str) -> bool {
    name.len() <= 63 && is_part(name)
}

fn is_part(part: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_ends = !part.starts_with('-') && !part.ends_with('-');
    !part.is_empty() && part.bytes().all(is_inner) && has_ends
}
