//! The annotation by which a pod opts out of pinning.

use std::collections::BTreeMap;

/// The annotation of a pod whose containers must run in the shared pool: `"false"`.
pub const PIN: &str = "pinfold.dev/pin";

/// Whether the pod with these annotations is to be pinned.
///
/// # Errors
/// If the annotation is neither `true` nor `false`, with what was found.
pub fn is_wanted(annotations: &BTreeMap<String, String>) -> Result<bool, String> {
    match annotations.get(PIN).map(String::as_str) {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => Err(format!(
            "annotation {PIN}: expected \"true\" or \"false\", found {other:?}"
        )),
    }
}
