//! Objects as the server sends them.

use serde_json::Value;

/// `namespace/name`, or the name alone, as far as the object says.
#[must_use]
pub fn full_name(object: &Value) -> String {
    let text = |key: &str| object["metadata"][key].as_str();
    let name = text("name").unwrap_or("?");
    match text("namespace") {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Takes out of an object who wrote what: most of it, and it decides nothing.
pub fn prune(object: &mut Value) {
    let meta = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(meta) = meta {
        meta.remove("managedFields");
    }
}
