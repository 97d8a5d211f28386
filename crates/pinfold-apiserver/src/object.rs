//! Helpers for API objects as JSON values.

use serde_json::Value;

/// `namespace/name`, or the name alone for cluster-scoped objects; `?` if the object has no name.
#[must_use]
pub fn full_name(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str();
    let name = text("name").unwrap_or("?");
    match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Removes `managedFields`: often most of an object, and never used here.
pub fn prune(object: &mut Value) {
    let meta = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(meta) = meta {
        meta.remove("managedFields");
    }
}
